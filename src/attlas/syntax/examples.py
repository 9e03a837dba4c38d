"""Example sentences of heads, with the attention between words (Clark et al. 2019, Figure 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.annotations import ROOT, dependencies_of
from attlas.core.attention import Attention
from attlas.core.text import Text
from attlas.models import Model
from attlas.syntax.arcs import ALL, DIRECTIONS

WORDS = (6, 16)  # of an example
HEADS, SENTENCES = 8, 3
FAINT = 0.01  # weights below are not shown
ABOUT = ("layer", "head", "relation", "direction")
COLUMNS = [
    *("layer", "head", "example", "relation", "direction"),
    *("text", "query", "key", "weight", "gold"),
]


def best_examples(table: pd.DataFrame, count: int = HEADS) -> pd.DataFrame:
    """The relations whose head is furthest, and significantly, above the best offset."""
    above = table[(table["relation"] != ALL) & (table["difference_low"] > 0)]
    return above.sort_values("difference", ascending=False, kind="stable").head(count)


def examples(
    model: Model, texts: Sequence[Text], chosen: pd.DataFrame, sentences: int = SENTENCES
) -> dict[str, pd.DataFrame]:
    """For each chosen relation, the sentences in which its head gives most weight to it.

    `chosen` are rows of `syntax`. `example_arcs` has the weight of a head between two words
    (special tokens among them), and `gold` where they are a dependent and its head in the relation,
    in the direction of attention.
    """
    short = [text for text in texts if WORDS[0] <= len(text.words or ()) <= WORDS[1]]
    words: list[dict[str, object]] = []
    arcs: list[dict[str, object]] = []
    number = 0
    for row in chosen.to_dict("records"):
        holding = [text for text in short if row["relation"] in _relations(text)][: 20 * sentences]
        for example in _best(model, holding, row)[:sentences]:
            about = {name: row[name] for name in ABOUT} | {"example": number}
            words += [
                {"example": number, "word": word, "string": string}
                for word, string in enumerate(example.strings)
            ]
            arcs += [about | arc for arc in _arcs(example)]
            number += 1
    return {
        "example_words": pd.DataFrame(words, columns=["example", "word", "string"]),
        "example_arcs": pd.DataFrame(arcs, columns=COLUMNS),
    }


@dataclass(frozen=True, eq=False)
class Example:
    """A sentence with the weights of a head between its words, special tokens among them."""

    text: Text
    weights: npt.NDArray[np.float32]  # query key
    strings: tuple[str, ...]  # word
    gold: set[tuple[int, int]]  # of the relation, as attention runs

    @property
    def mean_weight(self) -> float:
        """The mean weight of the relation's arcs."""
        return float(np.mean([self.weights[pair] for pair in self.gold]))


def _arcs(example: Example) -> list[dict[str, object]]:
    """The weights that are not faint, and those of the relation."""
    shown = example.weights >= FAINT
    for pair in example.gold:
        shown[pair] = True
    return [
        {
            "text": example.text.id,
            "query": query,
            "key": key,
            "weight": float(example.weights[query, key]),
            "gold": (query, key) in example.gold,
        }
        for query, key in np.argwhere(shown).tolist()
    ]


def _relations(text: Text) -> tuple[str, ...]:
    tree = dependencies_of(text.annotations)
    return () if tree is None else tree.relations


def _best(model: Model, texts: Iterable[Text], row: dict[str, Any]) -> list[Example]:
    """The sentences in which the head gives most weight to the relation's arcs, best first."""
    examples: list[Example] = []
    for batch in model.batches(model.encode(list(enumerate(texts)))):
        layers: list[Attention] = []
        model.forward(batch, layers.append)
        for number, square in enumerate(layers[row["layer"]].to_words()):
            words = batch.words[number]
            unit = {source: word for word, source in enumerate(words.source) if source >= 0}
            tree = dependencies_of(batch.texts[number].annotations)
            if tree is None or words.missing:
                continue
            arcs = enumerate(zip(tree.heads, tree.relations, strict=True))
            pairs = [
                (unit[word], unit[head])
                for word, (head, relation) in arcs
                if relation == row["relation"] and head != ROOT
            ]
            if pairs:
                gold = {pair if row["direction"] == DIRECTIONS[0] else pair[::-1] for pair in pairs}
                weights = square.dense().weights[0, row["head"]].float().cpu().numpy()
                examples.append(Example(batch.texts[number], weights, words.strings, gold))
    return sorted(examples, key=lambda one: (-one.mean_weight, one.text.id))
