"""Fine-tuning: it learns, resumes to the same weights, splits texts, and refuses clearly."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import matthews_corrcoef
from sklearn.preprocessing import StandardScaler
from torch import nn

import attlas
from attlas.corpora import labelled, split
from attlas.finetune import head, training as module, work
from attlas.finetune.experiment import Schedule
from attlas.models.predict import logits_of
from attlas.models.record import base_model_of
from attlas.stats.scores import mcc_and_accuracy
from attlas.support import fingerprint as fingerprint_module
from attlas.support.errors import AttlasError, CorpusError, ModelError, StudyError
from attlas.support.files import is_temporary, locked
from attlas.support.fingerprint import fingerprint
from attlas.testing import tiny
from tests.builders.folders import Stopped, stopping
from tests.twins.finetune import inputs_slowly, logits_slowly

WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", "it", "was", "with"]
Row = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _on_one_thread() -> Iterator[None]:
    """Training gives the same bytes on one thread; with more, gradients are summed in any order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny model of a family, written once."""
    root = tmp_path_factory.mktemp("families")

    def folder(family: str) -> Path:
        if not (root / family).exists():
            model = tiny(family)
            with torch.no_grad():
                for parameter in model.network.parameters():
                    parameter.mul_(
                        0.3 if parameter.dim() > 1 else 1
                    )  # else a pooler's tanh is at its ends
            model.network.save_pretrained(root / family)
            model.tokenizer.save_pretrained(root / family)
        return root / family

    return folder


@pytest.fixture(scope="module")
def bert(saved: Callable[[str], Path]) -> Path:
    return saved("bert")


def toy(count: int, seed: int = 0, labels: tuple[Any, ...] = ("neg", "pos")) -> list[Row]:
    """Texts whose label is said by one of their words, somewhere in them."""
    draw, signs = np.random.default_rng(seed), ("bad", "good", "film")
    out = []
    for number in range(count):
        words = list(draw.choice(WORDS, draw.integers(2, 8)))
        words.insert(int(draw.integers(len(words) + 1)), signs[number % len(labels)])
        out.append(
            {
                "id": f"{seed}-{number}",
                "text": " ".join(words),
                "label": labels[number % len(labels)],
            }
        )
    return out


def finetune(
    texts: Any, model: Any, out: Any, *, fresh: bool = False, **fields: Any
) -> attlas.Study:
    return attlas.run(
        attlas.Finetune(texts=texts, model=model, **fields), out, fresh=fresh, progress=False
    )


FAST = {"epochs": 4, "learning_rate": 1e-2, "batch_size": 16}
ONCE = {"epochs": 1, "learning_rate": 1e-3, "batch_size": 16}


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same_weights(left: Path, right: Path) -> bool:
    one, two = weights_of(left), weights_of(right)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


# --- what it learns and writes --------------------------------------------------------------------


def test_it_learns_what_can_be_learnt_and_writes_a_model(bert: Path, tmp_path: Path) -> None:
    train, dev = toy(120), toy(60, seed=1)
    done = finetune(train, bert, tmp_path / "out", dev=dev, **FAST)
    assert done.result["scores"]["mcc"] > 0.8
    assert done.result["scores"]["mcc"] == pytest.approx(
        max(row["mcc"] for row in done.result["history"])
    )
    assert [row["epoch"] for row in done.result["history"]] == [1, 2, 3, 4][
        : len(done.result["history"])
    ]
    assert done.result["counts"] == {"fitted": 120, "dev": 60, "held_out": 0, "truncated": 0}
    assert {path.name for path in done.folder.iterdir()} == {
        ".lock",
        "config.json",
        "finetune.json",
        "log.txt",
        "manifest.json",
        "model.safetensors",
        "result.json",
        "tables",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    record = json.loads((done.folder / "finetune.json").read_text())
    assert {name: done.result.get(name) for name in record if name != "files"} == {
        name: value for name, value in record.items() if name != "files"
    }
    assert set(record["files"]) == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert done.table("finetune")["mcc"].tolist() == [row["mcc"] for row in done.result["history"]]
    assert done.result["controls"] == {"majority": 0.5}
    model = attlas.load(done.folder, task="classify")
    assert not model.network.training
    texts = [row["text"] for row in dev]
    slow = logits_slowly(model, texts)
    fast = logits_of(model, [attlas.Text(row["id"], row["text"]) for row in dev])
    np.testing.assert_allclose(fast, slow.numpy(), rtol=1e-4, atol=1e-5)
    guesses = [model.network.config.id2label[int(number)] for number in slow.argmax(-1)]
    wanted = [row["label"] for row in dev]
    assert done.result["scores"]["mcc"] == pytest.approx(matthews_corrcoef(wanted, guesses))
    assert done.result["scores"]["accuracy"] == pytest.approx(
        np.mean([a == b for a, b in zip(wanted, guesses, strict=True)])
    )
    assert base_model_of(done.folder) == str(bert)


@given(texts=st.integers(1, 3000))
def test_few_texts_are_trained_on_in_small_batches_for_a_hundred_steps(texts: int) -> None:
    schedule = attlas.Finetune(texts="some.csv").schedule(texts)
    steps_per_epoch = -(-texts // schedule.batch_size)
    assert schedule.batch_size == max(1, min(32, texts // 8))
    assert schedule.epochs >= 4
    assert schedule.epochs * steps_per_epoch >= 100
    assert schedule.epochs == 4 or (schedule.epochs - 1) * steps_per_epoch < 100
    assert schedule.patience == (2 if schedule.epochs == 4 else schedule.epochs)


@pytest.mark.parametrize("texts", [769, 800, 10_000, 10**7])
def test_many_texts_are_trained_on_as_ever(texts: int) -> None:
    assert attlas.Finetune(texts="many.csv").schedule(texts) == Schedule(4, 32, 2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"epochs": 4, "batch_size": 32, "patience": 2}, Schedule(4, 32, 2)),
        ({"epochs": 4}, Schedule(4, 5, 2)),
        ({"batch_size": 20}, Schedule(50, 20, 50)),
        ({"patience": 3}, Schedule(13, 5, 3)),
        ({"head_only": True}, Schedule(4, 32, 2)),
    ],
)
def test_a_given_schedule_wins(options: dict[str, Any], expected: Schedule) -> None:
    assert attlas.Finetune(texts="few.csv", **options).schedule(40) == expected


def test_the_schedule_that_was_used_is_recorded(bert: Path, tmp_path: Path) -> None:
    done = finetune(toy(44), bert, tmp_path / "out", dev=toy(8, 1), learning_rate=1e-3)
    used = {"epochs": 12, "batch_size": 5, "patience": 12}
    assert len(done.result["history"]) == 12
    assert done.result["settings"].items() >= used.items()
    assert done.manifest["finetune"]["options"].items() >= used.items()
    record = json.loads((done.folder / "finetune.json").read_text())
    assert record["settings"].items() >= used.items()
    log = (done.folder / "log.txt").read_text()
    assert "training on 44 texts (at most 12 epochs, batch size 5)" in log


def test_the_best_epoch_is_kept_and_training_ends_after_patience(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(monkeypatch, [0.1, 0.7, 0.6, 0.7, 0.9])
    done = finetune(
        toy(32), bert, tmp_path / "out", dev=toy(8, 1), epochs=5, patience=2, learning_rate=1e-3
    )
    assert [row["mcc"] for row in done.result["history"]] == [0.1, 0.7, 0.6, 0.7]
    kept = weights_of(done.folder)
    script(monkeypatch, [0.1, 0.7, 0.6, 0.7, 0.9])
    patient = finetune(
        toy(32), bert, tmp_path / "patient", dev=toy(8, 1), epochs=5, patience=5, learning_rate=1e-3
    )
    assert len(patient.result["history"]) == 5
    assert not torch.equal(
        kept["classifier.weight"], weights_of(patient.folder)["classifier.weight"]
    )


def script(monkeypatch: pytest.MonkeyPatch, scores: list[float]) -> None:
    """Let the scores on dev be these, one after the other, then the last for ever."""
    left = list(scores)

    def scripted(labels: Any, logits: Any) -> dict[str, float]:
        value = left.pop(0) if len(left) > 1 else left[0]
        return {"mcc": value, "accuracy": value}

    monkeypatch.setattr(module, "mcc_and_accuracy", scripted)


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (("spam", "ham"), ["ham", "spam"]),
        ((10, 9, -2), ["-2", "9", "10"]),
        (("1.5", "0.25", "10"), ["0.25", "1.5", "10"]),
        (("positive", "10", "9"), ["10", "9", "positive"]),  # not all are numbers: as strings
    ],
)
def test_labels_have_an_order(
    labels: tuple[Any, ...], order: list[str], bert: Path, tmp_path: Path
) -> None:
    done = finetune(toy(30, labels=labels), bert, tmp_path / "out", head_only=True)
    assert done.result["labels"] == order
    config = attlas.load(done.folder, task="classify").network.config
    assert config.id2label == dict(enumerate(order))
    assert config.label2id == {name: number for number, name in enumerate(order)}
    assert config.num_labels == len(order)


def test_cut_texts_are_counted(bert: Path, tmp_path: Path) -> None:
    train, dev = toy(40), toy(20, 1)
    longer = sum(len(row["text"].split()) + 2 > 6 for row in train + dev)
    assert 0 < longer < 60
    done = finetune(train, bert, tmp_path / "out", dev=dev, head_only=True, max_length=6)
    assert done.result["counts"]["truncated"] == longer
    assert attlas.load(done.folder).max_length == 6  # it is read as it was trained
    assert attlas.load(bert).max_length > 6


def test_among_equals_the_head_keeps_the_stronger_penalty(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "scores_of", lambda *_: {"mcc": 0.5, "accuracy": 0.75})
    among = finetune(toy(30), bert, tmp_path / "among", head_only=True)
    assert [row["C"] for row in among.result["history"]] == sorted(head.STRENGTHS)
    monkeypatch.setattr(head, "STRENGTHS", (min(head.STRENGTHS),))
    alone = finetune(toy(30), bert, tmp_path / "alone", head_only=True)
    assert same_weights(among.folder, alone.folder)


@pytest.mark.parametrize("head_only", [False, True])
def test_a_dev_of_one_label_is_no_cause_for_warnings(
    head_only: bool, bert: Path, tmp_path: Path
) -> None:
    dev = [row for row in toy(20, 1) if row["label"] == "pos"]
    done = finetune(toy(60), bert, tmp_path / "out", dev=dev, head_only=head_only, **FAST)
    assert done.result["scores"]["mcc"] == 0  # warnings are errors here


def test_scores_are_those_of_the_likeliest_labels() -> None:
    assert mcc_and_accuracy(
        [0, 1, 2, 2], ([[3, 1, 2], [0, 0, 1], [0, 1, 5], [1, 2, 3]], "more")
    ) == {
        "mcc": pytest.approx(matthews_corrcoef([0, 1, 2, 2], [0, 2, 2, 2])),
        "accuracy": 0.75,
    }


# --- interrupting and resuming --------------------------------------------------------------------


def entries(folder: Path) -> list[Path]:
    """The checkpoints that can be resumed from."""
    found = [path.parent for path in folder.glob("states/*/entry.json")]
    return [path for path in found if not is_temporary(path)]


def test_stopped_after_a_checkpoint_it_resumes_to_the_same_bytes(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in this process as a kill would; `make attack` kills the verb itself."""
    train, dev = tmp_path / "train.jsonl", tmp_path / "dev.jsonl"
    train.write_text("".join(json.dumps(row) + "\n" for row in toy(96)))
    dev.write_text("".join(json.dumps(row) + "\n" for row in toy(40, 1)))
    settings: dict[str, Any] = {"epochs": 6, "batch_size": 8, "learning_rate": 1e-3, "patience": 6}
    broken = tmp_path / "broken"
    with stopping(monkeypatch, lambda: bool(entries(broken))), pytest.raises(Stopped):
        finetune(train, str(bert), broken, dev=str(dev), **settings)
    assert json.loads((broken / "manifest.json").read_text())["status"] == "running"
    assert {path.name for path in broken.iterdir()} == {
        ".lock",
        "log.txt",
        "manifest.json",
        "states",
    }
    assert base_model_of(broken) is None  # there is no model yet
    assert entries(broken), "nothing to resume from"
    resumed = finetune(train, str(bert), broken, dev=str(dev), **settings)
    whole = finetune(train, str(bert), tmp_path / "whole", dev=dev, **settings)
    assert resumed.result["history"] == whole.result["history"]
    assert len(whole.result["history"]) == 6
    assert_same_model(resumed.folder, whole.folder)
    assert resumed.result["scores"] == whole.result["scores"]
    assert not (broken / "states").exists()


def assert_same_model(left: Path, right: Path) -> None:
    """The same files, byte for byte, but for seconds and times."""
    one, two = files_of(left), files_of(right)
    assert one.keys() == two.keys()
    assert {name for name in one if one[name] != two[name]} <= {"manifest.json", "log.txt"}


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


class StoppedError(Exception):
    """Something outside ended the run."""


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int | None) -> list[int]:
    """End a run at a step; the steps that were made."""
    steps: list[int] = []

    def on_step_end(self: Any, args: Any, state: Any, control: Any, **_: Any) -> None:
        steps.append(state.global_step)
        if state.global_step == step:
            raise StoppedError

    monkeypatch.setattr(module._Bar, "on_step_end", on_step_end)
    return steps


@pytest.mark.parametrize("step", [1, 3, 4, 5, 6], ids=lambda step: f"step {step}")
def test_stopped_anywhere_it_resumes_from_the_last_epoch(
    step: int, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path
) -> None:
    stop_at(monkeypatch, step)
    with pytest.raises(StoppedError):
        finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), **SHORT)
    steps = stop_at(monkeypatch, None)
    done = finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), **SHORT)
    assert steps == list(range((step - 1) // 2 * 2 + 1, 7))
    assert_same_model(done.folder, undisturbed)


SHORT = {"epochs": 3, "learning_rate": 1e-3, "batch_size": 16, "patience": 3}


@pytest.fixture(scope="module")
def undisturbed(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    done = finetune(
        toy(32), bert, tmp_path_factory.mktemp("whole") / "out", dev=toy(12, 1), **SHORT
    )
    torch.set_num_threads(before)
    return done.folder


def test_patience_is_not_forgotten_when_it_resumes(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, settings = (
        [0.5, 0.4, 0.3, 0.9, 0.9, 0.9],
        {"epochs": 5, "patience": 2, "learning_rate": 1e-3},
    )
    script(monkeypatch, scores)
    whole = finetune(toy(32), bert, tmp_path / "whole", dev=toy(8, 1), **settings)
    assert [row["mcc"] for row in whole.result["history"]] == [0.5, 0.4, 0.3]
    script(monkeypatch, scores)
    stop_at(monkeypatch, 3)  # a step an epoch: in the third, after one epoch without a better one
    with pytest.raises(StoppedError):
        finetune(toy(32), bert, tmp_path / "broken", dev=toy(8, 1), **settings)
    stop_at(monkeypatch, None)
    broken = finetune(toy(32), bert, tmp_path / "broken", dev=toy(8, 1), **settings)
    assert [row["mcc"] for row in broken.result["history"]] == [0.5, 0.4, 0.3]
    assert same_weights(broken.folder, whole.folder)


@pytest.mark.parametrize(
    "scores", [[0.5, 0.4, 0.3], [0.1, 0.4, 0.3, 0.9]], ids=["patience", "all epochs"]
)
def test_stopped_after_the_last_epoch_nothing_is_trained_again(
    scores: list[float], bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"epochs": 4, "patience": 2, "learning_rate": 1e-3, "dev": toy(8, 1)}
    script(monkeypatch, scores)
    whole = finetune(toy(32), bert, tmp_path / "whole", **settings)
    script(monkeypatch, scores)
    with monkeypatch.context() as patch:
        patch.setattr(work, "write_json", stopped)
        with pytest.raises(StoppedError):
            finetune(toy(32), bert, tmp_path / "out", **settings)
    steps = stop_at(monkeypatch, None)
    done = finetune(toy(32), bert, tmp_path / "out", **settings)
    assert steps == []
    assert [row["mcc"] for row in done.result["history"]] == scores
    assert done.result["history"] == whole.result["history"]
    assert_same_model(done.folder, whole.folder)


def stopped(*_: Any, **__: Any) -> Any:
    raise StoppedError


@pytest.fixture
def interrupted(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fine-tuning that ended in its third epoch; the second was better than the first."""
    script(monkeypatch, [0.5, 0.6, 0.4])
    stop_at(monkeypatch, 5)
    with pytest.raises(StoppedError):
        finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), **SHORT)
    assert len(entries(tmp_path / "out")) == 1
    return tmp_path / "out"


FILES = ["model.safetensors", "optimizer.pt", "rng_state.pth", "scheduler.pt", "trainer_state.json"]


DAMAGED = [(name, damage) for name in (*FILES, "entry.json") for damage in ("changed", "gone")]
QUICK = {("model.safetensors", "changed"), ("optimizer.pt", "gone"), ("entry.json", "changed")}


@pytest.mark.parametrize(
    ("name", "damage"),
    [one if one in QUICK else pytest.param(*one, marks=pytest.mark.slow) for one in DAMAGED],
)
def test_a_damaged_checkpoint_is_never_used(
    name: str,
    damage: str,
    bert: Path,
    interrupted: Path,
    monkeypatch: pytest.MonkeyPatch,
    scripted: Path,
) -> None:
    (file,) = (path for path in interrupted.rglob(name) if not path.is_symlink())
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    script(monkeypatch, [0.5, 0.6, 0.4])
    steps = stop_at(monkeypatch, None)
    done = finetune(toy(32), bert, interrupted, dev=toy(12, 1), **SHORT)
    assert steps == [1, 2, 3, 4, 5, 6]
    assert same_weights(done.folder, scripted)


@pytest.fixture(scope="module")
def scripted(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the interrupted fine-tuning would have been."""
    with pytest.MonkeyPatch.context() as patch:
        script(patch, [0.5, 0.6, 0.4])
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        place = tmp_path_factory.mktemp("scripted") / "out"
        done = finetune(toy(32), bert, place, dev=toy(12, 1), **SHORT)
        torch.set_num_threads(before)
    return done.folder


def test_a_last_checkpoint_without_the_best_one_is_not_used(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = [0.5, 0.4, 0.3]
    script(monkeypatch, scores)
    whole = finetune(toy(32), bert, tmp_path / "whole", dev=toy(12, 1), **SHORT)
    script(monkeypatch, scores)
    stop_at(monkeypatch, 5)
    with pytest.raises(StoppedError):
        finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), **SHORT)
    (best,) = (tmp_path / "out").glob("states/*/checkpoint-2/model.safetensors")
    assert len(entries(tmp_path / "out")) == 2
    best.write_bytes(best.read_bytes()[:-1] + b"?")
    script(monkeypatch, scores)
    steps = stop_at(monkeypatch, None)
    done = finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), **SHORT)
    assert steps == [1, 2, 3, 4, 5, 6]
    assert same_weights(done.folder, whole.folder)


def test_only_what_an_entry_lists_is_given_to_the_trainer(
    bert: Path, interrupted: Path, monkeypatch: pytest.MonkeyPatch, scripted: Path
) -> None:
    (entry,) = entries(interrupted)
    (entry / "checkpoint-4/scaler.pt").write_bytes(b"planted")
    (entry / "checkpoint-4/pytorch_model.bin").write_bytes(b"planted")
    stray = interrupted / "states" / ("0" * 64) / "checkpoint-9"
    shutil.copytree(entry / "checkpoint-4", stray)
    shutil.copy(entry / "entry.json", stray.parent)
    seen: list[set[str]] = []

    class Spied(module.Trainer):  # type: ignore[name-defined,misc]
        def train(self, resume_from_checkpoint: str | None = None) -> Any:
            assert resume_from_checkpoint is not None
            place = Path(resume_from_checkpoint)
            seen.append({path.name for path in place.iterdir()})
            assert [path.name for path in place.parent.iterdir()] == ["checkpoint-4"]
            state = json.loads((place / "trainer_state.json").read_text())
            assert state["best_model_checkpoint"] == str(place)
            return super().train(resume_from_checkpoint=resume_from_checkpoint)

    monkeypatch.setattr(module, "Trainer", Spied)
    script(monkeypatch, [0.4])
    steps = stop_at(monkeypatch, None)
    done = finetune(toy(32), bert, interrupted, dev=toy(12, 1), **SHORT)
    assert steps == [5, 6]
    assert seen
    assert set(FILES) <= seen[0]
    assert not seen[0] & {"scaler.pt", "pytorch_model.bin"}
    assert same_weights(done.folder, scripted)


def test_checkpoints_are_kept_where_there_are_no_hard_links(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    stop_at(monkeypatch, 3)
    with pytest.raises(StoppedError):
        finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), **SHORT)
    steps = stop_at(monkeypatch, None)
    done = finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), **SHORT)
    assert steps == [3, 4, 5, 6]
    assert_same_model(done.folder, undisturbed)


@pytest.mark.parametrize("share", [0.5, 1.2], ids=["at the weights", "at the optimizer"])
def test_a_full_disk_is_one_line_and_it_resumes(
    share: float, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path
) -> None:
    resource = pytest.importorskip("resource")
    size = int(share * (bert / "model.safetensors").stat().st_size)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with pytest.raises(StudyError, match="written") as caught:
            finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), **SHORT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(caught.value)
    done = finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), **SHORT)
    assert_same_model(done.folder, undisturbed)


def test_checkpoints_of_another_fine_tuning_are_not_used(
    bert: Path, interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = stop_at(monkeypatch, None)
    finetune(toy(32, 5), bert, interrupted, dev=toy(12, 1), fresh=True, **SHORT)
    assert steps == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_stopped_while_it_is_published_it_resumes(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"dev": toy(8, 1), "hold_out": 0.25, "head_only": True}
    whole = finetune(toy(32), bert, tmp_path / "whole", **options)
    for number in count(1):
        out = tmp_path / str(number)
        with monkeypatch.context() as patch:
            left = stop_at_move(patch, number)
            try:
                finetune(toy(32), bert, out, **options)
            except StoppedError:
                assert left == [0]
        if left != [0]:
            break
        if number > 1:
            assert json.loads((out / "manifest.json").read_text())["status"] == "running"
        done = finetune(toy(32), bert, out, **options)
        assert_same_model(done.folder, whole.folder)
    assert number > 2 * len(NAMES)  # each file is moved into the stage, and out of it


def stop_at_move(patch: pytest.MonkeyPatch, number: int) -> list[int]:
    """End a run at its n-th move of a file into its place; how many moves are left until then."""
    from attlas.models import model
    from attlas.studies import folder
    from attlas.support import files

    left, move = [number], files.move

    def counted(source: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise StoppedError
        move(source, target)

    for place in (files, folder, model):
        patch.setattr(place, "move", counted)
    return left


def test_the_same_call_returns_at_once(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = finetune(toy(32), bert, tmp_path / "out", **ONCE)
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*")}

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was run again")

    monkeypatch.setattr(module, "Trainer", refuse)
    monkeypatch.setattr(attlas.Model, "encode", refuse)
    again = finetune(toy(32), str(bert), str(tmp_path / "out"), **ONCE)
    assert again.manifest == first.manifest
    assert {path: path.stat().st_mtime_ns for path in first.folder.rglob("*")} == before


# --- what it is known by --------------------------------------------------------------------------


def test_names_do_not_count(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = finetune(toy(32), bert, tmp_path / "out", head_only=True)
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in toy(32)))
    shutil.copytree(bert, tmp_path / "copy")
    (tmp_path / "copy/README.md").write_text("not a part of the model")
    (tmp_path / "link").symlink_to(bert)
    monkeypatch.setattr(work, "run", stopped)
    monkeypatch.chdir(bert.parent)
    for base in (
        bert.name,
        f"./{bert.name}",
        str(bert),
        bert.parent / "." / bert.name,
        tmp_path / "copy",
        tmp_path / "link",
    ):
        assert finetune(toy(32), base, first.folder, head_only=True).manifest == first.manifest
    assert (
        finetune(tmp_path / "texts.jsonl", bert, first.folder, head_only=True).manifest
        == first.manifest
    )


def test_a_classifier_is_the_same_as_an_object_and_as_a_folder(tmp_path: Path) -> None:
    model = tiny("bert", task="classify")
    model.save(tmp_path / "model")
    options: dict[str, Any] = {"dev": toy(8, 1), "head_only": True}
    first = finetune(toy(32), tmp_path / "model", tmp_path / "out", **options)
    for source in (
        model,
        (model.network, model.tokenizer),
        attlas.load(tmp_path / "model", task="auto"),
    ):
        assert finetune(toy(32), source, first.folder, **options).manifest == first.manifest
    with torch.no_grad():
        model.network.classifier.bias.add_(1)
    with pytest.raises(StudyError, match=r"was made with another model \(weights\); .*--fresh"):
        finetune(toy(32), model, first.folder, **options)
    model.tokenizer.truncation_side = "left"
    with pytest.raises(StudyError, match=r"was made with another model \(weights, tokenizer\); "):
        finetune(toy(32), model, first.folder, **options)


def rewrite_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def move_a_weight(folder: Path) -> None:
    model = attlas.load(folder)
    with torch.no_grad():
        next(model.network.parameters()).view(-1)[5].add_(0.5)
    model.network.save_pretrained(folder)


OTHER_BASES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a weight": (move_a_weight, "weights"),
    "the configuration": (
        lambda base: rewrite_json(base / "config.json", layer_norm_eps=1e-6),
        "config",
    ),
    "the vocabulary": (
        lambda base: (base / "tokenizer.json").write_text(
            (base / "tokenizer.json").read_text().replace('"cat"', '"cot"')
        ),
        "tokenizer",
    ),
    "a setting of the tokenizer": (
        lambda base: rewrite_json(base / "tokenizer_config.json", truncation_side="left"),
        "tokenizer",
    ),
}


@pytest.mark.parametrize("change", OTHER_BASES)
def test_another_base_in_the_same_folder_is_another(
    change: str, bert: Path, tmp_path: Path
) -> None:
    base = shutil.copytree(bert, tmp_path / "base")
    first = finetune(toy(32), base, tmp_path / "out", head_only=True)
    before = files_of(first.folder)
    alter, named = OTHER_BASES[change]
    alter(base)
    with pytest.raises(
        StudyError, match=rf"was made with another model \(.*{named}.*\).*; pass fresh=True"
    ):
        finetune(toy(32), base, first.folder, head_only=True)
    assert files_of(first.folder) == before


def test_another_base_at_the_same_relative_path_is_another(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        shutil.copytree(bert, tmp_path / name / "base")
    move_a_weight(tmp_path / "there/base")
    monkeypatch.chdir(tmp_path / "here")
    finetune(toy(32), "base", tmp_path / "out", head_only=True)
    monkeypatch.chdir(tmp_path / "there")
    with pytest.raises(StudyError, match=r"another model \(weights\)"):
        finetune(toy(32), "base", tmp_path / "out", head_only=True)


def test_every_field_of_a_text_counts(bert: Path, tmp_path: Path) -> None:
    def texts(**change: Any) -> list[attlas.Text]:
        made = [attlas.Text(row["id"], row["text"], row["label"]) for row in toy(32)]
        fields = {"id": made[3].id, "text": made[3].text, "label": made[3].label, **change}
        made[3] = attlas.Text(**fields)
        return made

    first = finetune(texts(), bert, tmp_path / "out", hold_out=0.25, head_only=True)
    one = texts()[3]
    words = tuple(one.text.split())
    changes: list[dict[str, Any]] = [
        {"id": "other"},
        {"text": f"{one.text} mat"},
        {"label": "neg" if one.label == "pos" else "pos"},
        {"words": words},
        {"annotations": {"global": [(0, 3)]}},
        {"annotations": {"rationale": [(0, 3)]}},
        {"annotations": {"mine": 1}},
    ]
    assert len({fingerprint(texts(**change)) for change in changes}) == len(changes)
    for change in changes:
        with pytest.raises(StudyError, match="was made with another set of texts; "):
            finetune(texts(**change), bert, first.folder, hold_out=0.25, head_only=True)
    dev = finetune(texts(), bert, tmp_path / "dev", dev=texts(), head_only=True)
    with pytest.raises(StudyError, match="was made with another dev set; "):
        finetune(texts(), bert, dev.folder, dev=texts(annotations={"mine": 1}), head_only=True)


def test_other_global_tokens_are_another_model(
    saved: Callable[[str], Path], tmp_path: Path
) -> None:
    model = attlas.load(saved("longformer"), task="classify", labels=["neg", "pos"])
    first = finetune(toy(32), model, tmp_path / "out", head_only=True)
    assert finetune(toy(32), model, first.folder, head_only=True).manifest == first.manifest
    other = attlas.load(model, global_tokens="special")
    with pytest.raises(StudyError, match=r"another model \(global_tokens\); "):
        finetune(toy(32), other, first.folder, head_only=True)


def test_global_tokens_are_chosen_by_name_too(saved: Callable[[str], Path], tmp_path: Path) -> None:
    options: dict[str, Any] = {"head_only": True, "global_tokens": "special"}
    done = finetune(toy(32), saved("longformer"), tmp_path / "out", **options)
    assert done.result["settings"]["global_tokens"] == "special"
    assert attlas.load(done.folder, task="classify").global_tokens == "special"
    with pytest.raises(StudyError, match=r"another model \(global_tokens\); "):
        finetune(toy(32), saved("longformer"), done.folder, head_only=True)


def test_a_pickled_base_is_fine_tuned_only_if_it_is_trusted(bert: Path, tmp_path: Path) -> None:
    base = shutil.copytree(bert, tmp_path / "base")
    torch.save(load_file(base / "model.safetensors"), base / "pytorch_model.bin")
    (base / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="only pickled weights"):
        finetune(toy(32), base, tmp_path / "out", head_only=True)
    trusted = finetune(toy(32), base, tmp_path / "out", head_only=True, allow_pickle=True)
    safe = finetune(toy(32), bert, tmp_path / "safe", head_only=True)
    assert trusted.manifest["identity"] == safe.manifest["identity"]
    expected = weights_of(safe.folder)
    for name, tensor in weights_of(
        trusted.folder
    ).items():  # weights lie elsewhere in memory, which moves last bits
        torch.testing.assert_close(tensor, expected[name], rtol=1e-3, atol=1e-4)


def test_a_length_that_shortens_nothing_is_none(bert: Path, tmp_path: Path) -> None:
    plain = finetune(toy(32), bert, tmp_path / "plain", head_only=True)
    whole = attlas.load(bert).max_length
    same = finetune(toy(32), bert, tmp_path / "same", head_only=True, max_length=whole)
    assert same.manifest["identity"] == plain.manifest["identity"]
    assert_same_model(same.folder, plain.folder)


def test_weights_and_texts_are_hashed_once(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    real, known = attlas.Model.weights_sha256, fingerprint_module.fingerprint

    def weights_sha256(self: attlas.Model) -> str:
        hashed.append("weights")
        return real(self)

    def counted(thing: Any) -> str:
        if isinstance(thing, list) and thing and isinstance(thing[0], attlas.Text):
            hashed.append(f"{len(thing)} texts")
        return known(thing)

    monkeypatch.setattr(attlas.Model, "weights_sha256", weights_sha256)
    monkeypatch.setattr("attlas.experiments.workspace.fingerprint", counted)
    finetune(toy(32), bert, tmp_path / "out", dev=toy(8, 1), **ONCE)
    assert sorted(hashed) == ["32 texts", "8 texts", "weights"]


def test_a_base_that_changes_while_it_is_read_is_noticed(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = shutil.copytree(bert, tmp_path / "base")
    loaded = work.load

    def changed(*arguments: Any, **options: Any) -> attlas.Model:
        move_a_weight(base)
        return loaded(*arguments, **options)

    monkeypatch.setattr(work, "load", changed)
    with pytest.raises(StudyError, match="the model changed while it was read"):
        finetune(toy(32), base, tmp_path / "out", head_only=True)


def test_equal_numbers_of_other_types_are_equal(bert: Path, tmp_path: Path) -> None:
    first = finetune(toy(32), bert, tmp_path / "out", head_only=True, learning_rate=1.0, epochs=4)
    options: dict[str, Any] = {
        "learning_rate": 1,
        "epochs": np.int64(4),
        "hold_out": 0,
        "seed": np.int8(0),
    }
    assert (
        finetune(toy(32), bert, first.folder, head_only=True, **options).manifest == first.manifest
    )


def test_another_fine_tuning_is_refused_unless_fresh(
    bert: Path, saved: Callable[[str], Path], tmp_path: Path
) -> None:
    first = finetune(toy(32), bert, tmp_path / "out", **ONCE)
    weights, counts = (first.folder / "model.safetensors").read_bytes(), first.result["counts"]
    others: dict[str, dict[str, Any]] = {
        "epochs": {"epochs": 2},
        "batch_size": {"batch_size": 8},
        "learning_rate": {"learning_rate": 2e-3},
        "patience": {"patience": 1},
        "max_length": {"max_length": 6},
        "hold_out": {"hold_out": 0.25},
        "head_only": {"head_only": True},
        "seed": {"seed": 1},
        "dev": {"dev": toy(8, 1)},
        "model": {"model": saved("distilbert")},
        "texts": {"texts": toy(32, 5)},
    }
    for name, change in others.items():
        options = {"texts": toy(32), "model": bert, **ONCE, **change}
        with pytest.raises(StudyError, match=rf"was made with another .*\b{name}\b.*; .*--fresh"):
            finetune(out=first.folder, **options)
        assert (first.folder / "model.safetensors").read_bytes() == weights
    swapped = [{**row, "label": {"neg": "pos", "pos": "neg"}[row["label"]]} for row in toy(32)]
    with pytest.raises(StudyError, match="was made with another set of texts; "):
        finetune(swapped, bert, first.folder, **ONCE)
    again = finetune(swapped, bert, first.folder, fresh=True, **ONCE)
    assert (first.folder / "model.safetensors").read_bytes() != weights
    assert again.result["counts"] == counts


def test_fresh_throws_nothing_away_before_the_new_call_is_known_to_be_right(
    bert: Path, tmp_path: Path
) -> None:
    first = finetune(toy(32), bert, tmp_path / "out", head_only=True)
    weights = (first.folder / "model.safetensors").read_bytes()
    with pytest.raises(ModelError, match="there is no folder"):
        finetune(toy(32), tmp_path / "nowhere", first.folder, fresh=True)
    assert (first.folder / "model.safetensors").read_bytes() == weights


def test_a_model_is_not_thrown_away_to_be_fine_tuned(bert: Path, tmp_path: Path) -> None:
    first = finetune(toy(32), bert, tmp_path / "out", head_only=True)
    with pytest.raises(AttlasError):
        finetune(toy(32), first.folder, first.folder, fresh=True)
    assert (first.folder / "model.safetensors").is_file()


def test_fresh_removes_its_own_files_and_nothing_else(bert: Path, tmp_path: Path) -> None:
    first = finetune(toy(32), bert, tmp_path / "out", hold_out=0.25, head_only=True)
    mine = {
        "README.md": b"mine",
        "checkpoints/mine.bin": b"mine too",
        "states/mine.txt": b"and this",
    }
    for name, content in mine.items():
        (first.folder / name).parent.mkdir(exist_ok=True)
        (first.folder / name).write_bytes(content)
    finetune(toy(32, 3), bert, first.folder, head_only=True, fresh=True)
    after = files_of(first.folder)
    assert {name: after[name] for name in mine} == mine
    assert not (first.folder / "held_out.jsonl").exists()
    (first.folder / "held_out.jsonl").write_bytes(b"mine again")
    with pytest.raises(StudyError, match=r"held_out.jsonl was not written by Attlas; move it away"):
        finetune(toy(32), bert, first.folder, hold_out=0.25, head_only=True, fresh=True)
    assert (first.folder / "held_out.jsonl").read_bytes() == b"mine again"
    done = finetune(toy(32), bert, first.folder, head_only=True, fresh=True)
    after = files_of(done.folder)
    assert {name: after[name] for name in mine} == mine
    assert after["held_out.jsonl"] == b"mine again"


def test_fresh_stopped_while_it_clears_leaves_nothing_that_is_used(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path
) -> None:
    other = finetune(toy(32, 5), bert, tmp_path / "other", dev=toy(12, 1), **SHORT)
    with monkeypatch.context() as patch:
        patch.setattr("attlas.studies.folder.remove", stopped)
        with pytest.raises(StoppedError):
            finetune(toy(32), bert, other.folder, dev=toy(12, 1), fresh=True, **SHORT)
    with pytest.raises(StudyError, match="was made with another set of texts"):
        finetune(toy(32), bert, other.folder, dev=toy(12, 1), **SHORT)
    done = finetune(toy(32), bert, other.folder, dev=toy(12, 1), fresh=True, **SHORT)
    assert_same_model(done.folder, undisturbed)


NAMES = [
    "config.json",
    "finetune.json",
    "held_out.jsonl",
    "model.safetensors",
    "result.json",
    "tables/finetune.parquet",
    "tokenizer.json",
    "tokenizer_config.json",
]


@pytest.fixture(scope="module")
def finished(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("finished") / "out"
    return finetune(toy(32), bert, place, hold_out=0.25, head_only=True).folder


@pytest.mark.parametrize("name", NAMES)
def test_damage_of_a_finished_model_is_noticed(
    name: str, bert: Path, tmp_path: Path, finished: Path
) -> None:
    manifest = json.loads((finished / "manifest.json").read_text())
    assert sorted(manifest["files"]) == NAMES
    out = shutil.copytree(finished, tmp_path / "out")
    whole = (out / name).read_bytes()
    options: dict[str, Any] = {"hold_out": 0.25, "head_only": True}
    for damaged in (whole[:-1], b"", whole[:-1] + bytes([whole[-1] ^ 1]), None):
        (out / name).unlink()
        if damaged is not None:
            (out / name).write_bytes(damaged)
        what = "is missing" if damaged is None else "has changed since it was written"
        with pytest.raises(StudyError, match=f"{name} {what}; .*--fresh"):
            finetune(toy(32), bert, out, **options)
        if damaged is None:
            (out / name).touch()
    (out / name).write_bytes(whole)
    assert finetune(toy(32), bert, out, **options).result["status"] == "complete"
    (out / name).unlink()
    assert finetune(toy(32), bert, out, fresh=True, **options).result["status"] == "complete"
    assert_same_model(out, finished)


def test_a_finished_folder_is_a_model_for_transformers_too(finished: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    network = AutoModelForSequenceClassification.from_pretrained(finished)
    tokenizer = AutoTokenizer.from_pretrained(finished)
    ours = attlas.load(finished, task="classify")
    text = "the film was good"
    with torch.no_grad():
        theirs = network(**tokenizer(text, return_tensors="pt")).logits
    np.testing.assert_allclose(logits_of(ours, [attlas.Text("a", text)]), theirs.numpy(), atol=1e-5)


def test_a_second_process_is_refused(bert: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "out"), pytest.raises(StudyError, match="another process is writing in"):
        finetune(toy(32), bert, tmp_path / "out", head_only=True)
    assert finetune(toy(32), bert, tmp_path / "out", head_only=True).result["status"] == "complete"


def test_of_two_at_once_the_second_is_refused_and_the_first_is_not_disturbed(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path
) -> None:
    refused: list[str] = []

    def on_step_end(self: Any, args: Any, state: Any, control: Any, **_: Any) -> None:
        for fresh in (False, True):
            with pytest.raises(StudyError) as caught:
                finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), fresh=fresh, **SHORT)
            refused.append(str(caught.value))

    monkeypatch.setattr(module._Bar, "on_step_end", on_step_end)
    done = finetune(toy(32), bert, tmp_path / "out", dev=toy(12, 1), **SHORT)
    assert len(refused) == 12
    assert all(line.startswith("another process is writing in") for line in refused)
    assert_same_model(done.folder, undisturbed)


def test_a_folder_of_someone_else_is_refused_also_if_fresh(bert: Path, tmp_path: Path) -> None:
    for name in ("notes.txt", "held_out.jsonl", "config.json", "checkpoints/mine.bin"):
        place = tmp_path / Path(name).stem
        (place / name).parent.mkdir(parents=True)
        (place / name).write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = files_of(tmp_path)
    for fresh in (False, True):
        for place in ("notes", "held_out", "config", "mine"):
            with pytest.raises(
                StudyError, match=r"is not empty .* and holds no results of Attlas; choose another"
            ):
                finetune(toy(32), bert, tmp_path / place, fresh=fresh)
        with pytest.raises(StudyError, match="file is a file"):
            finetune(toy(32), bert, tmp_path / "file", fresh=fresh)
    assert files_of(tmp_path) == before
    for content in ("{}", "[]", "{oops", '{"settings": 1}'):
        (tmp_path / "odd").mkdir(exist_ok=True)
        (tmp_path / "odd/finetune.json").write_text(content)
        with pytest.raises(StudyError, match="choose another folder") as caught:
            finetune(toy(32), bert, tmp_path / "odd")
        assert "\n" not in str(caught.value)
        assert base_model_of(tmp_path / "odd") is None


def test_another_kind_of_result_is_refused_also_if_fresh(bert: Path, tmp_path: Path) -> None:
    attlas.study(tiny("bert"), ["a cat"], ["entropy"], tmp_path / "study")
    before = files_of(tmp_path / "study")
    for fresh in (False, True):
        with pytest.raises(StudyError, match=r"another kind of result \(study, not finetune\)"):
            finetune(toy(32), bert, tmp_path / "study", head_only=True, fresh=fresh)
    assert files_of(tmp_path / "study") == before


def test_a_model_of_an_earlier_attlas_is_loaded_and_not_written_to(
    bert: Path, tmp_path: Path, finished: Path
) -> None:
    old = shutil.copytree(finished, tmp_path / "old")
    (old / "manifest.json").unlink()
    assert base_model_of(old) == str(bert)
    assert (
        attlas.load(old, task="classify").weights_sha256()
        == attlas.load(finished, task="classify").weights_sha256()
    )
    before = files_of(old)
    for fresh in (False, True):
        with pytest.raises(
            StudyError, match=r"was fine-tuned by an earlier Attlas.* can be loaded"
        ) as caught:
            finetune(toy(32), bert, old, hold_out=0.25, head_only=True, fresh=fresh)
        assert "\n" not in str(caught.value)
    assert files_of(old) == before


PLANTED = ("finetune.json.tmp", "manifest.json.tmp", "model.tmp", "model.safetensors", ".lock")


@pytest.mark.parametrize("name", PLANTED)
def test_nothing_is_written_through_a_planted_link(name: str, bert: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(victim)
    for fresh in (False, True):
        with pytest.raises(StudyError):
            finetune(toy(32), bert, tmp_path / "out", head_only=True, fresh=fresh)
        assert victim.read_text() == "mine"
    (tmp_path / "out" / name).unlink()
    shutil.rmtree(tmp_path / "out")
    finetune(toy(32), bert, tmp_path / "out", head_only=True)
    if name != ".lock":
        (tmp_path / "out" / name).unlink(missing_ok=True)
        (tmp_path / "out" / name).symlink_to(victim)
        done = finetune(toy(32, 1), bert, tmp_path / "out", head_only=True, fresh=True)
        assert victim.read_text() == "mine"
        assert attlas.load(done.folder, task="classify").task == "classify"


# --- what is kept apart ---------------------------------------------------------------------------


@pytest.mark.parametrize("with_dev", [True, False], ids=["dev", "no dev"])
def test_held_out_texts_are_never_fitted(
    with_dev: bool, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, list[Any]] = {}
    make = module.Trainer

    def spied(*arguments: Any, **options: Any) -> Any:
        given.update(train=list(options["train_dataset"]), dev=list(options["eval_dataset"]))
        return make(*arguments, **options)

    monkeypatch.setattr(module, "Trainer", spied)
    plain = [{**row, "text": f"{row['text']} {number}"} for number, row in enumerate(toy(80))]
    odd = [{**row, "label": "pos" if number % 4 else "neg"} for number, row in enumerate(plain)]
    train = odd + [
        {**row, "id": f"again {row['id']}"} for row in odd[:20]
    ]  # a fifth of the texts comes twice
    dev = toy(20, 1) if with_dev else None
    done = finetune(train, bert, tmp_path / "out", dev=dev, hold_out=0.3, **ONCE)
    held = list(attlas.read(done.folder / "held_out.jsonl", label="label"))
    by_id = {row["id"]: row for row in train}
    assert all(
        (by_id[one.id]["text"], by_id[one.id]["label"]) == (one.text, one.label) for one in held
    )
    distinct = Counter({one.text: one.label for one in held}.values())
    assert distinct == {"pos": 18, "neg": 6}  # 0.3 of 60 and of 20 different texts
    encode = attlas.load(done.folder, task="classify").tokenizer
    held_ids = {tuple(encode(one.text)["input_ids"]) for one in held}
    parts = {name: {tuple(row["input_ids"]) for row in rows} for name, rows in given.items()}
    assert not held_ids & parts["train"]
    assert not held_ids & parts["dev"]
    assert not parts["train"] & parts["dev"]
    counts = done.result["counts"]
    assert (counts["fitted"], counts["dev"]) == (len(given["train"]), len(given["dev"]))
    assert counts["held_out"] == len(held)
    assert counts["fitted"] + counts["held_out"] + (0 if with_dev else counts["dev"]) == len(train)


def test_no_randomness_of_others_is_touched(bert: Path, tmp_path: Path) -> None:
    def states() -> tuple[Any, ...]:
        numbers = np.random.get_state()
        return (
            random.getstate(),
            numbers[1].tolist(),
            numbers[2:],
            torch.random.get_rng_state().tolist(),
        )

    random.seed(5), np.random.seed(6), torch.manual_seed(7)
    before = states()
    first = finetune(toy(32), bert, tmp_path / "one", hold_out=0.2, **ONCE)
    assert states() == before
    random.random(), np.random.random(), torch.rand(3)
    between = states()
    second = finetune(toy(32), bert, tmp_path / "two", hold_out=0.2, **ONCE)
    assert states() == between
    assert same_weights(first.folder, second.folder)
    finetune(toy(32), bert, tmp_path / "three", head_only=True)
    assert states() == between
    assert torch.is_grad_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_seed_matters(bert: Path, tmp_path: Path) -> None:
    one, two = (
        finetune(toy(32), bert, tmp_path / str(seed), dev=toy(8, 1), seed=seed, **ONCE).folder
        for seed in (0, 1)
    )
    assert not same_weights(one, two)


def test_a_failing_run_puts_randomness_back(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, 1)
    before = random.getstate(), torch.random.get_rng_state().tolist()
    with pytest.raises(StoppedError):
        finetune(toy(32), bert, tmp_path / "out", **ONCE)
    assert (random.getstate(), torch.random.get_rng_state().tolist()) == before


# --- the head alone -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "count"),
    [
        ("bert", 2),
        ("bert", 3),
        ("roberta", 2),
        ("distilbert", 3),
        ("gpt2", 2),
        ("gpt2", 3),
        ("llama", 2),
        ("modernbert", 2),
        ("bart", 2),
        ("longformer", 2),
    ],
)
def test_head_only_fits_the_last_layer_and_nothing_else(
    family: str,
    count: int,
    saved: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strengths = (
        0.01,
        0.03,
        0.1,
    )  # where the solver ends in one place, whatever the last digits of its input
    monkeypatch.setattr(head, "STRENGTHS", strengths)
    names = ("a", "b", "c")[:count]
    train, dev = toy(60, labels=names), toy(30, 1, names)
    done = finetune(train, saved(family), tmp_path / "out", dev=dev, head_only=True)
    model = attlas.load(done.folder, task="classify")
    before = attlas.load(saved(family), task="classify", labels=names, seed=0).network.state_dict()
    after = model.network.state_dict()
    changed = sorted(name for name in after if not torch.equal(before[name], after[name]))
    layer = changed[0].rpartition(".")[0]
    assert {name.rpartition(".")[0] for name in changed} == {layer}
    last = model.network.get_submodule(layer)
    assert isinstance(last, nn.Linear)
    assert last.out_features == count

    biased = last.bias is not None
    inputs, _ = inputs_slowly(model, layer, [row["text"] for row in train])
    others, logits = inputs_slowly(model, layer, [row["text"] for row in dev])
    scaler = StandardScaler(with_mean=biased).fit(inputs)
    wanted = [row["label"] for row in dev]
    fitted = {}
    for strength in strengths:
        regression = LogisticRegression(C=strength, max_iter=1000, fit_intercept=biased)
        regression.fit(scaler.transform(inputs), [row["label"] for row in train])
        fitted[strength] = (
            regression,
            matthews_corrcoef(wanted, regression.predict(scaler.transform(others))),
        )
    assert {row["C"]: pytest.approx(row["mcc"]) for row in done.result["history"]} == {
        strength: score for strength, (_, score) in fitted.items()
    }
    top = max(score for _, score in fitted.values())
    assert done.result["scores"]["mcc"] == pytest.approx(top)
    decided = logits[:, 1] - logits[:, 0] if count == 2 else logits
    near = [
        np.allclose(
            decided, regression.decision_function(scaler.transform(others)), rtol=1e-4, atol=1e-4
        )
        for regression, score in fitted.values()
        if score == top
    ]
    assert any(near)
    if count == 2 and biased:
        chance = torch.softmax(torch.tensor(logits), -1).numpy()
        assert any(
            np.allclose(chance, regression.predict_proba(scaler.transform(others)), atol=1e-4)
            for regression, score in fitted.values()
            if score == top
        )


def test_a_head_resumes_by_shard_and_by_penalty(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = finetune(toy(32), bert, tmp_path / "whole", dev=toy(8, 1), head_only=True)
    passes, fits = [], []
    read, scaler = head.head_inputs, head.StandardScaler
    monkeypatch.setattr(head, "SHARD", 20)

    def counted(model: attlas.Model, texts: list[attlas.Text]) -> Any:
        passes.append(len(texts))
        return read(model, texts)

    def fitted(**options: Any) -> Any:
        fits.append(options)
        return scaler(**options)

    monkeypatch.setattr(head, "head_inputs", counted)
    monkeypatch.setattr(head, "StandardScaler", fitted)
    with monkeypatch.context() as patch:
        patch.setattr(head, "copy_into_layer", stopped)
        with pytest.raises(StoppedError):
            finetune(toy(32), bert, tmp_path / "out", dev=toy(8, 1), head_only=True)
    done = finetune(toy(32), bert, tmp_path / "out", dev=toy(8, 1), head_only=True)
    assert passes == [20, 12, 8]
    assert len(fits) == len(head.STRENGTHS)
    assert done.result["history"] == whole.result["history"]
    np.testing.assert_allclose(
        weights_of(done.folder)["classifier.weight"],
        weights_of(whole.folder)["classifier.weight"],
        rtol=1e-3,
        atol=1e-4,
    )


# --- what is refused ------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], type[AttlasError], str]] = {
    "one label": (
        {"texts": toy(30, labels=("same",))},
        CorpusError,
        "all texts have the label same; .* two labels",
    ),
    "no texts": ({"texts": []}, CorpusError, "label"),
    "no label column": (
        {"label": "stars"},
        CorpusError,
        "no column 'stars'; its columns are id, text, label",
    ),
    "no text column": ({"text": "body"}, CorpusError, "no column 'body'"),
    "texts without labels": ({"texts": ["a cat", "a dog"]}, CorpusError, "no column 'label'"),
    "a Text without a label": (
        {"texts": [attlas.Text("x", "a cat", "1"), attlas.Text("y", "a dog")]},
        CorpusError,
        "all texts have the label 1; .* two labels",
    ),
    "an unknown label in dev": (
        {"dev": toy(4, labels=("neg", "meh"))},
        CorpusError,
        "no training text has: meh",
    ),
    "an empty dev": ({"dev": []}, CorpusError, "dev"),
    "too few for a dev part": (
        {"texts": toy(1) + toy(1, 1, ("pos",)), "hold_out": 0.5},
        CorpusError,
        "two different texts are needed",
    ),
    "no epochs": ({"epochs": 0}, AttlasError, "epochs is 0; it must be a whole number at least 1"),
    "no batch": ({"batch_size": 0}, AttlasError, "batch_size is 0"),
    "no patience": ({"patience": 0}, AttlasError, "patience is 0"),
    "a learning rate of 0": (
        {"learning_rate": 0.0},
        AttlasError,
        "learning_rate is 0.0; it must be a number above 0",
    ),
    "a negative learning rate": ({"learning_rate": -1.0}, AttlasError, "learning_rate is -1.0"),
    "a learning rate that is no number": (
        {"learning_rate": float("nan")},
        AttlasError,
        "learning_rate is nan",
    ),
    "an endless learning rate": (
        {"learning_rate": float("inf")},
        AttlasError,
        "learning_rate is inf",
    ),
    "a share above 1": (
        {"hold_out": 1.5},
        AttlasError,
        "hold_out is 1.5; it must be a number at least 0 and below 1",
    ),
    "a share of 1": ({"hold_out": 1.0}, AttlasError, "hold_out is 1.0"),
    "a negative share": ({"hold_out": -0.5}, AttlasError, "hold_out is -0.5"),
    "a negative seed": ({"seed": -1}, AttlasError, "seed is -1"),
    "a length without room": (
        {"max_length": 2},
        AttlasError,
        "max_length is 2; it must be a whole number at least 3",
    ),
    "half an epoch": ({"epochs": 1.5}, AttlasError, "epochs is 1.5; it must be a whole number"),
    "no such model": ({"model": "/nowhere"}, ModelError, "there is no folder /nowhere"),
    "no such file": ({"texts": "nowhere.csv"}, CorpusError, "there is no file 'nowhere.csv'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_a_line_and_nothing_is_written(
    case: str, bert: Path, tmp_path: Path
) -> None:
    change, kind, message = REFUSED[case]
    options = {"texts": toy(30), "model": bert, **ONCE, **change}
    with pytest.raises(kind, match=message) as caught:
        finetune(out=tmp_path / "out", **options)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("head_only", [False, True])
def test_a_text_without_a_token_is_said(
    head_only: bool, saved: Callable[[str], Path], tmp_path: Path
) -> None:
    texts = [*toy(30), {"id": "nothing", "text": "\x01", "label": "pos"}]
    with pytest.raises(CorpusError, match="nothing"):
        finetune(texts, saved("gpt2"), tmp_path / "out", head_only=head_only, **ONCE)


def test_a_model_given_as_an_object_is_fine_tuned_once_and_left_as_it_was(tmp_path: Path) -> None:
    model = tiny("bert", task="classify")
    before = fingerprint(model)
    first = finetune(toy(32), model, tmp_path / "out", **ONCE)
    assert fingerprint(model) == before
    assert finetune(toy(32), model, tmp_path / "out", **ONCE).manifest == first.manifest


def test_a_network_that_is_no_classifier_is_refused(tmp_path: Path) -> None:
    base = tiny("bert")  # its configuration speaks of two labels, as every one does
    with pytest.raises(ModelError, match="not a classifier"):
        finetune(toy(32), base, tmp_path / "out", **ONCE)
    with pytest.raises(ModelError, match="not a classifier"):
        finetune(toy(32), (base.network, base.tokenizer), tmp_path / "out", **ONCE)
    with pytest.raises(ModelError, match="not a classifier of 3 labels"):
        finetune(
            toy(32, labels=("a", "b", "c")), tiny("bert", task="classify"), tmp_path / "out", **ONCE
        )
    assert list(tmp_path.iterdir()) == []


def test_what_a_model_was_fine_tuned_from(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    finetune(toy(30), bert, "~/tuned", head_only=True)
    assert base_model_of(tmp_path / "tuned") == str(bert)
    assert base_model_of("~/tuned") == str(bert)
    assert base_model_of(bert) is None
    assert base_model_of(tmp_path / "nowhere") is None


def test_what_a_model_was_fine_tuned_from_is_found_from_elsewhere(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bert.parent)
    finetune(toy(30), bert.name, tmp_path / "tuned", head_only=True)
    monkeypatch.chdir(tmp_path)
    base = base_model_of(tmp_path / "tuned")
    assert base is not None
    assert Path(base).is_dir()
    assert attlas.load(base).weights_sha256() == attlas.load(bert).weights_sha256()


# --- texts with labels ----------------------------------------------------------------------------


def texts_of(rows: list[Row]) -> list[attlas.Text]:
    return [attlas.Text(row["id"], row["text"], row["label"]) for row in rows]


def test_a_split_takes_its_share_of_each_label_and_keeps_the_order() -> None:
    texts = [attlas.Text(str(n), f"text {n}", "a" if n % 5 else "b") for n in range(100)]
    rest, part = split(texts, 0.25, seed=3)
    assert Counter(one.label for one in part) == {"a": 20, "b": 5}
    assert rest == [one for one in texts if one not in part]
    assert part == [one for one in texts if one not in rest]
    assert split(texts, 0.25, seed=3) == (rest, part)
    assert split(texts, 0.25, seed=4)[1] != part


def test_a_split_puts_no_text_on_both_sides() -> None:
    texts = [attlas.Text(str(n), f"text {n % 30}", "ab"[n % 30 % 2]) for n in range(90)]
    rest, part = split(texts, 0.2)
    assert not {one.text for one in rest} & {one.text for one in part}
    assert (len(rest), len(part)) == (72, 18)


def test_a_split_of_rare_labels_and_of_too_few_texts() -> None:
    texts = [attlas.Text(str(n), f"text {n}", "ab"[n == 0]) for n in range(20)]
    rest, part = split(texts, 0.1)
    assert (len(rest), len(part)) == (18, 2)
    assert rest[0].label == "b"  # a label's only text stays
    for few in (texts[:1], []):
        with pytest.raises(CorpusError, match=f"two different texts are needed .*, got {len(few)}"):
            split(few, 0.1)


def test_labelled_takes_what_read_takes(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("body,stars\na cat,5\na dog,1\n")
    assert [(one.text, one.label) for one in labelled(tmp_path / "texts.csv", "body", "stars")] == [
        ("a cat", "5"),
        ("a dog", "1"),
    ]
    assert len(labelled("embedded:reviews")) == 120
    assert [
        one.label for one in labelled(attlas.read([{"text": "a", "stars": 3}], label="stars"))
    ] == ["3"]
    with pytest.raises(CorpusError, match="no label"):
        labelled(attlas.read(["a cat"]))
    (tmp_path / "hole.csv").write_text("text,label\na cat,5\na dog,\n")
    with pytest.raises(CorpusError, match=r"row 2 \(line 3\): it has no label in 'label'"):
        labelled(tmp_path / "hole.csv")
