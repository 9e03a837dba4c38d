"""The lens "norms": weights times the lengths of what tokens contribute."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attlas
from attlas.core.text import Text
from attlas.models.norms import by_head
from attlas.support.errors import CaptureError, ModelError
from tests.builders.models import tiny

TEXT = "the cat sat on the mat"
OUT = {  # the projection out of the heads of the second layer
    "bert": "encoder.layer.1.attention.output.dense",
    "roberta": "encoder.layer.1.attention.output.dense",
    "electra": "encoder.layer.1.attention.output.dense",
    "albert": "encoder.albert_layer_groups.0.albert_layers.0.attention.dense",
    "distilbert": "transformer.layer.1.attention.out_lin",
    "modernbert": "layers.1.attn.Wo",
    "gpt2": "h.1.attn.c_proj",
    "gpt_neox": "layers.1.attention.dense",
    "llama": "layers.1.self_attn.o_proj",
    "qwen3": "layers.1.self_attn.o_proj",
    "gemma2": "layers.1.self_attn.o_proj",
    "t5": "block.1.layer.0.SelfAttention.o",
    "bart": "layers.1.self_attn.out_proj",
}


@pytest.mark.parametrize("family", OUT)
def test_contributions_sum_to_the_output_without_its_bias(family: str) -> None:
    model = replace(tiny(family), lens="norms")
    lens = model._lens
    assert lens is not None
    module = reduce(getattr, OUT[family].split("."), model.part)
    outputs: list[torch.Tensor] = []
    sums: list[torch.Tensor] = []

    def watch(module: torch.nn.Module, value: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        each = lens.contributions(module, value)
        sums.append(torch.einsum("thqk,thko->tqo", weights.to(each), each))
        lengths = lens.lengths(module, value)
        torch.testing.assert_close(each.norm(dim=-1), lengths, rtol=1e-4, atol=1e-6)
        return weights

    handle = module.register_forward_hook(lambda _, given, out: outputs.append(out.detach()))
    try:
        seen = replace(model)
        object.__setattr__(seen, "_lens", watch)
        batch = next(iter(model.batches(model.encode([(0, Text("a", TEXT))]))))
        assert seen.n_layers == model.n_layers
        outputs.clear(), sums.clear()
        seen.forward(batch, lambda layer: None)
    finally:
        handle.remove()
    shared = len(outputs) == len(sums)  # one module in all layers, or that of the second
    expected, found = (outputs[1], sums[1]) if shared else (outputs[-1], sums[1])
    bias = getattr(module, "bias", None)
    expected = expected - (0 if bias is None else bias.detach())
    torch.testing.assert_close(found, expected.to(found), rtol=1e-4, atol=1e-5)


def test_rows_are_weights_times_lengths_by_a_plain_loop() -> None:
    plain = tiny("llama")
    normed = replace(plain, lens="norms")
    lens = normed._lens
    values: list[Any] = []

    def keep(module: torch.nn.Module, value: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        values.append((value, lens.projections[id(module)]))
        return weights

    watched = replace(plain)
    object.__setattr__(watched, "_lens", keep)
    assert watched.n_heads == 4
    values.clear()
    weights = attlas.attention(watched, TEXT).weights.numpy()
    seen = attlas.attention(normed, TEXT).weights.numpy()
    layer, head = 1, 2
    value, projection = values[layer]
    each = by_head(value, weights.shape[1])[0, head].numpy() @ projection[head].numpy()
    for query, row in enumerate(weights[layer, head]):
        products = [row[key] * np.sqrt((each[key] ** 2).sum()) for key in range(len(row))]
        np.testing.assert_allclose(
            seen[layer, head, query], np.array(products) / sum(products), rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("family", ["longformer", "mpnet", "deberta_v2"])
def test_families_without_a_known_projection_are_refused(family: str) -> None:
    with pytest.raises(CaptureError, match="the lens norms is not available for"):
        attlas.attention(replace(tiny(family), lens="norms"), TEXT)


def test_studies_and_commands_read_through_the_lens(
    inside: Any, tiny_folder: Path, tmp_path: Path
) -> None:
    model = attlas.load(tiny_folder, lens="norms")
    assert "lens norms" in model.name
    assert model.identity() != attlas.load(tiny_folder).identity()
    study = attlas.study(model, [TEXT] * 3, "entropy,surface", tmp_path / "out", progress=False)
    assert study.manifest["model"]["lens"] == "norms"
    plain = attlas.study(
        attlas.load(tiny_folder), [TEXT] * 3, "entropy,surface", tmp_path / "plain", progress=False
    )
    one, other = study.table("surface"), plain.table("surface")
    assert not np.allclose(one["previous"], other["previous"])
    np.testing.assert_allclose(one["previous_uniform"], other["previous_uniform"])
    done = inside("look", TEXT, "--model", tiny_folder, "--lens", "norms", "--json")
    assert done.code == 0, done.error
    with pytest.raises(ModelError, match="there is no lens 'values'"):
        attlas.load(tiny_folder, lens="values")
    with pytest.raises(CaptureError, match="gradients are those of weights"):
        attlas.study(model, [TEXT] * 3, "special_gradient", tmp_path / "g", progress=False)
