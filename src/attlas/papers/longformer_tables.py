"""Does attention agree with attribution? Tables 1 to 4 and Figures 9 to 11 of Hou (2022).

Published values, ours by the published and by the corrected procedure, and chance for each.
"""

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
from attlas.papers.markdown import header, row as table_row
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
# cosine, tau, rbo, jaccard; for the notes only ranges are published
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
# as in Hou (2022); the scores of the other class are their negatives
TARGET = "1"


def explained(
    classifier: Model,
    texts: list[Text],
    name: str,
    folder: Path,
    importance: Any,
    options: dict[str, Any],
) -> Study:
    """Explain the first texts of a task; short ones by more methods, and with faithfulness."""
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
    study = run(experiment, folder, **options)
    study.report(folder / "report.html")
    return study


def tables(study: Study, name: str) -> dict[str, Any]:
    """Tables 1 to 4 of a task, one row per kind of attention, mask and metric; and the costs."""
    table = study.table("agreement").set_index(["left", "keep", "convention", "metric"])
    explanations = study.table("explanations")
    explanations = explanations[explanations["method"] == METHOD]
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
                    estimate = table.loc[(method, keep, convention, metric)]
                    row |= {
                        f"{convention}_{what}": float(estimate[what])
                        for what in ("value", "chance", "low", "high")
                    }
                rows.append(row)
    return {
        "rows": rows,
        "texts": len(explanations),
        "p": float(table["p"].min()),
        "evaluations": {
            "median": float(explanations["evaluations"].median()),
            "max": int(explanations["evaluations"].max()),
        },
        "gap": {
            "median": float(explanations["gap"].median()),
            "max": float(explanations["gap"].max()),
        },
        "kept": _kept(study),
        "faithfulness": _overall(study, "faithfulness"),
    }


def _kept(study: Study) -> float:
    """The mean share of tokens that the mask keeps."""
    counts = study.table("agreement_texts", ["text", "keep", "kept"]).drop_duplicates(
        ["text", "keep"]
    )
    wide = counts.pivot(index="text", columns="keep", values="kept")
    return float((wide["keywords"] / wide["all"]).mean())


def _overall(study: Study, name: str) -> list[dict[str, Any]]:
    if not study.has(name):
        return []
    table = study.table(name)
    return table[table["bin"] == 0].drop(columns="bin").to_dict("records")


def lines(found: dict[str, Any]) -> list[str]:
    """The tables as they are printed."""
    evaluations, gap = found["evaluations"], found["gap"]
    out = [
        f"Attention against integrated gradients, {found['texts']} texts (gradients each: median "
        f"{evaluations['median']:.0f}, at most {evaluations['max']}; gap: median "
        f"{gap['median']:.2%}, at most {gap['max']:.2%}); the mask keeps {found['kept']:.0%} of "
        f"tokens; rank-biased overlap has p = {number(found['p'])} in the corrected version, 1 in "
        "the published one; 95% intervals over texts:",
        "",
        *header(
            *("attention", "tokens", "", "published"),
            *("ours, as published", "its chance", "ours, corrected", "its chance"),
        ),
    ]
    for row in found["rows"]:
        which = (row["attention"], row["tokens"], row["metric"], row["published"] or "-")
        ours = (
            cell for way in ("published", "sound") for cell in _estimate(row, f"{way}_", "chance")
        )
        out.append(table_row(*which, *ours))
    return [*out, *_faithfulness_lines(found["faithfulness"]), ""]


def _faithfulness_lines(records: list[dict[str, Any]]) -> list[str]:
    if not records:
        return []
    out = [
        "",
        "Drop of the predicted probability (ERASER, mean over 1, 5, 10, 20, 50% of tokens):",
        "",
        *header(
            *("tokens are", "method", "comprehensiveness", "random", "sufficiency", "random"),
        ),
    ]
    for (how, method), rows in pd.DataFrame(records).groupby(["how", "method"], sort=False):
        by = rows.set_index("measured")
        cells = (
            cell
            for name in ("comprehensiveness", "sufficiency")
            for cell in _estimate(by.loc[name], "", "random")
        )
        removed = "removed" if how == "remove" else "masked"
        out.append(table_row(removed, str(method).replace("_", " "), *cells))
    return out


def _estimate(row: Any, prefix: str, control: str) -> tuple[str, str]:
    """A value with its interval, and its control."""
    value, low, high, chance = (
        number(row[f"{prefix}{name}"]) for name in ("value", "low", "high", control)
    )
    return f"{value} [{low}, {high}]", chance


def pictures(study: Study, folder: Path) -> list[Path]:
    """Tables 1 to 4 as a chart, and Figures 9 to 11, 16 and 17."""
    table = study.table("agreement")
    table = table[table["keep"] == "keywords"]
    ((_, row),) = study.first(1)
    tokens = study.table("attributions", text=row["text"])
    types = study.table("attribution_types")
    every = types[(types["method"] == METHOD) & (types["predicted"] == ANY)]
    figures: dict[str, Any] = {
        "tables-agreement": charts.with_controls(
            table, Estimates("left", "metric", "chance", series="convention")
        ),
        "figure10-11-one-text": alt.hconcat(
            charts.ends(by_position(tokens, METHOD), "score").properties(title="by position"),
            charts.ends(by_type(tokens, METHOD), "score").properties(title="by type"),
        ),
        "figure16-17-corpus": charts.ends(every, "mean", 20, "mean over texts"),
    }
    if study.has("faithfulness"):
        rows = study.table("faithfulness")
        rows = rows[(rows["bin"] == 0) & (rows["how"] == "remove")]
        figures["faithfulness"] = charts.with_controls(
            rows, Estimates("method", "measured", "random", width=330)
        )
    out = [charts.export(chart, folder / f"{name}.png") for name, chart in figures.items()]
    line, shown = study_overlay(study, row)
    return [*out, *write_picture(text_svg(shown, line), folder / "figure9-attribution", "png")]
