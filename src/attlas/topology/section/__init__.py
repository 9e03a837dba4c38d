"""What the topology of attention shows: invariants of graphs by head, and classifiers on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from attlas.topology.section.charts import (
    CLASSIFIERS,
    MCC,
    chosen_on_dev,
    classifier_scores,
    head_maps,
)
from attlas.topology.section.graph import study_graphs
from attlas.views.claims import Claim, head_claims, paired_ends, whole
from attlas.views.findings import analysed, overlap
from attlas.views.head_profiles import HeadProfile, column_profile
from attlas.views.head_rows import Head, HeadRow, column_rows
from attlas.views.majority import AtMajority, at_majority, weights_of
from attlas.views.numbers import decimal, estimate, finding, head_name, interval
from attlas.views.section import Figure, Section, Tables, head_figure, largest, prose
from attlas.views.tables import Column, Kind, TextTable, declared, text_table

TEXT = prose(__file__)
Columns = tuple[Column, ...]
CONTROLS = {
    "frozen_model": "the model before fine-tuning",
    "random_model": "random weights",
    "length_only": "text length alone",
}
SCORES = (
    Column("classifier", "classifier", format="words", words=CLASSIFIERS),
    *(
        Column(
            name,
            label,
            format="three",
            kind="above",
            interval=(f"{name}_low", f"{name}_high"),
            control_row={"classifier": "length_only"},
        )
        for name, label in {"mcc": "MCC", "accuracy": "accuracy"}.items()
    ),
    Column("n", "n", format="count"),
)
# The smallest differences of interest; section.md has the reasons.
COMPONENTS, DISTANCE = 0.5, 0.05
USUAL = 0.1  # the threshold of claims, but for short texts
CLEAR = 2.0  # times uniform attention


def _against_uniform(labels: Mapping[str, str], kind: Kind = "plain", unit: str = "") -> Columns:
    """Columns whose control is the same of uniform attention."""
    return tuple(
        Column(name, label, unit, kind=kind, control=f"{name}_uniform")
        for name, label in labels.items()
    )


INVARIANTS: dict[str, Columns] = {
    "betti": (
        Column(
            "b0@",
            "connected components",
            kind="below",
            control="b0@_uniform",
            least=COMPONENTS,
        ),
        *_against_uniform({"b1@": "independent cycles"}),
    ),
    "digraph": (
        *_against_uniform({"components@": "strongly connected components"}, "below"),
        *_against_uniform(
            {"edges@": "edges", "degree@": "mean degree", "pairs@": "mutual pairs"}, "above"
        ),
        *_against_uniform({"cycles@": "directed cycles"}),
    ),
    "barcode": (
        *_against_uniform({"h0_sum": "H0: total length"}, "below"),
        *_against_uniform({"h0_entropy": "H0: entropy of lengths"}, "below", "nats"),
        *_against_uniform(
            {
                "h0_longest_death": "H0: death of the longest bar",
                "h0_deaths_from_0.75": "H0: deaths from 0.75",
                "h0_deaths_from_0.5": "H0: deaths from 0.5",
                "h0_deaths_to_0.25": "H0: deaths up to 0.25",
                "h1_longest_birth": "H1: birth of the longest bar",
                "h1_births_from_0.25": "H1: births from 0.25",
                "h1_births_to_0.95": "H1: births up to 0.95",
                "h1_births_to_0.7": "H1: births up to 0.7",
                "h1_sum": "H1: total length",
            }
        ),
        *_against_uniform({"h1_entropy": "H1: entropy of lengths"}, unit="nats"),
        *_against_uniform(
            {"h1_std": "H1: standard deviation of lengths", "h1_count": "H1: number of bars"}
        ),
    ),
    "templates": tuple(
        Column(
            name, f"distance to {label}", kind="below", control=f"{name}_uniform", least=DISTANCE
        )
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
        table = f"{name}_heads"
        return head_figure(TEXT[name], study.table(table), INVARIANTS[name], first, table)

    return figures


def _betti(study: Tables) -> list[Figure]:
    """The grid of heads, and the graph of each head in an example text if there are any."""
    out = _invariants("betti", "b0@0.1")(study)
    if all(map(study.has, ("examples", "examples_keys", "examples_tokens"))):
        examples = study.study_with_table("examples")
        if graphs := study_graphs(examples, study.table("betti_heads")):
            out.append(TEXT["betti"].figure("graph", parts=(graphs,)))
    return out


def _barcode(study: Tables) -> list[Figure]:
    frame = study.table("barcode_heads")
    if frame[["texts", "h1_texts"]].isna().all().any():
        return []
    with_h1, texts = int(frame["h1_texts"].max()), int(frame["texts"].max())
    holes = f"H1 features are of the {with_h1:,} of {texts:,} texts that are short enough for them."
    words = TEXT["barcode"].filled(holes=holes if with_h1 else "H1 was not computed.")
    frame = frame.drop(columns=["texts", "h1_texts"])
    return head_figure(words, frame, INVARIANTS["barcode"], "h0_sum", "barcode_heads")


def _betti_claims(study: Tables) -> list[Claim]:
    """Every head against uniform attention: fewer connected components at one threshold."""
    table = study.table("betti_heads")
    name = _at_threshold(study, "b0@")
    if name is None:
        return []
    return head_claims(
        table,
        declared(INVARIANTS["betti"], [name])[0],
        f"has few connected components (threshold {name.partition('@')[2]})",
        analysed(study, "betti_heads"),
        bounds=(1.0, math.inf),
    )


def _at_threshold(study: Tables, family: str) -> str | None:
    """The column of a family at the smallest threshold well above what uniform attention gives.

    At a threshold near that, the smallest unevenness joins tokens that uniform attention does not.
    """
    tables = study.study_with_table("betti_heads")
    names = [str(name) for name in tables.table("betti_heads").columns]
    shown = [one for one in names if one.startswith(family)]
    shown = [one for one in shown if not one.endswith(("_uniform", "_error"))]
    if not shown:
        return None
    counts = tables.manifest["counts"]
    length = counts.get("tokens", 0) / max(1, counts.get("analysed", 0))
    by_threshold = {float(name.partition("@")[2]): name for name in shown}
    clear = [one for one in sorted(by_threshold) if one * length >= CLEAR and one >= USUAL]
    return by_threshold[clear[0] if clear else max(by_threshold)]


def _betti_rows(study: Tables) -> dict[Head, list[HeadRow]]:
    """Cycles at the threshold of the claims; components are claimed."""
    name = _at_threshold(study, "b1@")
    columns = declared(INVARIANTS["betti"], [name] if name else [])
    table, texts = study.table("betti_heads"), analysed(study, "betti_heads")
    return column_rows(table, columns, "uniform attention", texts)


def _betti_profiles(study: Tables) -> list[HeadProfile]:
    """Connected components and cycles by threshold: two pictures, as they are two quantities."""
    table, out = study.table("betti_heads"), []
    for family, title in (("b0@", "Components by weight"), ("b1@", "Cycles by weight")):
        names = [name for name in map(str, table.columns) if name.startswith(family)]
        names = [name for name in names if not name.endswith(("_uniform", "_error"))]
        columns = [
            replace(one, label=one.name.partition("@")[2])
            for one in declared(INVARIANTS["betti"], names)
        ]
        out += column_profile(
            table,
            columns,
            (study.n_layers, study.n_heads),
            title=title,
            picture="line",
            control_name="uniform attention",
            x="smallest weight of an edge",
        )
    return out


def _topology_rows(study: Tables) -> dict[Head, list[HeadRow]]:
    """How well the topology of this head alone predicts labels, against the median head."""
    columns = (Column("test", "MCC on test from this head alone"),)
    return column_rows(study.table("topology_heads"), columns)


def _template_claims(study: Tables) -> list[Claim]:
    """Every head against uniform attention: closer to a pattern."""
    table, texts = study.table("templates_heads"), analysed(study, "templates_heads")
    return [
        claim
        for column in INVARIANTS["templates"]
        for claim in head_claims(
            table,
            column,
            f"resembles a fixed pattern ({column.label.removeprefix('distance to ')})",
            texts,
            what="distance (0 is identical)",
            bounds=(0.0, math.inf),
            fact=column.label.removeprefix("distance to "),
        )
    ]


def _barcode_notes(study: Tables) -> list[str]:
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


def _topology_claims(study: Tables) -> list[Claim]:
    """All heads together against the strongest control."""
    table = study.table("topology").set_index("classifier")
    rivals = table[table.index.isin(list(CONTROLS))]["mcc"].dropna()
    if "all" not in table.index or pd.isna(table.loc["all", "mcc"]) or rivals.empty:
        return []
    every, rival = table.loc["all"], str(rivals.idxmax())
    name = "topology_differences"
    apart = study.table(name) if study.has(name) else None
    others = tuple(
        f"{CONTROLS[name]} {decimal(value)}" for name, value in rivals.items() if name != rival
    )
    return [
        Claim.against(
            "The topology of attention predicts labels",
            every,
            table.loc[rival],
            CONTROLS[rival],
            ("mcc", "mcc_low", "mcc_high"),
            paired_ends(apart, control=rival),
            texts=whole(every["n"]),
            what="MCC",
            also=others,
            bounds=(-1.0, 1.0),
        )
    ]


def _topology_texts(study: Tables) -> dict[str, float]:
    texts = study.study_with_table("topology").manifest["topology"]["texts"]
    kinds = {"train": "training texts", "dev": "dev texts", "test": "test texts"}
    return {kind: texts[part] for part, kind in kinds.items()}


def _topology_warnings(study: Tables) -> list[str]:
    """Test texts in the training data."""
    about = study.study_with_table("topology").manifest["topology"]
    return overlap(about["test_texts_in_train"], "Topology", "training data")


def _topology_majority(study: Tables) -> AtMajority | None:
    manifest = study.study_with_table("topology").manifest
    rows = study.table("topology").set_index("classifier")
    if "model" not in rows.index or pd.isna(rows.loc["model", "accuracy"]):
        return None
    texts = whole(rows.loc["model", "n"])
    right = round(rows.loc["model", "accuracy"] * texts)
    majority = round(manifest["topology"]["majority_accuracy"] * texts)
    so = "the topology of its attention is not that of a model that knows the labels"
    return at_majority("The model", right, texts, majority, so, weights_of(manifest))


def _topology_notes(study: Tables) -> list[str]:
    """The model itself, the best single head, and what was truncated or left out."""
    table = study.table("topology").set_index("classifier")
    about, out = study.study_with_table("topology").manifest["topology"], []
    if "model" in table.index and not pd.isna(table.loc["model", "mcc"]):
        gap = about["difference_from_model"]
        difference = estimate(gap["mcc"], gap["low"], gap["high"])
        own = interval(table.loc["model"], "mcc")
        out.append(finding("The model itself", f"MCC {own}", f"topology minus model {difference}"))
    truncated = [f"{count:,} in {part}" for part, count in about["truncated"].items() if count]
    if truncated:
        out.append(f"Texts truncated to the model's maximum length: {', '.join(truncated)}.")
    if lost := about["features"]["left_out"]:
        out.append(f"{lost:,} features were excluded because they are missing for some texts.")
    return [*out, *_best_head(study.table("topology_heads"), about)]


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
    columns = {f"{name}_heads": INVARIANTS.get(name, ())}
    options = {"needs": (f"{name}_heads",), "columns": columns, "order": _GENERAL, **more}
    return TEXT[name].section(figures=figures, **options)


SECTIONS = {
    "topology": _section(
        "topology",
        _topology,
        needs=("topology", "topology_heads", "topology_grid"),
        claims=_topology_claims,
        smallest_effect=MCC,
        head_rows=_topology_rows,
        texts_used=_topology_texts,
        warnings=_topology_warnings,
        at_majority=_topology_majority,
        of_predictions=True,
        notes=_topology_notes,
        terminal=_topology_lines,
        order=_CLASSIFIER,
    ),
    "betti": _section(
        "betti",
        _betti,
        claims=_betti_claims,
        smallest_effect=COMPONENTS,
        head_rows=_betti_rows,
        profiles=_betti_profiles,
    ),
    "digraph": _section("digraph", _invariants("digraph", "edges@0.1")),
    "barcode": _section("barcode", _barcode, notes=_barcode_notes),
    "templates": _section(
        "templates",
        _invariants("templates", "previous"),
        claims=_template_claims,
        smallest_effect=DISTANCE,
    ),
}
