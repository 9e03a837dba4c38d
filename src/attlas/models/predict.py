"""Forward passes that keep no attention: logits, inputs of the last layer, hidden states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.models.encode import FORWARD_CELLS, FORWARD_TOKENS, forward_options
from attlas.models.install import without_traces
from attlas.models.model import Model
from attlas.support.arrays import AnyFloats
from attlas.support.errors import CorpusError, ModelError


def run_batches(
    model: Model,
    texts: Sequence[Text],
    take: Callable[[Batch, Any], None],
    *,
    head: bool = True,
    states: bool = False,
) -> list[int]:
    """Run texts in batches of one length, without padding, and `take` each batch and output.

    The whole network runs; without `head`, the part whose attention is read. With `states` the
    output has `hidden_states`. `batch.indices` are indices in `texts`. Texts without tokens are
    skipped: their indices are returned.
    """
    network = model.network if head else model.part
    encoder = model.full_encoder if head else model.encoder
    options = forward_options(network, states)
    encoded = encoder.encode(list(enumerate(texts)))
    some = [one for one in encoded if len(one)]
    groups = encoder.groups(some, tokens=FORWARD_TOKENS, cells=FORWARD_CELLS)
    traces = without_traces(network) if states else nullcontext()
    with traces, model.without_dropout(), model.fast_longformer(), torch.inference_mode():
        for group in groups:
            batch = encoder.batch(group, model.device)
            take(batch, network(input_ids=batch.ids, **batch.inputs, **options))
    return [one.index for one in encoded if not len(one)]


def logits_of(model: Model, texts: Sequence[Text]) -> AnyFloats:
    """The logits of a classifier for each text: [text, label]."""
    out: dict[int, AnyFloats] = {}

    def keep(batch: Batch, output: Any) -> None:
        out.update(zip(batch.indices, output.logits.float().cpu().numpy(), strict=True))

    return _in_order(out, texts, run_batches(model, texts, keep))


def _in_order(
    rows: Mapping[int, AnyFloats], texts: Sequence[Text], empty: Sequence[int]
) -> AnyFloats:
    """The rows of all texts in order; texts without tokens are refused."""
    if empty:
        text = texts[empty[0]]
        raise CorpusError(
            f"the tokenizer produces no tokens for text {text.id!r} ({text.text[:40]!r}); remove it"
        )
    return np.stack([rows[index] for index in range(len(texts))])


def last_layer(network: PreTrainedModel) -> nn.Linear:
    """The layer that gives a classifier its logits."""
    own = {id(module) for module in network.base_model.modules()}
    layers = [
        module
        for module in network.modules()
        if isinstance(module, nn.Linear) and id(module) not in own
    ]
    layers = [layer for layer in layers if layer.out_features == network.config.num_labels]
    if not layers:
        raise ModelError(
            f"{type(network).__name__} has no last linear layer to train; "
            "fine-tune all of it, without head_only (--head-only)"
        )
    return layers[-1]


def head_inputs(model: Model, texts: Sequence[Text]) -> AnyFloats:
    """The inputs of the last layer of a classifier for each text: [text, feature]."""
    layer = last_layer(model.network)
    captured: list[torch.Tensor] = []
    out: dict[int, AnyFloats] = {}
    hook = layer.register_forward_pre_hook(lambda _, inputs: captured.append(inputs[0]))

    def keep(batch: Batch, output: Any) -> None:
        states = captured.pop().float()
        if states.dim() == 3:  # logits of every token: find the one that is used
            every = nn.functional.linear(states, layer.weight, layer.bias)
            position = int((every - output.logits[:, None]).abs().sum((0, 2)).argmin())
            states = states[:, position]
        out.update(zip(batch.indices, states.double().cpu().numpy(), strict=True))

    try:
        empty = run_batches(model, texts, keep)
    finally:
        hook.remove()
    return _in_order(out, texts, empty)
