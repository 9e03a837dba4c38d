"""What measures show: what heads attend to, how far, how broadly; which tokens and heads matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from attlas.core.importance import importance_of
from attlas.measures.section import profiles, tokens
from attlas.measures.section.columns import (
    ENTROPY,
    GRADIENT,
    IMPORTANCE,
    LOSS,
    NAMED,
    NAMED_WORDS,
    NATS,
    POSITION_BIAS,
    SHARE,
    SURFACE,
    TARGET,
)
from attlas.measures.section.example_texts import examples_table, head_examples, score_label
from attlas.measures.section.findings import (
    BROAD,
    KINDS,
    entropy_claims,
    entropy_notes,
    entropy_warnings,
    head_distance_notes,
    importance_claims,
    importance_notes,
    position_bias_notes,
    position_bias_warnings,
    position_period,
    positions_at_chance,
    special_gradient_notes,
    stronger_control,
    surface_claims,
    surface_notes,
    surface_warnings,
    target_claims,
    target_notes,
    target_texts,
    target_warnings,
    topk_at_chance,
    topk_notes,
    with_median_head,
)
from attlas.measures.section.head_pictures import (
    entropy_profiles,
    heatmap_profiles,
    importance_profiles,
    position_profiles,
    surface_profiles,
)
from attlas.measures.section.heads import (
    head_distance_rows,
    importance_rows,
    position_rows,
    special_gradient_rows,
)
from attlas.views import charts
from attlas.views.numbers import decimal
from attlas.views.overlay import Overlay, overlay
from attlas.views.parts import TintedText
from attlas.views.section import Figure, LaterChart, Section, Tables, head_figure, prose
from attlas.views.tables import text_table
from attlas.views.texts import EXAMPLE_TEXTS, within_budget

MOST_HEADS = 300  # whose divergences are drawn one by one
TEXT = prose(__file__)
Figures = Callable[[Tables], list[Figure]]
Findings = Callable[[Tables], list[str]]


def _surface(study: Tables) -> list[Figure]:
    table, words = study.table("surface"), TEXT["surface"]
    grid = head_figure(words, table, SURFACE, "previous", "surface")
    return [*grid, words.figure("by-layer", profiles.surface_by_layer(table))] if grid else []


def _entropy(study: Tables) -> list[Figure]:
    table, words = study.table("entropy"), TEXT["entropy"]
    out = head_figure(words, table, ENTROPY, table="entropy")
    if not out:
        return []
    out.append(words.figure("by-layer", profiles.entropy_by_layer(table)))
    if study.has("entropy_histogram"):
        histogram = study.table("entropy_histogram")
        out.append(words.figure("spread", profiles.spread_by_layer(histogram)))
    return out


def _positions(study: Tables) -> list[Figure]:
    table = study.table("positions")
    if not charts.choices(table):
        return []
    return [TEXT["positions"].figure("offsets", profiles.offset_profiles(table))]


def _totals(study: Tables) -> list[Figure]:
    importance = importance_of(study.table("importance")) if study.has("importance") else None
    shown = tuple(
        TintedText(
            f"{row['text']}{' · ' + row['label'] if row['label'] else ''}",
            text_overlay(study, row, group, importance),
            follows=number > 0,
        )
        for number, (group, row) in enumerate(_example_texts(study))
    )
    return [TEXT["totals"].figure("texts", parts=shown)] if shown else []


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


def text_overlay(
    study: Tables,
    row: dict[str, Any],
    group: int,
    importance: Any = None,
    *,
    with_heads: bool = True,
) -> Overlay:
    """A text of the study shaded by the attention it receives; by head where that was kept."""
    rows = study.tokens("totals", group, row["text"])
    return rows_overlay(study, row, rows, importance, with_heads=with_heads)


def rows_overlay(
    study: Tables,
    row: Mapping[str, Any],
    rows: pd.DataFrame,
    importance: Any = None,
    *,
    with_heads: bool = True,
) -> Overlay:
    """The same from the rows of the text in `totals`."""
    layers, heads = study.n_layers, study.n_heads
    values = rows[[f"L{layer}" for layer in range(layers)]].to_numpy().T[:, None]
    detailed = pd.DataFrame()
    if with_heads and study.has("totals_heads"):
        detailed = study.table("totals_heads", text=row["text"])
    by_head = 0 < len(detailed) == len(rows)
    if by_head:
        names = [f"L{layer}.H{head}" for layer in range(layers) for head in range(heads)]
        values = detailed[names].to_numpy().T.reshape(layers, heads, -1)
    weights = importance if by_head else None
    uniform = np.nan_to_num(rows["uniform"].to_numpy())
    return overlay(row["content"], rows, np.nan_to_num(values), uniform, weights)


def _heatmap(study: Tables) -> list[Figure]:
    table, uniform = study.table("heatmap"), study.table("heatmap_uniform")
    if table.empty:
        return []
    words = TEXT["heatmap"]
    tiles = (profiles.head_tiles(table, uniform),)
    every = LaterChart(lambda: profiles.head_pictures(table, uniform))
    out = [replace(words.figure("corpus", every), page=tiles)]
    if study.has("importance"):
        chart = profiles.head_pictures(table, None, study.table("importance"))
        out.append(words.figure("corpus-scaled-by-importance", chart))
    if study.has("heatmap_texts") and len(texts := study.table("heatmap_texts")):
        first = texts["text"].iloc[0]
        chart = profiles.head_pictures(texts[texts["text"] == first], uniform)
        out.append(words.figure("text", chart, text=first))
    return out


def _topk(study: Tables) -> list[Figure]:
    types = study.table("topk_types")
    every = types[types["layers"] == "all"]
    if every.empty:
        return []
    out = [TEXT["topk"].figure("types", tokens.top_bars(every, "type"))]
    top = every[every["rank"] < 10]
    if top["both"].any():
        out.append(TEXT["topk"].figure("both-types", tokens.on_both_lists(top, "type")))
    if study.has("topk") and len(names := study.table("topk", ["text"])):
        out += _topk_of(study, names["text"].iloc[0])
    return out


def _topk_of(study: Tables, text: str) -> list[Figure]:
    """The lists of one text, by type and by position."""
    rows, out, words = study.table("topk", text=text), [], TEXT["topk"]
    rows = rows[rows["layers"] == "all"]
    for by in ("type", "position"):
        part = rows[rows["by"] == by]
        out.append(words.figure(f"one-text-by-{by}", tokens.top_bars(part, by), text=text))
        name = f"both-lists-by-{by}"
        if part["both"].any():
            out.append(words.figure(name, tokens.on_both_lists(part, by), text=text))
        else:
            html = "<p>No token is in both rankings.</p>"
            out.append(words.figure(name, html=html, text=text))
    return out


def _position_bias(study: Tables) -> list[Figure]:
    table, period = study.table("position_bias"), position_period(study)
    if table.empty:
        return []
    words = TEXT["position_bias"]
    out = [words.figure("positions", tokens.by_position(table, "position", period))]
    if period and table["position"].max() >= period:
        folded = study.table("position_bias_period")
        out.append(words.figure("period", tokens.by_position(folded, "residue", period)))
        name = "position_bias_heads"
        out += head_figure(words, study.table(name), POSITION_BIAS, table=name)
    return out


def _examples(study: Tables) -> list[Figure]:
    table = examples_table(study)
    if table is None:
        return []
    score = score_label(study.table("examples", ["score_of"])["score_of"].iloc[0])
    return [TEXT["examples"].figure("quantiles", table=table, score=score)]


def _targets(study: Tables) -> list[Figure]:
    table, text = stronger_control(study.table("targets")), TEXT["targets"]
    out = head_figure(
        text, table[["layer", "head", "target", "target_stronger"]], NAMED, table="targets"
    )
    words = study.table("targets_words")
    return [*out, text.figure("words", table=text_table(words, NAMED_WORDS))] if len(words) else out


def _importance(study: Tables) -> list[Figure]:
    table = with_median_head(study.table("importance")).drop(
        columns="ablation_texts", errors="ignore"
    )
    return head_figure(TEXT["importance"], table, IMPORTANCE, "importance", "importance")


def _special_gradient(study: Tables) -> list[Figure]:
    table, words = study.table("special_gradient"), TEXT["special_gradient"]
    by_head = head_figure(words, table, GRADIENT, "sep", "special_gradient")
    return [words.figure("by-layer", profiles.gradient_by_layer(table)), *by_head] * bool(by_head)


def _head_distance(study: Tables) -> list[Figure]:
    heads, words = study.table("head_map"), TEXT["head_distance"]
    if heads.empty or not heads[["x", "y"]].notna().all(axis=None):
        return []
    if study.has("head_neighbours"):
        heads = profiles.add_neighbours(heads, study.table("head_neighbours"))
    if study.has("syntax"):
        heads = profiles.label_heads(heads, study.table("syntax"))
    stress = decimal(float(heads["stress"].iloc[0]))
    out = [words.figure("map", profiles.map_of_heads(heads), stress=stress)]
    if len(heads) <= MOST_HEADS:
        matrix = profiles.distance_matrix(study.table("head_distance"), heads)
        out.append(words.figure("matrix", matrix))
    return out


_PROBED, _GENERAL = 2, 5  # on the page: after what probes find; general measures after all others


def _section(name: str, figures: Figures, **more: Any) -> Section:
    options = {"needs": (name,), "order": _GENERAL, **more}
    return TEXT[name].section(figures=figures, **options)


SECTIONS = {
    "surface": _section(
        "surface",
        _surface,
        claims=surface_claims,
        profiles=surface_profiles,
        smallest_effect=SHARE,
        notes=surface_notes,
        warnings=surface_warnings,
        columns={"surface": SURFACE},
        kinds=KINDS,
    ),
    "entropy": _section(
        "entropy",
        _entropy,
        claims=entropy_claims,
        key_numbers=("entropy",),
        profiles=entropy_profiles,
        smallest_effect=NATS,
        notes=entropy_notes,
        warnings=entropy_warnings,
        columns={"entropy": ENTROPY},
        kinds=(BROAD,),
    ),
    "positions": _section(
        "positions",
        _positions,
        head_rows=position_rows,
        profiles=position_profiles,
        at_chance=positions_at_chance,
    ),
    "totals": _section("totals", _totals, needs=("totals", "texts")),
    "heatmap": _section(
        "heatmap", _heatmap, profiles=heatmap_profiles, needs=("heatmap", "heatmap_uniform")
    ),
    "topk": _section(
        "topk", _topk, notes=topk_notes, at_chance=topk_at_chance, needs=("topk_types",)
    ),
    "targets": _section(
        "targets",
        _targets,
        claims=target_claims,
        smallest_effect=TARGET,
        warnings=target_warnings,
        notes=target_notes,
        texts_used=lambda study: {"texts with a target word": target_texts(study)},
        needs=("targets", "targets_words"),
    ),
    "position_bias": _section(
        "position_bias",
        _position_bias,
        warnings=position_bias_warnings,
        notes=position_bias_notes,
        needs=("position_bias", "position_bias_heads"),
        columns={"position_bias_heads": POSITION_BIAS},
    ),
    "examples": _section("examples", _examples, examples=head_examples),
    "importance": _section(
        "importance",
        _importance,
        claims=importance_claims,
        smallest_effect=LOSS,
        head_rows=importance_rows,
        key_numbers=("growth of the loss without the head", "importance, from 0 to 1"),
        profiles=importance_profiles,
        notes=importance_notes,
        columns={"importance": IMPORTANCE},
    ),
    "head_distance": _section(
        "head_distance",
        _head_distance,
        head_rows=head_distance_rows,
        notes=head_distance_notes,
        needs=("head_distance", "head_map"),
        order=_PROBED - 1,
    ),
    "special_gradient": _section(
        "special_gradient",
        _special_gradient,
        head_rows=special_gradient_rows,
        notes=special_gradient_notes,
        columns={"special_gradient": GRADIENT},
        order=_PROBED,
    ),
}
