"""HateXplain: posts with labels and rationales of several annotators (Mathew et al. 2021)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from reprlib import repr as short
from typing import Any

import numpy as np

from attlas.core.annotations import RATIONALE
from attlas.corpora.layouts.base import Fields, Layout, Spans, has, items_of, marked_spans
from attlas.support.errors import CorpusError


def hatexplain(row: Fields) -> tuple[tuple[str, ...], Spans]:
    """Words and rationale of a row with `post_tokens` and `rationales`, 0 and 1 per annotator.

    A word is in the rationale if at least half of the annotators who gave one marked it: one of
    two, two of three. (Mathew et al. use the words that anyone marked.) Posts without rationales,
    the normal ones, have the rationale ().

    >>> votes = [[0, 1, 1], [0, 0, 1], [0, 0, 1]]
    >>> hatexplain({"post_tokens": ["you", "utter", "walnut"], "rationales": votes})
    (('you', 'utter', 'walnut'), ((10, 16),))
    """
    words = tuple(items_of(row.get("post_tokens"), "post_tokens"))
    for number, word in enumerate(words):
        if not isinstance(word, str) or not word.strip():
            raise CorpusError(
                f"item {number} of its 'post_tokens' is {short(word)}; each must be a word"
            )
    rationales = items_of(row.get("rationales"), "rationales")
    votes = [items_of(marks, "rationales") for marks in rationales]
    for number, marks in enumerate(votes):
        item = f"item {number} of its 'rationales'"
        if len(marks) != len(words):
            raise CorpusError(
                f"{item} has {len(marks)} marks, but the post has {len(words)} words; "
                "give one mark per word"
            )
        if not all(isinstance(mark, int | np.integer) and mark in (0, 1) for mark in marks):
            raise CorpusError(f"{item} is {short(marks)}; each mark must be 0 or 1")
    marked = [2 * sum(marks) >= len(votes) for marks in zip(*votes, strict=True)]
    return words, marked_spans(words, marked or [False] * len(words))


def majority(row: Fields) -> Any:
    """The label of a post: its `label`, or that of more than half of its `annotators`, or None.

    >>> majority({"annotators": [{"label": "kind"}, {"label": "rude"}, {"label": "kind"}]})
    'kind'
    """
    if row.get("label") is not None or row.get("annotators") is None:
        return row.get("label")
    annotators = items_of(row["annotators"], "annotators")
    if not all(isinstance(one, Mapping) and one.get("label") is not None for one in annotators):
        raise CorpusError(
            "one of its 'annotators' has no 'label'; give each a label, or give the row one"
        )
    votes = Counter(str(one["label"]) for one in annotators)
    label, count = votes.most_common(1)[0] if votes else (None, 0)
    if 2 * count <= len(annotators):
        labels = ", ".join(sorted(votes)) or "none"
        raise CorpusError(
            f"no label has the majority of its annotators (they gave {labels}); "
            "remove the row, or label it"
        )
    return label


HATEXPLAIN = Layout(
    RATIONALE,
    "post_tokens",
    has("rationales"),
    hatexplain,
    majority,
    ids=("post_id", "id"),
    derived_fields=("label",),
)
