"""What the topology of attention shows: invariants of graphs by head, and classifiers on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from attlas.topology.section.charts import (
    CLASSIFIERS,
    chosen_on_dev,
    classifier_scores,
    head_maps,
)
from attlas.views.findings import overlap
from attlas.views.numbers import decimal, estimate, finding, head_name, interval
from attlas.views.section import Figure, Section, Tables, head_figure, largest, prose, smallest
from attlas.views.tables import Column, TextTable, text_table

TEXT = prose(__file__)
CONTROLS = {
    "frozen_model": "the model before fine-tuning",
    "random_model": "random weights",
    "length_only": "text length alone",
}
SCORES = (
    Column("classifier", "classifier", format="words", words=CLASSIFIERS),
    Column("mcc", "MCC", format="three", interval=("mcc_low", "mcc_high")),
    Column("accuracy", "accuracy", format="three", interval=("accuracy_low", "accuracy_high")),
    Column("n", "n", format="count"),
)
INVARIANTS = {
    "betti": (
        Column("b0@", "connected components", kind="plain"),
        Column("b1@", "independent cycles", kind="plain"),
    ),
    "digraph": (
        Column("components@", "strongly connected components"),
        Column("edges@", "edges"),
        Column("degree@", "mean degree"),
        Column("cycles@", "directed cycles"),
        Column("pairs@", "mutual pairs"),
    ),
    "barcode": (
        Column("h0_sum", "H0: total length"),
        Column("h0_entropy", "H0: entropy of lengths", "nats"),
        Column("h0_longest_death", "H0: death of the longest bar"),
        Column("h0_deaths_from_0.75", "H0: deaths from 0.75"),
        Column("h0_deaths_from_0.5", "H0: deaths from 0.5"),
        Column("h0_deaths_to_0.25", "H0: deaths up to 0.25"),
        Column("h1_longest_birth", "H1: birth of the longest bar"),
        Column("h1_births_from_0.25", "H1: births from 0.25"),
        Column("h1_births_to_0.95", "H1: births up to 0.95"),
        Column("h1_births_to_0.7", "H1: births up to 0.7"),
        Column("h1_sum", "H1: total length"),
        Column("h1_entropy", "H1: entropy of lengths", "nats"),
        Column("h1_std", "H1: standard deviation of lengths"),
        Column("h1_count", "H1: number of bars"),
    ),
    "templates": tuple(
        Column(name, f"distance to {label}", kind="below", control=f"{name}_uniform")
        for name, label in {
            "previous": "previous token",
            "next": "next token",
            "self": "the token itself",
            "first": "first token",
            "comma": "commas",
            "full_stop": "full stops",
            "separator": "separators",
        }.items()
    ),
}


def _topology(study: Tables) -> list[Figure]:
    scores, heads = study.table("topology"), study.table("topology_heads")
    if scores["mcc"].isna().all() or heads[["train", "test"]].isna().all(axis=None):
        return []
    words = TEXT["topology"]
    return [
        words.figure("scores", classifier_scores(scores), table=text_table(scores, SCORES)),
        words.figure("single-heads", head_maps(heads)),
        words.figure("chosen-on-dev", chosen_on_dev(study.table("topology_grid"))),
    ]


def _invariants(name: str, first: str) -> Callable[[Tables], list[Figure]]:
    """A grid of heads from the means of a measure over texts."""

    def figures(study: Tables) -> list[Figure]:
        frame = study.table(f"{name}_heads")
        return head_figure(TEXT[name], frame, INVARIANTS[name], first=first)

    return figures


def _barcode(study: Tables) -> list[Figure]:
    frame = study.table("barcode_heads")
    if frame[["texts", "h1_texts"]].isna().all().any():
        return []
    with_h1, texts = int(frame["h1_texts"].max()), int(frame["texts"].max())
    holes = f"H1 features are of the {with_h1:,} of {texts:,} texts that are short enough for them."
    words = TEXT["barcode"].filled(holes=holes if with_h1 else "H1 was not computed.")
    frame = frame.drop(columns=["texts", "h1_texts"])
    return head_figure(words, frame, INVARIANTS["barcode"], first="h0_sum")


def _betti_findings(study: Tables) -> list[str]:
    table = study.table("betti_heads")
    column = "b0@0.1" if "b0@0.1" in table else str(table.columns[2])
    low, high = smallest(table, column), largest(table, column)
    if low is None or high is None:
        return []
    return [
        f"At threshold {column.partition('@')[2]} the attention graph of {head_name(low)} has the "
        f"fewest connected components ({decimal(low[column])} per text on average), that of "
        f"{head_name(high)} the most ({decimal(high[column])}); uniform attention has "
        f"{decimal(low[f'{column}_uniform'])}."
    ]


def _barcode_findings(study: Tables) -> list[str]:
    table = study.table("barcode_heads")
    if table[["texts", "h1_texts"]].isna().all().any():
        return []
    with_h1, texts = int(table["h1_texts"].max()), int(table["texts"].max())
    if not with_h1:
        return [
            "H1 features (holes) were skipped because they are slow. To compute them: "
            "--measures barcode (needs gudhi; short texts only)."
        ]
    if with_h1 < texts:
        return [
            f"H1 features were computed for {with_h1:,} of {texts:,} texts; the others have more "
            "tokens than the limit."
        ]
    return []


def _topology_findings(study: Tables) -> list[str]:
    table = study.table("topology").set_index("classifier")
    if "all" not in table.index or not table["mcc"].notna().any():
        return []
    about = study.study_with_table("topology").manifest["topology"]
    controls = [
        f"{name} {interval(table.loc[key], 'mcc')}"
        for key, name in CONTROLS.items()
        if key in table.index
    ]
    every = table.loc["all"]
    claim = "Topological features alone (all heads)"
    out = [finding(claim, f"MCC {interval(every, 'mcc')}", *controls, n=every["n"])]
    if "model" in table.index:
        gap = about["difference_from_model"]
        difference = estimate(gap["mcc"], gap["low"], gap["high"])
        own = interval(table.loc["model"], "mcc")
        out.append(finding("The model itself", f"MCC {own}", f"topology minus model {difference}"))
    return [*out, *_warnings(about), *_best_head(study.table("topology_heads"), about)]


def _warnings(about: Mapping[str, Any]) -> list[str]:
    """What makes the scores less than they seem."""
    out = overlap(about["test_texts_in_train"], "topology", "training data")
    truncated = [f"{count:,} in {part}" for part, count in about["truncated"].items() if count]
    if truncated:
        out.append(f"Texts truncated to the model's maximum length: {', '.join(truncated)}.")
    if lost := about["features"]["left_out"]:
        out.append(f"{lost:,} features were excluded because they are missing for some texts.")
    return out


def _best_head(heads: pd.DataFrame, about: Mapping[str, Any]) -> list[str]:
    best = largest(heads, "train")
    if best is None:
        return []
    return [
        f"The best single head on train is {head_name(best)}: MCC {decimal(best['train'])} on "
        f"train, {decimal(best['test'])} on test; over all heads the two correlate with r = "
        f"{decimal(about['maps']['pearson'])}."
    ]


def _topology_lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("topology"), SCORES)]


_CLASSIFIER, _GENERAL = 4, 5  # on the page: before the measures of heads


def _section(name: str, figures: Callable[[Tables], list[Figure]], **more: Any) -> Section:
    options = {"needs": (f"{name}_heads",), "order": _GENERAL, **more}
    return TEXT[name].section(figures=figures, **options)


SECTIONS = {
    "topology": _section(
        "topology",
        _topology,
        needs=("topology", "topology_heads", "topology_grid"),
        findings=_topology_findings,
        terminal=_topology_lines,
        order=_CLASSIFIER,
    ),
    "betti": _section("betti", _invariants("betti", "b0@0.1"), findings=_betti_findings),
    "digraph": _section("digraph", _invariants("digraph", "edges@0.1")),
    "barcode": _section("barcode", _barcode, findings=_barcode_findings),
    "templates": _section("templates", _invariants("templates", "previous")),
}
