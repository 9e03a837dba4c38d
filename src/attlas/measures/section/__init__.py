"""What measures show: where heads look, how far, how broadly; which tokens and heads matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from attlas.core.importance import importance_of
from attlas.measures.section import profiles, tokens
from attlas.measures.section.findings import (
    entropy_findings,
    head_distance_findings,
    importance_findings,
    position_bias_findings,
    position_period,
    special_gradient_findings,
    surface_findings,
    topk_findings,
)
from attlas.views import charts
from attlas.views.numbers import number
from attlas.views.overlay import Overlay, overlay
from attlas.views.parts import TintedText
from attlas.views.section import Figure, Section, Tables, head_figure, prose
from attlas.views.texts import EXAMPLE_TEXTS, within_budget

MOST_HEADS = 300  # whose divergences are drawn one by one
ABOUT = prose(__file__)


def _surface(study: Tables) -> list[Figure]:
    table = study.table("surface")
    grid = head_figure(
        "Attention to simple targets: each cell a head, hover for its value and what uniform "
        "attention would give.",
        table,
        first="previous",
    )
    by_layer = Figure(
        "By layer: a dot a head, the line their mean, dashed what uniform attention would give "
        "(Figure 2 of the paper).",
        profiles.surface_by_layer(table),
    )
    return [*grid, by_layer] if grid else []


def _entropy(study: Tables) -> list[Figure]:
    table = study.table("entropy")
    known = [name for name in ("entropy", "cls_entropy") if table[name].notna().any()]
    grid = head_figure(
        "Entropy: low is a head that picks few tokens, high one that spreads over many; the grey "
        "tick is uniform attention.",
        table,
        known,
    )
    if not grid:
        return []
    by_layer = Figure(
        "Entropy by layer: a dot a head, the line their mean, dashed uniform attention (Figure 4 "
        "of the paper).",
        profiles.entropy_by_layer(table),
    )
    out = [*grid, by_layer]
    if study.has("entropy_histogram"):
        out.append(
            Figure(
                "Rows by how spread out they are: each layer's rows from all on one token (0) to "
                "uniform (1).",
                profiles.spread_by_layer(study.table("entropy_histogram")),
            )
        )
    return out


def _positions(study: Tables) -> list[Figure]:
    table = study.table("positions")
    if not charts.choices(table):
        return []
    caption = (
        "How far heads look: each row a head, each column an offset from the token (negative is to "
        "the left)."
    )
    return [Figure(caption, profiles.offset_profiles(table))]


def _totals(study: Tables) -> list[Figure]:
    importance = importance_of(study.table("importance")) if study.has("importance") else None
    shown = tuple(
        TintedText(
            f"{row['text']}{' · ' + row['label'] if row['label'] else ''}",
            text_overlay(study, row, group, importance),
        )
        for group, row in _example_texts(study)
    )
    caption = (
        "Attention received: darker words receive more (sum over queries and over a word's "
        "tokens); choose a layer, and a head where its numbers were kept; hover or click for "
        "numbers."
    )
    return [Figure(caption, parts=shown)] if shown else []


def _example_texts(study: Tables) -> list[tuple[int, dict[str, Any]]]:
    """The first texts, which have numbers for every head, and some from all over the corpus."""
    chosen = study.sample(EXAMPLE_TEXTS)
    if study.has("totals_heads"):
        first = set(study.table("totals_heads", ["text"])["text"])
        detailed = study.first(len(first))
        known = {row["text"] for _, row in detailed}
        rest = [item for item in chosen if item[1]["text"] not in known]
        chosen = [*detailed, *rest][:EXAMPLE_TEXTS]
    return within_budget(chosen)


def text_overlay(study: Tables, row: dict[str, Any], group: int, importance: Any = None) -> Overlay:
    """A text of the study tinted by the attention it receives; by head where that was kept."""
    rows = study.tokens("totals", group, row["text"])
    layers, heads = study.n_layers, study.n_heads
    values = rows[[f"L{layer}" for layer in range(layers)]].to_numpy().T[:, None]
    detailed = pd.DataFrame()
    if study.has("totals_heads"):
        detailed = study.table("totals_heads", text=row["text"])
    if len(detailed):
        names = [f"L{layer}.H{head}" for layer in range(layers) for head in range(heads)]
        values = detailed[names].to_numpy().T.reshape(layers, heads, -1)
    weights = importance if len(detailed) else None
    uniform = np.nan_to_num(rows["uniform"].to_numpy())
    return overlay(row["content"], rows, np.nan_to_num(values), uniform, weights)


def _heatmap(study: Tables) -> list[Figure]:
    table, even = study.table("heatmap"), study.table("heatmap_uniform")
    if table.empty:
        return []
    corpus = (
        "Over the corpus: each head's attention, queries from top to bottom and keys from left to "
        "right; darkest is the head's own largest cell, the last column is even attention."
    )
    out = [Figure(corpus, profiles.head_pictures(table, even))]
    if study.has("importance"):
        caption = (
            "Over the corpus, scaled by importance: each head's weights times its importance, on "
            "one scale."
        )
        chart = profiles.head_pictures(table, None, study.table("importance"))
        out.append(Figure(caption, chart))
    if study.has("heatmap_texts") and len(texts := study.table("heatmap_texts")):
        first = texts["text"].iloc[0]
        one = profiles.head_pictures(texts[texts["text"] == first], even)
        out.append(Figure(f"One text ({first}): the same for a single text.", one))
    return out


def _topk(study: Tables) -> list[Figure]:
    types = study.table("topk_types")
    every = types[types["layers"] == "all"]
    if every.empty:
        return []
    caption = (
        "Over the corpus, by type: tokens with the most appearances on a token's list, all layers "
        "and heads; grey is what chance would give."
    )
    out = [Figure(caption, tokens.top_bars(every, "type"))]
    top = every[every["rank"] < 10]
    if top["both"].any():
        both = (
            "Over the corpus, on both lists: types among the most attended to and the most "
            "attending."
        )
        out.append(Figure(both, tokens.on_both_lists(top, "type")))
    if study.has("topk") and len(names := study.table("topk", ["text"])):
        out += _topk_of(study, names["text"].iloc[0])
    return out


def _topk_of(study: Tables, text: str) -> list[Figure]:
    """The lists of one text, by type and by position."""
    rows, out = study.table("topk", text=text), []
    rows = rows[rows["layers"] == "all"]
    for by in ("type", "position"):
        some = rows[rows["by"] == by]
        caption = f"One text by {by} ({text}): appearances over all layers and heads."
        out.append(Figure(caption, tokens.top_bars(some, by)))
        caption = (
            f"Both lists by {by} ({text}): tokens that are among the most attended to and the most "
            "attending."
        )
        if some["both"].any():
            out.append(Figure(caption, tokens.on_both_lists(some, by)))
        else:
            out.append(Figure(caption, html="<p>No token is on both lists.</p>"))
    return out


def _position_bias(study: Tables) -> list[Figure]:
    table, period = study.table("position_bias"), position_period(study)
    if table.empty:
        return []
    caption = (
        "By position: attention received by ordinary tokens over what even attention would give "
        "them there, mean of heads and layers."
    )
    out = [Figure(caption, tokens.by_position(table, "position", period))]
    if period and table["position"].max() >= period:
        folded = study.table("position_bias_period")
        caption = "By position modulo the period: tokens that share a position embedding."
        out.append(Figure(caption, tokens.by_position(folded, "residue", period)))
        out += head_figure(
            "By head: what tokens at multiples of the period receive over even attention, beside "
            "all others.",
            study.table("position_bias_heads"),
        )
    return out


def _importance(study: Tables) -> list[Figure]:
    return head_figure(
        "Importance of heads: how much the loss depends on each; importance runs from 0 to 1, the "
        "others are as measured.",
        study.table("importance"),
        first="importance",
    )


def _special_gradient(study: Tables) -> list[Figure]:
    table = study.table("special_gradient")
    by_head = head_figure(
        "Gradient by head: hover for the mean over all weights of the head.", table, first="sep"
    )
    by_layer = (
        "Gradient by layer: mean size of d loss / d weight for attention to each sort of token; a "
        "dot a head, dashed is the mean over all weights (Figure 3 of the paper)."
    )
    return [Figure(by_layer, profiles.gradient_by_layer(table)), *by_head] if by_head else []


def _head_distance(study: Tables) -> list[Figure]:
    places = study.table("head_map")
    if places.empty or not places[["x", "y"]].notna().all(axis=None):
        return []
    if study.has("head_neighbours"):
        places = profiles.with_neighbours(places, study.table("head_neighbours"))
    if study.has("syntax"):
        places = profiles.with_relations(places, study.table("syntax"))
    stress = number(float(places["stress"].iloc[0]))
    caption = (
        "Map of heads: near heads attend alike (metric MDS of Jensen-Shannon divergences, stress "
        f"{stress}; Figure 6 of the paper)."
    )
    out = [Figure(caption, profiles.map_of_heads(places))]
    if len(places) <= MOST_HEADS:
        caption = (
            "All divergences: darker pairs attend alike; heads in the order of hierarchical "
            "clusters."
        )
        matrix = profiles.distance_matrix(study.table("head_distance"), places)
        out.append(Figure(caption, matrix))
    return out


_PROBED, _GENERAL = 2, 5  # on the page: after what probes find; general measures after all others
SECTIONS = {
    "surface": Section(
        title="Where heads look",
        question="Where do heads look?",
        needs=("surface",),
        about=ABOUT["surface"],
        figures=_surface,
        findings=surface_findings,
        order=_GENERAL,
    ),
    "entropy": Section(
        title="Focus and breadth",
        question="Do heads attend to few tokens or many?",
        needs=("entropy",),
        about=ABOUT["entropy"],
        figures=_entropy,
        findings=entropy_findings,
        order=_GENERAL,
    ),
    "positions": Section(
        title="Near and far",
        question="How far do heads look?",
        needs=("positions",),
        about=ABOUT["positions"],
        figures=_positions,
        order=_GENERAL,
    ),
    "totals": Section(
        title="Which tokens receive attention",
        question="Which tokens receive attention?",
        needs=("totals", "texts"),
        about=ABOUT["totals"],
        figures=_totals,
        order=_GENERAL,
    ),
    "heatmap": Section(
        title="Patterns of heads",
        question="Which patterns do heads make?",
        needs=("heatmap", "heatmap_uniform"),
        about=ABOUT["heatmap"],
        figures=_heatmap,
        order=_GENERAL,
    ),
    "topk": Section(
        title="Most attended, most attending",
        question="Which tokens are on most lists?",
        needs=("topk_types",),
        about=ABOUT["topk"],
        figures=_topk,
        findings=topk_findings,
        order=_GENERAL,
    ),
    "position_bias": Section(
        title="Does the place matter?",
        question="Do tokens receive attention for where they stand?",
        needs=("position_bias", "position_bias_heads"),
        about=ABOUT["position_bias"],
        figures=_position_bias,
        findings=position_bias_findings,
        order=_GENERAL,
    ),
    "importance": Section(
        title="Which heads matter",
        question="Which heads matter for the loss?",
        needs=("importance",),
        about=ABOUT["importance"],
        figures=_importance,
        findings=importance_findings,
        order=_GENERAL,
    ),
    "head_distance": Section(
        title="Which heads are alike",
        question="Which heads are alike?",
        needs=("head_distance", "head_map"),
        about=ABOUT["head_distance"],
        figures=_head_distance,
        findings=head_distance_findings,
        order=_PROBED - 1,
    ),
    "special_gradient": Section(
        title="Does looking there change anything?",
        question="Would the loss change if attention to special tokens did?",
        needs=("special_gradient",),
        about=ABOUT["special_gradient"],
        figures=_special_gradient,
        findings=special_gradient_findings,
        order=_PROBED,
    ),
}
