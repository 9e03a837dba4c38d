"""What Topology does: features of every text, classifiers on them, and the same for controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attlas.core.text import Text
from attlas.corpora import read_labelled as read, split
from attlas.corpora.splits import check_label_column, label_names, overlap
from attlas.experiments.experiment import Outcome
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.models.model import same_attention
from attlas.models.predict import logits_of
from attlas.stats.bootstrap import difference, score
from attlas.stats.clustered import DIFFERENCE
from attlas.stats.scores import majority_share
from attlas.studies import Study
from attlas.studies.folder import FILES
from attlas.support.arrays import Array, Strings
from attlas.support.errors import CorpusError, MeasureError
from attlas.support.json import to_json
from attlas.support.saving import fitted_identity
from attlas.topology.classifier import TopologyClassifier
from attlas.topology.experiment import Topology
from attlas.topology.features import Head, feature_matrix, feature_names, measures_of
from attlas.topology.head_features import HeadFeatures
from attlas.topology.heads import best_heads, columns_of, heads_of, likeness, score_head

Part = tuple[Array, tuple[str, ...]]  # features [text, feature], labels
Measures = Sequence[HeadFeatures]
Texts = Mapping[str, list[Text]]  # train, dev, test
Row = dict[str, Any]

__all__ = ["read", "resolve", "run"]

PARTS = ("train", "dev", "test")
DEV_SHARE = 0.1  # of train, where no dev is given
BEST = (12, 3, 1)
CLASSIFIER = "classifier"  # below files/
NO_BASE = "the model before fine-tuning is not known, or cannot be loaded"
CONTROLS = ("random_model", "frozen_model", "length_only")
LENGTHS = ("tokens", "tokens_squared", "log_tokens")
SUMMARY = (  # what the manifest has of the result
    "texts",
    "truncated",
    "test_texts_in_train",
    "maps",
    "majority_accuracy",
    "difference_from_model",
    "features",
)


def resolve(topology: Topology, opened: dict[str, Any]) -> dict[str, Any]:
    """Inputs with a share of `train` as `dev` where none is given; all labels are in `train`."""
    train, dev, test = (opened[name] for name in PARTS)
    check_label_column(train, topology.label)
    if dev is None:
        train, dev = split(train, DEV_SHARE, topology.seed)
    for name, texts in (("dev", dev), ("test", test)):
        if not texts:
            raise CorpusError(f"{name} has no texts; give a file with labelled texts")
    label_names(train, dev=dev, test=test)
    return {**opened, "train": train, "dev": dev, "test": test}


@dataclass(frozen=True)
class Features:
    """What classifiers are fitted on, chosen by and scored on: train, dev and test."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]  # in the order of PARTS
    left_out: int = 0  # features that some text does not have


@dataclass(frozen=True)
class Fits:
    """Classifiers on the features of a model: of all heads, of each head, of the best heads."""

    whole: Row  # what `fit_columns` returns
    heads: pd.DataFrame  # MCC of each head
    best: dict[str, Row]  # by their number: score, settings, chosen heads


def run(
    topology: Topology,
    work: Workspace,
    *,
    train: list[Text],
    dev: list[Text],
    test: list[Text],
    model: Model,
    frozen: Model | None,
) -> Outcome:
    """Fit, choose and score classifiers on the features of all heads, of some, and of controls."""
    texts = dict(zip(PARTS, (train, dev, test), strict=True))
    measures = measures_of(topology.features, topology.thresholds)
    work.log("Topology 1/4: reading the features of all texts")
    features, studies = features_of(work, model, texts, measures)
    work.log("Topology 2/4: predictions of the model itself")
    own = own_predictions(work, model, texts)
    work.log("Topology 3/4: classifiers on all heads, on each head and on the best heads")
    fits = fit_heads(work, features, topology.seed)
    fitted: dict[str, Row | None] = {}
    if topology.controls:
        work.log("Topology 4/4: controls")
        others = {
            "frozen_model": base_model(topology, work, model, frozen),
            "random_model": model.randomized(topology.seed),
        }
        for name, other in others.items():
            fitted[name] = None
            if other is not None:
                same = same_attention(model, other)
                control = features if same else features_of(work, other, texts, measures)[0]
                fitted[name] = fit(work, control, topology.seed)
        fitted["length_only"] = fit(work, length_features(studies, texts), topology.seed)
    controls = {name: None if one is None else one["row"] for name, one in fitted.items()}
    scores = scores_of(features, fits, own, topology.seed)
    result = {
        **scores,
        "controls": controls,
        **({"no_frozen_model": NO_BASE} if controls and controls["frozen_model"] is None else {}),
        "texts": {part: len(some) for part, some in texts.items()},
        "truncated": {part: one.manifest["counts"]["truncated"] for part, one in studies.items()},
        "test_texts_in_train": overlap(train, test),
        "features": {
            "kinds": [str(kind) for kind in topology.features],
            "thresholds": list(topology.thresholds),
            "columns": len(features.names),
            "left_out": features.left_out,
        },
        "classifier": f"{FILES}/{CLASSIFIER}",
    }
    rows = {"model": scores["model"], "all": fits.whole["row"], **fits.best, **controls}
    apart = difference_table(features, fits, fitted, topology.seed)
    return outcome(result, (rows, apart), fits, studies["test"], about_model(work, model))


def features_of(
    work: Workspace, model: Model, texts: Texts, measures: Measures
) -> tuple[Features, dict[str, Study]]:
    """The features that all texts of each part have, with their labels; and the studies."""
    studies = {part: work.study(model, some, measures) for part, some in texts.items()}
    matrices = [feature_matrix(studies[part], some, measures) for part, some in texts.items()]
    whole = np.all([np.isfinite(matrix).all(0) for matrix in matrices], axis=0)
    names = tuple(np.array(feature_names(model, measures), dtype=object)[whole])
    if not names:
        raise MeasureError(
            "no feature is defined for all texts; H1 of `barcode` needs texts within its token "
            "limit"
        )
    parts = zip(
        (matrix[:, whole] for matrix in matrices), map(labels_of, texts.values()), strict=True
    )
    return Features(names, tuple(parts), int((~whole).sum())), studies


def labels_of(texts: Sequence[Text]) -> tuple[str, ...]:
    """The label of each text."""
    return tuple(str(one.label) for one in texts)


def fit_heads(work: Workspace, features: Features, seed: int) -> Fits:
    """Classifiers on all heads, on each head, and on the heads that are best on train."""
    whole = fit(work, features, seed)
    common = (features.names, features.parts)
    heads = work.map(fit_head, heads_of(features.names), common=common, what="scoring heads")
    scores = pd.DataFrame(heads)
    chosen = {count: best_heads(scores, count) for count in BEST}
    best = work.map(
        fit_columns,
        [columns_of(features.names, some) for some in chosen.values()],
        common=(*common, seed),
        what="fitting the best heads",
    )
    rows = {
        str(count): {**one["row"], "chosen": [list(head) for head in chosen[count]]}
        for count, one in zip(BEST, best, strict=True)
    }
    return Fits(whole, scores, rows)


def fit(work: Workspace, features: Features, seed: int) -> Row:
    """A classifier on all features; see `fit_columns`."""
    every = list(range(len(features.names)))
    return dict(work.cached(fit_columns, every, features.names, features.parts, seed))


def fit_columns(
    columns: Sequence[int], names: Sequence[str], parts: Sequence[Part], seed: int
) -> Row:
    """A classifier on some features: its record, its predictions of test, and its scores."""
    named = [names[column] for column in columns]
    train, dev, test = (
        (pd.DataFrame(matrix[:, columns], columns=named), np.array(labels))
        for matrix, labels in parts
    )
    fitted = TopologyClassifier(seed=seed).fit(*train, dev)
    predictions = fitted.predict(test[0])
    about, arrays = fitted.record()
    settings = {"C": fitted.C_, "max_iter": fitted.max_iter_}
    return {
        "row": {**score(test[1], predictions, seed).to_dict(), **settings},
        "predictions": predictions.tolist(),
        "about": about,
        "arrays": {name: array.tolist() for name, array in arrays.items()},
    }


def fit_head(head: Head, names: Sequence[str], parts: Sequence[Part]) -> dict[str, float]:
    """The MCC of a classifier on one head, on train, dev and test."""
    return score_head(head, names, dict(zip(PARTS, parts, strict=True)), {})


def length_features(studies: Mapping[str, Study], texts: Texts) -> Features:
    """The lengths of texts, as features of a control that sees nothing else."""
    parts = []
    for part, some in texts.items():
        tokens = studies[part].table("texts", ["tokens"])["tokens"].to_numpy(dtype=np.float64)
        parts.append((np.stack([tokens, tokens**2, np.log(tokens)], axis=-1), labels_of(some)))
    return Features(LENGTHS, tuple(parts))


def has_head(model: Model) -> bool:
    """Whether a model has a classification head."""
    return "ForSequenceClassification" in type(model.network).__name__


def base_model(
    topology: Topology, work: Workspace, model: Model, frozen: Model | None
) -> Model | None:
    """The model before fine-tuning: one without a head was not fine-tuned; None if not known."""
    if frozen is not None or not has_head(model):
        return model if frozen is None else frozen
    why = "it is not known" if topology.frozen is None else f"{topology.frozen} cannot be loaded"
    work.log(f"no control of the model before fine-tuning: {why}; name it with frozen (--frozen)")
    return None


def own_predictions(work: Workspace, model: Model, texts: Texts) -> Strings | None:
    """What the model's own head predicts for test; None if it has none or knows other labels."""
    names = head_labels(model, texts) if has_head(model) else None
    if names is None:
        return None
    logits = work.cached(head_logits, model, texts["test"])["logits"]
    return np.array(names)[logits.argmax(-1)]


def head_labels(model: Model, texts: Texts) -> list[str] | None:
    """The labels of a model's head; None if they are not those of the texts.

    A head without names for its labels (LABEL_0, ...) is taken to have them in order.
    """
    known = model.network.config.id2label
    names = [str(known[number]) for number in sorted(known)]
    wanted = label_names(texts["test"] + texts["train"])
    if set(wanted) <= set(names):
        return names
    unnamed = [f"LABEL_{number}" for number in range(len(wanted))]
    return wanted if names == unnamed else None


def head_logits(model: Model, texts: Sequence[Text]) -> dict[str, Array]:
    """The logits of a model's own head: [text, label]."""
    return {"logits": logits_of(model, texts)}


def scores_of(features: Features, fits: Fits, own: Array | None, seed: int) -> dict[str, Any]:
    """The scores of the classifiers and of the model itself, compared."""
    labels = np.array(features.parts[-1][1])
    predictions = np.array(fits.whole["predictions"])
    compared = None if own is None else difference(labels, predictions, own, seed)
    return {
        **fits.whole["row"],
        "model": None if own is None else score(labels, own, seed).to_dict(),
        "difference_from_model": compared,
        "heads": fits.best,
        "majority_accuracy": majority_share(labels),
        "maps": to_json(likeness(fits.heads)),
    }


def difference_table(
    features: Features, fits: Fits, controls: Mapping[str, Row | None], seed: int
) -> pd.DataFrame:
    """The difference in MCC from each control on the same texts, with its bootstrap interval."""
    labels = np.array(features.parts[-1][1])
    own, rows = np.array(fits.whole["predictions"]), []
    for name, control in controls.items():
        if control is not None:
            apart = difference(labels, own, np.array(control["predictions"]), seed)
            values = dict(zip(DIFFERENCE, apart.values(), strict=True))
            rows.append({"classifier": "all", "control": name, **values, "n": len(labels)})
    return pd.DataFrame(rows, columns=["classifier", "control", *DIFFERENCE, "n"])


def about_model(work: Workspace, model: Model) -> dict[str, Any]:
    """What a saved classifier notes of the model that its features are of."""
    identity = fitted_identity(work.identity(model))
    return {"name": model.name, "task": model.task, "identity": identity}


def outcome(
    result: dict[str, Any],
    compared: tuple[Mapping[str, Row | None], pd.DataFrame],
    fits: Fits,
    study: Study,
    fitted_on: Mapping[str, Any],
) -> Outcome:
    """Tables, result, and the classifier over all heads; `study` is that of test.

    `compared` are the scores of all classifiers, and the differences from the controls.
    """
    rows, differences = compared
    classifier = TopologyClassifier.from_record(fits.whole["about"], fits.whole["arrays"])
    classifier.fitted_on_ = dict(fitted_on)
    scored = [{"classifier": name, **row} for name, row in rows.items() if row is not None]
    return Outcome(
        tables={
            "topology": pd.DataFrame(scored).drop(columns="chosen"),
            "topology_differences": differences,
            "topology_heads": fits.heads,
            "topology_grid": classifier.dev_scores_,
        },
        result=result,
        counts=dict(study.manifest["counts"]),
        files={CLASSIFIER: classifier},
        controls=[
            ("topology", score, {"classifier": name})
            for score in ("mcc", "accuracy")
            for name in CONTROLS
            if rows.get(name) is not None
        ],
        about={
            "topology": {name: result[name] for name in SUMMARY},
            "measures": study.manifest["measures"],
        },
        corpus={"labels": study.manifest["corpus"]["labels"]},
    )
