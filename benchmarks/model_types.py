"""Every type of transformers' MODEL_MAPPING, tiny and with random weights, read and compared.

The reference is a copy that is built with eager attention and asked for its attentions. A text of 8
tokens is read, and one of 54, which is longer than all windows, chunks and choices of keys here.
`make survey` writes docs/model_types.csv; `python -m benchmarks.model_types bert gpt2` prints rows.
"""

from __future__ import annotations

import copy
import csv
import datetime
import multiprocessing
import sys
import time
import warnings
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from queue import Empty
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModel
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

import attlas
from attlas.models.install import sub_configs
from attlas.support.errors import AttlasError
from attlas.testing.models import tiny_tokenizer

PAGE = Path(__file__).parents[1] / "docs" / "model_types.csv"
PATIENCE = 120.0  # seconds for one type
LARGEST = 60_000_000  # parameters of a model that counts as tiny
SAME = 1e-6  # largest difference of weights that counts as equal
TEXTS = ("the cat sat on it and saw it", " ".join(["the cat sat on the mat and saw it"] * 6))
TOKENS = (8, 54)
LAYERS = 4  # of models whose layers are of several kinds; others have 2

SIZES: dict[int, str] = {
    64: """hidden_size d_model n_embd dim emb_dim embedding_size embed_dim hidden_dim model_dim
        word_embed_proj_dim intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim dim_ff
        n_inner ffn_hidden_size moe_intermediate_size shared_expert_intermediate_size d_inner
        inner_dim mlp_dim intermediate_dim intermediate_size_mlp shared_intermediate_size
        expert_ffn_hidden_size ffn_size hidden_size_per_layer_input projection_dim
        text_hidden_size lru_width encoder_hidden_size decoder_hidden_size attention_dim
        attention_hidden_size""",
    4: """num_attention_heads n_head n_heads num_heads encoder_attention_heads attention_heads
        decoder_attention_heads num_encoder_attention_heads num_decoder_attention_heads
        num_experts num_local_experts n_routed_experts moe_num_experts linear_num_value_heads
        num_attention_groups index_n_heads num_index_heads""",
    2: """num_key_value_heads num_kv_heads n_kv_heads multi_query_group_num num_hidden_layers n_layer
        n_layers num_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers
        num_experts_per_tok moe_topk moe_k top_k_experts num_experts_per_token
        linear_num_key_heads n_shared_experts attn_layer_period depth""",
    16: """head_dim d_kv attention_head_size kv_channels v_head_dim qk_head_dim
        linear_key_head_dim linear_value_head_dim index_head_dim global_head_dim
        swa_head_dim swa_v_head_dim""",
    32: "q_lora_rank kv_lora_rank image_size o_lora_rank",
    8: """sliding_window window_size local_attention attention_window attention_chunk_size
        qk_rope_head_dim qk_nope_head_dim index_topk patch_size mamba_d_state state_size
        sliding_window_size block_size index_block_size""",
    1: """n_group topk_group first_k_dense_replace attn_layer_offset num_hidden_groups
        num_nextn_predict_layers""",
    0: "num_kv_shared_layers",
}
KINDS = ("layer_types", "layers_block_type", "attention_layers", "block_types", "mlp_layer_types")
DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
SPECIAL: dict[str, dict[str, Any]] = {}  # sizes that follow from one another, by type


@dataclass(frozen=True)
class Row:
    """What came of one type."""

    type: str
    model: str  # its class
    verdict: str
    largest_difference: str  # of weights, in the short and the long text
    note: str


def shrunk(config: Any, vocabulary: int) -> Any:
    """The configuration with small sizes, in all of its parts."""
    for part in sub_configs([config]):
        for size, names in SIZES.items():
            for name in names.split():
                if isinstance(getattr(part, name, None), int):
                    _set(part, name, size)
        if isinstance(getattr(part, "vocab_size", None), int):
            _set(part, "vocab_size", vocabulary)
        for name, value in list(vars(part).items()):
            if name.endswith(("_token_id", "_token_index")) and isinstance(value, int):
                _set(part, name, min(value, 1))
            if name in ("rope_parameters", "rope_scaling") and isinstance(value, dict):
                for one in (value, *value.values()):
                    if isinstance(one, dict) and "mrope_section" in one:
                        one["mrope_section"] = [2, 3, 3]
        _shrink_kinds(part)
        for name, value in SPECIAL.get(part.model_type, {}).items():
            _set(part, name, value)
    return config


def _shrink_kinds(config: Any) -> None:
    """Keep one layer of each kind, and as many layers as there are entries then."""
    for name in KINDS:
        kinds = getattr(config, name, None)
        if not isinstance(kinds, list) or not kinds:
            continue
        each = list(dict.fromkeys(kinds))[:LAYERS]
        few = (each * LAYERS)[: max(LAYERS if len(each) > 1 else 2, len(each))]
        _set(config, name, few)
        for depth in DEPTHS:
            if isinstance(getattr(config, depth, None), int):
                _set(config, depth, len(few))


def _set(config: Any, name: str, value: Any) -> None:
    try:
        setattr(config, name, value)
    except (AttributeError, NotImplementedError):  # follows from others
        pass


def built(kind: str, eager: bool) -> Any:
    """A tiny network of this type; `eager` as the reference is built."""
    config = shrunk(AutoConfig.for_model(kind), len(tiny_tokenizer(marks=False)))
    if eager:
        for part in sub_configs([config]):
            part._attn_implementation = "eager"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = AutoModel.from_config(config, **({"attn_implementation": "eager"} if eager else {}))
        count = sum(one.numel() for one in network.parameters())
        if count > LARGEST:
            raise ValueError(f"too large to count as tiny: {count:,} parameters")
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.dim() > 1 and parameter.is_floating_point():
                    parameter.add_(torch.randn_like(parameter) * 0.12)
    return network.eval()


def surveyed(kind: str) -> Row:
    """Build a type, read it, and compare."""
    name = str(MODEL_MAPPING_NAMES[kind])
    try:
        network = built(kind, eager=False)
    except Exception as error:  # of any kind
        return Row(kind, name, "not built", "", _line(error))
    name = type(network).__name__
    model: Any = None
    read: list[tuple[Any, Any]] = []
    try:
        model = attlas.load((network, tiny_tokenizer(marks=False)))
        for text, tokens in zip(TEXTS, TOKENS, strict=True):
            read.append(_read(model, text, tokens))
    except AttlasError as error:
        return Row(kind, name, "refused", "", _line(error))
    except Exception as error:
        return Row(kind, name, "RAW TRACEBACK", "", _line(error))
    try:
        reference = built(kind, eager=True)
        reference.load_state_dict(network.state_dict())
        expected = [_reference(model, reference, one) for one in read]
    except Exception as error:
        return Row(kind, name, "read, without a reference", "", _line(error))
    if any(one is None for one in expected):
        return Row(kind, name, "read, without a reference", "", "attentions are not n x n weights")
    differences = [_difference(one[1], other) for one, other in zip(read, expected, strict=True)]
    verdict = "exact" if max(differences) <= SAME else "WRONG"
    return Row(kind, name, verdict, " ".join(f"{one:.1e}" for one in differences), "")


def _read(model: Any, text: str, tokens: int) -> tuple[Any, list[Any]]:
    """A batch of one text, and the weights of every layer as Attlas reads them."""
    batch = next(iter(model.batches(model.encode([(0, attlas.Text("a", text))]))))
    if batch.n_tokens != tokens:
        raise ValueError(f"the text has {batch.n_tokens} tokens, not {tokens}")
    layers: list[Any] = []
    model.forward(batch, lambda layer: layers.append(layer.dense().weights.clone()))
    batch.forget()
    return batch, layers


def _reference(model: Any, reference: Any, read: tuple[Any, list[Any]]) -> list[Any] | None:
    """The attentions that the library returns for a batch; None if they are no square weights."""
    part = attlas.load((reference, model.tokenizer)).part
    with torch.no_grad():
        output = part(input_ids=read[0].ids, **read[0].inputs, output_attentions=True)
    weights = getattr(output, "attentions", None)
    if not weights:
        return None
    n = read[0].n_tokens
    kept = [one for one in weights if isinstance(one, torch.Tensor)]
    square = all(one.dim() == 4 and one.shape[-2:] == (n, n) for one in kept)
    sums = [one.sum(-1) for one in kept] if square else []
    sound = bool(kept) and square and all(bool((one <= 1.01).all()) for one in sums)
    return kept if sound and all(bool((one >= 0).all()) for one in kept) else None


def _difference(read: list[Any], expected: list[Any]) -> float:
    if len(read) != len(expected) or any(
        one.shape != other.shape for one, other in zip(read, expected, strict=True)
    ):
        return float("inf")
    each = [float((one - other).abs().max()) for one, other in zip(read, expected, strict=True)]
    return max(each)


def _line(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [""])[0]
    named = text if isinstance(error, AttlasError) else f"{type(error).__name__}: {text}"
    return named[:160]


def _survey_into(kind: str, results: Any) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    results.put(astuple(surveyed(kind)))


def isolated(kind: str) -> Row:
    """Survey one type in a process of its own, which may take a limited time."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=_survey_into, args=(kind, results), daemon=True)
    process.start()
    try:
        row = Row(*results.get(timeout=PATIENCE))
    except Empty:
        row = Row(kind, "", "not built", "", f"no result after {PATIENCE:.0f} s")
        process.kill()
    process.join()
    return row


def main(kinds: list[str]) -> None:
    began, rows = time.monotonic(), []
    for number, kind in enumerate(every := kinds or sorted(MODEL_MAPPING_NAMES), 1):
        rows.append(row := isolated(kind))
        print(f"{number}/{len(every)} {' | '.join(astuple(row))}", flush=True)
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    print(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    print(f"{time.monotonic() - began:.0f} s")
    if not kinds:
        with PAGE.open("w", encoding="utf-8", newline="") as file:
            file.write(f"# transformers {transformers.__version__}, {datetime.date.today()}\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([one.name for one in fields(Row)])
            writer.writerows(map(astuple, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
