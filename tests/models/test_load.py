"""Loading: what works, and one clear line for what does not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import attlas
from attlas.core.text import Text
from attlas.models.load import load
from attlas.models.model import same_attention
from attlas.models.sources import EMBEDDED_SHA256
from attlas.support.errors import ModelError
from attlas.testing import FAMILIES, tiny, tiny_tokenizer
from tests.close import close, terms_of


def test_embedded_default(minilm: attlas.Model) -> None:
    assert (minilm.n_layers, minilm.n_heads, minilm.max_length, minilm.file_sha256) == (
        6,
        12,
        512,
        EMBEDDED_SHA256,
    )
    assert "6 layers x 12 heads" in repr(minilm)
    assert attlas.load(minilm) is minilm


def test_a_folder_gives_the_same_model_as_the_pair(tiny_folder: Path) -> None:
    folder, pair = load(tiny_folder), tiny("bert")
    assert folder.weights_sha256() == load((pair.network, pair.tokenizer)).weights_sha256()
    assert torch.equal(
        attlas.attention(folder, "a cat sat").weights, attlas.attention(pair, "a cat sat").weights
    )
    assert folder.file_sha256 is not None


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5", "bart", "longformer"])
def test_randomized_is_the_same_shape_with_other_weights(family: str) -> None:
    model = tiny(family)
    fresh = model.randomized(seed=1)
    assert (fresh.n_layers, fresh.n_heads, fresh.tokenizer) == (
        model.n_layers,
        model.n_heads,
        model.tokenizer,
    )
    assert fresh.weights_sha256() == model.randomized(seed=1).weights_sha256()
    assert (
        len(
            {
                fresh.weights_sha256(),
                model.weights_sha256(),
                model.randomized(seed=2).weights_sha256(),
            }
        )
        == 3
    )
    assert not fresh.network.training
    state = torch.random.get_rng_state()
    model.randomized(seed=3)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("family", "longest"),
    [("bert", 30), ("roberta", 29), ("longformer", 29), ("mpnet", 28), ("gpt2", 30), ("t5", 24)],
)
def test_max_length_is_the_longest_text_that_runs(family: str, longest: int) -> None:
    model = tiny(family, **({} if family == "t5" else {"max_position_embeddings": 30}))
    model.tokenizer.model_max_length = (
        24 if family == "t5" else 10**30
    )  # T5 has no limit of its own
    assert model.max_length == longest
    assert attlas.attention(model, "a " * 100).weights.shape[-1] == longest


def test_a_shorter_max_length_can_be_asked_for(tiny_folder: Path) -> None:
    assert attlas.attention(
        load(tiny_folder, max_length=7), "a cat sat on the mat and saw"
    ).weights.shape == (
        3,
        4,
        7,
        7,
    )


@pytest.mark.parametrize("task", ["classify", "mlm"])
def test_tasks_read_the_same_attention(tmp_path: Path, task: str) -> None:
    tiny("bert", task).save(tmp_path)
    model = load(tmp_path, task=task)
    assert model.task == task
    assert torch.equal(
        attlas.attention(model, "a cat sat").weights,
        attlas.attention(load(tmp_path), "a cat sat").weights,
    )
    batch = next(iter(model.batches(model.encode([(0, attlas.Text("0", "a cat"))]))))
    assert hasattr(model.forward(batch, with_head=True), "logits")


def test_encoder_decoder_classifiers_show_the_encoder_only() -> None:
    model = tiny("bart", task="classify")
    batch = next(iter(model.batches(model.encode([(0, attlas.Text("0", "a cat"))]))))
    seen: list[int] = []
    model.forward(batch, lambda layer: seen.append(layer.index), with_head=True)
    assert seen == [0, 1, 2]


def _pickled(folder: Path) -> None:
    torch.save({}, folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda folder: None, "no config.json"),
        (
            lambda folder: (folder / "config.json").write_text('{"model_type": "bert"}'),
            "has no weights",
        ),
        (
            lambda folder: (
                (folder / "config.json").write_text('{"model_type": "bert"}'),
                _pickled(folder),
            ),
            "only pickled weights.*pytorch_model.bin.*--allow-pickle",
        ),
        (
            lambda folder: (
                (folder / "config.json").write_text('{"model_type": "nothing-known"}'),
                (folder / "model.safetensors").write_bytes(b""),
            ),
            "not a transformer",
        ),
        (
            lambda folder: (
                (folder / "config.json").write_text("{"),
                (folder / "model.safetensors").write_bytes(b""),
            ),
            "cannot be loaded|not a",
        ),
        (
            lambda folder: (
                (folder / "config.json").write_text('{"model_type": "bert"}'),
                (folder / "model.safetensors").write_bytes(b"junk"),
            ),
            "cannot be loaded|safetensors",
        ),
    ],
)
def test_a_folder_that_is_no_model(tmp_path: Path, content: object, message: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    content(folder)  # type: ignore[operator]
    with pytest.raises(ModelError, match=message) as raised:
        load(folder)
    assert "\n" not in str(raised.value)


def test_pickled_weights_on_request(tmp_path: Path) -> None:
    model = tiny("bert")
    model.network.config.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    torch.save(model.network.state_dict(), tmp_path / "pytorch_model.bin")
    assert load(tmp_path, allow_pickle=True).weights_sha256() == model.weights_sha256()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("./nowhere", "there is no folder"),
        (
            "no-such-org/no-such-model",
            "neither a local folder nor a model that could be downloaded",
        ),
        (("model",), "a tuple of 1"),
        ((torch.nn.Linear(2, 2), tiny_tokenizer()), "Linear, not a transformers model"),
        ((tiny("bert").network, "tokenizer"), "str, not a transformers tokenizer"),
    ],
)
def test_what_is_no_model(wrong: object, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=message):
        load(wrong)  # type: ignore[arg-type]


def test_unknown_task_lists_the_tasks() -> None:
    with pytest.raises(ModelError, match="base, classify, mlm, lm"):
        load(task="nothing")


def test_a_tokenizer_without_offsets_is_refused() -> None:
    model = tiny("bert")

    class Slow(transformers.PythonBackend):
        vocab_size = 10

        def get_vocab(self) -> dict[str, int]:
            return {"a": 1}

    with pytest.raises(ModelError, match="offsets"):
        attlas.attention((model.network, Slow()), "a")


@pytest.mark.parametrize("family", list(FAMILIES))
def test_every_family_is_read_back_from_a_folder(family: str, tmp_path: Path) -> None:
    model = tiny(family)
    model.network.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    again = load(tmp_path)
    assert again.weights_sha256() == load(tmp_path).weights_sha256()
    found, expected = (attlas.attention(one, "a cat sat").weights for one in (again, model))
    close(found, expected, terms_of(model.network), magnitude=1)


def test_what_a_file_does_not_hold_is_the_same_at_every_load(tmp_path: Path) -> None:
    model = tiny("bert", task="mlm")  # saved without a pooler, which the base model has
    model.network.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    assert load(tmp_path).weights_sha256() == load(tmp_path).weights_sha256()
    one, two = (
        load(tmp_path, task="classify", labels=["a", "b", "c"]).weights_sha256() for _ in range(2)
    )
    assert one == two


def test_weights_that_do_not_fit_are_refused(tmp_path: Path, tiny_folder: Path) -> None:
    model = tiny("bert")
    model.network.config.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    save_file(
        {
            f"module.{name}": tensor
            for name, tensor in load_file(tiny_folder / "model.safetensors").items()
        },
        tmp_path / "model.safetensors",
        {"format": "pt"},
    )
    with pytest.raises(ModelError, match="do not fit its architecture"):
        load(tmp_path)


def test_threads_may_share_a_tokenizer() -> None:
    model = attlas.load((tiny("bert").network, tiny("bert").tokenizer), max_length=6)
    short, long = (
        [(0, attlas.Text("0", "a cat"))],
        [(0, attlas.Text("0", "a cat sat on the mat and saw"))],
    )
    with ThreadPoolExecutor(2) as pool:
        found = list(
            pool.map(
                lambda number: [
                    (len(text), text.truncated_by)
                    for text in model.encode(short if number % 2 else long)
                ],
                range(400),
            )
        )
    assert {tuple(pair) for pair in found[::2]} == {((6, 4),)}
    assert {tuple(pair) for pair in found[1::2]} == {((4, 0),)}


def test_a_model_is_the_same_after_it_has_cut_a_text() -> None:
    model = tiny("bert")
    before = model.identity()
    model.encode([(0, Text("long", "a cat " * 600))])
    assert model.identity() == before


def test_models_that_differ_in_their_heads_have_the_same_attention(tmp_path: Path) -> None:
    def changed(change: Callable[[attlas.Model], object]) -> attlas.Model:
        model = load(tmp_path, task="classify")
        return found if isinstance(found := change(model), attlas.Model) else model

    tiny("bert", "classify").save(tmp_path)
    model = load(tmp_path, task="classify")
    with torch.no_grad():
        same = [
            changed(lambda one: one.network.classifier.weight.add_(1)),
            changed(lambda one: one.network.config.label2id.update(good=7)),
            changed(lambda one: load((one.part, one.tokenizer))),
        ]
        others = [
            changed(lambda one: one.part.encoder.layer[1].attention.self.key.weight[0].add_(1e-3)),
            changed(lambda one: setattr(one.part.embeddings.LayerNorm, "eps", 0.5)),
            changed(lambda one: setattr(one.network.config, "chunk_size_feed_forward", 7)),
            changed(lambda one: setattr(one.tokenizer, "model_max_length", 5)),
            changed(lambda one: one.part.encoder.layer[0].register_forward_hook(print)),
            changed(lambda one: one.randomized(0)),
            tiny("roberta", "classify"),
        ]
    assert [same_attention(model, one) for one in same] == [True] * len(same)
    assert [same_attention(model, one) for one in others] == [False] * len(others)
