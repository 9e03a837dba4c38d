"""What Finetune does: a classifier is loaded, trained on texts, scored on dev, and saved."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from attlas.core.text import Text
from attlas.corpora import read_labelled as read, split
from attlas.corpora.splits import check_label_column, label_names
from attlas.experiments.experiment import Outcome
from attlas.experiments.run import source_name
from attlas.experiments.workspace import Workspace
from attlas.finetune.experiment import Finetune
from attlas.finetune.head import fit_head
from attlas.finetune.training import History, Job, own_randomness, train
from attlas.models import Model, load
from attlas.models.encode import Encoded
from attlas.models.predict import logits_of
from attlas.models.record import RECORD, reload_name
from attlas.models.sources import EMBEDDED
from attlas.stats.intervals import wilson
from attlas.stats.scores import majority_share, mcc_and_accuracy
from attlas.support.arrays import Ints
from attlas.support.errors import CorpusError, ModelError, StudyError
from attlas.support.files import write_bytes, write_json

__all__ = ["check_inputs", "read", "run"]

HELD_OUT = "held_out.jsonl"
CLASSIFIER = "ForSequenceClassification"


@dataclass(frozen=True)
class Parts:
    """Texts to fit, to score epochs on, and to hold out, and the names of all labels in order."""

    fitted: list[Text]
    dev: list[Text]
    held_out: list[Text]
    names: list[str]

    def numbers(self, texts: Sequence[Text]) -> Ints:
        """The number of each text's label."""
        return np.array([self.names.index(str(one.label)) for one in texts])


def parts_of(finetune: Finetune, texts: list[Text], dev: list[Text] | None) -> Parts:
    """Set texts aside: the share to hold out, then a tenth as dev if none is given."""
    if dev == []:
        raise CorpusError("dev has no texts; give labelled texts, or omit dev")
    names = label_names(texts, dev=dev or [])
    share, seed = finetune.hold_out, finetune.seed
    kept, held_out = split(texts, share, seed) if share else (texts, [])
    fitted, scored = (kept, dev) if dev is not None else split(kept, 0.1, seed)
    missing = set(names) - {str(one.label) for one in fitted}
    if missing:
        raise CorpusError(
            f"no text is left to fit the label {min(missing)!r}; "
            "give more texts of it, or a dev file"
        )
    return Parts(fitted, scored, held_out, names)


def check_inputs(finetune: Finetune, opened: dict[str, Any]) -> dict[str, Any]:
    """Refuse unsuitable texts and networks before anything is loaded or written."""
    check_label_column(opened["texts"], finetune.label)
    parts = parts_of(finetune, opened["texts"], opened["dev"])
    model = finetune.model
    if isinstance(model, Model | tuple):
        network: Any = model.network if isinstance(model, Model) else next(iter(model), None)
        labels = network.config.num_labels if CLASSIFIER in type(network).__name__ else 0
        if labels != len(parts.names):
            expected = f"a classifier of {len(parts.names)} labels"
            raise ModelError(f"the model is not {expected}; pass its name or folder instead")
    return opened


def run(
    finetune: Finetune, work: Workspace, *, texts: list[Text], dev: list[Text] | None, model: Model
) -> Outcome:
    """Train the classifier and score the epoch that is kept."""
    parts = parts_of(finetune, texts, dev)
    work.log(f"Finetune 1/3: loading a classifier of {len(parts.names)} labels")
    classifier = classifier_of(finetune, model, parts.names)
    fitted, scored = (encode(classifier, part) for part in (parts.fitted, parts.dev))
    work.log(f"Finetune 2/3: {_training(finetune, len(fitted))}")
    job = Job(classifier, fitted, scored, parts.names, finetune)
    key = work.key("finetune", model, texts, dev, finetune.options)
    history = _fit_head(job, parts, work) if finetune.head_only else _fit(job, work, key)
    work.log(f"Finetune 3/3: scoring on {len(scored):,} texts")
    labels, settings = parts.numbers(parts.dev), finetune.settings(len(fitted))
    scores = mcc_and_accuracy(labels, logits_of(classifier, parts.dev))
    record = {
        "status": "complete",
        "base": reload_name(finetune.model),
        "settings": {
            "model": _model_name(finetune.model, model, work),
            **settings,
            "max_length": classifier.limit,
            **({"global_tokens": str(classifier.global_tokens)} if classifier.banded else {}),
            "labels": list(classifier.network.config.label2id),
            "texts": work.identity(texts),
            "dev": None if dev is None else work.identity(dev),
        },
        "labels": parts.names,
        "counts": {
            "fitted": len(fitted),
            "dev": len(scored),
            "held_out": len(parts.held_out),
            "truncated": sum(one.truncated_by > 0 for one in (*fitted, *scored)),
        },
        "history": history,
        "scores": scores,
    }
    majority = majority_share(labels)
    interval = list(wilson(scores["accuracy"], len(labels)))
    shown = {name: record[name] for name in ("labels", "counts", "scores")}
    shown["options"] = settings
    return Outcome(
        tables={"finetune": pd.DataFrame(history).assign(majority=majority)},
        result={**record, "accuracy_interval": interval, "controls": {"majority": majority}},
        counts=_counts(parts, [*fitted, *scored]),
        files={".": Finetuned(classifier, record, parts.held_out)},
        controls=[("finetune", "accuracy", "majority")],
        about={"finetune": {**shown, "accuracy_interval": interval, "majority": majority}},
        corpus={
            "name": source_name(finetune.texts),
            "fingerprint": work.identity(texts),
            "labels": dict(sorted(Counter(str(one.label) for one in texts).items())),
        },
    )


def classifier_of(finetune: Finetune, model: Model, names: Sequence[str]) -> Model:
    """The model with a classification head for these labels, free to be trained.

    A base that is a classifier of as many labels keeps its head; any other gets a random one, by
    the seed. The model itself is not changed.
    """
    if isinstance(finetune.model, Model | tuple):
        classifier = replace(
            model,
            network=copy.deepcopy(model.network),
            tokenizer=copy.deepcopy(model.tokenizer),
            task="classify",
        )
    else:
        how = {**finetune.openings("model"), "labels": names, "seed": finetune.seed}
        classifier = load(finetune.model, task="classify", **how)
        _check_same_base(model, classifier)
    config, tokenizer = classifier.network.config, classifier.tokenizer
    config.label2id = {name: number for number, name in enumerate(names)}
    config.id2label = dict(enumerate(names))
    config.problem_type = "single_label_classification"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    config.pad_token_id = tokenizer.pad_token_id
    whole = replace(classifier, limit=None)  # a limit that shortens nothing is dropped
    return whole if whole.max_length == classifier.max_length else classifier


def _check_same_base(model: Model, classifier: Model) -> None:
    """Refuse a classifier whose base is not the model that the identity knows."""
    known = model.network.base_model.state_dict()
    for name, tensor in classifier.network.base_model.state_dict().items():
        if name in known and "pooler" not in name and not torch.equal(tensor, known[name]):
            raise StudyError("the model changed while it was read; run the same command again")


def encode(model: Model, texts: Sequence[Text]) -> list[Encoded]:
    """The tokens of texts; a text without any is refused."""
    encoded = model.encode(list(enumerate(texts)))
    for one in encoded:
        if all(one.special):
            raise CorpusError(
                f"the tokenizer produces no tokens for text {one.text.id!r}; remove it"
            )
    return encoded


def _fit(job: Job, work: Workspace, key: str) -> History:
    with work.progress("fine-tuning", "steps") as report:
        return train(job, work.folder.states, key, report)


def _fit_head(job: Job, parts: Parts, work: Workspace) -> History:
    fitted, dev = ((texts, parts.numbers(texts)) for texts in (parts.fitted, parts.dev))
    with own_randomness():
        return fit_head(job.model, fitted, dev, len(parts.names), work)


def _training(finetune: Finetune, texts: int) -> str:
    """What is trained, in words.

    >>> _training(Finetune(texts="few.csv"), 40)
    'training on 40 texts (at most 13 epochs, batch size 5)'
    >>> _training(Finetune(texts="few.csv", head_only=True), 40)
    'fitting the classification head on 40 texts'
    """
    if finetune.head_only:
        return f"fitting the classification head on {texts:,} texts"
    schedule = finetune.schedule(texts)
    how = f"at most {schedule.epochs:,} epochs, batch size {schedule.batch_size:,}"
    return f"training on {texts:,} texts ({how})"


def _model_name(given: Any, model: Model, work: Workspace) -> str:
    """What the record calls the model; an object is known by its weights."""
    if isinstance(given, Model | tuple):
        return f"{model.name} ({work.identity(model)['weights'][:16]})"
    return EMBEDDED if given is None else str(given)


def _counts(parts: Parts, encoded: Sequence[Encoded]) -> dict[str, int]:
    """What the manifest counts; texts held out are read, and have no tokens."""
    read = len(parts.fitted) + len(parts.dev) + len(parts.held_out)
    return {
        "read": read,
        "analysed": read,
        "quarantined": 0,
        "held_out": len(parts.held_out),
        "truncated": sum(one.truncated_by > 0 for one in encoded),
        "tokens": sum(map(len, encoded)),
        "tokens_cut": sum(one.truncated_by for one in encoded),
    }


@dataclass(frozen=True)
class Finetuned:
    """A trained classifier with its record and the texts that were held out."""

    model: Model
    record: Mapping[str, Any]
    held_out: Sequence[Text]

    def save(self, folder: Path) -> None:
        """Write a model folder with `finetune.json` next to the weights."""
        files = self.model.save(folder)
        if self.held_out:
            rows = ({"id": one.id, "text": one.text, "label": one.label} for one in self.held_out)
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            write_bytes(folder / HELD_OUT, "".join(lines).encode())
        write_json(folder / RECORD, {**self.record, "files": files})
