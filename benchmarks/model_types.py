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
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from queue import Empty
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModel, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

import attlas
from attlas.models.compared import largest_difference, square_weights
from attlas.models.install import sub_configs
from attlas.support.errors import AttlasError
from attlas.testing.models import tiny_tokenizer

PAGE = Path(__file__).parents[1] / "docs" / "model_types.csv"
MODELS = PAGE.with_name("models.md")
BEGIN, END = "<!-- survey -->", "<!-- end of the survey -->"
VERDICTS = (
    ("exact", "the weights of all layers are those of eager attention, to 1e-6"),
    ("read, without a reference", "the library returns no square weights to compare with"),
    ("refused", "needs an image or sound, or has no softmax between tokens; one clear line"),
    ("not built", "not built tiny by these rules, or needs a package that is not installed"),
    ("WRONG", "other weights than those of eager attention"),
    ("RAW TRACEBACK", "an error of the library reaches the user"),
)
PATIENCE = 120.0  # seconds for one type
LARGEST = 100_000_000  # parameters of a model that counts as tiny
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
        num_attention_groups index_n_heads num_index_heads swa_num_attention_heads""",
    2: """num_key_value_heads num_kv_heads n_kv_heads multi_query_group_num num_hidden_layers
        n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers
        num_decoder_layers num_experts_per_tok moe_topk moe_k top_k_experts num_experts_per_token
        linear_num_key_heads n_shared_experts swa_num_key_value_heads attn_layer_period depth""",
    16: """head_dim d_kv attention_head_size kv_channels v_head_dim qk_head_dim
        linear_key_head_dim linear_value_head_dim index_head_dim global_head_dim
        swa_head_dim swa_v_head_dim""",
    32: "q_lora_rank kv_lora_rank image_size o_lora_rank",
    8: """sliding_window window_size local_attention attention_window attention_chunk_size
        qk_rope_head_dim qk_nope_head_dim index_topk patch_size mamba_d_state state_size
        sliding_window_size block_size index_block_size rotary_dim""",
    1: """n_group topk_group first_k_dense_replace attn_layer_offset num_hidden_groups
        num_nextn_predict_layers""",
    0: "num_kv_shared_layers",
}
WITHOUT_DEFAULT = {
    "head_dim": 16,
    "num_key_value_heads": 2,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 64,
}
LATENT = {"head_dim": 8, "num_key_value_heads": 4}
KINDS = ("layer_types", "layers_block_type", "attention_layers", "block_types", "mlp_layer_types")
DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
# what follows from other sizes, or has no default, by type
_ZAMBA = {"attention_hidden_size": 128, "attention_head_dim": 32}
SPECIAL: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "bailing_hybrid": {
        "num_expert_group": 1,
        "layer_group_size": 2,
        "linear_head_dim": 16,
        "linear_num_heads": 4,
    },
    "big_bird": {"attention_type": "original_full"},  # blocks have no square weights
    "chameleon": {"vocabulary_map": {"<image>": 5}},
    "esm": {"pad_token_id": 1, "mask_token_id": 4},
    "funnel": {"block_sizes": [1, 1], "block_repeats": [1, 1]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lilt": {"hidden_size": 96},
    "mistral4": {"head_dim": 16},
    "unlimited_ocr_text": {"num_key_value_heads": 4},
    "xmod": {"default_language": "en_XX"},
    "zamba": _ZAMBA,
    "zamba2": {**_ZAMBA, "mamba_headdim": 16, "n_mamba_heads": 8},
}


@dataclass(frozen=True)
class Row:
    """What came of one type."""

    type: str
    model: str  # its class
    verdict: str
    largest_difference: str  # of weights, in the short and the long text
    note: str


def sizes(config: Any, vocabulary: int) -> dict[str, Any]:
    """Small values for the sizes that a configuration has."""
    known = {name: value for name, value in vars(config).items() if not name.startswith("__")}
    small = {name: size for size, names in SIZES.items() for name in names.split()}
    out: dict[str, Any] = {
        name: small[name]
        for name, value in known.items()
        if name in small and isinstance(value, int) and not isinstance(value, bool)
    }
    out |= {
        name: size
        for name, size in WITHOUT_DEFAULT.items()
        if name in known and known[name] is None
    }
    for name, value in known.items():
        if "vocab_size" in name and (isinstance(value, int) or name == "vocab_size"):
            out[name] = vocabulary
        if name.endswith(("_token_id", "_token_index")) and isinstance(value, int):
            out[name] = min(value, 1)
        if name == "rope_parameters" and isinstance(value, dict):
            out[name] = _rope(value, "qk_rope_head_dim" in known)
    if "qk_rope_head_dim" in known:  # latent attention: a key for every head
        out |= {name: size for name, size in LATENT.items() if name in known}
    return {**out, **_few_kinds(known), **SPECIAL.get(config.model_type, {})}


def _rope(parameters: dict[str, Any], is_latent: bool) -> dict[str, Any]:
    """Rotary embeddings whose axes of images have parts that add up."""
    out = copy.deepcopy(parameters)
    for one in [] if any(isinstance(one, dict) for one in out.values()) else [out]:
        half = int((8 if is_latent else 16) * (one.get("partial_rotary_factor") or 1)) // 2
        one["mrope_section"] = [half // 4, half // 4, half - 2 * (half // 4)]
    return out


def _few_kinds(known: dict[str, Any]) -> dict[str, Any]:
    """One layer of each kind, and as many layers as there are entries then."""
    every = {name: known.get(name) for name in KINDS}
    kinds = {name: list(dict.fromkeys(one)) for name, one in every.items() if _is_list(one)}
    if not kinds:
        return {}
    layers = LAYERS if any(len(one) > 1 for one in kinds.values()) else 2
    depths = {name: layers for name in DEPTHS if isinstance(known.get(name), int)}
    return {**depths, **{name: (one * layers)[:layers] for name, one in kinds.items()}}


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0


def rebuilt(config: Any, vocabulary: int) -> Any:
    """The configuration made anew with small sizes: what follows from them is computed."""
    values = sizes(config, vocabulary)
    for name in config.sub_configs:
        if isinstance(part := getattr(config, name, None), PretrainedConfig):
            values[name] = rebuilt(part, vocabulary)
    return type(config)(**values)


def shrunk(config: Any, vocabulary: int) -> Any:
    """The configuration with small sizes put into all of its parts."""
    for part in sub_configs([config]):
        for name, value in sizes(part, vocabulary).items():
            with suppress(AttributeError, NotImplementedError):  # follows from others
                setattr(part, name, value)
    return config


WAYS: tuple[Callable[[Any, int], Any], ...] = (rebuilt, shrunk)


def built(kind: str, way: Callable[[Any, int], Any], eager: bool = False) -> Any:
    """A tiny network of this type; `eager` as the reference is built."""
    config = way(AutoConfig.for_model(kind), len(tiny_tokenizer(marks=False)))
    for part in sub_configs([config]) if eager else ():
        part._attn_implementation = "eager"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        with torch.device("meta"):
            count = sum(one.numel() for one in AutoModel.from_config(config).parameters())
        if count > LARGEST:
            raise ValueError(f"too large to count as tiny: {count:,} parameters")
        network = AutoModel.from_config(
            config, **({"attn_implementation": "eager"} if eager else {})
        )
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.dim() > 1 and parameter.is_floating_point():
                    parameter.add_(torch.randn_like(parameter) * 0.12)
    return network.eval()


def surveyed(kind: str) -> Row:
    """Build a type, by the first way that can be read; read it, and compare."""
    rows = []
    for way in WAYS:
        rows.append(_surveyed(kind, way))
        if rows[-1].verdict in ("exact", "WRONG", "RAW TRACEBACK", "read, without a reference"):
            return rows[-1]
    return next((one for one in rows if one.verdict == "refused"), rows[0])


def _surveyed(kind: str, way: Callable[[Any, int], Any]) -> Row:
    name = str(MODEL_MAPPING_NAMES[kind])
    try:
        network = built(kind, way)
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
        reference = built(kind, way, eager=True)
        reference.load_state_dict(network.state_dict())
        expected = [_reference(model, reference, one) for one in read]
    except Exception as error:
        return Row(kind, name, "read, without a reference", "", _line(error))
    if any(one is None for one in expected):
        return Row(kind, name, "read, without a reference", "", "attentions are not n x n weights")
    differences = [
        largest_difference(one[1], other) for one, other in zip(read, expected, strict=True)
    ]
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
    return square_weights(output, read[0].n_tokens)


def _line(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [""])[0]
    named = text if isinstance(error, AttlasError) else f"{type(error).__name__}: {text}"
    return re.sub(r"/\w\S*/", "", named)[:160]  # folders of this machine say nothing


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


def rendered(rows: Sequence[Row], about: str) -> str:
    """What the page of models says of the survey."""
    by = {name: [one for one in rows if one.verdict == name] for name, _ in VERDICTS}
    exact = ", ".join(one.type for one in by["exact"])
    lines = [f"Surveyed: {about}.", "", "| verdict | types | what it means |", "|---|---:|---|"]
    lines += [f"| {name} | {len(by[name])} | {meaning} |" for name, meaning in VERDICTS]
    return "\n".join([*lines, "", f"Exact: {exact}."])


def kept() -> tuple[str, list[Row]]:
    """The survey that is kept: what it is of, and its rows."""
    first, _, *lines = PAGE.read_text(encoding="utf-8").splitlines()
    return first.removeprefix("# "), [Row(*one) for one in csv.reader(lines)]


def write(rows: Sequence[Row]) -> None:
    """Keep a survey, as a table and in the page of models."""
    about = f"transformers {transformers.__version__}, {datetime.date.today()}"
    with PAGE.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {about}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([one.name for one in fields(Row)])
        writer.writerows(map(astuple, rows))
    page = MODELS.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    MODELS.write_text(f"{before}{BEGIN}\n{rendered(rows, about)}\n{END}{after}", encoding="utf-8")


def main(kinds: list[str]) -> None:
    """Survey some types, or all and keep the survey."""
    began, rows = time.monotonic(), []
    for number, kind in enumerate(every := kinds or sorted(MODEL_MAPPING_NAMES), 1):
        rows.append(row := isolated(kind))
        print(f"{number}/{len(every)} {' | '.join(astuple(row))}", flush=True)
    for name, _ in VERDICTS:
        print(f"{name}: {sum(one.verdict == name for one in rows)}")
    print(f"{time.monotonic() - began:.0f} s")
    if not kinds:
        write(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
