"""Gradient flow: what moves the polarity and the attention score of every word during training.

With gradient descent in small steps on the loss over all texts, without dropout or penalty,
ds/dtau = A + B + C and da/dtau = D + E + F, for every word at once:

    A   the word's vector moves because attention to it changes its texts' logits     V.W / lambda
    B   the word's vector moves because it is part of its texts' weighted sums        |W|^2
    C   W moves, and the word's vector has a component along that                     e.e'
    D   as B, for V                                                                   V.W / lambda
    E   as A, for V                                                                |V|^2 / lambda^2
    F   V moves                                                                       e.e'

The terms need two sums over a word's occurrences, each with attention weight w and r = label -
probability (by class) of its text: P, the sum of w r, and R, the sum of w r.(s of the word - s of
the text), both divided by the number of texts. An affine layer M before attention adds B_layer and
D_layer (M moves by P), A_layer and E_layer (M moves by R); additive attention, with its tanh, adds
F_layer (its own matrix moves). With more than two classes the polarity of a word is a vector with
one entry per class. For frozen vectors A, B, D and E are 0. With an LSTM a word has no vector of
its own, so there are no such terms.

The appendix of Sun and Lu (2020) lacks factors for more than two classes: the attention weight in
two sums of its eq. 82, and eq. 83 has 1/lambda for 1/lambda^2. The terms here agree with automatic
differentiation (`check_flow`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.special import expit, softmax as over_classes

from attlas.dynamics import kernels
from attlas.dynamics.ragged import Numbers, RaggedTexts
from attlas.dynamics.scores import class_polarity
from attlas.dynamics.training import Snapshot, loss_of
from attlas.support.errors import MeasureError

Floats = npt.NDArray[np.float64]
POLARITY, ATTENTION, SUM = "polarity", "attention", "sum"


@dataclass(frozen=True, eq=False)
class Parameters:
    """All numbers of a network without a recurrent layer, in double precision."""

    vectors: Floats  # word dimension
    query: Floats  # dimension
    output: Floats  # output dimension
    scale: float
    layer: Floats | None = None  # of an affine encoder
    key: Floats | None = None  # of additive attention
    frozen: bool = False  # vectors are not trained

    @classmethod
    def of(cls, snapshot: Snapshot) -> Parameters:
        """The parameters of a snapshot, without the row of unknown tokens."""
        network = snapshot.network
        if snapshot.contextual:
            raise MeasureError(
                "the flow needs one vector per word; with the encoder "
                f"{network.shape.encoder!r} vectors depend on the text; use none or affine"
            )
        layer = network.layer if isinstance(network.layer, torch.nn.Parameter) else None
        query, output = _double(network.query), _double(network.output)
        own, key = (None if part is None else _double(part) for part in (layer, network.key))
        vectors = snapshot.table.rows[:-1].astype(np.float64)
        return cls(vectors, query, output, network.shape.scale, own, key, snapshot.table.frozen)


def _double(part: torch.Tensor) -> Floats:
    return part.detach().double().numpy()


@dataclass(frozen=True, eq=False)
class Flow:
    """The rates at which scores change, term by term, with the scores, P and R."""

    polarity: Mapping[str, Floats]  # term -> word output
    attention: Mapping[str, Floats]  # term -> word
    polarity_scores: Floats  # word output
    attention_scores: Floats  # word
    pull: Floats  # word output: P
    stir: Floats  # word: R
    loss: float

    @property
    def polarity_rate(self) -> Floats:
        """ds/dtau, the sum of the terms: [word, output]."""
        return np.sum(list(self.polarity.values()), 0)

    @property
    def attention_rate(self) -> Floats:
        """da/dtau, the sum of the terms: [word]."""
        return np.sum(list(self.attention.values()), 0)

    def frame(self, words: tuple[str, ...], counts: Numbers) -> pd.DataFrame:
        """One row per word, one column per term; see `class_polarity` for more than two classes."""
        terms = {
            f"{side}_rate" if name == SUM else name: term
            for side, name, term in self._terms(counts)
        }
        return pd.DataFrame({"token": list(words), **terms})

    def by_kind(self, kinds: npt.NDArray[np.str_], counts: Numbers) -> list[dict[str, Any]]:
        """The mean of each term, and of their sum, over the words of each kind."""
        return [
            {"kind": kind, "side": side, "term": name, "mean": float(term[kinds == kind].mean())}
            for side, name, term in self._terms(counts)
            for kind in sorted(set(kinds) - {""})
        ]

    def _terms(self, counts: Numbers) -> Iterator[tuple[str, str, Floats]]:
        """Side, name and values [word] of each term, and of the sum of each side."""
        top = counts.argmax(-1)
        for name, term in {**self.polarity, SUM: self.polarity_rate}.items():
            yield POLARITY, name, class_polarity(term, top)
        for name, term in {**self.attention, SUM: self.attention_rate}.items():
            yield ATTENTION, name, term


def flow_terms(parameters: Parameters, ragged: RaggedTexts, codes: Numbers) -> Flow:
    """The terms of all words, on the training texts; unknown tokens have a vector of zeros."""
    vectors, query = parameters.vectors, parameters.query
    output, scale = parameters.output, parameters.scale
    states = vectors if parameters.layer is None else vectors @ parameters.layer.T
    keys = states if parameters.key is None else np.tanh(states @ parameters.key.T)
    scores, polarity = keys @ query / scale, states @ output.T
    pull, stir, loss = _sums(scores, polarity, ragged, codes)

    # how a word's representation moves: through the sums (P) and through attention (R)
    additive = parameters.key is not None
    by_key = query * (1 - keys * keys) / scale if additive else query / scale  # d score / d key
    by_state = by_key if parameters.key is None else by_key @ parameters.key  # d score / d state
    slope = np.broadcast_to(by_state, states.shape)
    by_pull, by_stir = pull @ output, stir[:, None] * slope
    by_output, by_query = pull.T @ states, stir @ keys / scale
    sides: dict[str, dict[str, Floats]] = {POLARITY: {}, ATTENTION: {}}

    def add(moved: Floats, polar: str, attending: str) -> None:
        """Add what a change of representations [word, dimension] adds to both scores."""
        sides[POLARITY][polar] = moved @ output.T
        sides[ATTENTION][attending] = (moved * slope).sum(-1)

    def trained(moved: Floats) -> Floats:
        """The change of representations by training the vectors of words."""
        if parameters.frozen:
            return np.zeros_like(moved)
        return moved if parameters.layer is None else moved @ parameters.layer @ parameters.layer.T

    add(trained(by_stir), "A", "E")
    add(trained(by_pull), "B", "D")
    sides[POLARITY]["C"], sides[ATTENTION]["F"] = states @ by_output.T, keys @ by_query / scale
    if parameters.layer is not None:
        add(vectors @ (vectors.T @ by_stir), "A_layer", "E_layer")
        add(vectors @ (vectors.T @ by_pull), "B_layer", "D_layer")
    if parameters.key is not None:
        moved = (stir[:, None] * by_key).T @ states  # of the matrix of additive attention
        sides[ATTENTION]["F_layer"] = (states @ moved.T * by_key).sum(-1)
    ordered = {side: dict(sorted(terms.items())) for side, terms in sides.items()}
    return Flow(ordered[POLARITY], ordered[ATTENTION], polarity, scores, pull, stir, loss)


def _sums(
    scores: Floats, polarity: Floats, ragged: RaggedTexts, codes: Numbers
) -> tuple[Floats, Floats, float]:
    """P [word, output], R [word] and the mean loss, from the scores of words."""
    size = len(scores)
    scores = np.append(scores, 0.0)  # of unknown tokens
    polarity = np.concatenate([polarity, np.zeros_like(polarity[:1])])
    weights = np.empty(len(ragged.ids))
    kernels.softmax(scores[ragged.ids], ragged.starts, weights)
    each = polarity[ragged.ids]
    logits = np.add.reduceat(weights[:, None] * each, ragged.starts[:-1])
    if logits.shape[1] == 1:
        missed = codes[:, None] - expit(logits)
    else:
        missed = np.eye(logits.shape[1])[codes] - over_classes(logits, axis=1)
    loss = float(loss_of(torch.from_numpy(logits), torch.from_numpy(codes)))
    text = ragged.text_of
    held = weights[:, None] * missed[text] / len(ragged)
    away = (held * (each - logits[text])).sum(-1)

    def by_word(values: Floats) -> Floats:
        sums = np.bincount(ragged.ids, values, minlength=size + 1)[:size]
        return sums.astype(np.float64)

    return np.stack([by_word(column) for column in held.T], -1), by_word(away), loss


def autograd_flow(
    parameters: Parameters, ragged: RaggedTexts, codes: Numbers
) -> tuple[Floats, Floats]:
    """ds/dtau [word, output] and da/dtau [word] by automatic differentiation; slow."""
    names = [
        "query",
        "output",
        *([] if parameters.frozen else ["vectors"]),
        *(name for name in ("layer", "key") if getattr(parameters, name) is not None),
    ]
    start = {
        name: torch.from_numpy(np.array(getattr(parameters, name))) for name in ("vectors", *names)
    }
    starts, ids = ragged.starts.tolist(), torch.from_numpy(ragged.ids)

    def of_words(given: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        states = given["vectors"] @ given["layer"].T if "layer" in given else given["vectors"]
        keys = torch.tanh(states @ given["key"].T) if "key" in given else states
        return states @ given["output"].T, keys @ given["query"] / parameters.scale

    def loss(given: Mapping[str, torch.Tensor]) -> torch.Tensor:
        polarity, scores = (
            torch.cat([part, torch.zeros_like(part[:1])]) for part in of_words(given)
        )  # unknown tokens
        texts = [ids[one:other] for one, other in pairwise(starts)]
        logits = torch.stack([torch.softmax(scores[text], 0) @ polarity[text] for text in texts])
        return loss_of(logits, torch.from_numpy(codes))

    leaves = {name: start[name].clone().requires_grad_() for name in names}
    gradients = torch.autograd.grad(loss({**start, **leaves}), list(leaves.values()))
    direction = {name: -gradient for name, gradient in zip(leaves, gradients, strict=True)}
    moving = {name: start[name] for name in names}
    rates: Any = torch.func.jvp(
        lambda given: of_words({**start, **given}), (moving,), (direction,)
    )[1]
    return rates[0].numpy(), rates[1].numpy()


def check_flow(parameters: Parameters, ragged: RaggedTexts, codes: Numbers) -> float:
    """The largest error of the sums of terms, relative to the largest rate by autograd."""
    flow = flow_terms(parameters, ragged, codes)
    polarity, attention = autograd_flow(parameters, ragged, codes)
    pairs = ((flow.polarity_rate, polarity), (flow.attention_rate, attention))
    return max(
        float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), np.finfo(float).tiny))
        for ours, theirs in pairs
    )
