"""Does attention agree with attribution? Tables 1 to 4 and Figures 9 to 11 of Hou (2022).

Published values, ours by the published and by the corrected procedure, and chance for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.experiments.run import run
from attlas.explain.agreement import METRICS
from attlas.explain.experiment import Explain
from attlas.explain.kinds import ANY
from attlas.explain.section.texts import study_overlay
from attlas.explain.tokens import by_position, by_type
from attlas.models import Model
from attlas.papers.data import published
from attlas.papers.markdown import table
from attlas.studies import Study
from attlas.views import charts
from attlas.views.charts import Estimates
from attlas.views.numbers import number, percent
from attlas.views.picture import text_svg, write_picture
from attlas.views.vega import alt

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
    estimates = study.table("agreement").set_index(["left", "keep", "convention", "metric"])
    theirs = published("longformer", "task", "method", "keep")  # of the notes only ranges
    explanations = study.table("explanations")
    explanations = explanations[explanations["method"] == METHOD]
    rows = []
    for method, keep, metric in product(ROWS, MASKS, METRICS):
        row: dict[str, Any] = {
            "attention": ", ".join(ROWS[method]),
            "tokens": MASKS[keep],
            "metric": metric,
            "published": theirs[metric].get((name, method, keep)),
        }
        for convention in ("published", "sound"):
            estimate = estimates.loc[(method, keep, convention, metric)]
            row |= {
                f"{convention}_{what}": float(estimate[what])
                for what in ("value", "chance", "low", "high")
            }
        rows.append(row)
    evaluations, gap = explanations["evaluations"], explanations["gap"]
    return {
        "rows": rows,
        "texts": len(explanations),
        "p": float(estimates["p"].min()),
        "evaluations": {"median": float(evaluations.median()), "max": int(evaluations.max())},
        "gap": {"median": float(gap.median()), "max": float(gap.max())},
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
    rows = study.table(name)
    return rows[rows["bin"] == 0].drop(columns="bin").to_dict("records")


def blocks(results: dict[str, Any]) -> Iterator[str | list[str]]:
    """The tables as they are printed."""
    evaluations, gap = results["evaluations"], results["gap"]
    yield (
        f"Attention against integrated gradients, {results['texts']} texts (gradients each: median "
        f"{evaluations['median']:.0f}, at most {evaluations['max']}; gap: median "
        f"{percent(gap['median'], 2)}, at most {percent(gap['max'], 2)}); the mask keeps "
        f"{percent(results['kept'])} of tokens; rank-biased overlap has p = {number(results['p'])} "
        "in the corrected version, 1 in the published one; 95% intervals over texts:"
    )
    yield table(
        results["rows"],
        ("attention", "{attention}"),
        ("tokens", "{tokens}"),
        ("", "{metric}"),
        ("published", "{published}"),
        *_estimate("ours, as published", "its chance", "published_{}", "chance"),
        *_estimate("ours, corrected", "its chance", "sound_{}", "chance"),
    )
    if results["faithfulness"]:
        yield "Drop of the predicted probability (ERASER, mean over 1, 5, 10, 20, 50% of tokens):"
        yield table(
            _faithfulness(results["faithfulness"]),
            ("tokens are", "{removed}"),
            ("method", "{method}"),
            *_estimate("comprehensiveness", "random", "comprehensiveness[{}]", "random"),
            *_estimate("sufficiency", "random", "sufficiency[{}]", "random"),
        )


def _faithfulness(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row per way to remove tokens and method."""
    for (how, method), rows in pd.DataFrame(records).groupby(["how", "method"], sort=False):
        measured = rows.set_index("measured").to_dict("index")
        yield {
            "removed": "removed" if how == "remove" else "masked",
            "method": str(method).replace("_", " "),
            **measured,
        }


def _estimate(title: str, control: str, name: str, chance: str) -> list[tuple[str, str]]:
    """A column of values with intervals, and one of their control; `{}` stands for a number."""
    value, low, high, other = (
        f"{{{name.format(one)}:.2z}}" for one in ("value", "low", "high", chance)
    )
    return [(title, f"{value} [{low}, {high}]"), (control, other)]


def pictures(study: Study, folder: Path) -> list[Path]:
    """Tables 1 to 4 as a chart, and Figures 9 to 11, 16 and 17."""
    agreement = study.table("agreement")
    ((_, row),) = study.first(1)
    tokens = study.table("attributions", text=row["text"])
    types = study.table("attribution_types")
    every = types[(types["method"] == METHOD) & (types["predicted"] == ANY)]
    figures: dict[str, Any] = {
        "tables-agreement": charts.with_controls(
            agreement[agreement["keep"] == "keywords"],
            Estimates("left", "metric", "chance", series="convention"),
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
