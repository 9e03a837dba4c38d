"""Texts for pictures: sentences with the phrases of their triples, and the attention between these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.relations.candidates import noted
from attlas.relations.extractor import RelationExtractor
from attlas.relations.matching import Found, exact
from attlas.relations.vectors import read_units

SHOWN = 12
LONGEST = 280  # characters of a text that is drawn


def pictures(
    extractor: RelationExtractor,
    texts: Sequence[Text],
    found: Sequence[Sequence[Found]],
    names: Mapping[str, str],
    shown: int = SHOWN,
    longest: int = LONGEST,
) -> dict[str, pd.DataFrame]:
    """Some short texts with what was found in them: `relation_texts` (text, string), `relation_triples` (spans, relation, probability, whether it is one
    of the data's; also those of the data that were missed) and `relation_lines` (attention between phrases, the mean of all heads and the head that
    weighs most for the relation)."""
    chosen = [place for place, text in enumerate(texts) if found[place] and len(text.text) <= longest][:shown]
    triples: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    spans = {place: sorted({span for one in found[place] for span in _spans(one)}) for place in chosen}
    units = {one.place: one for one in read_units(extractor.model_, [(place, texts[place]) for place in chosen], spans)}
    heads = extractor.shape_[1]
    strongest = _strongest(extractor)
    for place in chosen:
        text, gold = texts[place], noted(texts[place]).triples
        if place not in units:
            continue
        mine = {span: unit for unit, span in enumerate(units[place].spans)}
        for number, one in enumerate(found[place]):
            right = any(exact(text.text, one, triple) and triple.relation == one.relation for triple in gold)
            triples.append({"text": text.id, "triple": number, **_columns(one), "relation": one.relation, "name": names.get(one.relation, ""), "probability": one.probability, "status": "right" if right else "found"})  # fmt: skip
            head = strongest[one.relation]
            for left, right_ in permutations(_spans(one), 2):
                weights = units[place].weights[mine[left], mine[right_]]
                lines.append({"text": text.id, "triple": number, "from_start": left[0], "from_stop": left[1], "to_start": right_[0], "to_stop": right_[1], "mean": float(weights.mean()), "weight": float(weights[head]), "strongest_layer": head // heads, "strongest_head": head % heads})  # fmt: skip
        hits = [triple for triple in gold if not any(exact(text.text, one, triple) and triple.relation == one.relation for one in found[place])]  # fmt: skip
        triples += [
            {"text": text.id, "triple": -1 - number, **_columns(triple), "relation": triple.relation, "name": names.get(triple.relation, ""), "probability": float("nan"), "status": "missed"}
            for number, triple in enumerate(hits)
        ]  # fmt: skip
    words = ["head_start", "head_stop", "tail_start", "tail_stop", "words_start", "words_stop"]
    return {
        "relation_texts": pd.DataFrame([{"text": texts[place].id, "string": texts[place].text} for place in chosen], columns=["text", "string"]),
        "relation_triples": pd.DataFrame(triples, columns=["text", "triple", *words, "relation", "name", "probability", "status"]),
        "relation_lines": pd.DataFrame(lines, columns=["text", "triple", "from_start", "from_stop", "to_start", "to_stop", "mean", "weight", "strongest_layer", "strongest_head"]),
    }  # fmt: skip


def _spans(one: Any) -> list[tuple[int, int]]:
    return [span for span in (one.head, one.tail, one.words) if span is not None]


def _columns(one: Any) -> dict[str, int]:
    words = one.words or (-1, -1)
    return {"head_start": one.head[0], "head_stop": one.head[1], "tail_start": one.tail[0], "tail_stop": one.tail[1], "words_start": words[0], "words_stop": words[1]}  # fmt: skip


def _strongest(extractor: RelationExtractor) -> dict[str, int]:
    """The head, over all layers, that weighs most for each relation."""
    reader = extractor.readers_.named
    weights = reader.by_map(extractor.shape_[0] * extractor.shape_[1])
    return {name: int(weights[number].argmax()) for number, name in enumerate(reader.classes)}
