"""finetune: a classifier from a pretrained model and labelled texts, with transformers' Trainer.

The folder it writes is a model folder. Interrupted, it resumes from the last epoch.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from transformers import (
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from attlas.core.text import Text
from attlas.corpora import labelled, split
from attlas.corpora.splits import label_names
from attlas.models.encode import Encoded
from attlas.models.load import load
from attlas.models.model import Model, config_content
from attlas.models.predict import inputs_of, last_layer, logits_of
from attlas.models.quiet import quiet
from attlas.models.record import RECORD, base_name
from attlas.models.sources import EMBEDDED
from attlas.stats.choose import first_best
from attlas.stats.scores import mcc_and_accuracy, scores_of
from attlas.studies.folder import (
    ELSEWHERE,
    ENTRY,
    MANIFEST,
    SOURCE,
    Folder,
    ForeignFolderError,
    States,
    check_file,
    read_manifest,
)
from attlas.support.errors import CorpusError, ModelError, StudyError
from attlas.support.files import (
    atomic_write,
    files_below,
    read_json,
    temporary_folder,
    write_errors,
    write_json,
)
from attlas.support.fingerprint import fingerprint, source_digest, versions
from attlas.support.progress import Report, progress_bar

KIND, HELD_OUT = "finetune", "held_out.jsonl"
CHECKPOINT, TRAINER_STATE = "checkpoint-", "trainer_state.json"
LABELS = ("id2label", "label2id", "num_labels")  # in a configuration, set to those of the texts
GLOBAL = "global_attention_mask"
HEAD_STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # C of the logistic regression, chosen on dev


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned classifier on disk: a model folder with `finetune.json` next to the weights."""

    folder: Path
    record: dict[str, Any] = field(repr=False)

    @property
    def scores(self) -> dict[str, float]:
        """MCC and accuracy on dev."""
        return self.record["scores"]

    def load(self) -> Model:
        """The classifier."""
        return load(self.folder, task="classify")


def finetune(
    texts: Any,
    model: Any = None,
    out: str | Path = "runs/finetuned",
    *,
    dev: Any = None,
    text: str | None = None,
    label: str | None = "label",
    epochs: int = 4,
    batch_size: int = 32,
    learning_rate: float = 5e-5,
    patience: int = 2,
    max_length: int | None = None,
    hold_out: float = 0.0,
    head_only: bool = False,
    seed: int = 0,
    fresh: bool = False,
    progress: bool | None = None,
) -> Finetuned:
    """Fine-tune a model to tell the labels of texts apart, and write it to `out` as a model folder.

    After every epoch the model is scored on `dev` (a tenth of the texts if there is none) by
    Matthews' correlation; the best epoch is kept, and training ends after `patience` epochs without
    a better one. `hold_out` excludes a share of the texts from all of it and writes them to
    `held_out.jsonl`, for classifiers that must be fitted on texts the model has not seen.
    `head_only` fits the last layer alone and leaves all others as they are. The same call resumes
    an interrupted fine-tuning and returns a finished one; a folder that was made from anything else
    (another base model, other texts, another option, other code) is refused unless `fresh`.
    """
    folder = Path(out).expanduser()
    _check(epochs, batch_size, patience, learning_rate, hold_out, max_length, seed)
    options = {
        "epochs": int(epochs),
        "batch_size": int(batch_size),
        "learning_rate": float(learning_rate),
        "patience": int(patience),
        "max_length": None if max_length is None else int(max_length),
        "hold_out": float(hold_out),
        "head_only": bool(head_only),
        "seed": int(seed),
    }
    model = load(model, task="classify") if isinstance(model, tuple) else model
    train_texts = labelled(texts, text, label)
    dev_texts = None if dev is None else labelled(dev, text, label)
    if dev_texts == []:
        raise CorpusError("there is no text in dev; give a file with labelled texts, or no dev")
    names = label_names(train_texts, dev=dev_texts or [])
    kept, held = split(train_texts, hold_out, seed) if hold_out else (train_texts, [])
    fitted, chosen = (kept, dev_texts) if dev_texts is not None else split(kept, 0.1, seed)
    _check_fitted(fitted, names)
    _refuse_foreign(folder)
    if base_name(model) == str(folder.resolve()):
        raise ModelError(f"{folder} is the model to be fine-tuned; choose another folder (--out)")
    job = _Job(_classifier(model, names, seed, max_length), fitted, chosen, held, names, options)
    parts = _base_identity(job.model)
    identity = {
        "model": fingerprint(parts),
        "head": fingerprint(_tensors(job.model, base=False)),
        "texts": fingerprint(train_texts),
        "dev": fingerprint(dev_texts),
        **{name: fingerprint(value) for name, value in options.items()},
        SOURCE: source_digest(),
    }
    about = _about(model, job, identity["texts"], None if dev is None else identity["dev"])
    if fresh or not (folder / MANIFEST).exists():
        job.check()  # before anything is written or removed
    place = Folder(folder, KIND)
    with place.claim(identity, fresh, {"model": parts}, **about) as found:
        if found is not None:
            return Finetuned(folder, read_json(check_file(folder, RECORD, found)) or {})
        return _run(job, place, fingerprint(identity), about, progress)


def _about(model: Any, job: _Job, texts: str, dev: str | None) -> dict[str, Any]:
    """What the record and the manifest say about a fine-tuning."""
    classifier = job.model
    chosen = {"global_tokens": str(classifier.global_tokens)} if classifier.banded else {}
    settings = {"model": _named(model), **job.options, **chosen}
    return {
        "base": base_name(model),
        "settings": {**settings, "labels": job.names, "texts": texts, "dev": dev},
    }


def _run(
    job: _Job,
    place: Folder,
    identity: str,
    about: Mapping[str, Any],
    progress: bool | None,
) -> Finetuned:
    head_only = job.options["head_only"]
    what, unit = ("fitting the head", "texts") if head_only else ("fine-tuning", "steps")
    with progress_bar(what, unit, wanted=progress) as report, _own_randomness(), quiet():
        history = job.fit_head(report) if head_only else job.train(report, place.states, identity)
    scores = job.scores()
    with place.staging() as stage:
        files = job.model.save(stage)
        if job.held:
            _write_texts(stage / HELD_OUT, job.held)
        record = {
            "status": "complete",
            **about,
            "labels": job.names,
            "counts": job.counts(),
            "history": history,
            "scores": scores,
            "files": files,
            "seconds": round(time.perf_counter() - job.started, 1),
        }
        write_json(stage / RECORD, record)
        content = {name: record[name] for name in ("counts", "scores", "seconds")}
        place.publish(stage, {**content, "versions": versions()})
    place.states.clear()
    return Finetuned(place.path, record)


def _named(model: Any) -> str:
    """A model's name as a record keeps it; one that is given as an object also by its weights."""
    if isinstance(model, Model):
        return f"{model.name} ({model.weights_sha256()[:16]})"
    return EMBEDDED if model is None else str(model)


def _check(
    epochs: int,
    batch_size: int,
    patience: int,
    learning_rate: float,
    hold_out: float,
    max_length: int | None,
    seed: int,
) -> None:
    counts = {"epochs": epochs, "batch_size": batch_size, "patience": patience}
    for name, value in {**counts, "seed": seed, "max_length": max_length or 0}.items():
        if not float(value).is_integer():
            raise ModelError(f"{name} is {value}; it must be a whole number")
    for name, value in counts.items():
        if value < 1:
            raise ModelError(f"{name} is {value}; it must be at least 1")
    if not 0 < learning_rate < float("inf"):
        raise ModelError(f"learning_rate is {learning_rate}; it must be above 0, and finite")
    if seed < 0:
        raise ModelError(f"seed is {seed}; it must be 0 or above")
    if not 0 <= hold_out < 1:
        raise ModelError(f"hold_out is {hold_out}; it is a share of the texts, from 0 to below 1")
    if max_length is not None and max_length < 3:
        raise ModelError(f"max_length is {max_length}, but a text needs at least 3 tokens")


def _check_fitted(texts: Sequence[Text], names: Sequence[str]) -> None:
    missing = set(names) - {str(one.label) for one in texts}
    if missing:
        raise CorpusError(
            f"no text is left to fit the label {sorted(missing)[0]!r}; give more texts of it, or a dev file"
        )


def _refuse_foreign(folder: Path) -> None:
    """Refuse, before a model is loaded, a folder that can never hold this result."""
    old = read_json(folder / RECORD)
    if old is not None and "settings" in old and not (folder / MANIFEST).exists():
        raise ForeignFolderError(
            f"{folder} was fine-tuned by an earlier Attlas, which did not list its files: "
            f"it can be loaded, not continued or cleared; {ELSEWHERE}"
        )
    read_manifest(folder)


def _classifier(model: Any, names: Sequence[str], seed: int, max_length: int | None) -> Model:
    """The model with a fresh classification head for these labels."""
    if isinstance(model, Model):
        network = model.network
        classifies = "ForSequenceClassification" in type(network).__name__
        if not classifies or network.config.num_labels != len(names):
            wanted = f"a classifier of {len(names)} labels"
            raise ModelError(f"the model is not {wanted}; pass its name or folder instead")
        loaded = replace(
            model,  # the caller's stays as it is
            network=copy.deepcopy(network),
            tokenizer=copy.deepcopy(model.tokenizer),
            task="classify",
            limit=model.limit if max_length is None else max_length,
        )
    else:
        loaded = load(model, task="classify", max_length=max_length, labels=names, seed=seed)
    loaded.network.config.label2id = {name: number for number, name in enumerate(names)}
    loaded.network.config.id2label = dict(enumerate(names))
    loaded.network.config.problem_type = "single_label_classification"
    if loaded.tokenizer.pad_token is None:
        loaded.tokenizer.pad_token = loaded.tokenizer.eos_token or loaded.tokenizer.unk_token
    loaded.network.config.pad_token_id = loaded.tokenizer.pad_token_id
    return loaded


def _base_identity(model: Model) -> dict[str, str]:
    """The fingerprints of a classifier without its head, which a seed may have drawn."""
    content = config_content(model.network)
    config = json.loads(content["config"])
    content["config"] = {name: value for name, value in config.items() if name not in LABELS}
    return {
        **model.identity(),
        "weights": fingerprint(_tensors(model, base=True)),
        "config": fingerprint(content),
    }


def _tensors(model: Model, base: bool) -> dict[str, Any]:
    """The weights that the base model must hold, or those of the head and of a pooler."""
    prefix = f"{model.network.base_model_prefix}."
    return {
        name: (str(tensor.dtype), tuple(tensor.shape), _bytes_of(tensor))
        for name, tensor in model.network.state_dict().items()
        if (name.startswith(prefix) and "pooler" not in name) == base
    }


def _bytes_of(tensor: torch.Tensor) -> npt.NDArray[np.uint8]:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


class _Collator(DataCollatorWithPadding):
    """Pads a batch; which tokens are global is padded with none."""

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
    """Keeps the Trainer's checkpoints as entries of a folder's states, and brings them back.

    The Trainer writes to `output`, a temporary folder. An entry has a checkpoint's files (the same
    files, by hard links, where the file system has them) and their checksums.
    """

    def __init__(self, states: States, identity: str, output: Path) -> None:
        self.states, self.identity, self.output = states, identity, output
        self.steps: set[int] = set()  # of the checkpoints that have an entry

    def restore(self) -> tuple[str | None, dict[str, Any]]:
        """Bring back the last whole checkpoint and the best one so far, which it depends on.

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
            _link_files(whole[one], self._place(one), self._listed(one))  # nothing else in there
        if best is not None:
            state["best_model_checkpoint"] = str(self._place(best))
        write_json(self._place(step) / TRAINER_STATE, state)
        self._drop(set(whole) - self.steps)
        return str(self._place(step)), state

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
        """The checkpoints of this very fine-tuning whose files are all as they were written."""
        return {
            step: path
            for path in self.states.folder.glob(f"*/{CHECKPOINT}*")
            if path.parent.name == self._key(step := _step_of(path))
            and self.states.find(path.parent.name) is not None
            and f"{path.name}/{TRAINER_STATE}" in self._listed(step)
        }

    def _key(self, step: int) -> str:
        return fingerprint(("checkpoint", self.identity, step))

    def _place(self, step: int) -> Path:
        return self.output / f"{CHECKPOINT}{step}"

    def _listed(self, step: int) -> list[str]:
        entry = read_json(self.states.folder / self._key(step) / ENTRY) or {}
        return list(entry.get("files", ()))

    def _drop(self, steps: set[int]) -> None:
        for step in steps:
            self.states.drop(self._key(step))


@contextmanager
def _torch_errors(folder: Path) -> Iterator[None]:
    """Turn what `torch.save` raises on a full disk, which is no OSError, into one clear line."""
    try:
        yield
    except RuntimeError as error:
        if not any(sign in str(error) for sign in ("inline_container", "PytorchStreamWriter")):
            raise
        raise StudyError(
            f"a checkpoint in {folder} could not be written whole; free some space "
            "and run the same command again: it resumes"
        ) from error


def _ran_out_of_patience(state: Mapping[str, Any]) -> bool:
    """Whether training had ended, which the Trainer itself forgets when it resumes."""
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
    """Give the files of a checkpoint a second place; if there is a list, only those on it."""
    for path in files_below(source):
        inside = path.relative_to(source)
        if listed is None or f"{source.name}/{inside.as_posix()}" in listed:
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, target / inside)
            except OSError:  # a file system without hard links
                shutil.copyfile(path, target / inside)


@dataclass
class _Job:
    """One fine-tuning under way."""

    model: Model
    texts: list[Text]
    dev: list[Text]
    held: list[Text]
    names: list[str]
    options: dict[str, Any]
    started: float = field(default_factory=time.perf_counter)

    @cached_property
    def encoded(self) -> tuple[list[Encoded], list[Encoded]]:
        """The tokens of the texts to fit and of dev."""
        return self._encode(self.texts), self._encode(self.dev)

    def _encode(self, texts: Sequence[Text]) -> list[Encoded]:
        encoded = self.model.encode(list(enumerate(texts)))
        for one in encoded:
            if all(one.special):
                text = f"text {one.text.id!r}"
                raise CorpusError(f"the tokenizer makes no token of {text}; remove it")
        return encoded

    def check(self) -> None:
        """Refuse what cannot be trained."""
        if self.options["head_only"]:
            last_layer(self.model.network)
        _ = self.encoded

    def counts(self) -> dict[str, int]:
        return {
            "fitted": len(self.texts),
            "dev": len(self.dev),
            "held_out": len(self.held),
            "truncated": sum(one.cut > 0 for part in self.encoded for one in part),
        }

    def train(self, report: Report, states: States, identity: str) -> list[dict[str, float]]:
        with write_errors(states.folder), temporary_folder(states.folder) as output:
            checkpoints = _Checkpoints(states, identity, output)
            last, state = checkpoints.restore()
            trainer = self._trainer(output, [_Bar(report), checkpoints])
            if _ran_out_of_patience(state):  # then nothing is left but to load the best epoch
                trainer.args.num_train_epochs = round(state["epoch"])
            with _torch_errors(states.folder), self.model.in_blocks():
                trainer.train(resume_from_checkpoint=last)
        self.model.network.eval()
        return [
            {
                "epoch": row["epoch"],
                "loss": row["eval_loss"],
                "mcc": row["eval_mcc"],
                "accuracy": row["eval_accuracy"],
            }
            for row in trainer.state.log_history
            if "eval_mcc" in row
        ]

    def _trainer(self, output: Path, callbacks: list[TrainerCallback]) -> Trainer:
        rows, dev_rows = map(self._rows, self.encoded)
        longest = max(row["length"] for row in dev_rows)
        arguments = TrainingArguments(
            output_dir=str(output),
            num_train_epochs=self.options["epochs"],
            per_device_train_batch_size=self.options["batch_size"],
            per_device_eval_batch_size=max(1, min(64, 8192 // longest)),
            learning_rate=self.options["learning_rate"],
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
            seed=self.options["seed"],
            data_seed=self.options["seed"],
            restore_callback_states_from_checkpoint=True,
            disable_tqdm=True,
            report_to="none",
            dataloader_pin_memory=False,
            log_level="error",
        )
        trainer = Trainer(
            model=self.model.network,
            args=arguments,
            train_dataset=rows,
            eval_dataset=dev_rows,
            data_collator=_Collator(self.model.tokenizer),
            processing_class=self.model.tokenizer,
            compute_metrics=lambda output: mcc_and_accuracy(output.label_ids, output.predictions),
            callbacks=[EarlyStoppingCallback(self.options["patience"]), *callbacks],
        )
        trainer.pop_callback(_printer())
        return trainer

    def fit_head(self, report: Report) -> list[dict[str, float]]:
        """Fit the last layer alone: a logistic regression on what goes into it, C chosen on dev (the stronger penalty of equals)."""
        layer = last_layer(self.model.network)
        total = len(self.texts) + len(self.dev)
        inputs, known = (
            inputs_of(layer, self.model, self.texts, lambda done: report(done, total)),
            self._labels(self.texts),
        )
        dev, wanted = (
            inputs_of(layer, self.model, self.dev, lambda done: report(len(self.texts) + done, total)),
            self._labels(self.dev),
        )
        fitted = [
            make_pipeline(
                StandardScaler(with_mean=_has_bias(layer)),
                LogisticRegression(C=strength, max_iter=1000, fit_intercept=_has_bias(layer)),
            ).fit(inputs, known)
            for strength in sorted(HEAD_STRENGTHS)
        ]
        history = [
            {"C": strength, **scores_of(wanted, one.predict(dev), len(self.names))}
            for strength, one in zip(sorted(HEAD_STRENGTHS), fitted, strict=True)
        ]
        _put(layer, fitted[first_best([row["mcc"] for row in history])])
        return history

    def scores(self) -> dict[str, float]:
        return mcc_and_accuracy(self._labels(self.dev), logits_of(self.model, self.dev))

    def _labels(self, texts: Sequence[Text]) -> npt.NDArray[np.int64]:
        return np.array([self.names.index(str(one.label)) for one in texts])

    def _rows(self, encoded: Sequence[Encoded]) -> list[dict[str, Any]]:
        """What the Trainer takes, in the order of `encoded`."""
        return [
            {
                "input_ids": one.ids,
                "attention_mask": [1] * len(one),
                "labels": self.names.index(str(one.text.label)),
                "length": len(one),
                **({GLOBAL: self._global(one)} if self.model.banded else {}),
            }
            for one in encoded
        ]

    @staticmethod
    def _global(one: Encoded) -> list[int]:
        return [int(token in one.global_tokens) for token in range(len(one))]


def _put(layer: nn.Linear, fitted: Any) -> None:
    """Write a scaled logistic regression into a linear layer."""
    scaler, regression = fitted[0], fitted[1]
    weight = regression.coef_ / scaler.scale_
    bias = regression.intercept_ - (0 if scaler.mean_ is None or not scaler.with_mean else weight @ scaler.mean_)
    if len(weight) == 1:  # two labels: half for one, half against the other
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        if _has_bias(layer):
            layer.bias.copy_(torch.from_numpy(bias))


def _has_bias(layer: nn.Linear) -> bool:
    return isinstance(layer.bias, torch.Tensor)


def _printer() -> Any:
    from transformers.trainer_callback import PrinterCallback

    return PrinterCallback


def _write_texts(path: Path, texts: Sequence[Text]) -> None:
    with atomic_write(path) as file:
        for one in texts:
            file.write(
                (json.dumps({"id": one.id, "text": one.text, "label": one.label}, ensure_ascii=False) + "\n").encode()
            )


@contextmanager
def _own_randomness() -> Iterator[None]:
    """The Trainer sets every seed there is; put them back afterwards."""
    python, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)
