"""What small classifiers show: whether attention learns to mark polarity words, and when."""

from __future__ import annotations

from typing import Any

from attlas.dynamics.section import by_scale, tokens, training
from attlas.dynamics.section.cells import chosen_cells
from attlas.dynamics.section.findings import (
    classifier_facts,
    dynamics_claims,
    dynamics_notes,
    dynamics_texts,
    dynamics_warnings,
    separation_note,
    trained,
)
from attlas.dynamics.section.path import training_paths
from attlas.views.section import Figure, Section, Tables, prose
from attlas.views.tables import TextTable

TEXT = prose(__file__)
# The smallest difference of interest; section.md has the reason.
ACCURACY = 0.05


def _dynamics(study: Tables) -> list[Figure]:
    rows, summary = trained(study, "dynamics"), trained(study, "dynamics_summary")
    if summary.empty or not summary["accuracy"].notna().any():
        return []
    seeds, words = int(summary["seeds"].max()), TEXT["dynamics"]
    bars = f"bars are the range over {seeds} seeds"
    if seeds == 1:
        bars = "bars are 95% confidence intervals over {}"
    known = "published" in summary and summary["published"].notna().any()
    many = len(summary[["attention", "encoder"]].drop_duplicates()) > 1
    out = [
        words.figure(
            "accuracy-by-scale",
            by_scale.accuracy(summary, rows),
            bars=bars.format("test texts"),
            published=" A hollow diamond is the published number." if known else "",
            offset=" Models are slightly offset from one another." if many else "",
        )
    ]
    if summary["separation"].notna().any():
        out.append(_separation(study, bars.format("tokens")))
    if summary["gap"].notna().any():
        out.append(_gap(study, f" {bars.capitalize()}." if seeds > 1 else ""))
    over = ", means over seeds ± standard deviation" if seeds > 1 else ""
    table = by_scale.summary_table(summary, rows)
    out.append(words.figure("classifiers-in-numbers", table=table, over=over))
    return out


def _separation(study: Tables, bars: str) -> Figure:
    rows, summary = trained(study, "dynamics"), trained(study, "dynamics_summary")
    frequent = ""
    if summary["separation_frequent"].notna().any():
        frequent = (
            " On the right, only neutral tokens that meet the minimum frequency of polarity tokens."
        )
    return TEXT["dynamics"].figure(
        "separation-by-scale",
        by_scale.separation(summary, rows),
        bars=bars,
        frequent=frequent,
        below=separation_note(rows),
    )


def _gap(study: Tables, over: str) -> Figure:
    rows, summary = trained(study, "dynamics"), trained(study, "dynamics_summary")
    positive = study.study_with_table("dynamics").manifest["dynamics"].get("positive")
    between = "the class with the largest mean minus that with the smallest, so never below 0"
    if positive is not None:
        name = "" if positive == "positive" else f" (those of {positive})"
        between = f"positive tokens{name} minus negative ones"
    chart = by_scale.gap(summary, rows, positive)
    return TEXT["dynamics"].figure("gap-by-scale", chart, between=between, over=over)


def _tokens(study: Tables) -> list[Figure]:
    table = trained(study, "dynamics_tokens")
    if table.empty:
        return []
    count, first = tokens.drawn_tokens(table), chosen_cells(table)["cell"].iloc[0]
    positive = study.study_with_table("dynamics_tokens").manifest["dynamics"].get("positive")
    named = positive not in (None, "positive")
    words = TEXT["dynamics_tokens"]
    note = f" Positive tokens are those of {positive}." if named else ""
    out = [words.figure("scores-of-tokens", tokens.tokens(table), tokens=count, positive=note)]
    if (chart := tokens.weights(table)) is not None:
        out.append(words.figure("weights-of-tokens", chart, tokens=count))
    strongest = tokens.tokens_table(table)
    return [*out, words.figure("strongest-tokens", table=strongest, classifier=first)]


def _flow(study: Tables) -> list[Figure]:
    table = trained(study, "dynamics_flow")
    return (
        [TEXT["dynamics_flow"].figure("terms-by-epoch", training.flow(table))] if len(table) else []
    )


def _path(study: Tables) -> list[Figure]:
    table, out, words = trained(study, "dynamics_path"), [], TEXT["dynamics_path"]
    if any(table[what].notna().any() for what in training.PATH):
        out.append(words.figure("training-by-scale", training.path(table)))
    if study.has("dynamics_kinds") and len(kinds := trained(study, "dynamics_kinds")):
        out.append(words.figure("scores-along-training", training.kinds(kinds)))
        if paths := training_paths(kinds):
            out.append(words.figure("training-path", parts=(paths,)))
    return out


def _lines(study: Tables) -> list[TextTable]:
    """Classifiers by scale: accuracy and separation with their controls, means over seeds."""
    return [by_scale.printed_table(trained(study, "dynamics_summary"))]


def _section(name: str, **options: Any) -> Section:
    return TEXT[name].section(**{"needs": (name,), "names_heads": False, **options})


SECTIONS = {
    "dynamics": _section(
        "dynamics",
        needs=("dynamics", "dynamics_summary"),
        figures=_dynamics,
        claims=dynamics_claims,
        smallest_effect=ACCURACY,
        texts_used=dynamics_texts,
        warnings=dynamics_warnings,
        notes=dynamics_notes,
        terminal=_lines,
        facts=classifier_facts,
    ),
    "dynamics_tokens": _section("dynamics_tokens", figures=_tokens),
    "dynamics_flow": _section("dynamics_flow", figures=_flow),
    "dynamics_path": _section("dynamics_path", figures=_path),
}
