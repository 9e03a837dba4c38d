"""Explained texts to look at: words tinted for and against, beneath what was explained; pages, pictures, lists of tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markupsafe import Markup

from attlas.explain.methods import METHODS
from attlas.studies.opened import Study
from attlas.support.files import write_bytes
from attlas.views.findings import number
from attlas.views.overlay import Overlay, score_overlay
from attlas.views.page import framed, inline_json, templates
from attlas.views.picture import text_svg, write_picture

if TYPE_CHECKING:
    from attlas.explain.explanation import Explanation

NOT_METHODS = ("text", "token", "start", "stop", "string")


def explained_line(row: pd.Series, of: str = "probability") -> str:
    """What was explained of a text and how well, in one line: true label, prediction, target, total and gap."""
    label = "" if pd.isna(row["label"]) else f"label {row['label']} · "
    target = "" if row["target"] == row["predicted"] else f"explained {row['target']} · "
    missed = "" if pd.isna(row["gap"]) else f", gap {row['gap']:.2%}{'' if row['converged'] else ', not converged'}"
    came = "" if pd.isna(row["baseline"]) else f" from {number(row['baseline'])} at the baseline"
    return f"{label}predicted {row['predicted']} ({number(row['probability'])}) · {target}{of} {number(row['value'])}{came}, total {number(row['total'])}{missed} · {int(row['evaluations'])} evaluations"


def explanation_overlay(explanation: Explanation) -> Overlay:
    """One text tinted by the scores of its words; its parts too, where they were asked for."""
    scores = {explanation.method: explanation.scores, **explanation.parts}
    signed = dict.fromkeys(scores, METHODS[explanation.method].signed)
    return score_overlay(explanation.text.text, explanation.to_frame(), scores, signed, explanation.word_of)


def explanation_header(explanation: Explanation) -> str:
    """What was explained of one text and how well."""
    return explained_line(
        pd.Series(
            {
                "label": explanation.text.label, "predicted": explanation.predicted, "probability": explanation.probability, "target": explanation.target, "value": explanation.value, "baseline": explanation.baseline_value,
                "total": explanation.total, "gap": explanation.gap, "converged": explanation.converged, "evaluations": explanation.evaluations,
            }
        ),
        explanation.of,
    )  # fmt: skip


def explanation_page(explanation: Explanation) -> str:
    """A page that needs nothing else."""
    shown = explanation_overlay(explanation)
    return (
        templates()
        .get_template("explained.html")
        .render(
            words=Markup(shown.html),
            data=inline_json(shown.data),
            title=explanation_header(explanation),
            model=explanation.model,
            method=explanation.method.replace("_", " "),
        )
    )


def explanation_html(explanation: Explanation) -> str:
    """An explanation in a notebook, in a frame of its own."""
    return framed(explanation_page(explanation), len(explanation.text.text))


def write_explanation(explanation: Explanation, path: str | Path) -> Path:
    """Write the page to a file; to .svg, .png or .pdf, a picture of the tinted text."""
    path = Path(path).expanduser()
    if path.suffix.removeprefix(".") in ("svg", "png", "pdf"):
        svg = text_svg(explanation_overlay(explanation), explanation_header(explanation))
        return write_picture(svg, path.with_suffix(""), path.suffix[1:])[0]
    write_bytes(path, explanation_page(explanation).encode("utf-8", "replace"))
    return path


def study_overlay(study: Study, row: dict[str, str]) -> tuple[str, Overlay]:
    """A text of a study with explanations, tinted by each of its methods, and its line."""
    tokens = study.table("attributions", text=row["text"])
    methods = [str(name) for name in tokens.columns if name not in NOT_METHODS]
    scores = {method: tokens[method].to_numpy(dtype=np.float64) for method in methods}
    told = study.table("explanations", text=row["text"]).set_index("method").loc[methods[0]]
    signed = {method: METHODS[method].signed for method in methods}
    line = f"{row['text']} · {explained_line(told, str(told.get('of', 'probability')))}"
    return line, score_overlay(row["content"], tokens, scores, signed)


def by_type(tokens: pd.DataFrame, method: str) -> pd.DataFrame:
    """The scores of one text's tokens summed by string, from most for to most against: string, score, occurrences."""
    ordinary = tokens[tokens["start"] >= 0]
    summed = ordinary.groupby("string", sort=True)[method].agg(["sum", "size"]).reset_index()
    return (
        summed.set_axis(["string", "score", "occurrences"], axis=1)
        .sort_values("score", ascending=False, kind="stable")
        .reset_index(drop=True)
    )


def by_position(tokens: pd.DataFrame, method: str) -> pd.DataFrame:
    """The scores of one text's tokens, from most for to most against: string (with its place), score."""
    ordinary = tokens[tokens["start"] >= 0].sort_values(method, ascending=False, kind="stable")
    names = ordinary["string"].astype(str) + "@" + ordinary["token"].astype(str)
    return pd.DataFrame({"string": names.to_numpy(), "score": ordinary[method].to_numpy(dtype=np.float64)})
