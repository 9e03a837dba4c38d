"""The network: vectors of tokens, an encoder, attention, and a linear layer on the weighted sum; texts of any lengths side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from attlas.dynamics import kernels, recurrent
from attlas.dynamics.ragged import Numbers


@dataclass(frozen=True)
class Shape:
    """What a network is like."""

    words: int
    dim: int
    outputs: int  # one for two classes, else as many as classes
    attention: str
    encoder: str
    scale: float
    dropout: float


class Pool(torch.autograd.Function):
    """The sum of each text's vectors, weighted by the softmax of its scores; also the weights."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, scores: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        weights = torch.empty_like(scores)
        out = vectors.new_empty(len(starts) - 1, vectors.shape[1])
        kernels.softmax(scores.numpy(), starts.numpy(), weights.numpy())
        kernels.pool(vectors.numpy(), weights.numpy(), starts.numpy(), out.numpy())
        ctx.save_for_backward(vectors, weights, starts)
        ctx.mark_non_differentiable(weights)
        return out, weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None]:
        vectors, weights, starts = ctx.saved_tensors
        by_vector, by_score = torch.empty_like(vectors), torch.empty_like(weights)
        kernels.pool_back(
            vectors.numpy(),
            weights.numpy(),
            starts.numpy(),
            grad.contiguous().numpy(),
            by_vector.numpy(),
            by_score.numpy(),
        )
        return by_vector, by_score, None


@dataclass(frozen=True, eq=False)
class Steps:
    """How tokens of texts of many lengths are walked: `order` has the first tokens of all texts, the longest text first, then the second tokens, ...; `sizes` how many of each."""

    order: Tensor  # token
    sizes: Numbers  # step

    @classmethod
    def of(cls, starts: Numbers) -> Steps:
        lengths = np.diff(starts)
        longest = np.argsort(-lengths, kind="stable")
        sizes = len(lengths) - np.searchsorted(
            np.sort(lengths), np.arange(lengths.max()), side="right"
        )
        order = np.concatenate(
            [starts[:-1][longest[:size]] + step for step, size in enumerate(sizes)]
        )
        return cls(torch.from_numpy(order), sizes.astype(np.int64))


class Recurrent(torch.autograd.Function):
    """An LSTM over tokens in the order of `Steps`: one product for all inputs, one for each step, and nothing for padding."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, by_input: Tensor, by_state: Tensor, bias: Tensor, sizes: Numbers
    ) -> Tensor:
        gates = torch.addmm(bias, inputs, by_input.T)
        cells, bent, states = (inputs.new_empty(len(inputs), by_state.shape[1]) for _ in range(3))
        turned = by_state.detach().T.contiguous()
        recurrent.forward(
            gates.numpy(), turned.numpy(), sizes, cells.numpy(), bent.numpy(), states.numpy()
        )
        ctx.save_for_backward(inputs, by_input, by_state, gates, cells, bent, states)
        ctx.sizes = sizes
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        inputs, by_input, by_state, gates, cells, bent, states = ctx.saved_tensors
        out, earlier = torch.empty_like(gates), torch.zeros_like(states)
        given = (
            part.detach().numpy() for part in (grad.clone(), gates, cells, bent, states, by_state)
        )
        recurrent.backward(*given, ctx.sizes, out.numpy(), earlier.numpy())
        return out @ by_input, out.T @ inputs, out.T @ earlier, out.sum(0), None


class LSTM(nn.Module):
    """A recurrent layer of one direction, its matrices orthogonal at first as in the paper's code."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.by_input, self.by_state = (
            nn.Parameter(torch.empty(4 * width, width)) for _ in range(2)
        )
        self.bias = nn.Parameter(torch.zeros(4 * width))
        nn.init.orthogonal_(self.by_input)
        nn.init.orthogonal_(self.by_state)

    def forward(self, inputs: Tensor, starts: Numbers) -> Tensor:
        steps = Steps.of(starts)
        states: Tensor = Recurrent.apply(  # type: ignore[no-untyped-call]
            inputs[steps.order], self.by_input, self.by_state, self.bias, steps.sizes
        )
        return torch.empty_like(states).index_copy(0, steps.order, states)


class Network(nn.Module):
    """Scores, weights and logits from the vectors of tokens. V is `query`, W is `output`; nothing has a bias but the gates of the LSTM."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width = shape.dim
        self.layer: nn.Parameter | LSTM | None = None
        if shape.encoder == "affine":
            self.layer = nn.Parameter(_uniform(width, width))
        elif shape.encoder == "lstm":
            self.layer = LSTM(width)
        self.key = nn.Parameter(_uniform(width, width)) if shape.attention == "additive" else None
        self.query = nn.Parameter(torch.randn(width))
        self.output = nn.Parameter(_uniform(shape.outputs, width))

    def encode(self, vectors: Tensor, starts: Numbers) -> Tensor:
        """The representations of tokens: [token, dimension]."""
        if isinstance(self.layer, LSTM):
            return self.layer(vectors, starts)
        return vectors if self.layer is None else vectors @ self.layer.T

    def scores(self, states: Tensor) -> Tensor:
        """The attention scores of representations."""
        keys = states if self.key is None else torch.tanh(states @ self.key.T)
        return keys @ self.query / self.shape.scale

    def forward(self, vectors: Tensor, starts: Numbers) -> tuple[Tensor, Tensor]:
        """Logits [text, output] and the weight of every token."""
        states = self.encode(vectors, starts)
        pooled, weights = Pool.apply(states, self.scores(states), torch.from_numpy(starts))  # type: ignore[no-untyped-call]
        pooled = F.dropout(pooled, self.shape.dropout, self.training)
        return pooled @ self.output.T, weights

    def products(self) -> Tensor:
        """V.W of each output. Additive attention has V behind a matrix: there it is that matrix, transposed, times V, as if tanh x were x."""
        return self.output @ (self.query if self.key is None else self.key.T @ self.query)

    @property
    def encoders(self) -> list[nn.Parameter]:
        """The parameters of encoder layers, which a penalty may hold small: those of the layer and of additive attention, no bias."""
        if isinstance(self.layer, LSTM):
            layers = [self.layer.by_input, self.layer.by_state]
        else:
            layers = [] if self.layer is None else [self.layer]
        return layers if self.key is None else [*layers, self.key]


def _uniform(rows: int, width: int) -> Tensor:
    """As a linear layer of torch starts."""
    return (torch.rand(rows, width) * 2 - 1) / math.sqrt(width)
