"""Slow twins of the dynamics of attention classifiers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from scipy.special import expit, softmax

from attlas.dynamics.flow import Parameters
from attlas.dynamics.ragged import RaggedTexts


def texts_of(ragged: RaggedTexts) -> list[list[int]]:
    return [ragged.ids[start:stop].tolist() for start, stop in pairwise(ragged.starts)]


def terms_slowly(
    parameters: Parameters, ragged: RaggedTexts, codes: np.ndarray
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Sun and Lu (2020), section 4 and eqs 59-64: every term for two classes, in loops."""
    e, v, w, scale, m = (
        parameters.vectors,
        parameters.query,
        parameters.output[0],
        parameters.scale,
        len(ragged),
    )
    layer = parameters.layer
    h = [vector if layer is None else layer @ vector for vector in e]
    s, a = [state @ w for state in h], [state @ v / scale for state in h]
    below_w, below_v = (w, v) if layer is None else (layer.T @ w, layer.T @ v)
    names = (
        ["A", "B", "C", *([] if layer is None else ["A_layer", "B_layer"])],
        ["D", "E", "F", *([] if layer is None else ["D_layer", "E_layer"])],
    )
    polarity, attention = ({name: [0.0] * len(e) for name in side} for side in names)
    for word in range(len(e)):
        for text, code in zip(texts_of(ragged), codes.tolist(), strict=True):
            total = sum(np.exp(a[token]) for token in text)
            weights = [np.exp(a[token]) / total for token in text]
            logit = sum(weight * s[token] for weight, token in zip(weights, text, strict=True))
            y = 2 * code - 1
            push = y * (1 - expit(y * logit)) / m  # y beta
            for weight, token in zip(weights, text, strict=True):
                if token == word:
                    polarity["A"][word] += (
                        push * weight * (s[word] - logit) * (below_v @ below_w) / scale
                    )
                    polarity["B"][word] += push * weight * (below_w @ below_w)
                    attention["D"][word] += push * weight * (below_v @ below_w) / scale
                    attention["E"][word] += (
                        push * weight * (s[word] - logit) * (below_v @ below_v) / scale**2
                    )
                polarity["C"][word] += push * weight * (h[word] @ h[token])
                attention["F"][word] += (
                    push * weight * (s[token] - logit) * (h[word] @ h[token]) / scale**2
                )
                if layer is not None:
                    alike = e[word] @ e[token]
                    polarity["A_layer"][word] += (
                        push * weight * (s[token] - logit) * alike * (v @ w) / scale
                    )
                    polarity["B_layer"][word] += push * weight * alike * (w @ w)
                    attention["D_layer"][word] += push * weight * alike * (w @ v) / scale
                    attention["E_layer"][word] += (
                        push * weight * (s[token] - logit) * alike * (v @ v) / scale**2
                    )
    return polarity, attention


def many_slowly(
    parameters: Parameters, ragged: RaggedTexts, codes: np.ndarray, slips: bool = False
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The same for more classes (eqs 72-83); `slips` omits what the appendix omits."""
    e, v, w, scale, m = (
        parameters.vectors,
        parameters.query,
        parameters.output,
        parameters.scale,
        len(ragged),
    )
    s, a = e @ w.T, e @ v / scale
    polarity = {name: np.zeros((len(e), len(w))) for name in "ABC"}
    attention = {name: np.zeros(len(e)) for name in "DEF"}
    for word in range(len(e)):
        for text, code in zip(texts_of(ragged), codes.tolist(), strict=True):
            weights = softmax(a[text])
            logits = weights @ s[text]
            missed = (np.arange(len(w)) == code) - softmax(logits)
            for weight, token in zip(weights, text, strict=True):
                if token == word:
                    held = missed * (1 if slips else weight) / m
                    polarity["A"][word] += (w @ v) * (held @ (s[word] - logits)) / scale
                    polarity["B"][word] += w @ (w.T @ held)
                    attention["D"][word] += missed * weight / m @ w @ v / scale
                    attention["E"][word] += (
                        missed
                        * weight
                        / m
                        @ (s[word] - logits)
                        * (v @ v)
                        / (scale if slips else scale**2)
                    )
                polarity["C"][word] += missed * weight / m * (e[word] @ e[token])
                attention["F"][word] += (
                    missed * weight / m @ (s[token] - logits) * (e[word] @ e[token]) / scale**2
                )
    return polarity, attention


def kind_slowly(counts, classes, rule):
    """The open intervals of the paper, or those of its code, which include words of one class."""
    total = sum(counts)
    if not total:
        return ""
    if len(classes) == 2:
        minus, plus = counts
        strength = (plus - minus) / total
        if rule == "paper" and abs(strength) == 1:
            return ""
        if strength > 0.5 and plus > 5:
            return "positive"
        if strength < -0.5 and minus > 5:
            return "negative"
        return "neutral" if -0.1 < strength < 0.1 and abs(plus - minus) < 5 else ""
    most = max(counts)
    if 4 * most > 3 * total and most > 5 and not (rule == "paper" and most == total):
        return classes[counts.index(most)]
    return "neutral" if 10 * most * len(classes) < 11 * total and most - min(counts) < 5 else ""


def auc_slowly(above, below):
    """The area and the variance of DeLong et al. (1988), pair by pair."""
    won = [
        [1.0 if one > other else 0.5 if one == other else 0.0 for other in below] for one in above
    ]
    rows, columns = (
        [np.mean(row) for row in won],
        [np.mean(column) for column in zip(*won, strict=True)],
    )
    return np.mean(rows), np.var(rows, ddof=1) / len(rows) + np.var(columns, ddof=1) / len(columns)


def states_slowly(model, text: list[str]) -> np.ndarray:
    """The last hidden state of each word of a text, the mean over its word pieces."""
    pieces = model.tokenizer([text], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        states = model.network(input_ids=pieces["input_ids"]).last_hidden_state[0]
    of = pieces.word_ids(0)
    return np.stack(
        [
            states[[place for place, word in enumerate(of) if word == number]].mean(0)
            for number in range(len(text))
        ]
    )
