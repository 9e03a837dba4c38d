"""Gradient flow, exactly: what moves the polarity and the attention score of every word when the loss over all texts goes downhill.

With plain gradient descent in small steps, no dropout and no penalty, ds/dtau = A + B + C and da/dtau = D + E + F, for every word at once:

    A   the word's vector moves because attention to it changes what its texts are taken for     V.W / lambda
    B   the word's vector moves because it is part of the sums that its texts are judged by       |W|^2
    C   W moves, and the word's vector has a part along that                                      e.e'
    D   as B, seen by V                                                                           V.W / lambda
    E   as A, seen by V                                                                           |V|^2 / lambda^2
    F   V moves                                                                                   e.e'

Everything a term needs of the texts are two sums over a word's occurrences, with the weight w of each and r = label - probability (by class) of its text:
P, the sum of w r, and R, the sum of w r.(s of the word - s of the text), both over the number of texts. So terms cost a pass over tokens as single
numbers and a few products of the size of the vocabulary. An affine layer M before attention adds B_layer and D_layer (M moves as P says), A_layer and E_layer
(M moves as R says); additive attention is taken as it is, without putting x for tanh x, and adds F_layer (its own matrix moves). With more classes than two the
polarity of a word is a vector with an entry for each. Of frozen vectors A, B, D and E are 0. An LSTM has no vector for a word, and so no such terms.

The appendix of the paper drops factors for more classes: its eq. 82 lacks the attention weight in two sums, its eq. 83 has 1/lambda for 1/lambda^2. Here they are as automatic
differentiation finds them; `check_flow` says by how much the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.special import expit, softmax as over_classes

from attlas.dynamics import kernels
from attlas.dynamics.ragged import Bags, Numbers
from attlas.dynamics.scores import own_polarity
from attlas.dynamics.training import Moment, loss_of
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
    frozen: bool = False  # vectors are given, not learnt

    @classmethod
    def of(cls, moment: Moment) -> Parameters:
        """Those of a moment, without the row of tokens that are not known."""
        network = moment.network
        if moment.contextual:
            raise MeasureError(
                f"the flow has terms where a word has one vector; with the encoder {network.shape.encoder!r} it depends on the text"
            )
        layer = network.layer if isinstance(network.layer, torch.nn.Parameter) else None
        query, output = _double(network.query), _double(network.output)
        own, key = (None if part is None else _double(part) for part in (layer, network.key))
        vectors = moment.table.rows[:-1].astype(np.float64)
        return cls(vectors, query, output, network.shape.scale, own, key, moment.table.frozen)


def _double(part: torch.Tensor) -> Floats:
    return part.detach().double().numpy()


@dataclass(frozen=True, eq=False)
class Flow:
    """How fast scores move: on each side the terms by name, each [word, output] for polarity and [word] for attention; also both scores, and P and R."""

    polarity: Mapping[str, Floats]
    attention: Mapping[str, Floats]
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
        """A row for each word: a column for each term; polarity of the class that the word goes with most, less the mean of the others where there are more than two."""
        top = counts.argmax(-1)
        out: dict[str, Any] = {"token": list(words)}
        for side, terms, rate in (
            (POLARITY, self.polarity, self.polarity_rate),
            (ATTENTION, self.attention, self.attention_rate),
        ):
            for name, term in {**terms, f"{side}_rate": rate}.items():
                out[name] = own_polarity(term, top) if side == POLARITY else term
        return pd.DataFrame(out)

    def by_kind(self, kinds: npt.NDArray[np.str_], counts: Numbers) -> list[dict[str, Any]]:
        """The mean of each term, and of their sum, over the words of each kind."""
        top, out = counts.argmax(-1), []
        for side, terms, rate in (
            (POLARITY, self.polarity, self.polarity_rate),
            (ATTENTION, self.attention, self.attention_rate),
        ):
            for name, term in {**terms, SUM: rate}.items():
                values = own_polarity(term, top) if side == POLARITY else term
                out += [
                    {
                        "kind": kind,
                        "side": side,
                        "term": name,
                        "mean": float(values[kinds == kind].mean()),
                    }
                    for kind in sorted(set(kinds) - {""})
                ]
        return out


def flow_terms(parameters: Parameters, bags: Bags, codes: Numbers) -> Flow:
    """The terms of all words at once, from the texts learnt from; a token that is not known has a vector of zeros, which stays."""
    vectors, query, output, scale = (
        parameters.vectors,
        parameters.query,
        parameters.output,
        parameters.scale,
    )
    states = vectors if parameters.layer is None else vectors @ parameters.layer.T
    keys = states if parameters.key is None else np.tanh(states @ parameters.key.T)
    scores, polarity = keys @ query / scale, states @ output.T
    pull, stir, loss = _sums(scores, polarity, bags, codes)

    # how each path moves the representation of a word: through the sums (P) and through attention (R)
    bent = (
        query / scale if parameters.key is None else (query * (1 - keys * keys)) / scale
    )  # of a key's input; [word] dimension
    slope = np.broadcast_to(
        bent if parameters.key is None else bent @ parameters.key, states.shape
    )  # d score / d state
    by_pull, by_stir = pull @ output, stir[:, None] * slope
    by_output, by_query = pull.T @ states, stir @ keys / scale
    sides: dict[str, dict[str, Floats]] = {POLARITY: {}, ATTENTION: {}}

    def add(moved: Floats, polar: str, attending: str) -> None:
        """What a motion of representations [word, dimension] is to both scores."""
        sides[POLARITY][polar], sides[ATTENTION][attending] = (
            moved @ output.T,
            (moved * slope).sum(-1),
        )

    def learnt(moved: Floats) -> Floats:
        """What a motion of representations is once it has gone down to the vectors of words and up again."""
        if parameters.frozen:
            return np.zeros_like(moved)
        return moved if parameters.layer is None else moved @ parameters.layer @ parameters.layer.T

    add(learnt(by_stir), "A", "E")
    add(learnt(by_pull), "B", "D")
    sides[POLARITY]["C"], sides[ATTENTION]["F"] = states @ by_output.T, keys @ by_query / scale
    if parameters.layer is not None:
        add(vectors @ (vectors.T @ by_stir), "A_layer", "E_layer")
        add(vectors @ (vectors.T @ by_pull), "B_layer", "D_layer")
    if parameters.key is not None:
        moved = (stir[:, None] * bent).T @ states  # of the matrix of additive attention
        sides[ATTENTION]["F_layer"] = (states @ moved.T * bent).sum(-1)
    ordered = {side: dict(sorted(terms.items())) for side, terms in sides.items()}
    return Flow(ordered[POLARITY], ordered[ATTENTION], polarity, scores, pull, stir, loss)


def _sums(
    scores: Floats, polarity: Floats, bags: Bags, codes: Numbers
) -> tuple[Floats, Floats, float]:
    """P [word, output], R [word] and the mean loss, from the scores of words."""
    size = len(scores)
    scores, polarity = (
        np.append(scores, 0.0),
        np.concatenate([polarity, np.zeros_like(polarity[:1])]),
    )  # unknown tokens
    weights = np.empty(len(bags.ids))
    kernels.softmax(scores[bags.ids], bags.starts, weights)
    each = polarity[bags.ids]
    logits = np.add.reduceat(weights[:, None] * each, bags.starts[:-1])
    if logits.shape[1] == 1:
        missed = codes[:, None] - expit(logits)
    else:
        missed = np.eye(logits.shape[1])[codes] - over_classes(logits, axis=1)
    loss = float(loss_of(torch.from_numpy(logits), torch.from_numpy(codes)))
    text = bags.text_of
    held = weights[:, None] * missed[text] / len(bags)
    away = (held * (each - logits[text])).sum(-1)
    pull: Floats = np.stack(
        [np.bincount(bags.ids, column, minlength=size + 1)[:size] for column in held.T], -1
    ).astype(np.float64)
    return pull, np.bincount(bags.ids, away, minlength=size + 1)[:size].astype(np.float64), loss


def autograd_flow(parameters: Parameters, bags: Bags, codes: Numbers) -> tuple[Floats, Floats]:
    """ds/dtau [word, output] and da/dtau [word] by automatic differentiation: both scores moved along the negative gradient of the loss. Slow; the reference of `flow_terms`."""
    names = [
        "query",
        "output",
        *([] if parameters.frozen else ["vectors"]),
        *(name for name in ("layer", "key") if getattr(parameters, name) is not None),
    ]
    start = {
        name: torch.from_numpy(np.array(getattr(parameters, name))) for name in ("vectors", *names)
    }
    starts, ids = bags.starts.tolist(), torch.from_numpy(bags.ids)

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


def check_flow(parameters: Parameters, bags: Bags, codes: Numbers) -> float:
    """The largest difference between the sums of terms and automatic differentiation, over both scores and all words, relative to the largest rate."""
    found, (polarity, attention) = (
        flow_terms(parameters, bags, codes),
        autograd_flow(parameters, bags, codes),
    )
    pairs = ((found.polarity_rate, polarity), (found.attention_rate, attention))
    return max(
        float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), np.finfo(float).tiny))
        for ours, theirs in pairs
    )
