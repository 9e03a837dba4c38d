"""finetune: a classifier from a pretrained model and labelled texts, with transformers' Trainer; stopped half way, it goes on."""

from __future__ import annotations

import copy
import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from attlas.core.batch import Batch
from attlas.core.confusion import accuracy, confusion, mcc
from attlas.core.errors import CorpusError, ModelError, StudyError
from attlas.core.files import LOCK, claimed, replacing, write_json, writing
from attlas.core.progress import Report, progress_bar
from attlas.core.text import Text
from attlas.corpora import fingerprint, labelled, split
from attlas.models.load import EMBEDDED, load
from attlas.models.model import SAVING, Model
from attlas.models.quiet import quiet

RECORD, CHECKPOINTS, HELD_OUT = "finetune.json", "checkpoints", "held_out.jsonl"
GLOBAL = "global_attention_mask"
HEAD_STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # of --head-only: C of the logistic regression, chosen on dev
Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned classifier on disk: a model folder with `finetune.json` beside the weights."""

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

    After every epoch the model is scored on `dev` (a tenth of the texts if there is none) by Matthews' correlation; the best epoch is
    kept and training ends after `patience` epochs without a better one. `hold_out` keeps a share of the texts out of it all and writes
    them to `held_out.jsonl`, for classifiers that must be fitted on texts the model has not seen. `head_only` leaves the model as it is and fits
    the last layer alone. The same call goes on where a stopped one ended, and gives a finished one's result back.
    """
    folder = Path(out).expanduser()
    _check(epochs, batch_size, patience, learning_rate, hold_out, max_length, seed)
    model = load(model, task="classify") if isinstance(model, tuple) else model
    train_texts = labelled(texts, text, label)
    dev_texts = None if dev is None else labelled(dev, text, label)
    if dev_texts == []:
        raise CorpusError("there is no text in dev; give a file with labelled texts, or none at all")
    names = label_names(train_texts, dev_texts or [])
    kept, held = split(train_texts, hold_out, seed) if hold_out else (train_texts, [])
    fitted, chosen = (kept, dev_texts) if dev_texts is not None else split(kept, 0.1, seed)
    settings = {
        "model": _named(model), "epochs": epochs, "batch_size": batch_size,
        "learning_rate": learning_rate, "patience": patience, "max_length": max_length, "hold_out": hold_out, "head_only": head_only, "seed": seed,
        **({"global_tokens": str(model.global_tokens)} if isinstance(model, Model) and model.banded else {}),
        "labels": names, "texts": fingerprint(train_texts), "dev": None if dev_texts is None else fingerprint(dev_texts),
    }  # fmt: skip
    _check_fitted(fitted, names)
    if base_name(model) == str(folder.resolve()):
        raise ModelError(f"{folder} is the model to be fine-tuned; choose another folder for the result")
    found = _found(folder, settings, fresh)
    if found is not None:
        return found
    began = time.perf_counter()
    job = _Job(_classifier(model, names, seed, max_length), fitted, chosen, names, folder, settings)
    with claimed(folder):
        if fresh:
            _clear(folder)
        return _run(job, held, base_name(model), began, progress)


def _run(job: _Job, held: list[Text], base: str | None, began: float, progress: bool | None) -> Finetuned:
    folder, settings, head_only = job.folder, job.settings, job.settings["head_only"]
    write_json(folder / RECORD, {"status": "running", "base": base, "settings": settings})
    if held:
        _write_texts(folder / HELD_OUT, held)
    what = "fitting the head" if head_only else "fine-tuning"
    with progress_bar(what, "texts" if head_only else "steps", wanted=progress) as report, _own_randomness(), quiet():
        history = job.fit_head(report) if head_only else job.train(report)
    files = job.model.save(folder)
    record = {
        "status": "complete",
        "base": base,
        "settings": settings,
        "labels": job.names,
        "counts": {"fitted": len(job.texts), "dev": len(job.dev), "held_out": len(held), "truncated": job.truncated},
        "history": history,
        "scores": job.scores(),
        "files": files,
        "seconds": round(time.perf_counter() - began, 1),
    }
    write_json(folder / RECORD, record)
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return Finetuned(folder, record)


def base_of(folder: str | Path) -> str | None:
    """What a folder that `finetune` wrote was fine-tuned from, where that can be loaded again; None for any other."""
    try:
        record = json.loads((Path(folder).expanduser() / RECORD).read_text())
        return record.get("base") or (EMBEDDED if record["settings"]["model"] == EMBEDDED else None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def base_name(model: Any) -> str | None:
    """A name or folder that loads the model again from anywhere; None for one given as an object."""
    if model is None:
        return EMBEDDED
    if isinstance(model, Model):
        return None
    return str(Path(model).expanduser().resolve()) if Path(model).expanduser().is_dir() else str(model)


def label_names(train: Sequence[Text], others: Sequence[Text] = (), named: str = "dev") -> list[str]:
    """The labels in order: as numbers if all are, else as strings."""
    names = {str(one.label) for one in train}
    if len(names) < 2:
        raise CorpusError(
            f"all texts have the label {', '.join(sorted(names)) or '(none)'}; a classifier needs at least two labels"
        )
    strange = sorted({str(one.label) for one in others} - names)
    if strange:
        raise CorpusError(f"the {named} texts have labels that no training text has: {', '.join(strange[:5])}")
    if all(map(_is_number, names)):
        return sorted(names, key=lambda name: (float(name), name))
    return sorted(names)


def _is_number(name: str) -> bool:
    return name.removeprefix("-").replace(".", "", 1).isdecimal()


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
    for name, value in (("epochs", epochs), ("batch_size", batch_size), ("patience", patience)):
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


def _found(folder: Path, settings: dict[str, Any], fresh: bool) -> Finetuned | None:
    """What an earlier run left: a finished model, or nothing but checkpoints to go on from."""
    path = folder / RECORD
    if not path.is_file():
        if folder.is_dir() and any(entry.name != LOCK for entry in folder.iterdir()):
            raise StudyError(f"{folder} is not empty and holds no model of attlas finetune; choose another folder")
        return None
    try:
        record = json.loads(path.read_text())
        theirs = dict(record["settings"])
    except (ValueError, KeyError, TypeError) as error:
        raise StudyError(f"{path} is not a record of attlas finetune; choose another folder") from error
    if fresh:
        return None
    differ = [name for name in settings if theirs.get(name) != settings[name]]
    if differ:
        raise StudyError(
            f"{folder} belongs to another fine-tuning (its {', '.join(differ)} differ); choose another folder, or pass fresh=True (--fresh) to throw it away"
        )
    return Finetuned(folder, record) if record["status"] == "complete" else None


def _clear(folder: Path) -> None:
    """Remove what an earlier fine-tuning wrote, and nothing else."""
    path = folder / RECORD
    record = json.loads(path.read_text()) if path.is_file() else {}
    for name in (RECORD, HELD_OUT, *record.get("files", [])):
        (folder / Path(name).name).unlink(missing_ok=True)
    for name in (CHECKPOINTS, SAVING):
        shutil.rmtree(folder / name, ignore_errors=True)


def _classifier(model: Any, names: Sequence[str], seed: int, max_length: int | None) -> Model:
    """The model with a fresh classification head for these labels."""
    if isinstance(model, Model):
        network = model.network
        if "ForSequenceClassification" not in type(network).__name__ or network.config.num_labels != len(names):
            raise ModelError(f"the model is not a classifier of {len(names)} labels; pass its name or folder instead")
        limit = model.limit if max_length is None else max_length
        loaded = replace(model, network=copy.deepcopy(model.network), limit=limit)  # the caller's stays as it is
    else:
        loaded = load(model, task="classify", max_length=max_length, labels=names, seed=seed)
    loaded.network.config.label2id = {name: number for number, name in enumerate(names)}
    loaded.network.config.id2label = dict(enumerate(names))
    if loaded.tokenizer.pad_token is None:
        loaded.tokenizer.pad_token = loaded.tokenizer.eos_token or loaded.tokenizer.unk_token
    loaded.network.config.pad_token_id = loaded.tokenizer.pad_token_id
    return loaded


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


@dataclass
class _Job:
    """One fine-tuning under way."""

    model: Model
    texts: list[Text]
    dev: list[Text]
    names: list[str]
    folder: Path
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        self.rows, self.dev_rows = self._rows(self.texts), self._rows(self.dev)
        self.truncated = sum(row.pop("cut") for row in self.rows + self.dev_rows)

    def train(self, report: Report) -> list[dict[str, float]]:
        place = self.folder / CHECKPOINTS
        seed = self.settings["seed"]
        arguments = TrainingArguments(
            output_dir=str(place), num_train_epochs=self.settings["epochs"], per_device_train_batch_size=self.settings["batch_size"],
            per_device_eval_batch_size=max(1, min(64, 8192 // max(row["length"] for row in self.dev_rows))), learning_rate=self.settings["learning_rate"], warmup_steps=0.06, weight_decay=0.01,
            train_sampling_strategy="group_by_length", length_column_name="length", eval_strategy="epoch", save_strategy="epoch",
            logging_strategy="epoch", save_total_limit=1, load_best_model_at_end=True, metric_for_best_model="mcc", greater_is_better=True,
            seed=seed, data_seed=seed,
            restore_callback_states_from_checkpoint=True, disable_tqdm=True, report_to="none", dataloader_pin_memory=False, log_level="error",
        )  # fmt: skip
        trainer = Trainer(
            model=self.model.network, args=arguments, train_dataset=self.rows, eval_dataset=self.dev_rows,
            data_collator=_Collator(self.model.tokenizer), processing_class=self.model.tokenizer,
            compute_metrics=lambda prediction: mcc_and_accuracy(prediction.label_ids, prediction.predictions),
            callbacks=[EarlyStoppingCallback(self.settings["patience"]), _Bar(report)],
        )  # fmt: skip
        trainer.pop_callback(_printer())
        with writing(place), self.model.in_blocks():
            trainer.train(resume_from_checkpoint=_last_whole(place))
        self.model.network.eval()
        return [
            {"epoch": row["epoch"], "loss": row["eval_loss"], "mcc": row["eval_mcc"], "accuracy": row["eval_accuracy"]}
            for row in trainer.state.log_history
            if "eval_mcc" in row
        ]

    def fit_head(self, report: Report) -> list[dict[str, float]]:
        """Fit the last layer alone: a logistic regression on what goes into it, its strength chosen on dev."""
        layer = last_layer(self.model.network)
        total = len(self.texts) + len(self.dev)
        inputs, known = (
            _inputs_of(layer, self.model, self.texts, lambda done: report(done, total)),
            self._labels(self.texts),
        )
        dev, wanted = (
            _inputs_of(layer, self.model, self.dev, lambda done: report(len(self.texts) + done, total)),
            self._labels(self.dev),
        )
        history: list[dict[str, float]] = []
        best: Any = None
        for strength in HEAD_STRENGTHS:
            fitted = make_pipeline(
                StandardScaler(with_mean=_has_bias(layer)),
                LogisticRegression(C=strength, max_iter=1000, fit_intercept=_has_bias(layer)),
            ).fit(inputs, known)
            history.append({"C": strength, **_scores(wanted, fitted.predict(dev), len(self.names))})
            if history[-1]["mcc"] >= max(row["mcc"] for row in history):
                best = fitted
        _put(layer, best)
        return history

    def scores(self) -> dict[str, float]:
        return mcc_and_accuracy(self._labels(self.dev), logits_of(self.model, self.dev))

    def _labels(self, texts: Sequence[Text]) -> npt.NDArray[np.int64]:
        return np.array([self.names.index(str(one.label)) for one in texts])

    def _rows(self, texts: Sequence[Text]) -> list[dict[str, Any]]:
        encoded = self.model.encode(list(enumerate(texts)))
        labels = self._labels(texts)
        for one in encoded:
            if all(one.special):
                raise CorpusError(f"the tokenizer makes no token of text {one.text.id!r}; leave it out")
        return [
            {
                "input_ids": one.ids,
                "attention_mask": [1] * len(one),
                "labels": int(labels[one.place]),
                "length": len(one),
                "cut": one.cut > 0,
                **(
                    {GLOBAL: [int(place in one.global_tokens) for place in range(len(one))]}
                    if self.model.banded
                    else {}
                ),
            }
            for one in encoded
        ]


def mcc_and_accuracy(labels: Any, logits: Any) -> dict[str, float]:
    """Matthews' correlation and accuracy of the most likely labels.

    >>> mcc_and_accuracy([0, 1], [[2.0, 1.0], [0.0, 3.0]])
    {'mcc': 1.0, 'accuracy': 1.0}
    """
    said = np.asarray(logits[0] if isinstance(logits, tuple) else logits)
    return _scores(np.asarray(labels), said.argmax(-1), said.shape[-1])


def _scores(labels: npt.NDArray[Any], guesses: npt.NDArray[Any], classes: int) -> dict[str, float]:
    table = confusion(labels, guesses, classes)
    return {"mcc": float(mcc(table)), "accuracy": float(accuracy(table))}


def logits_of(model: Model, texts: Sequence[Text], tell: Callable[[int], None] = lambda done: None) -> Floats:
    """What a classifier says of each text: [text, label]. Batches of one length, no padding."""
    out: dict[int, Floats] = {}

    def keep(batch: Batch, output: Any) -> None:
        out.update(zip(batch.places, output.logits.float().cpu().numpy(), strict=True))
        tell(len(out))

    _over(model, texts, keep)
    return np.stack([out[place] for place in range(len(texts))])


def _over(model: Model, texts: Sequence[Text], take: Callable[[Batch, Any], None]) -> None:
    encoder = model.classifying_encoder
    with model.in_blocks(), torch.inference_mode():
        for group in encoder.groups(encoder.encode(list(enumerate(texts))), tokens=4096, cells=2**20):
            batch = encoder.batch(group, model.device)
            take(batch, model.network(input_ids=batch.ids, **batch.inputs))


def last_layer(network: PreTrainedModel) -> nn.Linear:
    """The layer that gives a classifier its logits."""
    own = {id(module) for module in network.base_model.modules()}
    layers = [module for module in network.modules() if isinstance(module, nn.Linear) and id(module) not in own]
    layers = [layer for layer in layers if layer.out_features == network.config.num_labels]
    if not layers:
        raise ModelError(
            f"{type(network).__name__} has no last linear layer to fit; fine-tune all of it, without head_only (--head-only)"
        )
    return layers[-1]


def head_inputs(model: Model, texts: Sequence[Text]) -> Floats:
    """What goes into the last layer of a classifier for each text: [text, feature]."""
    return _inputs_of(last_layer(model.network), model, texts, lambda done: None)


def _inputs_of(layer: nn.Linear, model: Model, texts: Sequence[Text], tell: Callable[[int], None]) -> Floats:
    """What goes into the last layer for each text: [text, feature]."""
    seen: list[torch.Tensor] = []
    out: dict[int, Floats] = {}
    hook = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))

    def keep(batch: Batch, output: Any) -> None:
        states = seen.pop().float()
        if states.dim() == 3:  # logits of every token, one of them taken: find which
            every = nn.functional.linear(states, layer.weight, layer.bias)
            place = int((every - output.logits[:, None]).abs().sum((0, 2)).argmin())
            states = states[:, place]
        out.update(zip(batch.places, states.double().cpu().numpy(), strict=True))
        tell(len(out))

    try:
        _over(model, texts, keep)
    finally:
        hook.remove()
    return np.stack([out[place] for place in range(len(texts))])


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


def _last_whole(place: Path) -> str | None:
    """The last checkpoint that was written whole: the Trainer writes its own state last."""
    whole = [path for path in place.glob("checkpoint-*") if _is_json(path / "trainer_state.json")]
    return str(max(whole, key=lambda path: int(path.name.rpartition("-")[2]))) if whole else None


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return True


def _write_texts(path: Path, texts: Sequence[Text]) -> None:
    with replacing(path) as file:
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
