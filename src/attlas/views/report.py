"""The report: one HTML file that opens offline. Sections are registered; each draws the tables it needs or is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert
from markupsafe import Markup

from attlas import __version__
from attlas.core.registry import Registry
from attlas.explain.measure import ANY
from attlas.explain.methods import METHODS
from attlas.measures.importance import importance_of
from attlas.studies.folder import REPORT, is_our_report
from attlas.studies.opened import Study
from attlas.support.errors import AttlasError, StudyError
from attlas.support.files import write_bytes, write_errors
from attlas.views import charts, dynamics, heads, relations
from attlas.views.explained import NOT_METHODS, by_position, by_type, study_overlay
from attlas.views.findings import facts, findings, number, position_period, relation_findings, where_it_breaks
from attlas.views.lines import Lines, lines_svg, study_lines
from attlas.views.overlay import Overlay, overlay
from attlas.views.page import inline_json, templates
from attlas.views.picture import text_svg, write_picture
from attlas.views.triples import TripleText, text_picture, texts_of

EXAMPLE_TEXTS = 6
MOST_HEADS = 300  # whose divergences are drawn one by one
LONG_WORDS = 1_000  # a text of more is shown in a window
EXAMPLE_TOKENS = 12_000  # over all tinted texts, so that a report of long texts stays light


@dataclass(frozen=True)
class Figure:
    """A chart or a piece of HTML with the sentence that says what it shows."""

    caption: str
    chart: alt.TopLevelMixin | None = None
    html: str = ""
    overlays: tuple[tuple[str, Overlay], ...] = ()  # tinted texts, each with its title
    lines: tuple[Lines, ...] = ()  # sentences with lines between their words, one shown at a time
    triples: tuple[TripleText, ...] = ()  # texts with the phrases of triples

    @property
    def name(self) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in self.caption.split(":")[0].lower())[:40].strip(
            "-"
        )


@dataclass(frozen=True)
class Section:
    """A part of the report: what it answers, how it was computed and what to be careful about."""

    title: str
    needs: tuple[str, ...]
    about: str
    figures: Callable[[Study], list[Figure]]


SECTIONS: Registry[Section] = Registry("section")


def _surface(study: Study) -> list[Figure]:
    return [
        Figure(
            "Attention to simple targets: each cell a head, hover for its value and what uniform attention would give.",
            charts.head_grid(study.table("surface"), first="previous"),
        ),
        Figure(
            "By layer: a dot a head, the line their mean, dashed what uniform attention would give (Figure 2 of the paper).",
            heads.surface_by_layer(study.table("surface")),
        ),
    ]


def _entropy(study: Study) -> list[Figure]:
    out = [
        Figure(
            "Entropy: low is a head that picks few tokens, high one that spreads over many; the grey tick is uniform attention.",
            charts.head_grid(
                study.table("entropy"),
                ["entropy", *(["cls_entropy"] if study.table("entropy")["cls_entropy"].notna().any() else [])],
            ),
        )
    ]
    out.append(
        Figure(
            "Entropy by layer: a dot a head, the line their mean, dashed uniform attention (Figure 4 of the paper).",
            heads.entropy_by_layer(study.table("entropy")),
        )
    )
    if study.has("entropy_histogram"):
        out.append(
            Figure(
                "Rows by how spread out they are: each layer's rows from all on one token (0) to uniform (1).",
                charts.spread_by_layer(study.table("entropy_histogram")),
            )
        )
    return out


def _positions(study: Study) -> list[Figure]:
    return [
        Figure(
            "How far heads look: each row a head, each column an offset from the token (negative is to the left).",
            charts.offset_profiles(study.table("positions")),
        )
    ]


def _totals(study: Study) -> list[Figure]:
    importance = importance_of(study.table("importance")) if study.has("importance") else None
    shown = tuple(
        (f"{row['text']}{' · ' + row['label'] if row['label'] else ''}", text_overlay(study, row, group, importance))
        for group, row in _example_texts(study)
    )
    caption = "Attention received: darker words receive more (sum over queries and over a word's tokens); choose a layer, and a head where its numbers were kept; hover or click for numbers."
    return [Figure(caption, overlays=shown)]


def _example_texts(study: Study) -> list[tuple[int, dict[str, Any]]]:
    """The first texts, which have numbers for every head, and some from all over the corpus; fewer if they are long."""
    kept = study.sample(EXAMPLE_TEXTS)
    if study.has("totals_heads"):
        first = set(study.table("totals_heads", ["text"])["text"])
        detailed = study.first(len(first))
        known = {row["text"] for _, row in detailed}
        kept = [*detailed, *(item for item in kept if item[1]["text"] not in known)][:EXAMPLE_TEXTS]
    return _within_budget(kept)


def _within_budget(kept: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    """The first of some texts that a report can show without becoming heavy."""
    out: list[tuple[int, dict[str, Any]]] = []
    tokens = 0
    for item in kept:
        tokens += item[1]["tokens"]
        if out and tokens > EXAMPLE_TOKENS:
            break
        out.append(item)
    return out


def text_overlay(study: Study, row: dict[str, Any], group: int, importance: Any = None) -> Overlay:
    """A text of the study tinted by the attention it receives; by head where the study kept that."""
    tokens = study.tokens("totals", group, row["text"])
    layers, count = study.n_layers, study.n_heads
    values = tokens[[f"L{layer}" for layer in range(layers)]].to_numpy().T[:, None]
    detailed = study.table("totals_heads", text=row["text"]) if study.has("totals_heads") else pd.DataFrame()
    if len(detailed):
        names = [f"L{layer}.H{head}" for layer in range(layers) for head in range(count)]
        values = detailed[names].to_numpy().T.reshape(layers, count, -1)
    return overlay(row["content"], tokens, values, tokens["uniform"].to_numpy(), importance if len(detailed) else None)


def _heatmap(study: Study) -> list[Figure]:
    even = study.table("heatmap_uniform")
    importance = study.table("importance") if study.has("importance") else None
    out = [Figure("Over the corpus: each head's attention, queries from top to bottom and keys from left to right; darkest is the head's own largest cell, the last column is even attention.", charts.head_pictures(study.table("heatmap"), even))]  # fmt: skip
    if importance is not None:
        out.append(Figure("Over the corpus, scaled by importance: each head's weights times its importance, on one scale.", charts.head_pictures(study.table("heatmap"), None, importance)))  # fmt: skip
    if study.has("heatmap_texts"):
        texts = study.table("heatmap_texts")
        first = texts["text"].iloc[0]
        out.append(Figure(f"One text ({first}): the same for a single text.", charts.head_pictures(texts[texts["text"] == first], even)))  # fmt: skip
    return out


def _topk(study: Study) -> list[Figure]:
    types = study.table("topk_types")
    out = [Figure("Over the corpus, by type: tokens with the most appearances on a token's list, all layers and heads; grey is what chance would give.", charts.top_bars(types[types["layers"] == "all"], "type"))]  # fmt: skip
    every = types[(types["layers"] == "all") & (types["rank"] < 10)]
    if every["both"].any():
        out.append(Figure("Over the corpus, on both lists: types among the most attended to and the most attending.", charts.on_both_lists(every, "type")))  # fmt: skip
    if study.has("topk"):
        first = study.table("topk", ["text"])["text"].iloc[0]
        rows = study.table("topk", text=first)
        rows = rows[rows["layers"] == "all"]
        for by, what in (("type", "type"), ("position", "position")):
            some = rows[rows["by"] == by]
            out.append(Figure(f"One text by {what} ({first}): appearances over all layers and heads.", charts.top_bars(some, by)))  # fmt: skip
            out.append(Figure(f"Both lists by {what} ({first}): tokens that are among the most attended to and the most attending.", charts.on_both_lists(some, by) if some["both"].any() else None,
                              html="" if some["both"].any() else "<p>No token is on both lists.</p>"))  # fmt: skip
    return out


def _position_bias(study: Study) -> list[Figure]:
    table = study.table("position_bias")
    period = position_period(study)
    out = [Figure("By position: attention received by ordinary tokens over what even attention would give them there, mean of heads and layers.", charts.by_position(table, "position", period))]  # fmt: skip
    if period and table["position"].max() >= period:
        folded = study.table("position_bias_period")
        out.append(Figure("By position modulo the period: tokens that share a position embedding.", charts.by_position(folded, "residue", period)))  # fmt: skip
        out.append(Figure("By head: what tokens at multiples of the period receive over even attention, beside all others.", charts.head_grid(study.table("position_bias_heads"))))  # fmt: skip
    return out


def _importance(study: Study) -> list[Figure]:
    table = study.table("importance")
    return [Figure("Importance of heads: how much the loss depends on each; importance runs from 0 to 1, the others are as measured.", charts.head_grid(table, first="importance"))]  # fmt: skip


def _grid_of(table: str, caption: str, first: str | None = None) -> Callable[[Study], list[Figure]]:
    def figures(study: Study) -> list[Figure]:
        frame = study.table(table).drop(columns=["texts", "h1_texts"], errors="ignore")
        return [Figure(caption, charts.head_grid(frame, first=first if first in frame else None))]

    return figures


def _barcode(study: Study) -> list[Figure]:
    frame = study.table("barcode_heads")
    with_holes, texts = int(frame["h1_texts"].max()), int(frame["texts"].max())
    holes = f"The numbers of holes (h1) are of the {with_holes:,} of {texts:,} texts that are short enough for them."
    caption = f"Bars of the Rips complex: means over texts. {holes if with_holes else 'Holes (h1) were not sought.'}"
    return _grid_of("barcode_heads", caption, "h0_sum")(study)


def _topology(study: Study) -> list[Figure]:
    scores = study.table("topology")
    return [
        Figure("Scores on the test texts: dots with 95 % intervals of a bootstrap over texts.", charts.classifier_scores(scores)),
        Figure("Single heads: a classifier on the features of each head alone, scored on the texts it was fitted on and on the test texts.", charts.head_maps(study.table("topology_heads"))),
        Figure("Chosen on dev: the path of the solver for each C; stopping early regularises.", charts.chosen_on_dev(study.table("topology_grid"))),
    ]  # fmt: skip


def _explanations(study: Study) -> list[Figure]:
    sample = [row for _, row in _within_budget(study.sample(EXAMPLE_TEXTS))]
    told = set(study.table("explanations", ["text"])["text"])
    shown = tuple(study_overlay(study, row) for row in sample if row["text"] in told)
    out = [Figure("Explained texts: words tinted by the first method; choose another, click a word for its score by every method.", overlays=shown)]  # fmt: skip
    if shown:
        first = next(row["text"] for row in sample if row["text"] in told)
        tokens = study.table("attributions", text=first)
        method = next(str(name) for name in tokens.columns if name not in NOT_METHODS)
        named = method.replace("_", " ")
        pair = alt.hconcat(
            charts.ends(by_position(tokens, method), "score").properties(title="by position"),
            charts.ends(by_type(tokens, method), "score").properties(title="by type (sum over the text)"),
        )
        out.append(Figure(f"One text's tokens ({first}): the most for and the most against, {named}.", pair))
    return out


def _attribution_types(study: Study) -> list[Figure]:
    types = study.table("attribution_types")
    signed = [method for method in dict.fromkeys(types["method"]) if METHODS[method].signed]
    method = signed[0] if signed else str(types["method"].iloc[0])
    rows, named = types[types["method"] == method], method.replace("_", " ")
    every = rows[rows["predicted"] == ANY]
    often = every[every["texts"] > 1]
    pair = [charts.ends(every, "mean", title="mean over texts").properties(title="mean over texts, absent is 0")]
    if len(often):
        pair.append(charts.ends(often, "per_occurrence", title="per occurrence").properties(title="per occurrence, in more than one text"))  # fmt: skip
    out = [Figure(f"Types over the corpus: tokens that speak most for and against the explained answers, {named}.", alt.hconcat(*pair))]  # fmt: skip
    answers = [str(answer) for answer in dict.fromkeys(rows["predicted"]) if answer != ANY]
    if len(answers) > 1:
        sides = [charts.ends(rows[rows["predicted"] == answer], "mean", title="mean over texts").properties(title=f"predicted {answer}") for answer in answers[:3]]  # fmt: skip
        out.append(Figure("Types by answer: the same among texts of each predicted class.", alt.hconcat(*sides)))
    if study.has("attribution_difference"):
        table = study.table("attribution_difference")
        table = table[table["method"] == method]
        left, right = table["left"].iloc[0], table["right"].iloc[0]
        out.append(Figure(f"Difference between answers: mean where {left} was predicted less mean where {right} was.", charts.ends(table, "difference", title=f"{left} less {right}")))  # fmt: skip
    return out


def _agreement(study: Study) -> list[Figure]:
    table = study.table("agreement")
    right = str(table["right"].iloc[0]).replace("_", " ")
    p = float(table[table["convention"] == "sound"]["p"].iloc[0])
    first = "keywords" if (table["keep"] == "keywords").any() else str(table["keep"].iloc[0])
    chart = charts.beside_control(table, "left", "metric", "chance", "convention", "keep", first)
    caption = f"Agreement with {right}: mean over texts with its 95 % interval, grey is chance (scores shuffled among kept tokens); rbo has p {number(p)}, as published 1; jaccard is of the top {float(table['top'].iloc[0]):.0%}. Choose which tokens take part."
    return [Figure(caption, chart)]


def _faithfulness(study: Study) -> list[Figure]:
    table = study.table("faithfulness")
    shares = ", ".join(f"{share:.0%}" for share in sorted(set(table["bin"])) if share)
    out = []
    for how in dict.fromkeys(table["how"]):
        rows = table[(table["how"] == how) & (table["bin"] == 0)]
        done = "removed" if how == "remove" else "replaced by the mask token"
        out.append(Figure(f"Tokens {done}: what the answer loses, mean over {shares} of tokens; grey is a random order. Comprehensiveness should be high, sufficiency low.", charts.beside_control(rows, "method", "measured", "random", width=330)))  # fmt: skip
    return out


def _plausibility(study: Study) -> list[Figure]:
    return [Figure("Against human rationales: words of highest score beside the words people marked; grey is a random order.", charts.beside_control(study.table("plausibility"), "method", "metric", "random", width=250))]  # fmt: skip


def _special_gradient(study: Study) -> list[Figure]:
    table = study.table("special_gradient")
    return [
        Figure("Gradient by layer: mean size of d loss / d weight for attention to each sort of token; a dot a head, dashed is the mean over all weights (Figure 3 of the paper).", heads.gradient_by_layer(table)),
        Figure("Gradient by head: hover for the mean over all weights of the head.", charts.head_grid(table, first="sep")),
    ]  # fmt: skip


def _head_distance(study: Study) -> list[Figure]:
    places = study.table("head_map")
    if study.has("head_neighbours"):
        places = heads.with_neighbours(places, study.table("head_neighbours"))
    if study.has("syntax"):
        places = heads.with_relations(places, study.table("syntax"))
    out = [
        Figure(f"Map of heads: near heads attend alike (metric MDS of Jensen-Shannon divergences, stress {number(float(places['stress'].iloc[0]))}; Figure 6 of the paper).", heads.map_of_heads(places))
    ]  # fmt: skip
    if len(places) <= MOST_HEADS:
        out.append(Figure("All divergences: darker pairs attend alike; heads in the order of hierarchical clusters.", heads.distance_matrix(study.table("head_distance"), places)))  # fmt: skip
    return out


RELATION = {"relation": "relation", "layer": "layer", "head": "head", "direction": "who attends", "accuracy": "accuracy", "low": "from", "high": "to", "baseline": "best offset", "offset": "offset", "random_accuracy": "random weights", "difference_low": "above offset, from", "difference_high": "to", "n": "n"}  # fmt: skip


def _finetune(study: Study) -> list[Figure]:
    table = study.table("finetune")
    titles = {"mcc": "MCC", "majority": "majority class"}
    columns = {str(name): titles.get(str(name), str(name)) for name in table.columns}
    return [Figure("Scores on dev.", html=heads.table_html(table, columns))]


def _syntax(study: Study) -> list[Figure]:
    table = study.table("syntax")
    out = [
        Figure("Relations: the best head of each, chosen on other sentences, with its 95 % interval; the grey tick is the best fixed offset, the hollow dot the best head of random weights.", heads.relations(table)),
        Figure("Relations in numbers (Table 1 of the paper).", html=heads.table_html(table, RELATION)),
    ]  # fmt: skip
    same = study.table("syntax_published")
    shown = {name: title for name, title in RELATION.items() if name in same and "difference" not in name}
    out.append(Figure("As published: head and offset chosen on the very sentences they are scored on, which flatters.", html=heads.table_html(same, shown)))  # fmt: skip
    if study.has("example_arcs") and (drawn := study_lines(study)):
        out.append(Figure("Examples: sentences in which a head finds its relation; hover a word to see what it attends to (Figure 5 of the paper).", lines=drawn))  # fmt: skip
    return out


def _tree(study: Study) -> list[Figure]:
    table = study.table("tree")
    shown = {"name": "probe", "uas": "UAS", "low": "from", "high": "to", "tree_uas": "UAS, best tree", "difference": "above the next word", "words": "words"}  # fmt: skip
    return [
        Figure("Probes: the share of words whose head is found, punctuation left out, with 95 % intervals over sentences; the grey tick is the next word as head.", heads.probes(table)),
        Figure("Probes in numbers (Table 3 of the paper).", html=heads.table_html(table.assign(name=table["probe"].map(heads.PROBES)), shown)),
    ]  # fmt: skip


def _coreference(study: Study) -> list[Figure]:
    table = study.table("coreference")
    return [
        Figure("Antecedents: the share of mentions whose antecedent is found, by kind of mention, with 95 % intervals over windows; the grey tick is what rules reach (Table 2 of the paper).", heads.coreference(table)),
        Figure("Every head: the share of mentions that attend most to an antecedent; _from is the other way round.", charts.head_grid(study.table("coreference_heads"), first="all")),
    ]  # fmt: skip


def _relations(study: Study) -> list[Figure]:
    table, each = study.table("relations"), study.table("relations_each")
    first = table.iloc[0]
    out = [
        Figure(f"What attention adds: {relation_findings(study)[0]}. Every reader is the same linear one, fitted on the same triples; dots with 95 % intervals over texts, dashed is attention.", relations.readers(table)),
        Figure(f"Readers in numbers: {int(first['cases']):,} triples of {int(first['texts']):,} texts, each beside a pair that is not related; F1 is the mean over relations, brackets are 95 % intervals.", html=relations.scores_html(table)),
    ]  # fmt: skip
    if study.has("relations_unseen"):
        rows = study.table("relations_unseen")
        about = rows.iloc[0]
        out.append(Figure(f"Phrases that were not learnt from: {int(about['cases']):,} triples of {int(about['relations']):,} relations said by {int(about['phrases']):,} relation phrases that these readers did not learn from; knowing a phrase by heart does not help here.", relations.unseen(rows)))  # fmt: skip
    out.append(Figure("Each relation: by attention, and the F1 of some controls beside it; given a related pair, which relation is it?", html=relations.each_html(each)))  # fmt: skip
    if study.has("relations_extraction"):
        out.append(Figure("From plain text: phrases are found by rules, so that what they miss cannot be found; the published comparison takes strings that are nearly the same, and lets several finds count for one triple.", html=relations.extraction_html(study.table("relations_extraction"))))  # fmt: skip
    return out


def _relation_texts(study: Study) -> list[Figure]:
    drawn = texts_of(study.table("relation_texts"), study.table("relation_triples"), study.table("relation_lines"))
    return [Figure("Texts with triples: open one, choose a triple to see its phrases and the attention between them; the graph has all triples of the text.", triples=drawn)] if drawn else []  # fmt: skip


def _relation_directions(study: Study) -> list[Figure]:
    return [Figure("By direction: what it weighs (mean size of its coefficients), and what a reader of it alone tells; hollow is the same of random weights, the grey tick is all other directions without it.", relations.directions(study.table("relations_directions")))]  # fmt: skip


def _relation_layers(study: Study) -> list[Figure]:
    out = [Figure("By layer: readers of one layer only; a box is the middle half of the relations, its line the median, whiskers reach to 1.5 times the box.", relations.layers(study.table("relations_layers")))]  # fmt: skip
    if study.has("relations_depth"):
        out.append(Figure("How much each layer weighs in the readers of all layers: the mean of the coefficients' sizes.", html=relations.depth_html(study.table("relations_depth"))))  # fmt: skip
    return out


def _relation_path(study: Study) -> list[Figure]:
    out = [Figure("By number of heads: those that a penalty on whole heads lets in first, beside as many drawn at random (grey: all draws).", relations.path(study.table("relations_path")))]  # fmt: skip
    if study.has("relations_entered"):
        out.append(Figure("Heads in the order they enter: the first are darkest; numbers are of the first sixteen.", relations.entered(study.table("relations_entered"))))  # fmt: skip
    return out


def _relation_tree(study: Study) -> list[Figure]:
    out = [Figure("Tree of relations: joined the earlier (further left) the more alike the reader weighs attention for them; cosine distance and average linkage, or Ward's.", relations.dendrogram(study.table("relations_tree")))]  # fmt: skip
    if study.has("relations_merged"):
        out.append(Figure("Merged relations: F1 with fewer classes, as the tree merges them; fewer classes alone are easier, so read the distance from merging at random.", relations.merged(study.table("relations_merged"))))  # fmt: skip
    if study.has("relation_heads") and len(table := study.table("relation_heads")):
        out.append(Figure(f"Heads of relations: those that weigh most for each; if all heads weighed the same each would have {table['share_uniform'].iloc[0]:.1%}.", html=relations.heads_html(table)))  # fmt: skip
    if study.has("relations_shared") and len(table := study.table("relations_shared")):
        out.append(Figure(f"Heads in common: the pairs with most of their ten heads in common, out of {int(table['pairs'].iloc[0]):,} pairs; among so many a small p is to be expected somewhere, so it means little by itself.", html=relations.shared_html(table)))  # fmt: skip
    if study.has("relations_likeness") and len(table := study.table("relations_likeness")):
        out.append(Figure(relations.likeness_line(table)))
    return out


def _dynamics(study: Study) -> list[Figure]:
    rows, summary = study.table("dynamics"), study.table("dynamics_summary")
    positive = study.holding("dynamics").manifest["dynamics"].get("positive")
    seeds = int(summary["seeds"].max())
    bars = f"bars reach from the lowest to the highest of {seeds} seeds" if seeds > 1 else "bars are 95 % intervals over {}"  # fmt: skip
    published = " A hollow diamond is the published number." if "published" in summary and summary["published"].notna().any() else ""  # fmt: skip
    aside = " Models stand a little aside from one another." if len(summary[["attention", "encoder"]].drop_duplicates()) > 1 else ""  # fmt: skip
    out = [Figure(f"Accuracy by scale: {bars.format('test texts')}, dashed is always saying the commonest class.{published}{aside}", dynamics.accuracy(summary, rows))]  # fmt: skip
    if summary["separation"].notna().any():
        frequent = " On the right only neutral tokens that are as frequent as polarity tokens must be." if summary["separation_frequent"].notna().any() else ""  # fmt: skip
        out.append(Figure(f"Separation by scale: how well attention scores alone tell polarity tokens from neutral ones (1 is always, .5 is chance); {bars.format('tokens')}, grey is frequency alone, hollow dots are the same networks before training.{frequent} {where_it_breaks(rows)}.", dynamics.separation(summary, rows)))  # fmt: skip
    if summary["gap"].notna().any():
        called = "" if positive == "positive" else f" (those of {positive})"
        between = f"positive tokens{called} less negative ones" if positive is not None else "the class with the largest mean less the one with the smallest, so never below 0"  # fmt: skip
        over = f" {bars.capitalize()}." if seeds > 1 else ""
        out.append(Figure(f"Gap by scale: how far the mean attention scores of the classes' tokens lie apart, in pooled standard deviations, {between}; near 0 if attention marks both alike.{over}", dynamics.gap(summary, rows, positive)))  # fmt: skip
    out.append(Figure("Classifiers in numbers: accuracy on test, separation and gap beside their controls" + (", means over seeds ± standard deviation." if seeds > 1 else "."), html=dynamics.summary_html(summary, rows)))  # fmt: skip
    return out


def _dynamics_tokens(study: Study) -> list[Figure]:
    table = study.table("dynamics_tokens")
    if table.empty:
        return []
    drawn, first = dynamics.drawn_tokens(table), dynamics.chosen_cells(table)["cell"].iloc[0]
    positive = study.holding("dynamics_tokens").manifest["dynamics"].get("positive")
    called = "" if positive in (None, "positive") else f" Positive tokens are those of {positive}."
    out = [Figure(f"Scores of tokens: {drawn}; polarity says which class a token speaks for, attention how much it is looked at, wherever it stands (Figures 2 to 4 of the paper).{called}", dynamics.tokens(table))]  # fmt: skip
    if (chart := dynamics.weights(table)) is not None:
        out.append(Figure(f"Weights of tokens: mean attention weight on the test texts, {drawn}, on an axis of square roots; a box is the middle half, its line the median, whiskers reach to 1.5 times the box (Figure 5 of the paper).", chart))  # fmt: skip
    out.append(Figure(f"Strongest tokens ({first}): the largest polarity scores of each kind (of neutral tokens in size), and the highest and lowest attention scores.", html=dynamics.tokens_html(table)))  # fmt: skip
    return out


def _dynamics_flow(study: Study) -> list[Figure]:
    table = study.table("dynamics_flow")
    return [Figure("Terms by epoch: what each term adds to the scores of a kind of token in a unit of time, mean over its tokens; one axis a row, so that terms can be compared.", dynamics.flow(table))] if len(table) else []  # fmt: skip


def _dynamics_path(study: Study) -> list[Figure]:
    out = [Figure("Training by scale: V·W and the sizes of V and W, the gap between the classes' tokens, the loss, accuracy on dev and separation after each epoch; epoch 0 is before training, dashed is none (V·W, gap) or chance (separation).", dynamics.path(study.table("dynamics_path")))]  # fmt: skip
    if study.has("dynamics_kinds"):
        out.append(Figure("Scores along training: the mean of each kind of token and a band that holds its middle half.", dynamics.kinds(study.table("dynamics_kinds"))))  # fmt: skip
    return out


SECTIONS.register("syntax", Section(
    "Which relations heads find", ("syntax", "syntax_heads"),
    "For every dependency relation the head whose most attended word is most often the syntactic head (or the other way round), after Clark et al. 2019, section 4.2: attention between words (to a word is the sum over its tokens, from a word the mean), special tokens and the word itself left out. "
    "Head and fixed offset are chosen on other sentences than they are scored on; the paper chose and scored on the same, which flatters. A head that finds a relation need not be what the model uses to know it.", _syntax), "Which relations do heads find?")  # fmt: skip
SECTIONS.register("tree", Section(
    "How much of the tree attention holds", ("tree",),
    "A linear probe over all heads' attention between two words, in both directions, that names each word's syntactic head (Clark et al. 2019, section 5); with words, the weights of heads depend on the two words' static vectors. Controls: the next and the previous word as head, a network that sees words and distances but no attention, "
    "and the same probes on the same model with random weights. The best tree is the maximum spanning tree with one root. What a probe learns from words it did not learn from attention: compare with the control that has words only.", _tree), "How much of dependency trees does attention hold?")  # fmt: skip
SECTIONS.register("coreference", Section(
    "Who is meant", ("coreference", "coreference_heads"),
    "A mention with an antecedent in its window is right if its head word attends most, of the head words of all mentions before it, to that of an antecedent (Clark et al. 2019, section 4.2). The head is chosen on other documents. Baselines: the nearest mention, the nearest with the same head word, and four sieves of rules. "
    "Documents are cut in windows, and mentions are given, so numbers are not those of a coreference system.", _coreference), "Do heads find antecedents?")  # fmt: skip
SECTIONS.register(
    "finetune",
    Section(
        "Fine-tuning",
        ("finetune",),
        "Scores on dev after every epoch, or for every penalty C of the classification head if it alone was fitted. "
        "The best by MCC is kept; it is chosen on the texts that it is scored on, which flatters.",
        _finetune,
    ),
    "How well does the fine-tuned model predict labels?",
)
SECTIONS.register("relations", Section(
    "Which relations attention tells", ("relations", "relations_each"),
    "Two linear readers of the attention between the phrases of a triple (head, tail and the words that say the relation), in every direction and on every head: one says whether the phrases are related, the other how (Chizhikova et al. 2022). Controls are the same readers of anything else that could tell: the same network with random weights, "
    "the relation words themselves, the phrases' word vectors, distances and parts of speech. Attention follows words, so what it tells may be no more than which words stand there: look at what it adds over the best control, which may be less than nothing.", _relations), "Which relations can be read from attention?")  # fmt: skip
SECTIONS.register("relation_texts", Section(
    "Triples in texts", ("relation_texts", "relation_triples", "relation_lines"),
    "Triples as they were found in plain text, beside those of the data. Lines are attention between the phrases (to a phrase is the sum over its tokens, from one the mean), by the head that weighs most for the relation or the mean of all heads. A reader sums over all heads and directions, so that no line by itself is why a triple was found. "
    "A triple is also in the data if relation and phrases are the same, to the character; one that the data does not have so may be true all the same.", _relation_texts), "Which triples are found in texts?")  # fmt: skip
SECTIONS.register("relations_directions", Section(
    "Who attends to whom in a relation", ("relations_directions",),
    "Attention goes from one phrase to another; a reader sees all directions at once. Weights say what this reader uses and not what it needs, since directions hold much of the same: see what each tells alone, and what is lost without it. Random weights beside show what word order and length give.", _relation_directions), "Which direction of attention tells relations?")  # fmt: skip
SECTIONS.register("relations_layers", Section(
    "In which layers relations are", ("relations_layers",),
    "The same reader of one layer at a time. Hidden states have many more numbers than attention, so there is also a reader of as many of their principal axes as attention has features; random weights show what needs no training. Boxes are over relations, not over texts: they are no intervals.", _relation_layers), "In which layers can relations be read?")  # fmt: skip
SECTIONS.register("relations_path", Section(
    "How many heads it takes", ("relations_path",),
    "Heads enter one after another as a penalty on whole heads is weakened (group lasso), and a reader is fitted to the first ones. As many heads drawn at random say whether it matters which: if the lines meet, relations are spread over heads rather than held by some.", _relation_path), "How many heads hold relations?")  # fmt: skip
SECTIONS.register("relations_tree", Section(
    "Which relations are alike", ("relations_tree",),
    "Relations clustered by the coefficients that the reader has for them. Like coefficients mean that the reader uses like attention, which may come from like words or a like place in the sentence rather than a like meaning: the correlation with the words' own vectors says how far, random weights beside.", _relation_tree), "Which relations are alike?")  # fmt: skip
SECTIONS.register("dynamics", Section(
    "Does attention mark the words that matter", ("dynamics", "dynamics_summary"),
    "Small classifiers trained from scratch (Sun & Lu 2020): a token's attention score is its vector times V, over the scale; the softmax of the scores of a text weighs its tokens; the weighted sum times W decides. Polarity tokens are those that occur mostly in texts of one class, neutral ones about as often in each; the paper says that attention scores end up larger for polarity tokens "
    "unless the scale is too small, or so large that the sign of V·W drives the classes apart. Separation puts this in one number: the chance that a polarity token has a larger score than a neutral one. Be careful: the published rule asks no minimum frequency of neutral tokens, so that many of them are rare, and frequency alone separates: a separation means something beyond "
    "what frequency gives, or against neutral tokens as frequent. Kinds come from the same training texts that the scores were learnt from. Scores of classifiers with an LSTM or a frozen model are of each word by itself.", _dynamics), "Does attention come to mark the words that matter?")  # fmt: skip
SECTIONS.register("dynamics_tokens", Section(
    "Which words are marked", ("dynamics_tokens",),
    "Every token of the three kinds (or of each class and neutral, if there are more classes) by its two scores, for the first seed. A score is global: it is the token's, in whatever text. A weight is local: it is large where the other tokens of the text have lower scores, so that a neutral token in a short text of neutral tokens weighs much. With an LSTM or a frozen model a word by itself is one thing and a word in context another; both can be chosen. "
    "Tokens of no kind are not drawn, so that the picture is tidier than the vocabulary is.", _dynamics_tokens), "Which words get high scores and weights?")  # fmt: skip
SECTIONS.register("dynamics_flow", Section(
    "What moves the scores", ("dynamics_flow",),
    "How fast scores would change under gradient flow, split as in the paper. Of the polarity score: A goes with V·W over the scale and is meant to be small, B with the size of W and how one-sided a token is, C with tokens of like vectors. Of the attention score: D goes with V·W and pulls the classes apart, E with the size of V and lifts polarity tokens, F with tokens of like vectors. Terms named layer are what the layer before attention (or inside additive attention) adds by changing itself. "
    "The terms add up to the whole exactly, but to that of plain gradient descent on all texts without dropout: training used an optimizer with steps of its own, batches and dropout, so that terms say which way scores are pushed and not how far they went. Means over tokens hide those that are pushed the other way.", _dynamics_flow), "Which term moves what, and when?")  # fmt: skip
SECTIONS.register("dynamics_path", Section(
    "How training goes", ("dynamics_path",),
    "The first seed's training, epoch by epoch. Scores are divided by the scale, so compare signs and shapes over scales and not sizes. The epoch that is best on dev is kept, so that what comes after it does not matter for the other sections. Separation at epoch 0 is what random numbers give.", _dynamics_path), "When does attention come to mark words?")  # fmt: skip
SECTIONS.register("head_distance", Section(
    "Which heads are alike", ("head_distance", "head_map"),
    "The Jensen-Shannon divergence between the rows of every two heads over the corpus, from 0 (the same) to 0.69 (nothing in common), laid out in two dimensions. A head is named next, previous, [CLS], [SEP] or punctuation if more than half (six tenths for the last three) of its attention goes there, broad if its entropy is above 0.78 of the largest possible; the rest is other. "
    "Two dimensions cannot show all distances: the stress says how much is lost, and the matrix below loses nothing.", _head_distance), "Which heads are alike?")  # fmt: skip
SECTIONS.register("special_gradient", Section(
    "Does looking there change anything?", ("special_gradient",),
    "How much the loss would change if a weight to [SEP], [CLS], punctuation or another token did: the mean size of its derivative (Clark et al. 2019, section 3.2). Much attention with a small gradient is a way of doing nothing. The loss is the model's own; a model without a head has a pseudo-loss, the mean last hidden state along a fixed random direction, "
    "so that it tells how far the output would move and not for better or worse.", _special_gradient), "Would the loss change if attention to special tokens did?")  # fmt: skip
SECTIONS.register("explanations", Section(
    "Why the model says so", ("explanations", "attributions", "texts"),
    "Integrated gradients give each token its share of the way from a baseline (the same text with its words taken away) to the model's answer; shares add up to the difference, and the gap says by how much they miss it. "
    "Gradient methods score what moves the answer; attention methods score what is attended to, which is not the same. Green speaks for the explained answer, red against it; attention knows no against.", _explanations), "Which tokens does an answer rest on?")  # fmt: skip
SECTIONS.register("agreement", Section(
    "Does attention agree?", ("agreement",),
    "How far the size of each method's scores agrees with the first method's, on the tokens that take part: cosine, Kendall's tau-b, rank-biased overlap (p below 1, so that the top counts most) and Jaccard of the top tokens. The grey tick is chance: the same scores shuffled among the same tokens. "
    "As published (Hou 2022), tokens that take no part are set to 0 in both lists and counted all the same: two lists of zeros agree, and random scores reach a tau of .6 where 44 % of tokens are masked. Read the distance from the grey tick, not the dot alone.", _agreement), "Does attention agree with attribution?")  # fmt: skip
SECTIONS.register("faithfulness", Section(
    "Does the answer rest on these tokens?", ("faithfulness",),
    "Comprehensiveness: what the answer loses without the tokens of highest score; sufficiency: what it loses with them alone (DeYoung et al. 2020), means over several shares of tokens. Texts with holes are unlike any the model was trained on, so a random order loses something too: grey.", _faithfulness), "Does the model need the tokens it is said to use?")  # fmt: skip
SECTIONS.register("plausibility", Section(
    "Do people agree?", ("plausibility",),
    "Words against human rationales (DeYoung et al. 2020): token F1 of as many words as people marked, area under the precision-recall curve, and F1 of spans that overlap by half. Being convincing to people is not the same as being true of the model.", _plausibility), "Do people mark the same words?")  # fmt: skip
SECTIONS.register("attribution_types", Section(
    "Words that speak for and against", ("attribution_types",),
    "Scores summed by token in each text, then averaged over the corpus: a text without the token counts as 0, so that rare tokens weigh little; per occurrence they weigh as much as they do where they stand.", _attribution_types), "Which words speak for and against?")  # fmt: skip
SECTIONS.register("topology", Section(
    "What the shape of attention tells", ("topology", "topology_heads", "topology_grid"),
    "A logistic regression on topological features of the attention graphs of every head, after Kushnareva et al. (arXiv 2207.01903): no token, no position, no direction, only how many pieces and cycles a "
    "graph has. Controls: the same features of the model before fine-tuning and of the same network with random weights, and the length of the text alone. If the classifier was fitted on texts the model was "
    "fine-tuned on, its features look better separated there than on fresh texts: fit it on texts held out (attlas finetune --hold-out) to see.", _topology), "Does the shape of attention tell labels apart?")  # fmt: skip
SECTIONS.register("surface", Section(
    "Where heads look", ("surface",),
    "The mean share of a row's attention that goes to the token itself, its neighbours, the first token, [CLS], [SEP], and full stops and commas, after Clark et al. 2019 "
    "(sections 3.1 and 3.2); every text weighs the same. The grey number is the control: uniform attention over the tokens a query can see. A head that gives much to [SEP] may be doing "
    "nothing at all: attention there often changes the output little.", _surface), "Where do heads look?")  # fmt: skip
SECTIONS.register("entropy", Section(
    "Focus and breadth", ("entropy",),
    "The entropy of a row of attention in nats, averaged over rows and texts (Clark et al. 2019, section 3.3), and of the [CLS] row alone. The control is ln of the number of tokens "
    "a row can see. Longer texts allow more entropy: compare heads, not corpora.", _entropy), "Do heads attend to few tokens or many?")  # fmt: skip
SECTIONS.register("positions", Section(
    "Near and far", ("positions",),
    "The mean share of a row's attention at each offset, key minus query. Short texts have few far tokens, so the control on hover is uniform attention over the same texts.", _positions), "How far do heads look?")  # fmt: skip
SECTIONS.register("totals", Section(
    "Which tokens receive attention", ("totals", "texts"),
    "Column sums of attention, averaged over heads; uniform attention would give every token 1 in a model that sees the whole text. The darkest tint is the text's largest value among "
    "ordinary words (one in a hundred may exceed it); special tokens often exceed it. Attention received is not importance for the model's output.", _totals), "Which tokens receive attention?")  # fmt: skip


SECTIONS.register("heatmap", Section(
    "Patterns of heads", ("heatmap", "heatmap_uniform"),
    "Every head's attention on a common grid, so that long texts fit: a row is a part of the text that attends, a column a part that is attended to; to a part is the sum over its tokens, from a part the mean, so that a row sums to one. "
    "Shades are roots of weights, to bring out what is faint. A diagonal is attention nearby, a column attention to one place of all texts; in a model with a window nothing can lie far from the diagonal, as the picture of even attention shows.", _heatmap), "Which patterns do heads make?")  # fmt: skip
SECTIONS.register("topk", Section(
    "Most attended, most attending", ("topk_types",),
    "For every token the ten tokens it attends to most, and the ten that attend to it most, in each head; the lists of all heads are joined, and a token is counted once for each list it is on (Hou 2022). Stop words, punctuation and special tokens are left out. "
    "With many heads the joined lists are long, and chance alone puts most tokens on most lists: the grey mark says how many. A type that occurs often is on more lists than one that does not.", _topk), "Which tokens are on most lists?")  # fmt: skip
SECTIONS.register("position_bias", Section(
    "Does the place matter?", ("position_bias", "position_bias_heads"),
    "Mean attention received by ordinary tokens at each position, over what even attention would give them. A model made from a shorter one repeats its position embeddings: tokens at multiples of the period share theirs with the first "
    "token, which is special and attended to by many heads. If they stand out here, they stand out in lists and overlays for their place and not for their meaning.", _position_bias), "Do tokens receive attention for where they stand?")  # fmt: skip
SECTIONS.register("importance", Section(
    "Which heads matter", ("importance",),
    "How much the loss depends on each head. taylor: the sum over the head's parameters of (gradient x parameter) squared (Molchanov et al. 2019); gate: the size of the derivative of the loss by a gate on the head's output (Michel et al. 2019); gate_signed: its mean, below 0 if the head "
    "lowers the loss; ablation: how much the loss grows without the head, measured. The first two are guesses of the last. A head that matters for the loss need not explain an answer.", _importance), "Which heads matter for the loss?")  # fmt: skip
SECTIONS.register("betti", Section(
    "Pieces and cycles", ("betti_heads",),
    "Two tokens are joined in a head's graph if either attends to the other with at least the threshold's weight; b0@0.1 is the mean number of connected pieces at threshold 0.1, b1@0.1 that of independent cycles, loops "
    "included (arXiv 2207.01903). Longer texts have more of both: the control is uniform attention over the same texts.", _grid_of("betti_heads", "Betti numbers: each cell a head's mean over texts at a threshold.", "b0@0.1")), "What shape have attention graphs?")  # fmt: skip
SECTIONS.register("digraph", Section(
    "Graphs with direction", ("digraph_heads",),
    "The same graphs with their direction: strongly connected components, edges, mean degree, simple directed cycles (counted up to a cap, so that a large mean says at least so many), and pairs of tokens that attend to each other.",
    _grid_of("digraph_heads", "Directed invariants: each cell a head's mean over texts at a threshold.", "edges@0.1")), "What shape have directed attention graphs?")  # fmt: skip
SECTIONS.register("barcode", Section(
    "Bars", ("barcode_heads",),
    "Tokens as points at distance 1 - weight: h0 bars end where pieces join, h1 bars are holes that open and are filled by triangles (so not the cycles of Betti numbers). Sums, entropies and counts as in Kushnareva et al. 2021.", _barcode), "At which distances do graphs join and close?")  # fmt: skip
SECTIONS.register("templates", Section(
    "Distance from simple patterns", ("templates_heads",),
    "The Frobenius distance of each head's weights from a pattern, 0 if equal and 1 if they share nothing: itself, the first, previous or next token, and rows spread evenly over commas, full stops or separators. Low is near.",
    _grid_of("templates_heads", "Distance from patterns: each cell a head's mean over texts; low is near.", "previous")), "How near are heads to simple patterns?")  # fmt: skip


def sections(study: Study) -> list[tuple[str, Section]]:
    """The sections this study has tables for."""
    return [(name, SECTIONS[name]) for name in SECTIONS if all(study.has(table) for table in SECTIONS[name].needs)]


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, without a network; its own closing tags made harmless."""
    return str(
        vl_convert.javascript_bundle(
            "window.vegaEmbed = vegaEmbed;", vl_version=".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
        )
    ).replace("</script", "<\\/script")


def render(study: Study) -> str:
    """The report as HTML."""
    specs: list[dict[str, object]] = []
    overlays: list[dict[str, Any]] = []
    lines: list[list[dict[str, Any]]] = []
    triples: list[list[list[dict[str, Any]]]] = []
    parts = []
    for name, section in sections(study):
        figures = []
        for figure in section.figures(study):
            chart = None
            if figure.chart is not None:
                chart = len(specs)
                specs.append(figure.chart.to_dict())
            tinted = []
            for title, one in figure.overlays:
                tinted.append(
                    {
                        "title": title,
                        "html": Markup(one.html),
                        "number": len(overlays),
                        "long": len(one.words) > LONG_WORDS,
                    }
                )
                overlays.append(one.data)
            drawn = len(lines) if figure.lines else None
            lines += [[one.data for one in figure.lines]] if figure.lines else []
            spelt = len(triples) if figure.triples else None
            triples += [[one.data for one in figure.triples]] if figure.triples else []
            figures.append(
                {
                    "caption": figure.caption,
                    "chart": chart,
                    "html": Markup(figure.html + (relations.triples_html(figure.triples) if figure.triples else "")),
                    "triples": spelt,
                    "overlays": tinted,
                    "lines": drawn,
                }
            )
        parts.append({"name": name, "title": section.title, "about": section.about, "figures": figures})
    return templates().get_template("report.html").render(
        title=f"{study.manifest['model']['name']} on {study.manifest['corpus']['name']}",
        facts=facts(study), findings=findings(study), parts=parts, specs=inline_json(specs), overlays=inline_json(overlays), lines=inline_json(lines), triples=inline_json(triples), themes=inline_json([charts.theme(), charts.theme(dark=True)]), bundle=Markup(_bundle()), version=__version__, manifest=study.manifest,
    )  # fmt: skip


def write_report(study: Study, path: Path) -> Path:
    """Write the report to a file, whole or not at all."""
    if not study.tables:
        raise StudyError(f"{study.folder} holds no tables: it is the result of {study.manifest.get('kind')}")
    if path.is_dir():
        path = path / REPORT
    if path.exists() and not is_our_report(path):
        raise StudyError(f"{path} already exists and is not an Attlas report; choose another name, or delete it")
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, render(study).encode("utf-8", "replace"))
    return path


def write_charts(study: Study, folder: Path, kind: str = "svg") -> list[Path]:
    """Write every chart and every tinted text of the report as a file of its own."""
    if kind not in charts.FORMATS:
        raise AttlasError(f"a chart is written as {', '.join(charts.FORMATS)}, not as {kind!r}")
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    out = []
    for name, section in sections(study):
        for figure in section.figures(study):
            path = folder / f"{name}-{figure.name}"
            if figure.chart is not None:
                out.append(charts.export(figure.chart, path.with_name(f"{path.name}.{kind}")))
            for place, (title, one) in enumerate(figure.overlays):
                out += write_picture(text_svg(one, title), path.with_name(f"{path.name}-{place}"), kind)
            for place, drawn in enumerate(figure.lines):
                out += write_picture(lines_svg(drawn), path.with_name(f"{path.name}-{place}"), kind)
            for place, text in enumerate(figure.triples):
                out += write_picture(text_picture(text), path.with_name(f"{path.name}-{place}"), kind)
    return out


def study_html(study: Study) -> str:
    """A study in a notebook: what was read and what stands out."""
    if not study.tables:
        return f"<code>{escape(repr(study))}</code>"
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in facts(study)
    )
    return f"<table>{rows}</table><ul>{''.join(f'<li>{escape(line)}</li>' for line in findings(study))}</ul>"
