"""Models are compared once with transformers' own attentions before they are trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import attlas
from attlas.core.attention import Attention
from attlas.models import capture, compared
from attlas.support.errors import CaptureError
from tests.builders.models import tiny


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTLAS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def anew(kind: str, **options: Any) -> attlas.Model:
    """A tiny model that nobody has used yet."""
    model = tiny(kind, **options)
    return attlas.load((model.network, model.tokenizer))


@pytest.mark.parametrize("kind", ["bert", "gpt2", "distilbert"])
def test_a_model_is_compared_with_eager_attention_and_remembered(
    kind: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anew(kind).compared_tokens == compared.LONG
    (file,) = (cache / "compared").iterdir()
    assert json.loads(file.read_text())["tokens"] == compared.LONG

    def refuse(*_: object) -> int:
        raise AssertionError("it was compared again")

    monkeypatch.setattr(compared, "_compare", refuse)
    assert anew(kind).compared_tokens == compared.LONG


def test_a_band_has_no_reference(cache: Path) -> None:
    assert anew("longformer").compared_tokens == 0


def test_the_long_text_is_beyond_every_window_as_far_as_memory_allows(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = anew("gemma2", sliding_window=40)
    assert model.compared_tokens == 40 + compared.BEYOND
    monkeypatch.setattr(compared, "LARGEST", 4 * model.n_layers * model.n_heads * 20**2)
    monkeypatch.setenv("ATTLAS_CACHE", str(cache / "other"))
    assert anew("gemma2", sliding_window=40).compared_tokens == 20


@pytest.mark.parametrize("change", ["weights", "layers"])
def test_a_class_that_is_read_wrongly_is_refused_by_name(
    change: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = capture.DenseWeights.attention

    def wrong(captured: Any, batch: Any, index: int) -> Attention:
        layer = own(captured, batch, index)
        layer.weights = layer.weights.roll(1, -1 if change == "weights" else 1)
        return layer

    monkeypatch.setattr(capture.DenseWeights, "attention", wrong)
    model = anew("bert")
    with pytest.raises(CaptureError, match="BertModel that Attlas reads is not the one"):
        attlas.attention(model, "a cat")
    assert not list(cache.rglob("*.json"))


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATTLAS_CACHE", str(tmp_path / "file"))
    assert anew("bert").compared_tokens == compared.LONG


def test_weights_in_half_precision_are_compared_in_their_precision(cache: Path) -> None:
    model = anew("bert")
    half = attlas.load((tiny("bert").network.to(torch.bfloat16), model.tokenizer))
    assert half.compared_tokens == compared.LONG


def test_a_study_says_what_was_compared(tmp_path: Path) -> None:
    study = attlas.study(tiny("bert"), ["a cat sat"], "entropy", tmp_path / "out", progress=False)
    assert study.manifest["model"]["compared_tokens"] == compared.LONG
