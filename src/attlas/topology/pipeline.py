"""Can the shape of attention alone tell the labels apart? Features, classifier, best heads and controls in one go, kept on disk."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.text import Text
from attlas.corpora import labelled, split
from attlas.corpora.splits import label_names, overlap
from attlas.experiments.derived import Experiment, found_or_run, write_derived
from attlas.models import Model, load
from attlas.models.predict import logits_of
from attlas.models.record import base_of
from attlas.stats.bootstrap import difference, score
from attlas.studies import Study
from attlas.studies.folder import FILES, SOURCE, Folder
from attlas.support.errors import CorpusError, MeasureError, ModelError
from attlas.support.fingerprint import fingerprint, source_digest
from attlas.support.json import to_json
from attlas.support.progress import progress_bar
from attlas.topology.classifier import TopologyClassifier
from attlas.topology.features import TopologyFeatures
from attlas.topology.graphs import THRESHOLDS, check_thresholds
from attlas.topology.head_features import HeadFeatures
from attlas.topology.heads import best_heads, columns_of, likeness, score_heads

Array = npt.NDArray[Any]
BEST = (12, 3, 1)
Data = dict[str, tuple[Array, Array]]  # part -> features [text, feature], labels [text]
KIND, CLASSIFIER = "topology", "classifier"


@dataclass(frozen=True)
class TopologyExperiment(Experiment):
    """A finished experiment: `result` is what `attlas topology --json` prints, `study` its tables, manifest and report."""

    @property
    def classifier(self) -> TopologyClassifier:
        """The classifier over all heads."""
        kept = self.study.folder / FILES / CLASSIFIER
        return TopologyClassifier.load(kept if kept.is_dir() else self.study.folder / CLASSIFIER)


def experiment(
    model: Any,
    train: Any,
    dev: Any,
    test: Any,
    out: str | Path,
    *,
    text: str | None = None,
    label: str | None = "label",
    frozen: Any = None,
    features: Sequence[str | HeadFeatures[Any]] = ("betti",),
    thresholds: Sequence[float] = THRESHOLDS,
    controls: bool = True,
    cache: str | Path | None = None,
    seed: int = 0,
    fresh: bool = False,
    workers: int | None = None,
    progress: bool | None = None,
) -> TopologyExperiment:
    """Fit the topological classifier on `train`, choose on `dev` (a tenth of `train` if None), score on `test`; with the controls beside it.

    `model` is usually a fine-tuned classifier's folder; `frozen` is what it was fine-tuned from, known by itself for what `attlas finetune` wrote.
    Controls: the same features of the frozen model and of the same network with random weights, and a classifier that sees only the
    length of the text. The same call resumes an interrupted one and finds a finished one; `fresh` clears it first. Experiments may share a `cache` of features, which nothing clears.
    """
    began = time.perf_counter()
    folder = Path(out).expanduser()
    fitted = labelled(train, text, label)
    fitted, chosen = split(fitted, 0.1, seed) if dev is None else (fitted, labelled(dev, text, label))
    parts = {"train": fitted, "dev": chosen, "test": labelled(test, text, label)}
    for name in ("dev", "test"):
        if not parts[name]:
            raise CorpusError(f"there is no text in {name}; give a file with labelled texts")
    label_names(parts["train"], dev=parts["dev"], test=parts["test"])
    loaded, own_head = _loaded(model)
    before = _before(model, loaded, own_head, frozen) if controls else None
    kinds: list[Any] = [features] if isinstance(features, str | HeadFeatures) else list(features)
    TopologyFeatures(loaded, features=kinds, thresholds=thresholds).measures()  # what cannot be is said at once
    place = Folder(folder, KIND)
    features_in = place.states.folder if cache is None else Path(cache).expanduser()
    run = _Run(
        loaded,
        own_head,
        before,
        parts,
        place,
        features_in,
        kinds,
        check_thresholds(thresholds),
        seed,
        workers,
        progress,
    )
    details = {"model": loaded.identity()} | ({} if before is None else {"frozen": before.identity()})
    identity = run.identity(details, controls)
    name = str(getattr(test, "name", test if isinstance(test, str | Path) else "test"))
    return found_or_run(place, identity, fresh, TopologyExperiment, lambda: run.go(controls, name, began), details)


def _before(model: Any, loaded: Model, own_head: bool, frozen: Any) -> Model | None:
    """The model before fine-tuning: as given, as `finetune` noted it, or the model itself if it was never fine-tuned; None if not known."""
    if frozen is not None:
        return load(frozen)
    if not own_head:
        return loaded
    base = base_of(model) if isinstance(model, str | Path) else None
    try:
        return None if base is None else load(base)
    except ModelError:  # moved since, or out of reach
        return None


def _loaded(model: Any) -> tuple[Model, bool]:
    """The model, and whether it has a classification head of its own."""
    base = load(model)
    network = base.network
    named = [type(network).__name__]
    if not isinstance(model, Model | tuple):  # loaded just now without its head
        named += getattr(network.config, "architectures", None) or []
    if not any("ForSequenceClassification" in name for name in named):
        return base, False
    return (base if base.task == "classify" or isinstance(model, Model | tuple) else load(model, task="classify")), True


@dataclass
class _Run:
    """One experiment under way."""

    model: Model
    own_head: bool
    before: Model | None
    parts: dict[str, list[Text]]
    place: Folder
    cache: Path
    features: list[str | HeadFeatures[Any]]
    thresholds: tuple[float, ...]
    seed: int
    workers: int | None
    progress: bool | None

    def __post_init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def identity(self, details: Mapping[str, Mapping[str, str]], controls: bool) -> dict[str, str]:
        return {
            "model": fingerprint(details["model"]),
            "own_head": fingerprint(self.own_head),
            "frozen": fingerprint(details.get("frozen")),
            **{name: fingerprint(part) for name, part in self.parts.items()},
            "features": fingerprint(self.features),
            "thresholds": fingerprint(self.thresholds),
            "controls": fingerprint(controls),
            "seed": fingerprint(self.seed),
            SOURCE: source_digest(),
        }

    def go(self, controls: bool, name: str, began: float) -> TopologyExperiment:
        """Everything: the model's own score, all heads, the best heads, the controls; written as tables and a result."""
        extractor = self.extractor(self.model)
        studies = {part: extractor.study_of(texts) for part, texts in self.parts.items()}
        data, names, left_out = self.matrices(extractor, studies)
        own, said = self.own_score()
        whole, classifier, guesses = self.scored("all", data, names)
        heads, best = self.ranked(data, names)
        beside = self.controls() if controls else {}
        labels = self.labels("test")
        result = {
            **whole,
            "model": own,
            "difference_from_model": None if said is None else difference(labels, guesses, said, self.seed),
            "heads": best,
            "controls": beside,
            "majority_accuracy": float(pd.Series(labels).value_counts(normalize=True).max()),
            "maps": to_json(likeness(heads)),
            "texts": {part: len(texts) for part, texts in self.parts.items()},
            "truncated": {part: done.manifest["counts"]["truncated"] for part, done in studies.items()},
            "test_texts_in_train": overlap(self.parts["train"], self.parts["test"]),
            "features": {
                "kinds": [str(kind) for kind in self.features],
                "thresholds": list(self.thresholds),
                "columns": len(names),
                "left_out": left_out,
            },
            "classifier": str(self.place.path / FILES / CLASSIFIER),
        }
        behind = studies["test"].manifest
        told = (
            "texts",
            "truncated",
            "test_texts_in_train",
            "maps",
            "majority_accuracy",
            "difference_from_model",
            "features",
        )
        manifest = {
            **{key: behind[key] for key in ("model", "counts", "versions", "measures")},
            "corpus": {**behind["corpus"], "name": name},
            "seed": self.seed,
            "topology": {key: result[key] for key in told},
            "seconds": round(time.perf_counter() - began, 3),
        }
        tables = {"topology": pd.DataFrame(self.rows), "topology_heads": heads, "topology_grid": classifier.dev_scores_}
        done = write_derived(
            self.place, manifest, tables, result, lambda stage: classifier.save(stage / FILES / CLASSIFIER, self.model)
        )
        return TopologyExperiment(done, result)

    def extractor(self, model: Model) -> TopologyFeatures:
        return TopologyFeatures(
            model, features=self.features, thresholds=self.thresholds, cache=self.cache,
            workers=self.workers, progress=self.progress,
        ).fit()  # fmt: skip

    def matrices(self, extractor: TopologyFeatures, studies: Mapping[str, Study]) -> tuple[Data, list[str], int]:
        """Features and labels of each part, the names of the columns, and how many were left out because some text lacks them."""
        values = {name: extractor.matrix_of(studies[name], texts) for name, texts in self.parts.items()}
        whole = np.all([np.isfinite(matrix).all(0) for matrix in values.values()], axis=0)
        names = [str(name) for name in extractor.get_feature_names_out()[whole]]
        if not names:
            raise MeasureError(
                "no feature is there for all texts; holes of `barcode` need texts within its limit of tokens"
            )
        return (
            {name: (matrix[:, whole], self.labels(name)) for name, matrix in values.items()},
            names,
            int((~whole).sum()),
        )

    def labels(self, part: str) -> Array:
        return np.array([one.label for one in self.parts[part]])

    def scored(
        self, kind: str, data: Data, names: Sequence[str], places: Sequence[int] | None = None, **more: Any
    ) -> tuple[dict[str, Any], TopologyClassifier, Array]:
        """Fit a classifier on some columns and score it on test: a row of the table, the classifier, its guesses."""
        chosen = list(range(len(names))) if places is None else list(places)
        columns = [names[place] for place in chosen]
        frames = {part: pd.DataFrame(values[:, chosen], columns=columns) for part, (values, _) in data.items()}
        with progress_bar(f"fitting on {kind.replace('_', ' ')}", "strengths", wanted=self.progress) as tell:
            fitted = TopologyClassifier(seed=self.seed).fit(
                frames["train"], data["train"][1], (frames["dev"], data["dev"][1]), tell=tell
            )
        guesses = fitted.predict(frames["test"])
        row = {**score(data["test"][1], guesses, self.seed).to_dict(), "C": fitted.C_, "max_iter": fitted.max_iter_}
        self.rows.append({"classifier": kind, **row})
        return {**row, **more}, fitted, guesses

    def ranked(self, data: Data, names: Sequence[str]) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Each head alone, and classifiers on the best of them by their score on train."""
        with progress_bar("scoring heads", "heads", wanted=self.progress) as tell:
            heads = score_heads(names, data["train"], data["dev"], data["test"], tell=tell)
        best = {}
        for count in BEST:
            chosen = best_heads(heads, count)
            places = columns_of(names, chosen)
            best[str(count)] = self.scored(str(count), data, names, places, chosen=[list(head) for head in chosen])[0]
        return heads, best

    def controls(self) -> dict[str, Any]:
        """The same classifier on features of the model before fine-tuning, of random weights, and on length alone."""
        out: dict[str, Any] = {}
        for kind, other in (("frozen_model", self.before), ("random_model", self.model.randomized(self.seed))):
            if other is None:
                out[kind] = None
                continue
            extractor = self.extractor(other)
            studies = {part: extractor.study_of(texts) for part, texts in self.parts.items()}
            data, names, _ = self.matrices(extractor, studies)
            out[kind] = self.scored(kind, data, names)[0]
        lengths = {part: (self.lengths(texts), self.labels(part)) for part, texts in self.parts.items()}
        out["length_only"] = self.scored("length_only", lengths, ["tokens", "tokens_squared", "log_tokens"])[0]
        return out

    def lengths(self, texts: list[Text]) -> Array:
        tokens = np.array([len(one) for one in self.model.encode(list(enumerate(texts)))], dtype=np.float64)
        return np.stack([tokens, tokens**2, np.log(tokens)], axis=-1)

    def own_score(self) -> tuple[dict[str, Any] | None, Array | None]:
        """The score and the guesses of the model's own head on test; None where it has none or its labels are others.

        A head without names for its labels (LABEL_0, ...) is taken to have them in order, as numbers or as strings.
        """
        if not self.own_head:
            return None, None
        known = self.model.network.config.id2label
        names = [str(known[number]) for number in sorted(known)]
        wanted = label_names(self.parts["test"] + self.parts["train"])
        if not set(wanted) <= set(names):
            if names != [f"LABEL_{number}" for number in range(len(wanted))]:
                return None, None
            names = wanted
        texts = self.parts["test"]
        with progress_bar("the model's own guesses", wanted=self.progress) as tell:
            logits = logits_of(self.model, texts, lambda done: tell(done, len(texts)))
        guesses = np.array(names)[logits.argmax(-1)]
        row = score(self.labels("test"), guesses, self.seed).to_dict()
        self.rows.append({"classifier": "model", **row})
        return row, guesses
