"""Longformers made from models for short texts, as in Beltagy, Peters and Cohan (2020)."""

from __future__ import annotations

import copy
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import LongformerConfig, PreTrainedModel

from attlas.models.families import FAMILIES, OTHER, Names
from attlas.models.model import PERIOD, Model
from attlas.support.errors import ModelError

LENGTH, WINDOW = 4096, 512
TASKS = ("Model", "ForSequenceClassification", "ForMaskedLM")


def check_lengthened(
    short: Model, length: int = LENGTH, window: int = WINDOW, skip: int = 0
) -> None:
    """Refuse a model that cannot be lengthened, and options that do not fit it."""
    config, target = short.network.config, _target(short)
    if target is None:
        raise ModelError(
            f"{type(short.network).__name__} cannot be lengthened; "
            "give a BERT or RoBERTa as a base model, a classifier or a masked language model"
        )
    if window < 4 or window % 2:
        raise ModelError(f"window is {window}; it must be even and at least 4")
    if target == "LongformerForMaskedLM" and config.hidden_act != "gelu":
        raise ModelError(
            f"this masked language model has the activation {config.hidden_act!r}, but "
            "Longformer's head needs gelu; lengthen it as a base model (task='base')"
        )
    positions, _ = _positions(short.network)
    if not 0 <= skip < len(positions):
        raise ModelError(
            f"skip is {skip}; it must be at least 0 and below the number of positions, "
            f"{len(positions)}"
        )
    if length < len(positions):
        raise ModelError(f"length is {length}, but the model takes {len(positions)} tokens already")


def lengthened(short: Model, length: int = LENGTH, window: int = WINDOW, skip: int = 0) -> Model:
    """A Longformer of `length` tokens from a BERT-like or RoBERTa-like model: see `lengthen`."""
    check_lengthened(short, length, window, skip)
    names = FAMILIES[short.network.config.model_type].longformer
    positions, offset = _positions(short.network)
    period = 0 if skip else len(positions)
    network = _network(_target(short), _config(short, length, window, period))
    weights = {
        _renamed(name, names): tensor
        for name, tensor in short.network.state_dict().items()
        if not name.endswith("position_ids")
    }
    _lengthen_positions(weights, positions, offset, skip, network.config)
    _copy_projections(weights)
    _fill(network, weights)
    tokenizer = copy.deepcopy(short.tokenizer)
    tokenizer.model_max_length = length
    network = network.to(device=short.device, dtype=short.network.dtype).eval()
    name = f"{short.name} lengthened to {length:,} tokens, window {window}"
    return Model(network, tokenizer, name, short.task)


def _target(short: Model) -> str | None:
    """Longformer's class for the task of a model; None if there is none."""
    family = FAMILIES.get(short.network.config.model_type, OTHER).model_class
    tasks = {f"{family}{task}": f"Longformer{task}" for task in TASKS} if family else {}
    return tasks.get(type(short.network).__name__)


def _renamed(name: str, names: Names) -> str:
    """Longformer's name for a weight."""
    for theirs, ours in names:
        if name.startswith(theirs):
            return name.replace(theirs, ours, 1)
    return name


def _positions(network: PreTrainedModel) -> tuple[Tensor, int]:
    """The position embeddings, and the row at which they begin: RoBERTa's after the padding id."""
    table = next(
        module for name, module in network.named_modules() if name.endswith("position_embeddings")
    )
    offset = 0 if table.padding_idx is None else int(table.padding_idx) + 1
    return table.weight[offset:].detach(), offset


def _config(short: Model, length: int, window: int, period: int) -> LongformerConfig:
    kept = (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "hidden_act",
        "hidden_dropout_prob",
        "type_vocab_size",
        "initializer_range",
        "layer_norm_eps",
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "id2label",
        "label2id",
        "tie_word_embeddings",
    )
    config = short.network.config
    padding = config.pad_token_id if config.pad_token_id is not None else 0
    options = {name: getattr(config, name) for name in kept if hasattr(config, name)}
    sep = getattr(short.tokenizer, "sep_token_id", None)
    return LongformerConfig(
        **{
            **options,
            "pad_token_id": padding,
            "sep_token_id": 2 if sep is None else sep,
            "attention_window": [window] * config.num_hidden_layers,
            "attention_probs_dropout_prob": 0.0,
            "max_position_embeddings": length + padding + 1,
            PERIOD: period,
        }
    )


def _network(target: str | None, config: LongformerConfig) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return getattr(transformers, str(target))(config)


def _lengthen_positions(
    weights: dict[str, Tensor], positions: Tensor, offset: int, skip: int, config: Any
) -> None:
    """Repeat the position embeddings except the first `skip`; keep RoBERTa's rows before them."""
    (name,) = [name for name in weights if name.endswith("embeddings.position_embeddings.weight")]
    first = config.pad_token_id + 1
    table = positions.new_zeros(config.max_position_embeddings, positions.shape[1])
    if offset == first:
        table[:first] = weights[name][:first]
    order = torch.arange(len(table) - first, device=positions.device)
    repeated = skip + (order - skip) % (len(positions) - skip)
    table[first:] = positions[torch.where(order < skip, order, repeated)]
    weights[name] = table


def _copy_projections(weights: dict[str, Tensor]) -> None:
    """Copy the projections of all tokens to those of global tokens."""
    for name in list(weights):
        if ".attention.self." in f".{name}":
            stem, _, kind = name.rpartition(".")
            weights[f"{stem}_global.{kind}"] = weights[name].clone()


def _fill(network: Any, weights: dict[str, Tensor]) -> None:
    missing, unknown = network.load_state_dict(weights, strict=False)
    missing = [name for name in missing if "pooler" not in name and "decoder" not in name]
    unknown = [name for name in unknown if "pooler" not in name]
    if missing or unknown:
        raise ModelError(
            f"this model cannot be lengthened: its weights do not fit a Longformer "
            f"({len(missing)} missing, {len(unknown)} unknown, such as {(missing + unknown)[0]})"
        )
    network.tie_weights()
