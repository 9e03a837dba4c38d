"""GGUF files are read once, kept as a folder in the user's cache, and refused in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

import attlas
from attlas.models import sources
from attlas.support.errors import ModelError
from tests.builders.models import tiny

WORDS = [
    "<s>",
    "</s>",
    "<unk>",
    *"abcdefghijklmnopqrstuvwxyz",
    "Ġ",
    "Ġc",
    "at",
    "Ġcat",
    "Ġs",
    "Ġsat",
]
MERGES = ["Ġ c", "a t", "Ġc at", "Ġ s", "Ġs at"]


def write_gguf(path: Path) -> torch.nn.Module:
    """A tiny Llama as a GGUF file; returns the network that it holds."""
    import gguf

    network = tiny("llama", "lm", vocab_size=len(WORDS)).network
    config = network.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([3, 3, 2, *[1] * (len(WORDS) - 3)])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    names = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "model.layers": "blk",
    }
    for name, tensor in network.state_dict().items():
        array = tensor.numpy()
        for heads, part in (
            (config.num_attention_heads, "q_proj"),
            (config.num_key_value_heads, "k_proj"),
        ):
            if part in name:  # rotary halves are interleaved in the file
                shape = (heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
                array = array.reshape(shape).swapaxes(1, 2).reshape(array.shape)
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return network


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTLAS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_file_or_its_folder_is_read_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    network = write_gguf(folder / "tiny.gguf")
    model = attlas.load(folder / "tiny.gguf", task="auto")
    assert model.task == "lm"
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(model.network.state_dict()[name], tensor, rtol=0, atol=1e-6)
    weights = attlas.attention(model, "a cat sat").weights

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it was read again")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", refuse)
    again = attlas.load(folder)
    assert torch.equal(attlas.attention(again, "a cat sat").weights, weights)
    assert sources.folder_of(folder / "tiny.gguf") == folder / "tiny.gguf"
    assert len(list((cache / "gguf").iterdir())) == 1


def test_what_cannot_be_read_is_refused_in_one_line(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"GGUF and then nothing")
    with pytest.raises(ModelError, match=r"no\.gguf' cannot be loaded") as error:
        attlas.load(path)
    assert "\n" not in str(error.value)
    assert not (cache / "gguf").exists() or not list((cache / "gguf").iterdir())
    (tmp_path / "other.gguf").write_bytes(b"")
    with pytest.raises(ModelError, match="holds 2 GGUF files"):
        attlas.load(tmp_path)
    monkeypatch.setattr(sys.modules["attlas.models.converted"], "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install gguf"):
        attlas.load(path)
