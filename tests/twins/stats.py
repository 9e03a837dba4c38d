"""Slow twins of statistics."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from scipy.special import stdtrit
from sklearn.metrics import f1_score

from attlas.stats.bootstrap import DRAWS


def best_slowly(scores: np.ndarray) -> int:
    """Layer by layer, head by head, direction by direction: only a higher score replaces."""
    directions, layers, heads = scores.shape
    found, place = -np.inf, -1
    for layer in range(layers):
        for head in range(heads):
            for direction in range(directions):
                if scores[direction, layer, head] > found:
                    found = scores[direction, layer, head]
                    place = (direction * layers + layer) * heads + head
    return place


def sums_slowly(kinds, of, answers, baselines, kind):
    by_text = defaultdict(list)
    for case, one in enumerate(kinds):
        if one == kind:
            by_text[of[case]].append(case)
    n = [len(cases) for cases in by_text.values()]
    h, b = (
        [
            [sum(int(right[case][one]) for case in cases) for cases in by_text.values()]
            for one in range(right.shape[1])
        ]
        for right in (answers, baselines)
    )  # answer text

    def products(one, other):
        return sum(a * b for a, b in zip(one, other, strict=True))

    out = [len(n), sum(n), products(n, n)]
    for counts in (h, b):
        out += [sum(one) for one in counts] + [products(one, one) for one in counts]
        out += [products(n, one) for one in counts]
    return out + [products(one, other) for one in h for other in b]


def paired_slowly(counts):
    """The interval of a difference of two shares of the same cases, from texts as clusters.

    `counts` has for each text how many cases the first and the second got right, and how many there
    are. Never narrower than that many independent cases allow, by Wilson's variance.
    """
    counts = [one for one in counts if one[2]]
    texts, cases = len(counts), sum(n for *_, n in counts)
    gap = sum(one - other for one, other, _ in counts) / cases
    spread = sum((one - other - gap * n) ** 2 for one, other, n in counts)
    z = stdtrit(texts - 1, 0.975)
    size = (abs(gap) * cases + z * z / 2) / (cases + z * z)
    error = max(spread * texts / (texts - 1) / cases**2, size * (1 - size) / cases) ** 0.5
    return max(-1.0, gap - z * error), min(1.0, gap + z * error)


def bootstrap_slowly(
    labels: np.ndarray, guesses: np.ndarray, text: np.ndarray, texts: int, classes: int
) -> np.ndarray:
    """Macro F1 of texts drawn one by one, the last of which is unknown; by scikit-learn."""
    rng, out = np.random.default_rng(5), []
    cases = [np.flatnonzero(text == number) for number in range(texts)]
    occurring = np.unique(labels)
    for _ in range(DRAWS // 2):
        gold, message, weights = [], [], []
        for number in rng.integers(0, texts + 1, texts):
            if number == texts:
                gold.append(rng.choice(occurring))
                message.append(rng.integers(classes))
                weights.append(len(labels) / texts)
            else:
                gold += labels[cases[number]].tolist()
                message += guesses[cases[number]].tolist()
                weights += [1.0] * len(cases[number])
        names = np.unique(gold)
        out.append(
            f1_score(
                gold, message, labels=names, average="macro", sample_weight=weights, zero_division=0
            )
        )
    return np.array(out)


def welch(one, two):
    """The difference of two means of numbers, and its standard error and degrees of freedom
    (Welch 1947)."""

    def moments(values):
        mean = sum(values) / len(values)
        spread = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
        return mean, spread / len(values)

    (left, first), (right, second) = moments(one), moments(two)
    free = (first + second) ** 2 / (first**2 / (len(one) - 1) + second**2 / (len(two) - 1))
    return left - right, (first + second) ** 0.5, free


Ends = tuple[float, float, float]


def beyond_both(own: Ends, apart: Ends) -> Ends:
    """How far a difference is from what lies between none and the control: nothing within it."""
    difference, control = own[0], own[0] - apart[0]
    if min(0, control) <= difference <= max(0, control):
        return 0.0, min(own[1], apart[1]), max(own[2], apart[2])
    return own if abs(difference) <= abs(difference - control) else apart
