"""Attention as an explanation: attention received, rollout, and attention times its gradient.

Nothing square is made of long texts: rollout needs one row of a product of matrices, so a row of
amounts is propagated from the last layer to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.explain.gradients import GradientEvaluator
from attlas.explain.target import readers
from attlas.models import Model
from attlas.models.embeddings import checkpointed
from attlas.support.arrays import Floats
from attlas.support.errors import ModelError

WITH_GRADIENTS = ("attention_x_gradient", "gradient_rollout")
SCALED = ("attention_last_scaled", "attention_all_scaled")


@dataclass(frozen=True, eq=False)
class Read:
    """What methods read: all layers, how much the prediction reads each token, and importance."""

    layers: Sequence[Attention]
    answering: Tensor  # text token
    n_heads: int
    importance: Floats | None = None  # layer head

    @property
    def uniform(self) -> Read:
        """The same with every row of attention spread evenly over what it sees."""
        return replace(self, layers=[layer.uniform for layer in self.layers])


def attention_scores(
    methods: Sequence[str], evaluator: GradientEvaluator, importance: Floats | None = None
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The scores of the tokens of a batch by each method, and by uniform attention: [text, token].

    One forward pass serves all, and one backward pass if a method needs gradients. Methods that
    need them have no scores by uniform attention.
    """
    layers: list[Attention] = []
    model, batch = evaluator.model, evaluator.batch
    if any(method in WITH_GRADIENTS for method in methods):
        _read_with_gradients(evaluator, layers)
    else:
        model.forward(batch, layers.append, with_head=True)
    first = layers[0].dense() if not model.banded else None
    causal = (
        first is not None
        and first.visible is not None
        and not bool(first.visible[0, :, 0, -1].any())
    )
    answering = readers(model, batch, evaluator.resolved, causal)
    read = Read(layers, answering, layers[0].n_heads, importance)
    scores = {method: METHODS[method](read).double().cpu() for method in methods}
    evaluator.check(*scores.values())
    controlled = [method for method in methods if method not in WITH_GRADIENTS]
    return scores, {method: _by_uniform(method, read) for method in controlled}


def _by_uniform(method: str, read: Read) -> Tensor:
    """The scores of a method if all attention were uniform, [text, token]."""
    return METHODS[method](read.uniform).double().cpu().expand(len(read.answering), -1)


def received_attention(model: Model, batch: Batch) -> tuple[Floats, Floats]:
    """Attention received over all layers, and that of uniform attention, [text, token] each.

    The same as `attention_all`, but no layer is kept.
    """
    received: list[Tensor] = []
    uniform: list[Tensor] = []

    def add(layer: Attention) -> None:
        received.append(layer.received.mean(1).detach())
        uniform.append(layer.uniform.received.mean(1).expand(layer.n_texts, -1))

    model.forward(batch, add)
    one, other = (torch.stack(part).mean(0).double().cpu().numpy() for part in (received, uniform))
    return one, other


def _read_with_gradients(evaluator: GradientEvaluator, layers: list[Attention]) -> None:
    """Run the batch and back from the explained number; keep all layers, write no `grad`."""
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in evaluator.inputs.items()}
    target = evaluator.resolved
    with (
        checkpointed(evaluator.model, False),  # each layer must be seen once, and is kept anyway
        evaluator.embeddings.replacing(leaves),
        evaluator.model.reading(layers.append, gradients=True, with_head=True) as read,
    ):
        values = target.values(read(evaluator.batch), evaluator.every)
        torch.autograd.grad(values.sum(), list(leaves.values()))


def _scaled(read: Read, chosen: slice) -> Tensor:
    """Attention received in some layers, heads weighted by importance."""
    layers, importance = read.layers, read.importance
    if importance is None:
        raise ModelError(
            "scaled attention needs the importance of heads; give importance=, a study with that "
            "measure or an array [layer, head] (--importance)"
        )
    if importance.shape != (len(layers), read.n_heads):
        raise ModelError(
            f"importance has the shape {list(importance.shape)}; the model has {len(layers)} "
            f"layers x {read.n_heads} heads"
        )
    received = torch.stack(  # layer text head token
        [layer.received.expand(-1, read.n_heads, -1) for layer in layers[chosen]]
    )
    weights = torch.from_numpy(importance[chosen]).to(received)
    if not float(weights.sum()) > 0:
        raise ModelError("no head of these layers has an importance above 0; nothing to scale by")
    return torch.einsum("lthk,lh->tk", received, weights / weights.sum())


def _rollout(read: Read) -> Tensor:
    """Abnar and Zuidema 2020: the product of layers that are half attention, half residual.

    Heads are averaged; the product is read by the answering token.
    """
    row = read.answering
    for layer in reversed(read.layers):
        row = (row + layer.propagate(row).mean(1)) / 2
    return row


def _times_gradient(read: Read) -> Tensor:
    """Weight times gradient, summed over queries, heads and layers.

    To first order, what the prediction would lose if no query attended to a token.
    """
    products = [layer.times(layer.gradient()).received.sum(1) for layer in read.layers]
    return torch.stack(products).sum(0)


def _gradient_rollout(read: Read) -> Tensor:
    """Chefer et al. 2021: rollout of the positive part of weight times gradient (mean of heads).

    The residual counts in full, and the answering token's own start is subtracted.
    """
    start = read.answering
    row = torch.zeros_like(start)  # without the start, in which small numbers would be lost
    for layer in reversed(read.layers):
        row = row + layer.times(layer.gradient(), positive=True).propagate(start + row).mean(1)
    return row


METHODS: dict[str, Callable[[Read], Tensor]] = {
    "attention_last": lambda read: read.layers[-1].received.mean(1),
    "attention_all": lambda read: torch.stack([one.received.mean(1) for one in read.layers]).mean(
        0
    ),
    "attention_last_scaled": lambda read: _scaled(read, slice(-1, None)),
    "attention_all_scaled": lambda read: _scaled(read, slice(None)),
    "cls_row": lambda read: read.layers[-1].propagate(read.answering).mean(1),
    "rollout": _rollout,
    "attention_x_gradient": _times_gradient,
    "gradient_rollout": _gradient_rollout,
}
