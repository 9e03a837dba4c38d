"""Which heads predict the labels: each head scored alone, the best ones chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attlas.corpora.splits import check_labels_known, label_codes
from attlas.stats.choose import best_first
from attlas.stats.correlations import pearson, spearman
from attlas.stats.scores import confusion, mcc
from attlas.support.arrays import Array
from attlas.topology.classifier import TopologyClassifier
from attlas.topology.features import Head, head_of

Labelled = tuple[Array, Array]  # features [text, feature], labels [text]


def columns_of(names: Sequence[str], heads: Sequence[Head]) -> list[int]:
    """The columns of some heads' features."""
    wanted = set(heads)
    return [column for column, name in enumerate(names) if head_of(name) in wanted]


def score_heads(
    names: Sequence[str],
    train: Labelled,
    dev: Labelled,
    test: Labelled | None = None,
    classifier: TopologyClassifier | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> pd.DataFrame:
    """The MCC of a classifier on each head alone: `layer head train dev test`.

    Ranking by `train`, as in Kushnareva et al. 2022, needs no test labels.
    """
    parts = {"train": train, "dev": dev, **({} if test is None else {"test": test})}
    for name, (_, labels) in parts.items():
        check_labels_known(name, labels, train[1])
    heads, own = heads_of(names), classifier or TopologyClassifier()
    rows = []
    for number, head in enumerate(heads):
        rows.append(score_head(head, names, parts, own.get_params()))
        on_progress(number + 1, len(heads))
    return pd.DataFrame(rows)


def heads_of(names: Sequence[str]) -> list[Head]:
    """The heads of features, in order of first occurrence."""
    return list(dict.fromkeys(head_of(name) for name in names))


def score_head(
    head: Head,
    names: Sequence[str],
    parts: Mapping[str, tuple[Array, Any]],
    settings: Mapping[str, Any],
) -> dict[str, float]:
    """A classifier on the features of one head: its MCC on every part."""
    columns = columns_of(names, [head])
    own = {
        part: (features[:, columns], np.asarray(labels))
        for part, (features, labels) in parts.items()
    }
    fitted = TopologyClassifier(**settings).fit(*own["train"], own["dev"])
    row: dict[str, float] = {"layer": head[0], "head": head[1]}
    for part, (features, labels) in own.items():
        predictions = label_codes(fitted.predict(features), fitted.classes_)
        codes = label_codes(labels, fitted.classes_)
        row[part] = float(mcc(confusion(codes, predictions, len(fitted.classes_))))
    return row


def best_heads(scores: pd.DataFrame, count: int, by: str = "train") -> list[Head]:
    """The heads with the highest score, best first; the lower layer and head first among equals."""
    rows = best_first(*(scores[name].to_numpy() for name in (by, "layer", "head")))[:count]
    best = scores.iloc[rows]
    return list(zip(best["layer"].astype(int), best["head"].astype(int), strict=True))


def likeness(scores: pd.DataFrame, one: str = "train", two: str = "test") -> dict[str, float]:
    """Pearson's and Spearman's correlation of two maps of heads; NaN if one is constant."""
    left, right = scores[one], scores[two]
    return {"pearson": pearson(left, right), "spearman": spearman(left, right)}
