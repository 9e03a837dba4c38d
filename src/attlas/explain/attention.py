"""Attention as an explanation: what tokens receive, what the answering token looks at, roll-out, and attention times its gradient.

Nothing square is made of long texts: roll-out wants one row of a product of matrices, so a row of amounts is carried down from the last layer to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.explain.gradients import Field
from attlas.explain.target import readers
from attlas.models.embeddings import checkpointed
from attlas.support.errors import ModelError

Floats = npt.NDArray[np.float64]
WITH_GRADIENTS = ("attention_x_gradient", "gradient_rollout")
SCALED = ("attention_last_scaled", "attention_all_scaled")


def attention_scores(
    methods: Sequence[str], field: Field, importance: Floats | None = None
) -> dict[str, Tensor]:
    """The scores of the tokens of a batch by each method, [text, token], from one pass of the model (and one back if a method needs gradients)."""
    layers: list[Attention] = []
    wanted = any(method in WITH_GRADIENTS for method in methods)
    if wanted:
        _read_back(field, layers)
    else:
        field.model.forward(field.batch, layers.append, with_head=True)
    first = layers[0].dense() if not field.model.banded else None
    causal = (
        first is not None
        and first.visible is not None
        and not bool(first.visible[0, :, 0, -1].any())
    )
    answering = readers(field.model, field.batch, field.aim, causal)
    found = {
        method: METHODS[method](layers, answering, importance).double().cpu() for method in methods
    }
    field.check(*found.values())
    return found


def _read_back(field: Field, layers: list[Attention]) -> None:
    """Run the batch with its layers' weights kept, and back from the explained number to its embeddings; no parameter's `grad` is written."""
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in field.inputs.items()}
    aim = field.aim
    with (
        checkpointed(
            field.model, False
        ),  # the weights of all layers are kept anyway, and a layer must be seen once
        field.embeddings.replacing(leaves),
        field.model.reading(layers.append, gradients=True, with_head=True) as read,
    ):
        values = aim.values(read(field.batch), field.every)
        torch.autograd.grad(values.sum(), list(leaves.values()))


def _last(layers: Sequence[Attention], answering: Tensor, importance: Floats | None) -> Tensor:
    return layers[-1].received.mean(1)


def _all(layers: Sequence[Attention], answering: Tensor, importance: Floats | None) -> Tensor:
    return torch.stack([layer.received.mean(1) for layer in layers]).mean(0)


def _scaled(layers: Sequence[Attention], importance: Floats | None, chosen: slice) -> Tensor:
    if importance is None:
        raise ModelError(
            "scaled attention needs the importance of heads; give importance=, a study with that measure or an array [layer, head] (--importance)"
        )
    if importance.shape != (len(layers), layers[0].n_heads):
        raise ModelError(
            f"importance has the shape {list(importance.shape)}; the model has {len(layers)} layers x {layers[0].n_heads} heads"
        )
    received = torch.stack([layer.received for layer in layers[chosen]])  # layer text head token
    weights = torch.from_numpy(importance[chosen]).to(received)
    if not float(weights.sum()) > 0:
        raise ModelError(
            "no head of these layers has an importance above 0; there is nothing to scale by"
        )
    return torch.einsum("lthk,lh->tk", received, weights / weights.sum())


def _last_scaled(
    layers: Sequence[Attention], answering: Tensor, importance: Floats | None
) -> Tensor:
    return _scaled(layers, importance, slice(-1, None))


def _all_scaled(
    layers: Sequence[Attention], answering: Tensor, importance: Floats | None
) -> Tensor:
    return _scaled(layers, importance, slice(None))


def _answering_row(
    layers: Sequence[Attention], answering: Tensor, importance: Floats | None
) -> Tensor:
    return layers[-1].carried(answering).mean(1)


def _rollout(layers: Sequence[Attention], answering: Tensor, importance: Floats | None) -> Tensor:
    """Abnar and Zuidema 2020: each layer is half attention (mean of heads), half the residual; their product, read by the answering token."""
    row = answering
    for layer in reversed(layers):
        row = (row + layer.carried(row).mean(1)) / 2
    return row


def _times_gradient(
    layers: Sequence[Attention], answering: Tensor, importance: Floats | None
) -> Tensor:
    """What the answer would lose, to first order, if no query attended to a token: weight times gradient, summed over queries, heads and layers."""
    return torch.stack([layer.times(layer.gradient()).received.sum(1) for layer in layers]).sum(0)


def _gradient_rollout(
    layers: Sequence[Attention], answering: Tensor, importance: Floats | None
) -> Tensor:
    """Chefer et al. 2021: as roll-out, with weight times gradient where above 0 (mean of heads) beside the whole residual; the answering token's own start is taken off."""
    row = torch.zeros_like(
        answering
    )  # beside the answering token's own start, which would drown small numbers
    for layer in reversed(layers):
        row = row + layer.times(layer.gradient(), positive=True).carried(answering + row).mean(1)
    return row


METHODS: dict[str, Callable[[Sequence[Attention], Tensor, Floats | None], Tensor]] = {
    "attention_last": _last,
    "attention_all": _all,
    "attention_last_scaled": _last_scaled,
    "attention_all_scaled": _all_scaled,
    "cls_row": _answering_row,
    "rollout": _rollout,
    "attention_x_gradient": _times_gradient,
    "gradient_rollout": _gradient_rollout,
}
