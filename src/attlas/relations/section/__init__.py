"""What relations read from attention show: next to every control, by direction, layer and head."""

from __future__ import annotations

from attlas.relations.section import charts, tables
from attlas.relations.section.dendrogram import dendrogram
from attlas.relations.section.findings import first_finding, relation_findings
from attlas.relations.section.texts import texts_of
from attlas.relations.section.triples import TripleTexts
from attlas.views.section import Figure, Section, Tables, prose
from attlas.views.tables import TextTable, text_table

ABOUT = prose(__file__)
PRINTED = {
    "reader": "reader",
    "binary_accuracy": "related?",
    "f1": "F1",
    "f1_low": "from",
    "f1_high": "to",
    "f1_ahead": "attention ahead by",
    "cases": "triples",
}


def _relations(study: Tables) -> list[Figure]:
    table, each = study.table("relations"), study.table("relations_each")
    if table.empty:
        return []
    first = table.iloc[0]
    added = (
        f"What attention adds: {first_finding(study)}. Every reader is the same linear one, fitted "
        "on the same triples; dots with 95 % intervals over texts, dashed is attention."
    )
    numbers = (
        f"Readers in numbers: {int(first['cases']):,} triples of {int(first['texts']):,} texts, "
        "each beside a pair that is not related; F1 is the mean over relations, brackets are 95 % "
        "intervals."
    )
    out = [
        Figure(added, charts.readers(table)),
        Figure(numbers, html=tables.scores_html(table)),
    ]
    if study.has("relations_unseen"):
        out += _unseen(study)
    one = (
        "Each relation: by attention, and the F1 of some controls beside it; given a related pair, "
        "which relation is it?"
    )
    out.append(Figure(one, html=tables.each_html(each)))
    if study.has("relations_extraction"):
        plain = (
            "From plain text: phrases are found by rules, so that what they miss cannot be found; "
            "the published comparison takes strings that are nearly the same, and lets several "
            "finds count for one triple."
        )
        rows = study.table("relations_extraction")
        out.append(Figure(plain, html=tables.extraction_html(rows)))
    return out


def _unseen(study: Tables) -> list[Figure]:
    rows = study.table("relations_unseen")
    if rows.empty:
        return []
    about = rows.iloc[0]
    caption = (
        f"Phrases that were not learnt from: {int(about['cases']):,} triples of "
        f"{int(about['relations']):,} relations said by {int(about['phrases']):,} relation phrases "
        "that these readers did not learn from; knowing a phrase by heart does not help here."
    )
    return [Figure(caption, charts.unseen(rows))]


def _texts(study: Tables) -> list[Figure]:
    names = ("relation_texts", "relation_triples", "relation_lines")
    drawn = texts_of(*(study.table(name) for name in names))
    caption = (
        "Texts with triples: open one, choose a triple to see its phrases and the attention "
        "between them; the graph has all triples of the text."
    )
    return [Figure(caption, parts=(TripleTexts(drawn),))] if drawn else []


def _directions(study: Tables) -> list[Figure]:
    table = study.table("relations_directions")
    caption = (
        "By direction: what it weighs (mean size of its coefficients), and what a reader of it "
        "alone tells; hollow is the same of random weights, the grey tick is all other directions "
        "without it."
    )
    return [Figure(caption, charts.directions(table))] if len(table) else []


def _layers(study: Tables) -> list[Figure]:
    table = study.table("relations_layers")
    caption = (
        "By layer: readers of one layer only; a box is the middle half of the relations, its line "
        "the median, whiskers reach to 1.5 times the box."
    )
    out = [Figure(caption, charts.layers(table))] if len(table) else []
    if study.has("relations_depth"):
        depth = (
            "How much each layer weighs in the readers of all layers: the mean of the "
            "coefficients' sizes."
        )
        out.append(Figure(depth, html=tables.depth_html(study.table("relations_depth"))))
    return out


def _path(study: Tables) -> list[Figure]:
    table = study.table("relations_path")
    caption = (
        "By number of heads: those that a penalty on whole heads lets in first, beside as many "
        "drawn at random (grey: all draws)."
    )
    out = [Figure(caption, charts.path(table))] if len(table) else []
    if study.has("relations_entered") and len(entered := study.table("relations_entered")):
        order = (
            "Heads in the order they enter: the first are darkest; numbers are of the first "
            "sixteen."
        )
        out.append(Figure(order, charts.entered(entered)))
    return out


def _tree(study: Tables) -> list[Figure]:
    table = study.table("relations_tree")
    if table["distance"].isna().any() or table.empty:
        return []
    joined = (
        "Tree of relations: joined the earlier (further left) the more alike the reader weighs "
        "attention for them; cosine distance and average linkage, or Ward's."
    )
    out = [Figure(joined, dendrogram(table))]
    if study.has("relations_merged") and len(merged := study.table("relations_merged")):
        caption = (
            "Merged relations: F1 with fewer classes, as the tree merges them; fewer classes alone "
            "are easier, so read the distance from merging at random."
        )
        out.append(Figure(caption, charts.merged(merged)))
    return [*out, *_heads(study)]


def _heads(study: Tables) -> list[Figure]:
    """The heads of relations, and what relations have in common."""
    out = []
    if study.has("relation_heads") and len(heads := study.table("relation_heads")):
        caption = (
            "Heads of relations: those that weigh most for each; if all heads weighed the same "
            f"each would have {heads['share_uniform'].iloc[0]:.1%}."
        )
        out.append(Figure(caption, html=tables.heads_html(heads)))
    if study.has("relations_shared") and len(shared := study.table("relations_shared")):
        caption = (
            "Heads in common: the pairs with most of their ten heads in common, out of "
            f"{int(shared['pairs'].iloc[0]):,} pairs; among so many a small p is to be expected "
            "somewhere, so it means little by itself."
        )
        out.append(Figure(caption, html=tables.shared_html(shared)))
    if study.has("relations_likeness") and len(alike := study.table("relations_likeness")):
        out.append(Figure(tables.likeness_line(alike)))
    return out


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("relations"), PRINTED, whole=("cases",))]


SECTIONS = {
    "relations": Section(
        title="Which relations attention tells",
        question="Which relations can be read from attention?",
        needs=("relations", "relations_each"),
        about=ABOUT["relations"],
        figures=_relations,
        findings=relation_findings,
        terminal=_lines,
    ),
    "relation_texts": Section(
        title="Triples in texts",
        question="Which triples are found in texts?",
        needs=("relation_texts", "relation_triples", "relation_lines"),
        about=ABOUT["relation_texts"],
        figures=_texts,
    ),
    "relations_directions": Section(
        title="Who attends to whom in a relation",
        question="Which direction of attention tells relations?",
        needs=("relations_directions",),
        about=ABOUT["relations_directions"],
        figures=_directions,
    ),
    "relations_layers": Section(
        title="In which layers relations are",
        question="In which layers can relations be read?",
        needs=("relations_layers",),
        about=ABOUT["relations_layers"],
        figures=_layers,
    ),
    "relations_path": Section(
        title="How many heads it takes",
        question="How many heads hold relations?",
        needs=("relations_path",),
        about=ABOUT["relations_path"],
        figures=_path,
    ),
    "relations_tree": Section(
        title="Which relations are alike",
        question="Which relations are alike?",
        needs=("relations_tree",),
        about=ABOUT["relations_tree"],
        figures=_tree,
    ),
}
