"""Which heads tell the labels apart: each head scored alone, the best ones chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.confusion import confusion, mcc
from attlas.support.errors import MeasureError
from attlas.topology.classifier import TopologyClassifier
from attlas.topology.extractor import Head, head_of

Array = npt.NDArray[Any]
Labelled = tuple[Array, Array]  # features [text, feature], labels [text]


def columns_of(names: Sequence[str], heads: Sequence[Head]) -> list[int]:
    """The places of some heads' features."""
    wanted = set(heads)
    return [place for place, name in enumerate(names) if head_of(name) in wanted]


def score_heads(
    names: Sequence[str],
    train: Labelled,
    dev: Labelled,
    test: Labelled | None = None,
    classifier: TopologyClassifier | None = None,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> pd.DataFrame:
    """A classifier on each head alone: `layer head train dev test`, its MCC on the texts it was fitted, chosen and tested on.

    Ranking by `train`, as the paper does, needs no test labels.
    """
    for _, labels in (dev, *(() if test is None else (test,))):
        strange = sorted(set(labels.tolist()) - set(train[1].tolist()), key=str)
        if strange:
            raise MeasureError(f"no training text has the label {strange[0]!r}; heads are scored on labels they know")
    heads = list(dict.fromkeys(head_of(name) for name in names))
    own = classifier or TopologyClassifier()
    rows = []
    for number, (layer, head) in enumerate(heads):
        places = columns_of(names, [(layer, head)])
        fitted = TopologyClassifier(**own.get_params()).fit(train[0][:, places], train[1], (dev[0][:, places], dev[1]))
        row: dict[str, float] = {"layer": layer, "head": head}
        for name, part in (("train", train), ("dev", dev), ("test", test)):
            if part is not None:
                guesses = np.searchsorted(fitted.classes_, fitted.predict(part[0][:, places]))
                row[name] = float(
                    mcc(confusion(np.searchsorted(fitted.classes_, part[1]), guesses, len(fitted.classes_)))
                )
        rows.append(row)
        tell(number + 1, len(heads))
    return pd.DataFrame(rows)


def best_heads(scores: pd.DataFrame, count: int, by: str = "train") -> list[Head]:
    """The heads with the highest score, best first; the lower layer and head first among equals."""
    order = scores.sort_values([by, "layer", "head"], ascending=[False, True, True]).head(count)
    return [(int(layer), int(head)) for layer, head in zip(order["layer"], order["head"], strict=True)]


def likeness(scores: pd.DataFrame, one: str = "train", two: str = "test") -> dict[str, float | None]:
    """How alike two maps of heads are: Pearson's and Spearman's correlation over heads; None where a map is flat."""
    left, right = scores[one].to_numpy(), scores[two].to_numpy()
    if len(left) < 2 or left.std() == 0 or right.std() == 0:
        return {"pearson": None, "spearman": None}
    ranks = [pd.Series(values).rank().to_numpy() for values in (left, right)]
    return {"pearson": float(np.corrcoef(left, right)[0, 1]), "spearman": float(np.corrcoef(*ranks)[0, 1])}
