"""Words of a classifier: their kinds, polarity and attention scores, and how these separate.

gamma = (f+ - f-) / (f+ + f-), where f are a word's occurrences in texts of each class. A word is
positive if gamma is above 0.5 and f+ above 5, negative likewise, and neutral if gamma is between
-0.1 and 0.1 and f+ and f- differ by less than 5. Sun and Lu (2020) write open intervals, which
exclude words of one class only (gamma 1 and -1); their code, and the numbers of words that they
print, include them. With more classes a word belongs to a class that has more than 0.75 of its
occurrences, which for two classes is gamma above 0.5, and is neutral if every class has less than
1.1 times its uniform share. Occurrences are counted as they are, which is fair to classes of one
size; the rule `balanced` is that of the code with occurrences weighted as if every class had as
many tokens as the mean class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.dynamics.experiment import RULES
from attlas.dynamics.ragged import Numbers, RaggedTexts
from attlas.dynamics.training import Snapshot
from attlas.stats.intervals import Ranked, auc
from attlas.support.errors import MeasureError

Floats = npt.NDArray[Any]
RESERVED = ("positive", "negative", "neutral", "")  # kinds that a class of more than two cannot be
POSITIVE, NEGATIVE, NEUTRAL, OTHER = "positive", "negative", "neutral", ""
STRONG, EVEN = 0.5, 0.1  # bounds of gamma
OFTEN, APART = 5, 5  # occurrences, and their difference between classes
SHARE = (1 + STRONG) / 2  # of a word's occurrences, with more classes than two


def gammas(counts: Floats) -> Floats:
    """How much a word prefers the second of two classes, from its occurrences [word, class].

    >>> gammas(np.array([[1, 3], [2, 2], [5, 0]])).tolist()
    [0.5, 0.0, -1.0]
    """
    total = counts.sum(-1)
    return np.divide(
        counts[:, 1] - counts[:, 0], total, out=np.full(len(counts), np.nan), where=total > 0
    )


def token_kinds(
    counts: Numbers, classes: Sequence[str], rule: str = "code"
) -> npt.NDArray[np.str_]:
    """The kind of each word from its occurrences [word, class]; empty if it has none.

    Kinds are positive, negative and neutral for two classes; class names and neutral for more.

    >>> token_kinds(np.array([[0, 9], [9, 1], [3, 3], [4, 8]]), ["bad", "good"]).tolist()
    ['positive', 'negative', 'neutral', '']
    >>> token_kinds(np.array([[0, 9], [9, 1]]), ["bad", "good"], rule="paper").tolist()
    ['', 'negative']
    """
    if rule not in RULES:
        raise MeasureError(f"there is no rule {rule!r}; the rules are {', '.join(RULES)}")
    if rule == "balanced":
        counts = balanced(counts)
    total = counts.sum(-1)
    some = total > 0
    out = np.full(len(counts), OTHER, dtype=object)
    if len(classes) == 2:
        gamma = gammas(counts)
        inside = np.abs(gamma) < 1 if rule == "paper" else some
        out[some & inside & (gamma > STRONG) & (counts[:, 1] > OFTEN)] = POSITIVE
        out[some & inside & (gamma < -STRONG) & (counts[:, 0] > OFTEN)] = NEGATIVE
        out[some & (np.abs(gamma) < EVEN) & (np.abs(counts[:, 1] - counts[:, 0]) < APART)] = NEUTRAL
        return out.astype(str)
    share = counts / np.maximum(total, 1)[:, None]
    top, most = share.argmax(-1), share.max(-1)
    inside = most < 1 if rule == "paper" else some
    chosen = some & inside & (most > SHARE) & (counts.max(-1) > OFTEN)
    out[chosen] = np.array([kind_name(str(name)) for name in classes], dtype=object)[top[chosen]]
    even = some & (most < (1 + EVEN) / len(classes)) & (counts.max(-1) - counts.min(-1) < APART)
    out[even] = NEUTRAL
    return out.astype(str)


def balanced(counts: Numbers) -> Floats:
    """Occurrences [word, class] as if every class had as many tokens as the mean class.

    >>> balanced(np.array([[1, 5], [1, 5]])).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    sizes = counts.sum(0)
    return counts * (sizes.mean() / np.maximum(sizes, 1))


def kind_name(label: str) -> str:
    """The kind of the words of a class, one of more than two; never that of neutral words."""
    return f"class {label}" if label in RESERVED else label


def class_polarity(polarity: Floats, top: Numbers) -> Floats:
    """One number per word from polarities [word, output].

    With one output its score, with more that of the class `top` minus the mean of the others.
    """
    if polarity.shape[1] == 1:
        return polarity[:, 0]
    own = np.take_along_axis(polarity, top[:, None], 1)[:, 0]
    return own - (polarity.sum(1) - own) / (polarity.shape[1] - 1)


def token_table(
    snapshot: Snapshot,
    ragged: RaggedTexts,
    counts: Numbers,
    classes: Sequence[str],
    rule: str = "code",
    test: RaggedTexts | None = None,
    where: bool = True,
) -> pd.DataFrame:
    """One row per word: occurrences, gamma, share, kind, polarity and attention score.

    Scores are those of the word alone. If representations depend on the text (an LSTM, a frozen
    model), `polarity_local` and `attention_local` are means over its occurrences in `ragged`, the
    training texts; else they are NaN. `weight` is the mean attention weight over occurrences in
    `test`, or in `ragged` if that is None. Without `where` no text is read, and these are NaN.
    """
    scores, polarity = snapshot.by_word()
    weighted = balanced(counts) if rule == "balanced" else counts
    n, top = len(ragged.words), weighted.argmax(-1)
    out = {
        "token": list(ragged.words),
        "kind": token_kinds(counts, classes, rule),
        "count": counts.sum(-1),
        "gamma": gammas(weighted) if len(classes) == 2 else np.nan,
        "share": weighted.max(-1) / np.maximum(weighted.sum(-1), 1),
        "polarity": class_polarity(polarity[:n], top),
        "attention_score": scores[:n],
        "polarity_local": np.nan,
        "attention_local": np.nan,
        "weight": np.nan,
    }
    for column, name in enumerate(classes):
        out[f"count:{name}"] = counts[:, column]
        if polarity.shape[1] > 1:
            out[f"polarity:{name}"] = polarity[:n, column]
    if where:
        read = snapshot.read(ragged) if snapshot.contextual or test is None else None
        if snapshot.contextual and read is not None:
            out["attention_local"] = _means(read.scores, ragged)
            out["polarity_local"] = class_polarity(
                np.stack([_means(one, ragged) for one in read.polarity.T], -1), top
            )
        shown = read if test is None else snapshot.read(test)
        assert shown is not None
        out["weight"] = _means(shown.weights, ragged if test is None else test)
    return pd.DataFrame(out)


def _means(values: Floats, ragged: RaggedTexts) -> Floats:
    """The mean of tokens' values by word: [word]; NaN for a word that does not occur."""
    size = len(ragged.words) + 1
    total, count = (
        np.bincount(ragged.ids, weights, minlength=size)[:-1] for weights in (values, None)
    )
    return np.divide(total, count, out=np.full(size - 1, np.nan), where=count > 0)


def separation(tokens: pd.DataFrame, column: str = "attention_score", least: int = 0) -> Ranked:
    """How well a column separates polarity tokens from neutral ones: AUC; 0.5 is chance.

    Neutral tokens with fewer than `least` occurrences are excluded.
    """
    kinds = tokens["kind"]
    values = tokens[column].to_numpy(dtype=np.float64)
    there = ~np.isnan(values)
    neutral = (kinds == NEUTRAL) & (tokens["count"] >= least)
    return auc(values[(kinds != NEUTRAL) & (kinds != OTHER) & there], values[neutral & there])


def least_separation(tokens: pd.DataFrame, column: str = "attention_score") -> float:
    """The lowest separation of any one class: low if attention marks the words of another only."""
    kinds, values = tokens["kind"].to_numpy(), tokens[column].to_numpy(dtype=np.float64)
    each = [
        auc(values[kinds == kind], values[kinds == NEUTRAL]).auc
        for kind in dict.fromkeys(kinds)
        if kind not in (NEUTRAL, OTHER)
    ]
    return min(each, default=float("nan"))


def gap(tokens: pd.DataFrame, column: str = "attention_score") -> float:
    """How far the mean attention scores of classes are apart, in standard deviations within them.

    Positive minus negative tokens; with more classes the largest mean minus the smallest.
    """
    parts = {
        kind: rows[column].to_numpy(dtype=np.float64)
        for kind, rows in tokens.groupby("kind", sort=False)
        if kind not in (NEUTRAL, OTHER)
    }
    free = sum(len(part) - 1 for part in parts.values())
    if len(parts) < 2 or free < 1:
        return float("nan")
    spread = float(np.sqrt(sum(part.var() * len(part) for part in parts.values()) / free))
    means = {kind: float(part.mean()) for kind, part in parts.items()}
    if not spread:
        return float("nan")
    ends = (
        (means[POSITIVE], means[NEGATIVE])
        if set(means) == {POSITIVE, NEGATIVE}
        else (max(means.values()), min(means.values()))
    )
    return (ends[0] - ends[1]) / spread


def interpretability(
    tokens: pd.DataFrame, untrained: pd.DataFrame | None = None
) -> dict[str, float]:
    """Separation by attention, with its controls.

    The controls are the untrained network, frequency alone, neutral tokens that are as frequent as
    polarity tokens must be, and the class whose tokens are separated least.
    """
    attention = separation(tokens)
    frequent = separation(tokens, least=OFTEN + 1)
    return {
        "separation": attention.auc,
        "separation_low": attention.low,
        "separation_high": attention.high,
        "separation_untrained": float("nan") if untrained is None else separation(untrained).auc,
        "separation_count": separation(tokens, "count").auc,
        "separation_frequent": frequent.auc,
        "separation_frequent_low": frequent.low,
        "separation_frequent_high": frequent.high,
        "separation_least": least_separation(tokens),
        "gap": gap(tokens),
        "polarity_auc": _polarity_auc(tokens),
    }


def _polarity_auc(tokens: pd.DataFrame) -> float:
    kinds, values = tokens["kind"], tokens["polarity"].to_numpy(dtype=np.float64)
    return auc(values[kinds == POSITIVE], values[kinds == NEGATIVE]).auc


def kind_means(tokens: pd.DataFrame) -> list[dict[str, Any]]:
    """Mean and quartiles of both scores over the tokens of each kind."""
    out = []
    for kind, rows in tokens[tokens["kind"] != OTHER].groupby("kind", sort=True):
        row: dict[str, Any] = {"kind": kind, "tokens": len(rows)}
        for name, short in (("polarity", "polarity"), ("attention_score", "attention")):
            low, high = np.quantile(rows[name], (0.25, 0.75))
            row |= {
                name: float(rows[name].mean()),
                f"{short}_low": float(low),
                f"{short}_high": float(high),
            }
        out.append(row)
    return out
