"""The network: token vectors, an encoder, attention, and a linear layer on the weighted sum."""

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
    """The sizes and kinds of the layers of a network."""

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
        kernels.pool_backward(
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
    """The order in which a recurrent layer reads texts of many lengths.

    `order` has the first tokens of all texts, the longest text first, then the second tokens, ...;
    `sizes` has the number of each.
    """

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
    """An LSTM over tokens in the order of `Steps`: one product for all inputs, one per step."""

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
        out, sizes = torch.empty_like(gates), ctx.sizes
        saved = (part.detach().numpy() for part in (grad.clone(), gates, cells, bent, by_state))
        recurrent.backward(*saved, sizes, out.numpy())
        before = np.arange(sizes[0], len(states)) - np.repeat(sizes[:-1], sizes[1:])
        earlier = torch.zeros_like(states)  # the state before each token
        earlier[sizes[0] :] = states[torch.from_numpy(before)]
        return out @ by_input, out.T @ inputs, out.T @ earlier, out.sum(0), None


class LSTM(nn.Module):
    """An LSTM of one direction, initialised orthogonally as in the code of Sun and Lu (2020)."""

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
    """Scores, weights and logits from token vectors; V is `query` and W is `output`."""

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
        pooled, weights = Pool.apply(  # type: ignore[no-untyped-call]
            states, self.scores(states), torch.from_numpy(starts)
        )
        pooled = F.dropout(pooled, self.shape.dropout, self.training)
        return pooled @ self.output.T, weights

    def products(self) -> Tensor:
        """V.W of each output; for additive attention with tanh x taken as x."""
        return self.output @ (self.query if self.key is None else self.key.T @ self.query)

    @property
    def encoders(self) -> list[nn.Parameter]:
        """The matrices under the L2 penalty: those of the encoder and of additive attention."""
        if isinstance(self.layer, LSTM):
            layers = [self.layer.by_input, self.layer.by_state]
        else:
            layers = [] if self.layer is None else [self.layer]
        return layers if self.key is None else [*layers, self.key]


def _uniform(rows: int, width: int) -> Tensor:
    """The initial weights of a linear layer in torch."""
    return (torch.rand(rows, width) * 2 - 1) / math.sqrt(width)
