"""Where a model runs and in which precision: from Python, and with every verb that has a model."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import attlas
from attlas.catalogue import subjects
from attlas.support.errors import ModelError
from tests.builders.models import tiny


def test_weights_are_read_in_the_precision_asked_for(tiny_folder: Path) -> None:
    saved = attlas.load(tiny_folder)
    half = attlas.load(tiny_folder, dtype="bfloat16")
    assert (saved.network.dtype, half.network.dtype) == (torch.float32, torch.bfloat16)
    one, other = (attlas.attention(model, "a cat sat").weights for model in (saved, half))
    assert one.dtype == other.dtype == torch.float32
    assert 0 < (one - other).abs().max() < 8 * torch.finfo(torch.bfloat16).eps
    assert half.identity() != saved.identity()


def test_a_network_of_the_user_keeps_its_precision() -> None:
    model = tiny("bert")
    half = attlas.load((model.network, model.tokenizer), dtype=torch.float16)
    assert half.network.dtype == torch.float16
    assert model.network.dtype == torch.float32
    same = attlas.load((model.network, model.tokenizer), dtype="float32", device="cpu")
    assert same.network is model.network


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"device": "cuda:7"}, "the device 'cuda:7' cannot be used: "),
        ({"device": "gpu"}, "the device 'gpu' cannot be used: "),
        ({"device": "auto"}, "only with the package accelerate"),
        ({"device_map": {"": "cpu"}}, "only with the package accelerate"),
        ({"device": "cpu", "device_map": "auto"}, "give device or device_map, not both"),
        ({"dtype": "half-ish"}, "dtype is 'half-ish'; it must be float32"),
        ({"dtype": "int64"}, "dtype is 'int64'; it must be float32"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    how: dict[str, Any], message: str, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["attlas.models.load"], "find_spec", lambda name: None)
    with pytest.raises(ModelError) as error:
        attlas.load(tiny_folder, **how)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_every_experiment_with_a_model_says_where_it_runs() -> None:
    trained = {"dynamics", "finetune", "lengthen"}  # they train or write one, on their own device
    experiments = [one.experiment(name) for one in subjects() for name in one.experiments]
    fields = {one.name: {field.name for field in dataclasses.fields(one)} for one in experiments}
    having = {name for name, names in fields.items() if "allow_pickle" in names}
    assert having - trained == {name for name, names in fields.items() if "device" in names}
    assert having - trained == {name for name, names in fields.items() if "dtype" in names}
    assert having - trained == {name for name, names in fields.items() if "lens" in names}
    assert len(having - trained) > 5


def test_verbs_take_a_device_and_a_precision(inside: Any, tiny_folder: Path) -> None:
    model = ("--model", tiny_folder)
    where = ("--device", "cpu", "--dtype", "bfloat16")
    data = ("--data", "embedded:sentences", "--measures", "entropy", "--no-report", "--json")
    seen = inside("look", "a cat", *model, *where, "--json")
    assert seen.code == 0, seen.error
    study = inside("study", *data, *model, *where, "--out", "out")
    assert study.code == 0, study.error
    assert json.loads(study.out)["study"]
    other = inside("study", *data, *model, "--out", "out")
    assert other.code == 2
    assert "dtype" in other.error
    nowhere = inside("probe", "syntax", "--train", "embedded:sentences", "--device", "cuda:9")
    assert nowhere.code == 2
    assert "the device 'cuda:9' cannot be used" in nowhere.error


def test_a_model_is_spread_over_all_devices_that_there_are(tiny_folder: Path) -> None:
    spread, plain = attlas.load(tiny_folder, device="auto"), attlas.load(tiny_folder)
    one, other = (attlas.attention(model, "a cat sat").weights for model in (spread, plain))
    assert torch.equal(one, other)
