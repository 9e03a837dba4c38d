"""Can the shape of attention alone tell the labels apart? Features, classifier, best heads and controls in one go, kept on disk."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.files import write_json
from attlas.core.progress import progress_bar
from attlas.core.text import Text
from attlas.corpora import labelled, split
from attlas.models import Model, load
from attlas.models.finetune import base_of, logits_of
from attlas.studies import Study
from attlas.studies.derived import write_derived
from attlas.studies.store import MANIFEST, claimed, read_manifest, same_study
from attlas.topology.classifier import TopologyClassifier
from attlas.topology.extractor import TopologyFeatures
from attlas.topology.graphs import THRESHOLDS, check_thresholds
from attlas.topology.heads import best_heads, columns_of, likeness, score_heads
from attlas.topology.scores import Score, score

Array = npt.NDArray[Any]
BEST = (12, 3, 1)
RESULT, FEATURES, CLASSIFIER = "result.json", "features", "classifier"


@dataclass(frozen=True)
class Experiment:
    """A finished experiment: `result` is what `attlas topology --json` prints, `study` its tables, manifest and report."""

    study: Study
    result: dict[str, Any]

    @property
    def classifier(self) -> TopologyClassifier:
        """The classifier over all heads."""
        return TopologyClassifier.load(self.study.folder / CLASSIFIER)


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
    features: Sequence[str] = ("betti",),
    thresholds: Sequence[float] = THRESHOLDS,
    controls: bool = True,
    seed: int = 0,
    fresh: bool = False,
    workers: int | None = None,
    progress: bool | None = None,
) -> Experiment:
    """Fit the topological classifier on `train`, choose on `dev` (a tenth of `train` if None), score on `test`; with the controls beside it.

    `model` is usually a fine-tuned classifier's folder; `frozen` is what it was fine-tuned from, known by itself for what `attlas finetune` wrote.
    Controls: the same features of the frozen model and of the same network with random weights, and a classifier that sees only the
    length of the text. Features and results stay in `out`; the same call finds them again, and `fresh` works out another one's results in its place.
    """
    began = time.perf_counter()
    folder = Path(out).expanduser()
    fitted = labelled(train, text, label)
    fitted, chosen = split(fitted, 0.1, seed) if dev is None else (fitted, labelled(dev, text, label))
    parts = {"train": fitted, "dev": chosen, "test": labelled(test, text, label)}
    loaded, own_head = _loaded(model)
    run = _Run(loaded, own_head, parts, folder, tuple(features), check_thresholds(thresholds), seed, workers, progress)
    before = base_of(model) if frozen is None and isinstance(model, str | Path) else None
    frozen = before if frozen is None else frozen
    if frozen is None and not own_head:
        frozen = loaded
    identity = run.identity(frozen if isinstance(frozen, str | Path | None) else type(frozen).__name__, controls)
    manifest = read_manifest(folder)
    if manifest is not None and not fresh:
        same_study(folder, manifest["identity"], identity)
        if manifest["status"] == "complete":
            return Experiment(Study.open(folder), json.loads((folder / RESULT).read_text()))
    name = str(getattr(test, "name", test if isinstance(test, str | Path) else "test"))
    with claimed(folder):
        write_json(folder / MANIFEST, {"status": "running", "identity": identity})
        return run.go(frozen, controls, identity, name, began)


def _loaded(model: Any) -> tuple[Model, bool]:
    """The model, and whether it has a classification head of its own."""
    base = load(model)
    network = base.network
    named = [type(network).__name__, *(getattr(network.config, "architectures", None) or [])]
    if not any("ForSequenceClassification" in name for name in named):
        return base, False
    return (base if base.task == "classify" or isinstance(model, Model | tuple) else load(model, task="classify")), True


@dataclass
class _Run:
    model: Model
    own_head: bool
    parts: dict[str, list[Text]]
    folder: Path
    features: tuple[str, ...]
    thresholds: tuple[float, ...]
    seed: int
    workers: int | None
    progress: bool | None

    def identity(self, frozen: Any, controls: bool) -> dict[str, Any]:
        texts = {name: [[one.text, one.label] for one in part] for name, part in self.parts.items()}
        return {
            "kind": "topology",
            "weights": self.model.weights_sha256(),
            "texts": {name: hashlib.sha256(json.dumps(rows).encode()).hexdigest() for name, rows in texts.items()},
            "features": list(self.features),
            "thresholds": list(self.thresholds),
            "frozen": None if frozen is None else str(frozen),
            "controls": controls,
            "seed": self.seed,
        }

    def go(self, frozen: Any, controls: bool, identity: dict[str, Any], name: str, began: float) -> Experiment:
        extractor = self.extractor(self.model)
        data = self.matrices(extractor)
        names = list(extractor.get_feature_names_out())
        rows: list[dict[str, Any]] = []

        def add(kind: str, found: Score | None, **more: Any) -> dict[str, Any]:
            row = {**({} if found is None else found.to_dict()), **more}
            rows.append({"classifier": kind, **{key: value for key, value in row.items() if key not in ("chosen",)}})
            return row

        own = add("model", self.own_score()) if self.own_head else None
        every, fitted = self.fit(data, names)
        whole = add("all", every, heads=len(names) // self._per_head(names), C=fitted.C_, max_iter=fitted.max_iter_)
        fitted.save(self.folder / CLASSIFIER)
        with progress_bar("scoring heads", "heads", wanted=self.progress) as tell:
            scores = score_heads(names, data["train"], data["dev"], data["test"], tell=tell)
        best = {}
        for count in BEST:
            heads = best_heads(scores, count)
            found, some = self.fit(data, names, columns_of(names, heads))
            best[str(count)] = add(
                str(count),
                found,
                heads=len(heads),
                C=some.C_,
                max_iter=some.max_iter_,
                chosen=[list(head) for head in heads],
            )
        beside = self.controls(frozen, add) if controls else {}
        most = max(pd.Series([one.label for one in self.parts["test"]]).value_counts(normalize=True))
        alike = likeness(scores)
        result = {
            **{key: value for key, value in whole.items() if key != "heads"},
            "model": own,
            "heads": best,
            "controls": beside,
            "majority_accuracy": float(most),
            "maps": alike,
            "texts": {part: len(texts) for part, texts in self.parts.items()},
            "features": {"kinds": list(self.features), "thresholds": list(self.thresholds), "columns": len(names)},
            "classifier": str(self.folder / CLASSIFIER),
        }
        behind = extractor.study_of(self.parts["test"]).manifest
        manifest = {
            **{key: behind[key] for key in ("model", "counts", "versions", "measures")},
            "corpus": {**behind["corpus"], "name": name},
            "seed": self.seed,
            "identity": identity,
            "topology": {key: result[key] for key in ("texts", "maps", "majority_accuracy", "features")},
            "seconds": round(time.perf_counter() - began, 3),
        }
        tables = {"topology": pd.DataFrame(rows), "topology_heads": scores, "topology_grid": fitted.dev_scores_}
        write_json(self.folder / RESULT, result)
        return Experiment(write_derived(self.folder, manifest, tables), result)

    def extractor(self, model: Model) -> TopologyFeatures:
        return TopologyFeatures(
            model, features=self.features, thresholds=self.thresholds, cache=self.folder / FEATURES,
            workers=self.workers, progress=self.progress,
        ).fit()  # fmt: skip

    def matrices(self, extractor: TopologyFeatures) -> dict[str, tuple[Array, Array]]:
        return {name: (extractor.transform(texts), self.labels(name)) for name, texts in self.parts.items()}

    def labels(self, part: str) -> Array:
        return np.array([one.label for one in self.parts[part]])

    def fit(
        self, data: Mapping[str, tuple[Array, Array]], names: Sequence[str], places: Sequence[int] | None = None
    ) -> tuple[Score, TopologyClassifier]:
        """A classifier on some columns, and its score on test."""
        chosen = list(range(len(names))) if places is None else list(places)
        frames = {
            part: pd.DataFrame(values[:, chosen], columns=[names[place] for place in chosen])
            for part, (values, _) in data.items()
        }
        fitted = TopologyClassifier(seed=self.seed).fit(
            frames["train"], data["train"][1], (frames["dev"], data["dev"][1])
        )
        return score(data["test"][1], fitted.predict(frames["test"]), self.seed), fitted

    def controls(self, frozen: Any, add: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        base = self.model if frozen is self.model else None if frozen is None else load(frozen)
        for kind, other in (("frozen_model", base), ("random_model", self.model.randomized(self.seed))):
            if other is None:
                out[kind] = None
                continue
            extractor = self.extractor(other)
            found, fitted = self.fit(self.matrices(extractor), list(extractor.get_feature_names_out()))
            out[kind] = add(kind, found, C=fitted.C_, max_iter=fitted.max_iter_)
        lengths = {part: (self.lengths(texts), self.labels(part)) for part, texts in self.parts.items()}
        found, fitted = self.fit(lengths, ["tokens", "tokens_squared", "log_tokens"])
        out["length_only"] = add("length_only", found, C=fitted.C_, max_iter=fitted.max_iter_)
        return out

    def lengths(self, texts: list[Text]) -> Array:
        tokens = np.array([len(one) for one in self.model.encode(list(enumerate(texts)))], dtype=np.float64)
        return np.stack([tokens, tokens**2, np.log(tokens)], axis=-1)

    def own_score(self) -> Score | None:
        """The model's own head on test, where its labels are ours."""
        known = self.model.network.config.id2label
        names = [str(known[number]) for number in sorted(known)]
        wanted = sorted({*self.labels("test").tolist(), *self.labels("train").tolist()})
        if not set(wanted) <= set(names):
            if names != [f"LABEL_{number}" for number in range(len(wanted))]:
                return None
            names = wanted
        guesses = logits_of(self.model, self.parts["test"]).argmax(-1)
        return score(self.labels("test"), np.array(names)[guesses], self.seed)

    @staticmethod
    def _per_head(names: Sequence[str]) -> int:
        return sum(name.startswith("L0.H0.") for name in names)
