"""Forward passes of a classifier: logits and the input of its last layer, in batches of one length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from transformers import (
    PreTrainedModel,
)

from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.models.model import Model
from attlas.support.errors import ModelError

Floats = npt.NDArray[np.floating[Any]]


def logits_of(model: Model, texts: Sequence[Text], tell: Callable[[int], None] = lambda done: None) -> Floats:
    """What a classifier says of each text: [text, label]. Batches of one length, no padding."""
    out: dict[int, Floats] = {}

    def keep(batch: Batch, output: Any) -> None:
        out.update(zip(batch.places, output.logits.float().cpu().numpy(), strict=True))
        tell(len(out))

    _over(model, texts, keep)
    return np.stack([out[place] for place in range(len(texts))])


def _over(model: Model, texts: Sequence[Text], take: Callable[[Batch, Any], None]) -> None:
    encoder = model.classifying_encoder
    with model.in_blocks(), torch.inference_mode():
        for group in encoder.groups(encoder.encode(list(enumerate(texts))), tokens=4096, cells=2**20):
            batch = encoder.batch(group, model.device)
            take(batch, model.network(input_ids=batch.ids, **batch.inputs))


def last_layer(network: PreTrainedModel) -> nn.Linear:
    """The layer that gives a classifier its logits."""
    own = {id(module) for module in network.base_model.modules()}
    layers = [module for module in network.modules() if isinstance(module, nn.Linear) and id(module) not in own]
    layers = [layer for layer in layers if layer.out_features == network.config.num_labels]
    if not layers:
        raise ModelError(
            f"{type(network).__name__} has no last linear layer to fit; fine-tune all of it, without head_only (--head-only)"
        )
    return layers[-1]


def head_inputs(model: Model, texts: Sequence[Text]) -> Floats:
    """What goes into the last layer of a classifier for each text: [text, feature]."""
    layer = last_layer(model.network)
    seen: list[torch.Tensor] = []
    out: dict[int, Floats] = {}
    hook = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))

    def keep(batch: Batch, output: Any) -> None:
        states = seen.pop().float()
        if states.dim() == 3:  # logits of every token, one of them taken: find which
            every = nn.functional.linear(states, layer.weight, layer.bias)
            place = int((every - output.logits[:, None]).abs().sum((0, 2)).argmin())
            states = states[:, place]
        out.update(zip(batch.places, states.double().cpu().numpy(), strict=True))

    try:
        _over(model, texts, keep)
    finally:
        hook.remove()
    return np.stack([out[place] for place in range(len(texts))])
