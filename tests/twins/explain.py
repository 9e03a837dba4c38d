"""Slow twins of explanations, their agreement and plausibility."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from attlas.explain import explain
from attlas.explain.kinds import ANY
from attlas.models import Model


def rbo_slowly(left, right, p):
    """Equation 32 of Webber et al. for two lists without ties, term by term."""
    short, long = sorted((left, right), key=len)
    s, n = len(short), len(long)
    x = [len(set(short[:depth]) & set(long[:depth])) for depth in range(n + 1)]
    seen = sum(x[depth] / depth * p**depth for depth in range(1, n + 1))
    assumed = sum(x[s] * (depth - s) / (s * depth) * p**depth for depth in range(s + 1, n + 1))
    return (1 - p) / p * (seen + assumed) + ((x[n] - x[s]) / n + x[s] / s) * p**n


def mean_overlap_slowly(left, right):
    return np.mean(
        [len(set(left[:depth]) & set(right[:depth])) / depth for depth in range(1, len(left) + 1)]
    )


def published_slowly(a, b, keep):
    """The four numbers of Hou 2022.

    numpy has no vector instructions for long doubles, so it sorts them as all floats in 2022.
    """
    one, two = (np.where(keep, (v - v.min()) / (v.max() - v.min()), 0) for v in (a, b))
    first, second = (v.astype(np.longdouble).argsort()[::-1] for v in (one, two))
    tops = [set(np.flatnonzero(np.where(v < np.percentile(v, 95), 0, v))) for v in (one, two)]
    return [
        one @ two / np.linalg.norm(one) / np.linalg.norm(two),
        stats.kendalltau(first.argsort(), second.argsort()).statistic,
        mean_overlap_slowly(first.tolist(), second.tolist()),
        len(tops[0] & tops[1]) / len(tops[0] | tops[1]),
    ]


def shuffle_slowly(n, state):
    """The inside-out shuffle with SplitMix64 in numbers without an end."""
    order: list[int] = []
    for place in range(n):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        other = ((mixed ^ mixed >> 31) >> 32) * (place + 1) >> 32
        order.append(place)
        order[place], order[other] = order[other], place
    return order


def types_slowly(
    model: Model, texts: Sequence[str], methods: Sequence[str]
) -> dict[Any, dict[str, list[float]]]:
    """(method, answer) -> string -> texts, occurrences, mean over texts, mean of occurrences."""
    out: dict[Any, dict[str, list[float]]] = {}
    for method in methods:
        answers = [explain(model, text, method) for text in texts]
        for answer in (ANY, *sorted({one.predicted for one in answers})):
            chosen = [one for one in answers if answer in (ANY, one.predicted)]
            found: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0, 0.0])
            for one in chosen:
                for string in {
                    token
                    for token, special in zip(one.tokens, one.special, strict=True)
                    if not special
                }:
                    found[string][0] += 1
                for token, special, score in zip(one.tokens, one.special, one.scores, strict=True):
                    if not special:
                        found[token][1] += 1
                        found[token][2] += score
            for row in found.values():
                row[2], row[3] = row[2] / len(chosen), row[2] / row[1]
            out[method, answer] = dict(found)
    return out


def attention_slowly(weights: np.ndarray, slopes: np.ndarray, reader: int) -> dict[str, np.ndarray]:
    """What each method says, from square matrices [layer, head, query, key]: [token]."""
    layers, heads, n, _ = weights.shape
    received = np.zeros((layers, n))
    times = np.zeros(n)
    for layer, head, query, key in np.ndindex(weights.shape):
        received[layer, key] += weights[layer, head, query, key] / heads
        times[key] += weights[layer, head, query, key] * slopes[layer, head, query, key]
    rolled, relevance = np.eye(n), np.eye(n)
    for layer in range(layers):
        rolled = (np.eye(n) / 2 + weights[layer].mean(0) / 2) @ rolled
        relevance = relevance + np.maximum(weights[layer] * slopes[layer], 0).mean(0) @ relevance
    return {
        "attention_last": received[-1],
        "attention_all": received.mean(0),
        "cls_row": weights[-1].mean(0)[reader],
        "rollout": rolled[reader],
        "attention_x_gradient": times,
        "gradient_rollout": (relevance - np.eye(n))[reader],
    }


def top_slowly(scores, marked, share):
    n = len(scores)
    k = sum(marked) if share is None else max(1, round(share * n))
    return set(sorted(range(n), key=lambda word: (-scores[word], word))[:k])


def f1_slowly(hits, chosen, human):
    precision, recall = hits / chosen, hits / human
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0


def token_f1_slowly(scores, marked, share):
    chosen = top_slowly(scores, marked, share)
    return f1_slowly(sum(marked[word] for word in chosen), len(chosen), sum(marked))


def runs_slowly(words):
    runs = []
    for word in sorted(words):
        if runs and word - 1 in runs[-1]:
            runs[-1].add(word)
        else:
            runs.append({word})
    return runs


def iou_f1_slowly(scores, marked, share, threshold):
    chosen = runs_slowly(top_slowly(scores, marked, share))
    human = runs_slowly(word for word, mark in enumerate(marked) if mark)
    hits = sum(
        max(len(one & other) / len(one | other) for other in human) >= threshold for one in chosen
    )
    return f1_slowly(hits, len(chosen), len(human))


def shifted_taus_slowly(a, b, keep, shifts, published):
    """Kendall's tau with b's kept scores moved along the kept tokens, one shift after another."""
    out = []
    where = np.flatnonzero(keep)
    for shift in shifts:
        moved = np.array(b, dtype=np.float64)
        if published:  # scaled by all tokens, before they move
            moved = (moved - moved.min()) / (moved.max() - moved.min())
        scores = [moved[token] for token in where]
        for place, token in enumerate(where):
            moved[token] = scores[(place - shift) % len(where)]
        if not published:
            out.append(stats.kendalltau(a[where], moved[where]).statistic)
            continue
        one = np.where(keep, (a - a.min()) / (a.max() - a.min()), 0)
        two = np.where(keep, moved, 0)
        first, second = (v.astype(np.longdouble).argsort()[::-1] for v in (one, two))
        out.append(stats.kendalltau(first.argsort(), second.argsort()).statistic)
    return out
