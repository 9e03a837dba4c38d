"""Tables 1 to 4 and Figures 9 to 11 of Hou 2022: does attention agree with attribution? Published beside ours by its procedure, ours by a sound one, and chance for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from attlas.core.text import Text
from attlas.experiments.run import run
from attlas.explain.agreement import METRICS
from attlas.explain.experiment import Explain
from attlas.explain.kinds import ANY
from attlas.explain.section.texts import study_overlay
from attlas.explain.tokens import by_position, by_type
from attlas.models import Model
from attlas.studies import Study
from attlas.views import charts
from attlas.views.charts import Estimates
from attlas.views.numbers import number
from attlas.views.picture import text_svg, write_picture

METHOD = "integrated_gradients"
ROWS = {  # method: layers, heads
    "attention_last_scaled": ("last layer", "scaled"),
    "attention_last": ("last layer", "unscaled"),
    "attention_all_scaled": ("all layers", "scaled"),
    "attention_all": ("all layers", "unscaled"),
}
OTHERS = (
    "cls_row",
    "rollout",
    "attention_x_gradient",
    "gradient_rollout",
    "saliency",
    "input_x_gradient",
    "occlusion",
)
MASKS = {"keywords": "masked", "all": "unmasked"}
# cosine, tau, rbo, jaccard; of the notes the paper's tables are known by their ranges alone
PUBLISHED: dict[str, dict[tuple[str, str], tuple[str, str, str, str]]] = {
    "arxiv_long": {
        ("attention_last_scaled", "keywords"): (".411", ".742", ".778", ".197"),
        ("attention_last_scaled", "all"): (".227", ".168", ".594", ".183"),
        ("attention_last", "keywords"): (".426", ".738", ".776", ".199"),
        ("attention_last", "all"): (".120 (notebook .259)", ".157", ".589", ".186"),
        ("attention_all_scaled", "keywords"): (".296", ".733", ".769", ".178"),
        ("attention_all_scaled", "all"): (".120", ".134", ".581", ".188"),
        ("attention_all", "keywords"): (".213", ".736", ".774", ".196"),
        ("attention_all", "all"): (".170", ".131", ".581", ".198"),
    },
    "mock_notes": {
        (method, keep): (".741-.788", ".795-.800", ".782-.785", ".077-.079")
        if keep == "keywords"
        else (".741-.788", ".026-.044", ".509-.516", ".027-.033")
        for method in ROWS
        for keep in MASKS
    },
}
EXPLAINED = {"arxiv_long": 24, "mock_notes": 12, "sst": 200}  # texts, the first ones
TARGET = "1"  # as in the paper; with two classes the other one's scores are the same with their signs turned. Faithfulness is of what the model says.


def explained(
    classifier: Model,
    texts: list[Text],
    name: str,
    place: Path,
    importance: Any,
    options: dict[str, Any],
) -> Study:
    """Explain the first texts of a task; the short ones by more methods, and tested for faithfulness."""
    short = name == "sst"
    methods = (METHOD, *ROWS, *(OTHERS if short else ()))
    experiment = Explain(
        data=texts[: EXPLAINED[name]],
        model=classifier,
        importance=importance,
        methods=methods,
        target=None if short else TARGET,
        faithfulness=("remove", "mask") if short else (),
    )
    done = run(experiment, place, **options)
    done.report(place / "report.html")
    return done


def tables(done: Study, name: str) -> dict[str, Any]:
    """Tables 1 to 4 of a task: for each kind of attention and mask the four numbers, published and ours; and what it took."""
    table = done.table("agreement").set_index(["left", "keep", "convention", "metric"])
    told = done.table("explanations")
    told = told[told["method"] == METHOD]
    rows = []
    for method, (layers, heads) in ROWS.items():
        for keep, masked in MASKS.items():
            for column, metric in enumerate(METRICS):
                theirs = PUBLISHED.get(name, {}).get((method, keep))
                row: dict[str, Any] = {
                    "attention": f"{layers}, {heads}",
                    "tokens": masked,
                    "metric": metric,
                    "published": theirs[column] if theirs else None,
                }
                for convention in ("published", "sound"):
                    found = table.loc[(method, keep, convention, metric)]
                    row |= {
                        f"{convention}_{what}": float(found[what])
                        for what in ("value", "chance", "low", "high")
                    }
                rows.append(row)
    return {
        "rows": rows,
        "texts": len(told),
        "p": float(table["p"].min()),
        "evaluations": {
            "median": float(told["evaluations"].median()),
            "max": int(told["evaluations"].max()),
        },
        "gap": {"median": float(told["gap"].median()), "max": float(told["gap"].max())},
        "kept": _kept(done),
        "faithfulness": _beside(done, "faithfulness"),
    }


def _kept(done: Study) -> float:
    """The mean share of tokens that the mask keeps."""
    counts = done.table("agreement_texts", ["text", "keep", "kept"]).drop_duplicates(
        ["text", "keep"]
    )
    wide = counts.pivot(index="text", columns="keep", values="kept")
    return float((wide["keywords"] / wide["all"]).mean())


def _beside(done: Study, name: str) -> list[dict[str, Any]]:
    if not done.has(name):
        return []
    table = done.table(name)
    return table[table["bin"] == 0].drop(columns="bin").to_dict("records")


def lines(found: dict[str, Any]) -> list[str]:
    """The tables as they are printed."""
    out = [
        f"Attention against integrated gradients, {found['texts']} texts (median {found['evaluations']['median']:.0f} gradients a text, at most {found['evaluations']['max']}; gap median {found['gap']['median']:.2%}, at most {found['gap']['max']:.2%}); "
        f"masked keeps {found['kept']:.0%} of tokens; rank-biased overlap has p {number(found['p'])} in the sound way, 1 in the published one; intervals are of 95 % over texts:",
        "",
        "| attention | tokens | | published | ours, published way | its chance | ours, sound way | its chance |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        ours = [
            f"{number(row[f'{way}_value'])} [{number(row[f'{way}_low'])}, {number(row[f'{way}_high'])}] | {number(row[f'{way}_chance'])}"
            for way in ("published", "sound")
        ]
        out.append(
            f"| {row['attention']} | {row['tokens']} | {row['metric']} | {row['published'] or '-'} | {' | '.join(ours)} |"
        )
    if found["faithfulness"]:
        out += [
            "",
            "What the answer loses (ERASER, mean over 1, 5, 10, 20, 50 % of tokens):",
            "",
            "| tokens are | method | comprehensiveness | random | sufficiency | random |",
            "|---|---|---|---|---|---|",
        ]
        table = pd.DataFrame(found["faithfulness"])
        for (how, method), rows in table.groupby(["how", "method"], sort=False):
            by = rows.set_index("measured")
            cells = [
                f"{number(by.loc[name, 'value'])} [{number(by.loc[name, 'low'])}, {number(by.loc[name, 'high'])}] | {number(by.loc[name, 'random'])}"
                for name in ("comprehensiveness", "sufficiency")
            ]
            out.append(
                f"| {'removed' if how == 'remove' else 'masked'} | {str(method).replace('_', ' ')} | {' | '.join(cells)} |"
            )
    return [*out, ""]


def pictures(done: Study, place: Path) -> list[Path]:
    """Tables 1 to 4 as a chart, the first text tinted for and against (Figure 9), its tokens by position and type (Figures 10 and 11), and the corpus' (Figures 16 and 17)."""
    table = done.table("agreement")
    table = table[table["keep"] == "keywords"]
    ((_, row),) = done.first(1)
    tokens = done.table("attributions", text=row["text"])
    types = done.table("attribution_types")
    every = types[(types["method"] == METHOD) & (types["predicted"] == ANY)]
    drawn: dict[str, Any] = {
        "tables-agreement": charts.beside_control(
            table, Estimates("left", "metric", "chance", series="convention")
        ),
        "figure10-11-one-text": alt.hconcat(
            charts.ends(by_position(tokens, METHOD), "score").properties(title="by position"),
            charts.ends(by_type(tokens, METHOD), "score").properties(title="by type"),
        ),
        "figure16-17-corpus": charts.ends(every, "mean", 20, "mean over texts"),
    }
    if done.has("faithfulness"):
        rows = done.table("faithfulness")
        rows = rows[(rows["bin"] == 0) & (rows["how"] == "remove")]
        drawn["faithfulness"] = charts.beside_control(
            rows, Estimates("method", "measured", "random", width=330)
        )
    out = [charts.export(chart, place / f"{name}.png") for name, chart in drawn.items()]
    line, shown = study_overlay(done, row)
    return [*out, *write_picture(text_svg(shown, line), place / "figure9-attribution", "png")]
