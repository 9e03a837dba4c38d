"""What the shape of attention shows: invariants of graphs by head, and classifiers on them."""

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
from attlas.views.numbers import head_name, interval, number
from attlas.views.section import (
    Figure,
    Section,
    Tables,
    head_figure,
    largest,
    prose,
    smallest,
)
from attlas.views.tables import TextTable

ABOUT = prose(__file__)
CONTROLS = {
    "frozen_model": "the model before fine-tuning",
    "random_model": "random weights",
    "length_only": "the length of the text alone",
}


def _topology(study: Tables) -> list[Figure]:
    scores, heads = study.table("topology"), study.table("topology_heads")
    if scores["mcc"].isna().all() or heads[["train", "test"]].isna().all(axis=None):
        return []
    caption = "Scores on the test texts: dots with 95 % intervals of a bootstrap over texts."
    alone = (
        "Single heads: a classifier on the features of each head alone, scored on the texts it was "
        "fitted on and on the test texts."
    )
    chosen = "Chosen on dev: the path of the solver for each C; stopping early regularises."
    return [
        Figure(caption, classifier_scores(scores)),
        Figure(alone, head_maps(heads)),
        Figure(chosen, chosen_on_dev(study.table("topology_grid"))),
    ]


def _invariants(table: str, caption: str, first: str) -> Callable[[Tables], list[Figure]]:
    """A grid of heads from the means of a measure over texts."""

    def figures(study: Tables) -> list[Figure]:
        frame = study.table(table).drop(columns=["texts", "h1_texts"], errors="ignore")
        return head_figure(caption, frame, first=first)

    return figures


def _barcode(study: Tables) -> list[Figure]:
    frame = study.table("barcode_heads")
    if frame["texts"].isna().all():
        return []
    with_holes, texts = int(frame["h1_texts"].max()), int(frame["texts"].max())
    holes = (
        f"The numbers of holes (h1) are of the {with_holes:,} of {texts:,} texts that are short "
        "enough for them."
    )
    said = holes if with_holes else "Holes (h1) were not sought."
    caption = f"Bars of the Rips complex: means over texts. {said}"
    return _invariants("barcode_heads", caption, "h0_sum")(study)


def _betti_findings(study: Tables) -> list[str]:
    table = study.table("betti_heads")
    column = "b0@0.1" if "b0@0.1" in table else str(table.columns[2])
    low, high = smallest(table, column), largest(table, column)
    if low is None or high is None:
        return []
    return [
        f"At weight {column.partition('@')[2]} the attention graph of {head_name(low)} holds "
        f"together most (on average {number(low[column])} pieces a text), that of "
        f"{head_name(high)} least ({number(high[column])}); uniform "
        f"{number(low[f'{column}_uniform'])}"
    ]


def _barcode_findings(study: Tables) -> list[str]:
    table = study.table("barcode_heads")
    if table["texts"].isna().all():
        return []
    with_holes, texts = int(table["h1_texts"].max()), int(table["texts"].max())
    if not with_holes:
        return [
            "Holes (h1 of barcode) were not sought: name the measure, with gudhi installed, and "
            "mind its limit of tokens"
        ]
    if with_holes < texts:
        return [
            f"Holes (h1 of barcode) were sought in {with_holes:,} of {texts:,} texts: the others "
            "have more tokens than its limit"
        ]
    return []


def _topology_findings(study: Tables) -> list[str]:
    table = study.table("topology").set_index("classifier")
    if "all" not in table.index or not table["mcc"].notna().any():
        return []
    about = study.holding("topology").manifest["topology"]
    out = [_shape(table, about)]
    beside = [(name, what) for name, what in CONTROLS.items() if name in table.index]
    if beside:
        controls = [f"{what} {interval(table.loc[name], 'mcc')}" for name, what in beside]
        out.append("Controls: " + ", ".join(controls))
    return [*out, *_careful(about), *_best_head(study.table("topology_heads"), about)]


def _shape(table: pd.DataFrame, about: Mapping[str, Any]) -> str:
    """What the classifier on all heads reaches, and the model itself."""
    every = table.loc["all"]
    out = (
        f"The shape of attention alone reaches MCC {interval(every, 'mcc')} on "
        f"{int(every['n']):,} texts (all heads)"
    )
    if "model" not in table.index:
        return out
    gap = about["difference_from_model"]
    size = f"{number(gap['mcc'])} [{number(gap['low'])}, {number(gap['high'])}]"
    return f"{out}; the model itself {interval(table.loc['model'], 'mcc')}, a difference of {size}"


def _careful(about: Mapping[str, Any]) -> list[str]:
    """What makes the scores less than they seem."""
    out = []
    if about["test_texts_in_train"]:
        both = f"{about['test_texts_in_train']:,} test texts"
        out.append(f"{both} also stand in train: the scores flatter")
    cut = [f"{count:,} of {part}" for part, count in about["truncated"].items() if count]
    if cut:
        out.append(f"Texts longer than the model were cut: {', '.join(cut)}")
    if lost := about["features"]["left_out"]:
        out.append(f"{lost:,} features were left out because some texts lack them")
    return out


def _best_head(heads: pd.DataFrame, about: Mapping[str, Any]) -> list[str]:
    best, alike = largest(heads, "train"), about["maps"]["pearson"]
    if best is None:
        return []
    return [
        f"The best single head on train is {head_name(best)} ({number(best['train'])} there, "
        f"{number(best['test'])} on test); over heads the two correlate by {number(alike)}"
    ]


def _topology_lines(study: Tables) -> list[TextTable]:
    rows = []
    for row in study.table("topology").to_dict("records"):
        cells = [CLASSIFIERS.get(row["classifier"], row["classifier"])]
        for what in ("mcc", "accuracy"):
            cells += [f"{row[what]:.3f}", f"{row[f'{what}_low']:.3f} to {row[f'{what}_high']:.3f}"]
        rows.append(tuple(cells))
    return [TextTable(("classifier", "MCC", "95 %", "accuracy", "95 %"), tuple(rows))]


_CLASSIFIER, _GENERAL = 4, 5  # on the page: before the measures of heads
SECTIONS = {
    "topology": Section(
        title="What the shape of attention tells",
        question="Does the shape of attention tell labels apart?",
        needs=("topology", "topology_heads", "topology_grid"),
        about=ABOUT["topology"],
        figures=_topology,
        findings=_topology_findings,
        terminal=_topology_lines,
        order=_CLASSIFIER,
    ),
    "betti": Section(
        title="Pieces and cycles",
        question="What shape have attention graphs?",
        needs=("betti_heads",),
        about=ABOUT["betti"],
        figures=_invariants(
            "betti_heads",
            "Betti numbers: each cell a head's mean over texts at a threshold.",
            "b0@0.1",
        ),
        findings=_betti_findings,
        order=_GENERAL,
    ),
    "digraph": Section(
        title="Graphs with direction",
        question="What shape have directed attention graphs?",
        needs=("digraph_heads",),
        about=ABOUT["digraph"],
        figures=_invariants(
            "digraph_heads",
            "Directed invariants: each cell a head's mean over texts at a threshold.",
            "edges@0.1",
        ),
        order=_GENERAL,
    ),
    "barcode": Section(
        title="Bars",
        question="At which distances do graphs join and close?",
        needs=("barcode_heads",),
        about=ABOUT["barcode"],
        figures=_barcode,
        findings=_barcode_findings,
        order=_GENERAL,
    ),
    "templates": Section(
        title="Distance from simple patterns",
        question="How near are heads to simple patterns?",
        needs=("templates_heads",),
        about=ABOUT["templates"],
        figures=_invariants(
            "templates_heads",
            "Distance from patterns: each cell a head's mean over texts; low is near.",
            "previous",
        ),
        order=_GENERAL,
    ),
}
