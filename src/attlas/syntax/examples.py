"""Example sentences of heads: the attention between their words, for a picture with lines (Clark et al. 2019, Figure 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from attlas.core.annotations import ROOT, dependencies_of
from attlas.core.attention import Attention
from attlas.core.text import Text
from attlas.models import Model
from attlas.syntax.arcs import ALL, DIRECTIONS

WORDS = (6, 16)  # of an example: enough to be one, few enough to be drawn
HEADS, SENTENCES = 8, 3
FAINT = 0.01  # weights below are not kept


def telling(table: pd.DataFrame, count: int = HEADS) -> pd.DataFrame:
    """The relations whose head is furthest above the best offset, of those whose interval excludes it."""
    above = table[(table["relation"] != ALL) & (table["difference_low"] > 0)]
    return above.sort_values("difference", ascending=False, kind="stable").head(count)


def examples(
    model: Model, texts: Sequence[Text], chosen: pd.DataFrame, sentences: int = SENTENCES
) -> dict[str, pd.DataFrame]:
    """For each chosen relation (a row of `syntax`) the sentences in which its head gives most weight to the relation: tables `example_words` and `example_arcs`.

    `example_arcs` has the weight of a head between two words (special tokens among them), and `gold` where they are a dependent and its head in the relation, as attention runs.
    """
    short = [text for text in texts if WORDS[0] <= len(text.words or ()) <= WORDS[1]]
    words: list[dict[str, object]] = []
    arcs: list[dict[str, object]] = []
    number = 0
    for row in chosen.to_dict("records"):
        holding = [text for text in short if row["relation"] in _relations(text)][: 20 * sentences]
        for text, weights, strings, gold in _best(model, holding, row)[:sentences]:
            about = {
                "layer": row["layer"],
                "head": row["head"],
                "example": number,
                "relation": row["relation"],
                "direction": row["direction"],
                "text": text.id,
            }
            words += [
                {"example": number, "word": word, "string": string}
                for word, string in enumerate(strings)
            ]
            shown = weights >= FAINT
            for pair in gold:
                shown[pair] = True
            query, key = np.nonzero(shown)
            arcs += [
                {
                    **about,
                    "query": int(q),
                    "key": int(k),
                    "weight": float(weights[q, k]),
                    "gold": (int(q), int(k)) in gold,
                }
                for q, k in zip(query, key, strict=True)
            ]
            number += 1
    columns = [
        "layer",
        "head",
        "example",
        "relation",
        "direction",
        "text",
        "query",
        "key",
        "weight",
        "gold",
    ]
    return {
        "example_words": pd.DataFrame(words, columns=["example", "word", "string"]),
        "example_arcs": pd.DataFrame(arcs, columns=columns),
    }


def _relations(text: Text) -> tuple[str, ...]:
    tree = dependencies_of(text.annotations)
    return () if tree is None else tree.relations


Example = tuple[Text, np.ndarray, tuple[str, ...], set[tuple[int, int]]]


def _best(model: Model, texts: Iterable[Text], row: dict[str, object]) -> list[Example]:
    """The sentences in which the head gives most weight to the relation's arcs, with the weights between their words [query, key]."""
    found: list[tuple[float, Example]] = []
    for batch in model.batches(model.encode(list(enumerate(texts)))):
        layers: list[Attention] = []
        model.forward(batch, layers.append)
        for number, square in enumerate(layers[int(str(row["layer"]))].to_words()):
            words = batch.words[number]
            place = {source: word for word, source in enumerate(words.source) if source >= 0}
            tree = dependencies_of(batch.texts[number].annotations)
            if tree is None or words.missing:
                continue
            pairs = [
                (place[word], place[head])
                for word, (head, relation) in enumerate(
                    zip(tree.heads, tree.relations, strict=True)
                )
                if relation == row["relation"] and head != ROOT
            ]
            if not pairs:
                continue
            gold = {pair if row["direction"] == DIRECTIONS[0] else pair[::-1] for pair in pairs}
            weights = square.dense().weights[0, int(str(row["head"]))].float().cpu().numpy()
            told = float(np.mean([weights[pair] for pair in gold]))
            found.append((told, (batch.texts[number], weights, words.strings, gold)))
    return [example for _, example in sorted(found, key=lambda one: (-one[0], one[1][0].id))]
