"""Texts for pictures: sentences with the phrases of their triples and attention between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import pandas as pd

from attlas.core.annotations import Triple
from attlas.core.text import Text
from attlas.language.words import Span
from attlas.models import Model
from attlas.relations.candidates import relations_in
from attlas.relations.matching import ExtractedTriple, exact
from attlas.relations.vectors import Units, read_units
from attlas.stats.linear import LinearReader
from attlas.support.machine import one_thread

SHOWN = 12
LONGEST = 280  # characters of a text
SPANS = ["head_start", "head_stop", "tail_start", "tail_stop", "words_start", "words_stop"]
TRIPLES = ["text", "triple", *SPANS, "relation", "name", "probability", "status"]
PHRASES = ["from_start", "from_stop", "to_start", "to_stop"]
LINES = ["text", "triple", *PHRASES, "mean", "weight", "strongest_layer", "strongest_head"]


@one_thread()
def pictures(
    model: Model,
    reader: LinearReader,
    texts: Sequence[Text],
    extracted: Sequence[Sequence[ExtractedTriple]],
    names: Mapping[str, str],
    shown: int = SHOWN,
    longest: int = LONGEST,
) -> dict[str, pd.DataFrame]:
    """Some short texts with their extracted triples, and the attention between the phrases.

    `relation_texts` has text and string; `relation_triples` spans, relation, probability and
    whether the triple is one of the data's, also those of the data that were missed;
    `relation_lines` attention between phrases, the mean of all heads and the head with the highest
    weight for the relation. `reader` is the one that names relations.
    """
    short = [n for n, text in enumerate(texts) if extracted[n] and len(text.text) <= longest]
    chosen = short[:shown]
    spans = {n: sorted({span for one in extracted[n] for span in _spans(one)}) for n in chosen}
    units = {one.index: one for one in read_units(model, [(n, texts[n]) for n in chosen], spans)}
    strongest = reader.by_map(model.n_layers * model.n_heads).argmax(1).tolist()
    heads = dict(zip(reader.classes, strongest, strict=True))  # of all layers, by relation
    triples: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    for n in (n for n in chosen if n in units):
        triples += _triple_rows(texts[n], extracted[n], names)
        lines += _line_rows(texts[n].id, extracted[n], units[n], heads, model.n_heads)
    strings = [{"text": texts[n].id, "string": texts[n].text} for n in chosen]
    return {
        "relation_texts": pd.DataFrame(strings, columns=["text", "string"]),
        "relation_triples": pd.DataFrame(triples, columns=TRIPLES),
        "relation_lines": pd.DataFrame(lines, columns=LINES),
    }


def _triple_rows(
    text: Text, extracted: Sequence[ExtractedTriple], names: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The extracted triples, right or not, and those of the data that were missed."""
    gold = relations_in(text).triples

    def row(
        number: int, one: ExtractedTriple | Triple, probability: float, status: str
    ) -> dict[str, Any]:
        spans = dict(zip(SPANS, (*one.head, *one.tail, *(one.words or (-1, -1))), strict=True))
        name = names.get(one.relation, "")
        rest = {"relation": one.relation, "name": name, "probability": probability}
        return {"text": text.id, "triple": number, **spans, **rest, "status": status}

    def same(one: ExtractedTriple, triple: Triple) -> bool:
        return exact(text.text, one, triple) and triple.relation == one.relation

    for number, one in enumerate(extracted):
        right = any(same(one, triple) for triple in gold)
        yield row(number, one, one.probability, "right" if right else "found")
    missed = [triple for triple in gold if not any(same(one, triple) for one in extracted)]
    for number, triple in enumerate(missed):
        yield row(-1 - number, triple, float("nan"), "missed")


def _line_rows(
    text: str,
    extracted: Sequence[ExtractedTriple],
    units: Units,
    heads: Mapping[str, int],
    n_heads: int,
) -> Iterator[dict[str, Any]]:
    """Attention from each phrase of a triple to each other one."""
    unit = {span: number for number, span in enumerate(units.spans)}
    for number, one in enumerate(extracted):
        head = heads[one.relation]
        for left, right in permutations(_spans(one), 2):
            weights = units.weights[unit[left], unit[right]]
            yield {
                "text": text,
                "triple": number,
                **dict(zip(PHRASES, (*left, *right), strict=True)),
                "mean": float(weights.mean()),
                "weight": float(weights[head]),
                "strongest_layer": head // n_heads,
                "strongest_head": head % n_heads,
            }


def _spans(one: ExtractedTriple) -> list[Span]:
    return [span for span in (one.head, one.tail, one.words) if span is not None]
