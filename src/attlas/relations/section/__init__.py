"""Relations predicted from attention: compared with every control, by direction, layer and head."""

from __future__ import annotations

from typing import Any

from attlas.relations.section import charts, tables
from attlas.relations.section.dendrogram import dendrogram
from attlas.relations.section.findings import (
    directions_at_chance,
    path_at_chance,
    relation_claims,
    relation_notes,
    relation_texts,
    relation_warnings,
)
from attlas.relations.section.texts import texts_of
from attlas.relations.section.triples import TripleTexts
from attlas.views.numbers import percent
from attlas.views.section import Figure, Tables, prose
from attlas.views.tables import TextTable, text_table

TEXT = prose(__file__)
# The smallest difference of interest; section.md has the reason.
F1 = 0.02


def _relations(study: Tables) -> list[Figure]:
    table, each = study.table("relations"), study.table("relations_each")
    if table.empty:
        return []
    first, words = table.iloc[0], TEXT["relations"]
    cases, texts = f"{int(first['cases']):,}", f"{int(first['texts']):,}"
    scores = tables.scores_table(table)
    out = [
        words.figure("what-attention-adds", charts.readers(table)),
        words.figure("classifiers", table=scores, cases=cases, texts=texts),
    ]
    if study.has("relations_unseen"):
        out += _unseen(study)
    out.append(words.figure("relations", table=tables.each_table(each)))
    if study.has("relations_extraction"):
        rows = study.table("relations_extraction")
        out.append(words.figure("plain-text", table=text_table(rows, tables.EXTRACTION)))
    return out


def _unseen(study: Tables) -> list[Figure]:
    rows = study.table("relations_unseen")
    if rows.empty:
        return []
    counts: dict[str, Any] = {
        name: f"{int(rows[name].iloc[0]):,}" for name in ("cases", "relations", "phrases")
    }
    return [TEXT["relations"].figure("unseen-phrases", charts.unseen(rows), **counts)]


def _texts(study: Tables) -> list[Figure]:
    names = ("relation_texts", "relation_triples", "relation_lines")
    texts = texts_of(*(study.table(name) for name in names))
    return [TEXT["relation_texts"].figure("texts", parts=(TripleTexts(texts),))] if texts else []


def _directions(study: Tables) -> list[Figure]:
    table, words = study.table("relations_directions"), TEXT["relations_directions"]
    return [words.figure("directions", charts.directions(table))] if len(table) else []


def _layers(study: Tables) -> list[Figure]:
    table, words = study.table("relations_layers"), TEXT["relations_layers"]
    out = [words.figure("layers", charts.layers(table))] if len(table) else []
    if study.has("relations_depth"):
        depth = text_table(study.table("relations_depth"), tables.DEPTH)
        out.append(words.figure("depth", table=depth))
    return out


def _path(study: Tables) -> list[Figure]:
    table, words = study.table("relations_path"), TEXT["relations_path"]
    out = [words.figure("number-of-heads", charts.path(table))] if len(table) else []
    if study.has("relations_entered") and len(entered := study.table("relations_entered")):
        out.append(words.figure("order", charts.entered(entered)))
    return out


def _tree(study: Tables) -> list[Figure]:
    table, words = study.table("relations_tree"), TEXT["relations_tree"]
    if table["distance"].isna().any() or table.empty:
        return []
    out = [words.figure("tree", dendrogram(table))]
    if study.has("relations_merged") and len(merged := study.table("relations_merged")):
        out.append(words.figure("merged", charts.merged(merged)))
    return [*out, *_heads(study)]


def _heads(study: Tables) -> list[Figure]:
    """The heads of relations, and what relations have in common."""
    out, words = [], TEXT["relations_tree"]
    if study.has("relation_heads") and len(heads := study.table("relation_heads")):
        share = percent(heads["share_uniform"].iloc[0], 1)
        out.append(words.figure("heads", table=tables.heads_table(heads), share=share))
    if study.has("relations_shared") and len(shared := study.table("relations_shared")):
        pairs = f"{int(shared['pairs'].iloc[0]):,}"
        out.append(words.figure("shared-heads", table=tables.shared_table(shared), pairs=pairs))
    if study.has("relations_likeness") and len(alike := study.table("relations_likeness")):
        out.append(words.figure("similarity", correlations=tables.correlations(alike)))
    return out


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("relations"), tables.PRINTED)]


SECTIONS = {
    "relations": TEXT["relations"].section(
        needs=("relations", "relations_each"),
        figures=_relations,
        claims=relation_claims,
        smallest_effect=F1,
        texts_used=relation_texts,
        warnings=relation_warnings,
        notes=relation_notes,
        terminal=_lines,
    ),
    "relation_texts": TEXT["relation_texts"].section(
        needs=("relation_texts", "relation_triples", "relation_lines"), figures=_texts
    ),
    **{
        name: TEXT[name].section(needs=(name,), figures=figures, **more)
        for name, (figures, more) in {
            "relations_directions": (_directions, {"at_chance": directions_at_chance}),
            "relations_layers": (_layers, {}),
            "relations_path": (_path, {"at_chance": path_at_chance}),
            "relations_tree": (_tree, {}),
        }.items()
    },
}
