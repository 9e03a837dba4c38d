"""Training a classifier with transformers' Trainer: it resumes from the last finished epoch."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_callback import PrinterCallback

from attlas.finetune.experiment import Finetune, Schedule
from attlas.models.encode import Encoded
from attlas.models.model import Model
from attlas.models.quiet import silence_transformers
from attlas.stats.scores import mcc_and_accuracy
from attlas.studies.folder import ENTRY, States
from attlas.support.errors import StudyError
from attlas.support.files import files_below, read_json, temporary_folder, write_errors, write_json
from attlas.support.fingerprint import fingerprint
from attlas.support.progress import Report

CHECKPOINT, TRAINER_STATE = "checkpoint-", "trainer_state.json"
GLOBAL = "global_attention_mask"

History = list[dict[str, float]]  # one row per epoch, or per setting of a head


@dataclass(frozen=True)
class Job:
    """A classifier to train, the tokens of its texts and of dev, and the options."""

    model: Model
    fitted: list[Encoded]
    dev: list[Encoded]
    names: list[str]  # labels, in the order of the classifier's outputs
    options: Finetune

    @property
    def schedule(self) -> Schedule:
        return self.options.schedule(len(self.fitted))


def train(job: Job, states: States, key: str, report: Report) -> History:
    """Train the classifier and leave it as it was after its best epoch.

    Checkpoints are entries of `states` under `key`, which stands for everything that the training
    depends on. On one thread the same inputs give the same weights, interrupted or not.
    """
    with (
        own_randomness(),
        silence_transformers(),
        write_errors(states.folder),
        temporary_folder(states.folder) as output,
    ):
        checkpoints = _Checkpoints(states, key, output)
        last, state = checkpoints.restore()
        trainer = _trainer(job, output, [_Bar(report), checkpoints])
        if _ran_out_of_patience(state):  # then nothing is left but to load the best epoch
            trainer.args.num_train_epochs = round(state["epoch"])
        with _torch_errors(states.folder), job.model.fast_longformer():
            trainer.train(resume_from_checkpoint=last)
    job.model.network.eval()
    scores = ("loss", "mcc", "accuracy")
    return [
        {"epoch": row["epoch"], **{name: row[f"eval_{name}"] for name in scores}}
        for row in trainer.state.log_history
        if "eval_mcc" in row
    ]


def _trainer(job: Job, output: Path, callbacks: list[TrainerCallback]) -> Trainer:
    trainer = Trainer(
        model=job.model.network,
        args=_arguments(job, output),
        train_dataset=_rows(job, job.fitted),
        eval_dataset=_rows(job, job.dev),
        data_collator=_Collator(job.model.tokenizer),
        processing_class=job.model.tokenizer,
        compute_metrics=lambda output: mcc_and_accuracy(output.label_ids, output.predictions),
        callbacks=[EarlyStoppingCallback(job.schedule.patience), *callbacks],
    )
    trainer.pop_callback(PrinterCallback)
    return trainer


def _arguments(job: Job, output: Path) -> TrainingArguments:
    schedule, longest = job.schedule, max(map(len, job.dev))
    return TrainingArguments(
        output_dir=str(output),
        num_train_epochs=schedule.epochs,
        per_device_train_batch_size=schedule.batch_size,
        per_device_eval_batch_size=max(1, min(64, 8192 // longest)),
        learning_rate=job.options.learning_rate,
        warmup_steps=0.06,
        weight_decay=0.01,
        train_sampling_strategy="group_by_length",
        length_column_name="length",
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="mcc",
        greater_is_better=True,
        seed=job.options.seed,
        data_seed=job.options.seed,
        restore_callback_states_from_checkpoint=True,
        disable_tqdm=True,
        report_to="none",
        dataloader_pin_memory=False,
        log_level="error",
    )


def _rows(job: Job, encoded: Sequence[Encoded]) -> list[dict[str, Any]]:
    """Rows for the Trainer, in the order of `encoded`."""
    return [
        {
            "input_ids": one.ids,
            "attention_mask": [1] * len(one),
            "labels": job.names.index(str(one.text.label)),
            "length": len(one),
            **({GLOBAL: _global_mask(one)} if job.model.banded else {}),
        }
        for one in encoded
    ]


def _global_mask(one: Encoded) -> list[int]:
    return [int(token in one.global_tokens) for token in range(len(one))]


class _Collator(DataCollatorWithPadding):
    """Pads a batch, the mask of global tokens included."""

    def __call__(self, features: Any) -> Any:
        rows = [dict(row) for row in features]
        marks = [row.pop(GLOBAL) for row in rows if GLOBAL in row]
        batch = super().__call__(rows)
        if marks:
            width = batch["input_ids"].shape[1]
            batch[GLOBAL] = torch.tensor([[*mark, *([0] * (width - len(mark)))] for mark in marks])
        return batch


class _Bar(TrainerCallback):
    def __init__(self, report: Report) -> None:
        self.report = report

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.report(state.global_step, state.max_steps)


class _Checkpoints(TrainerCallback):
    """Keeps the Trainer's checkpoints as entries of a folder's states, and restores them.

    The Trainer writes to `output`, a temporary folder. An entry has a checkpoint's files (the same
    files, by hard links, where the file system has them) and their checksums.
    """

    def __init__(self, states: States, key: str, output: Path) -> None:
        self.states, self.key, self.output = states, key, output
        self.steps: set[int] = set()  # of the checkpoints that have an entry

    def restore(self) -> tuple[str | None, dict[str, Any]]:
        """Restore the last complete checkpoint and the best one so far.

        Gives its path, None if there is none, and the state of the Trainer in it.
        """
        whole = self._whole()
        for step in sorted(whole, reverse=True):
            state = read_json(whole[step] / TRAINER_STATE) or {}
            best = state.get("best_global_step") or None
            if best is None or best in whole:
                break
        else:
            return None, {}
        self.steps = {step} if best is None else {best, step}
        for one in sorted(self.steps):  # in the order of their making, which the Trainer relies on
            _link_files(whole[one], self._path(one), self._listed(one))  # nothing else in there
        if best is not None:
            state["best_model_checkpoint"] = str(self._path(best))
        write_json(self._path(step) / TRAINER_STATE, state)
        self._drop(set(whole) - self.steps)
        return str(self._path(step)), state

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Keep what the Trainer has just written, then drop what it has removed."""
        present = {_step_of(path): path for path in self.output.glob(f"{CHECKPOINT}*")}
        for step, path in present.items():
            if step not in self.steps:
                with self.states.make(self._key(step)) as entry:
                    _link_files(path, entry / path.name)
        self._drop(self.steps - set(present))
        self.steps = set(present)

    def _whole(self) -> dict[int, Path]:
        """The complete and undamaged checkpoints of this fine-tuning."""
        return {
            step: path
            for path in self.states.folder.glob(f"*/{CHECKPOINT}*")
            if path.parent.name == self._key(step := _step_of(path))
            and self.states.find(path.parent.name) is not None
            and f"{path.name}/{TRAINER_STATE}" in self._listed(step)
        }

    def _key(self, step: int) -> str:
        return fingerprint(("checkpoint", self.key, step))

    def _path(self, step: int) -> Path:
        return self.output / f"{CHECKPOINT}{step}"

    def _listed(self, step: int) -> list[str]:
        entry = read_json(self.states.folder / self._key(step) / ENTRY) or {}
        return list(entry.get("files", ()))

    def _drop(self, steps: set[int]) -> None:
        for step in steps:
            self.states.drop(self._key(step))


@contextmanager
def _torch_errors(folder: Path) -> Iterator[None]:
    """Report a full disk in one line; `torch.save` raises no OSError."""
    try:
        yield
    except RuntimeError as error:
        if not any(sign in str(error) for sign in ("inline_container", "PytorchStreamWriter")):
            raise
        raise StudyError(
            f"a checkpoint in {folder} could not be written; free some space "
            "and run the same command again to resume"
        ) from error


def _ran_out_of_patience(state: Mapping[str, Any]) -> bool:
    """Whether training had stopped early, which the Trainer does not restore."""
    control = state.get("stateful_callbacks", {}).get("TrainerControl", {})
    return bool(control.get("args", {}).get("should_training_stop"))


def _step_of(checkpoint: Path) -> int:
    """The step at which a checkpoint was written; -1 if its name does not say.

    >>> _step_of(Path("checkpoint-12")), _step_of(Path("checkpoint-mine"))
    (12, -1)
    """
    number = checkpoint.name.removeprefix(CHECKPOINT)
    return int(number) if number.isdecimal() else -1


def _link_files(source: Path, target: Path, listed: Sequence[str] | None = None) -> None:
    """Link the files of a checkpoint into another folder; only listed ones if there is a list."""
    for path in files_below(source):
        inside = path.relative_to(source)
        if listed is None or f"{source.name}/{inside.as_posix()}" in listed:
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, target / inside)
            except OSError:  # a file system without hard links
                shutil.copyfile(path, target / inside)


@contextmanager
def own_randomness() -> Iterator[None]:
    """Restore all random states afterwards: the Trainer sets every seed."""
    python, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)
