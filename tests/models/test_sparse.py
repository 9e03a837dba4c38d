"""Families whose attention depends on the implementation, or whose masks differ by text and head.

Each is compared with a copy that was built with eager attention, on a text shorter and on one
longer than what its indexer chooses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

import attlas
from attlas.catalogue import MEASURES
from attlas.core.attention import Attention, DenseAttention
from attlas.testing import fold, stream, tiny, tiny_tokenizer
from tests.builders.batches import batch_of, layers_of
from tests.builders.texts import SENTENCE as TEXT
from tests.twins import attention as twins

WORDS = TEXT.split()
TEXTS = [" ".join(WORDS[:8]), " ".join((WORDS * 3)[:54])]
OTHERS = [" ".join(WORDS[5:13]), " ".join((WORDS[::-1] * 3)[:54])]

LATENT = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "moe_intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "qk_nope_head_dim": 8,
    "head_dim": 8,
    "index_topk": 8,
    "index_head_dim": 16,
    "index_n_heads": 2,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 128,
}
BLOCKS = {
    "hidden_size": 64,
    "intermediate_size": 32,
    "dense_intermediate_size": 64,
    "shared_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rotary_dim": 8,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_block_size": 4,
    "index_topk_blocks": 2,
    "layer_types": ["full_attention", "minimax_m3_sparse"],
    "max_position_embeddings": 128,
}
DOGE = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "keep_window_size": 8,
    "max_position_embeddings": 128,
}
UPCAST = {
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 128,
    "reorder_and_upcast_attn": True,
}
FAMILIES: dict[str, tuple[str, str, dict[str, Any], torch.dtype]] = {
    "deepseek_v32": ("DeepseekV32Config", "DeepseekV32Model", LATENT, torch.float32),
    "glm_moe_dsa": ("GlmMoeDsaConfig", "GlmMoeDsaModel", LATENT, torch.float32),
    "mistral_large4": ("MistralLarge4TextConfig", "MistralLarge4TextModel", LATENT, torch.float32),
    "axk2": ("AXK2Config", "AXK2Model", LATENT, torch.float32),
    "hy_v4": ("HYV4Config", "HYV4Model", {**LATENT, "hc_mult": 2}, torch.float32),
    "minimax_m3": ("MiniMaxM3VLTextConfig", "MiniMaxM3VLTextModel", BLOCKS, torch.float32),
    "doge": ("DogeConfig", "DogeModel", DOGE, torch.float32),
    "gpt2_upcast": ("GPT2Config", "GPT2Model", UPCAST, torch.bfloat16),
}


@cache
def networks(family: str) -> tuple[Any, Any]:
    """A network with the library's default attention, and a copy built with eager attention."""
    config, kind, options, dtype = FAMILIES[family]
    ids = {
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "vocab_size": len(tiny_tokenizer(marks=False)),
    }

    def build(**more: Any) -> Any:
        made = getattr(transformers, config)(**{**options, **ids})
        return getattr(transformers, kind)._from_config(made, dtype=dtype, **more).eval()

    torch.manual_seed(0)
    network, reference = build(), build(attn_implementation="eager")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.12)  # far from uniform
    reference.load_state_dict(network.state_dict())
    return network, reference


def opened(family: str) -> attlas.Model:
    return attlas.load((networks(family)[0], tiny_tokenizer(marks=False)))


@pytest.mark.parametrize("length", [0, 1], ids=["8", "54"])
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_and_states_are_those_of_a_copy_built_with_eager(family: str, length: int) -> None:
    model, reference = opened(family), networks(family)[1]
    batch = batch_of(model, TEXTS[length], OTHERS[length])
    assert batch.n_tokens == (8, 54)[length]
    layers, output = layers_of(model, batch)
    with torch.no_grad():
        expected = reference(batch.ids, output_attentions=True, **batch.inputs)
    assert torch.equal(output.last_hidden_state, expected.last_hidden_state)
    assert len(layers) == len(expected.attentions)
    for layer, weights in zip(layers, expected.attentions, strict=True):
        assert torch.equal(layer.dense().weights, weights.float())
        visible = layer.dense().visible
        assert visible is not None
        assert float((layer.dense().weights * ~visible).abs().max()) == 0
        if length and family not in ("gpt2_upcast",) and layer.index == 1:
            assert int(layer.n_visible_keys.max()) < 54  # the indexer chose


def test_what_is_visible_differs_by_text_and_by_head() -> None:
    latent, blocks = (
        layers_of(opened(family), batch_of(opened(family), TEXTS[1], OTHERS[1]))[0][-1].dense()
        for family in ("deepseek_v32", "minimax_m3")
    )
    assert latent.visible is not None
    assert latent.visible.shape == (2, 1, 54, 54)
    assert blocks.visible is not None
    assert blocks.visible.shape == (2, 4, 54, 54)
    for layer in (latent, blocks):
        for text in range(2):
            for head in range(4):
                own = layer.visible[text, head if layer.visible.shape[1] > 1 else 0].tolist()
                found = layer.uniform.weights[text, head if layer.uniform.n_heads > 1 else 0]
                np.testing.assert_allclose(found, twins.uniform(own), rtol=1e-6)


def by_head(layers: list[Attention], head: int) -> list[DenseAttention]:
    """The same layers with one head alone, which all see by one pattern."""
    out = []
    for layer in (layer.dense() for layer in layers):
        visible = layer.visible
        if visible is not None and visible.shape[1] > 1:
            visible = visible[:, head : head + 1]
        out.append(
            DenseAttention(
                layer.weights[:, head : head + 1].contiguous(), layer.batch, layer.index, visible
            )
        )
    return out


class One:
    """The shape of a model with one head."""

    n_layers, n_heads = 2, 1


CONTROLLED = ("surface", "positions", "entropy", "betti", "barcode", "templates", "digraph")


@pytest.mark.parametrize("name", CONTROLLED)
def test_a_head_has_the_control_of_what_it_sees_itself(name: str) -> None:
    """Whatever is measured of all heads is what is measured of each alone."""
    model = opened("minimax_m3")
    measure, batches = (
        MEASURES[name](),
        [list(layers) for layers in stream(model, [TEXTS[1], OTHERS[1]])],
    )
    table = f"{name}_heads" if name in ("betti", "barcode", "templates", "digraph") else name
    together = measure.result(fold(measure, batches, model))[table]
    controls = [column for column in together if column.endswith("_uniform")]
    assert controls
    for head in range(4):
        alone = measure.result(fold(measure, [by_head(layers, head) for layers in batches], One()))[
            table
        ]
        mine = together[together["head"] == head]
        np.testing.assert_allclose(mine[controls], alone[controls], rtol=1e-6, err_msg=name)
    if name == "surface":  # blocks of one size in different places
        assert together[together["layer"] == 1]["first_uniform"].nunique() > 1


def test_lists_and_divergences_of_heads_that_see_different_keys() -> None:
    model = opened("minimax_m3")
    batches = [list(layers) for layers in stream(model, [TEXTS[1], OTHERS[1]])]
    for head in range(4):
        chosen = MEASURES["topk"](heads=(head,), k=3, keep="all")
        alone = MEASURES["topk"](k=3, keep="all")
        left = chosen.result(fold(chosen, batches, model))["topk"]
        right = alone.result(fold(alone, [by_head(layers, head) for layers in batches], One()))[
            "topk"
        ]
        assert left.equals(right)
    measure = MEASURES["head_distance"]()
    together = measure.result(fold(measure, batches, model))["head_distance"]
    for head in range(4):
        alone = measure.result(fold(measure, [by_head(layers, head) for layers in batches], One()))[
            "head_distance"
        ]
        for layer in range(2):
            mine = together[(together["layer"] == layer) & (together["head"] == head)][
                "mean_uniform"
            ]
            theirs = alone[alone["layer"] == layer]["mean_uniform"]
            np.testing.assert_allclose(mine.iloc[0], theirs.iloc[0], rtol=1e-5)


def test_chance_knows_which_keys_an_indexer_hides() -> None:
    """A token among k or fewer visible ones is on every list."""
    model = opened("deepseek_v32")
    measure = MEASURES["topk"](k=8, keep="all", shown=54)
    found = measure.result(fold(measure, stream(model, [TEXTS[1]]), model))["topk"]
    rows = found[
        (found["by"] == "position") & (found["layers"] == "L1") & (found["direction"] == "attended")
    ]
    assert len(rows)
    np.testing.assert_allclose(rows["chance"], rows["count"], rtol=1e-9)


# what is left behind, and who else runs eager attention


def registries() -> list[Any]:
    return [
        AttentionInterface.get_interface,
        sorted(AttentionInterface._global_mapping),
        list(AttentionMaskInterface._global_mapping.items()),
    ]


def test_nothing_is_left_in_the_registries() -> None:
    before, model = registries(), tiny("bert")

    def fail(layer: Attention) -> None:
        raise ValueError("sink")

    model.forward(batch_of(model, TEXTS[0]))
    assert registries() == before
    with pytest.raises(ValueError, match="sink"):
        model.forward(batch_of(model, TEXTS[0]), fail)
    assert registries() == before
    with model.observe(), model.observe():
        assert registries() != before
    assert registries() == before


def own_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **_: Any
) -> Any:
    """Attention of a user's own: each query copies itself."""
    weights = torch.eye(query.shape[-2]).expand(*query.shape[:2], -1, -1)
    return value.transpose(1, 2), weights


def eager_bert(seed: int) -> Any:
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
    )
    return transformers.BertModel._from_config(config, attn_implementation="eager").eval()


def calls(run: Callable[[], Any]) -> int:
    """How often our function is called."""
    count = 0
    import attlas.models.capture as capture

    own = capture.attention_function

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return own(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture, "attention_function", counted)
        run()
    return count


def test_other_networks_that_run_eager_attention_are_not_touched() -> None:
    other, ids = eager_bert(1), torch.arange(5, 12)[None]
    with torch.no_grad():
        expected = other(ids, output_attentions=True)
        model, seen = tiny("bert"), []
        with model.observe(seen.append) as observer:
            observer.watch(batch_of(model, TEXTS[0]))
            here = other(ids, output_attentions=True)
            there: list[Any] = []

            def run() -> None:
                with torch.no_grad():
                    there.append(other(ids, output_attentions=True))

            def in_a_thread() -> None:
                thread = threading.Thread(target=run)
                thread.start()
                thread.join()

            assert calls(in_a_thread) == 0
    assert not seen
    for found in (here, *there):
        assert torch.equal(found.last_hidden_state, expected.last_hidden_state)
        assert all(
            torch.equal(*pair) for pair in zip(found.attentions, expected.attentions, strict=True)
        )


def test_attention_that_a_user_registered_as_eager_is_what_is_seen() -> None:
    model = attlas.load((eager_bert(0), tiny_tokenizer()))
    AttentionInterface.register("eager", own_attention)
    try:
        seen, _ = layers_of(model, batch_of(model, TEXTS[0]))
        assert AttentionInterface._global_mapping["eager"] is own_attention
    finally:
        AttentionInterface._global_mapping.pop("eager")
    n = seen[0].n_tokens
    assert all(
        torch.equal(layer.dense().weights, torch.eye(n).expand(1, 4, n, n)) for layer in seen
    )


def test_a_network_says_eager_while_it_is_observed() -> None:
    model = opened("minimax_m3")
    names = {"before": model.network.config._attn_implementation}
    with model.observe():
        names["while"] = model.network.config._attn_implementation
    assert names == {"before": model.network.config._attn_implementation, "while": "eager"}
