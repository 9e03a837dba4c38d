"""TopologyClassifier: scaled features, logistic regression; strength and length of training chosen on dev, along one path each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from safetensors.numpy import save
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from attlas.corpora.splits import check_labels_known, label_codes, ordered_labels, split_indices
from attlas.models import load as load_model
from attlas.stats.scores import accuracy, confusion, mcc
from attlas.support.errors import AttlasError, MeasureError, ModelError
from attlas.support.machine import one_thread
from attlas.support.saving import (
    UNREADABLE,
    Saved,
    check_shapes,
    differing_parts,
    first_line,
    fitted_identity,
)
from attlas.topology.features import TopologyFeatures

Array = npt.NDArray[Any]

STRENGTHS = (1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0)  # C, the paper's grid
ITERATIONS = (
    1,
    2,
    3,
    5,
    10,
    25,
    50,
    100,
    500,
    1000,
    2000,
)  # max_iter, the paper's grid: stopping early regularises
ARRAYS = ("coef", "intercept", "mean", "scale")  # what is fitted, each with an underscore
HELD_OUT, FEWEST = (
    0.2,
    5,
)  # the share of texts to choose by where no dev is given; with fewer texts, all of them
SLOW = 100  # iterations after which a path that has found nothing is left too
FORMAT = Saved(
    "topology classifier",
    "attlas topology classifier 1",
    "classifier.json",
    "classifier.safetensors",
)


class TopologyClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression with an L2 penalty on standardised features; C and the number of iterations are chosen by MCC on dev.

    For each C the solver (L-BFGS from zero, as scikit-learn's) runs once: what it has after 1, 2, 3, 5, ... iterations are the classifiers of all values
    of `max_iter`. A path is left after `patience` values of `max_iter` in a row that did not better its best score, while that is 0 not before 100 (None: never). Among equals
    the smaller C, then the fewer iterations win. Without `dev` texts, a fifth of the training texts serves to choose, and the chosen
    classifier is fitted on all.
    """

    def __init__(
        self,
        C: Sequence[float] = STRENGTHS,  # noqa: N803
        max_iter: Sequence[int] = ITERATIONS,
        patience: int | None = 3,
        seed: int = 0,
    ) -> None:
        self.C = C
        self.max_iter = max_iter
        self.patience = patience
        self.seed = seed

    @one_thread()
    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        dev: tuple[Any, Any] | None = None,
        tell: Callable[[int, int], None] = lambda done, total: None,
    ) -> Self:
        """Fit on features and labels, choosing on `dev`, a pair of features and labels; `tell` hears how many strengths are done."""
        self._check_grids()
        for name in [name for name in self.__dict__ if name.endswith("_")]:
            del self.__dict__[name]  # what an earlier fit found
        features, labels = self._checked(X), np.asarray(y)
        _check_labels(features, labels)
        self.classes_ = ordered_labels(labels)
        codes = label_codes(labels, self.classes_)
        if len(self.classes_) < 2:
            raise MeasureError("all texts have the same label; a classifier needs at least two")
        names = list(X.columns) if isinstance(X, pd.DataFrame) else None
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = features.shape[1]
        if dev is not None and len(dev) == 2:
            chosen, wanted = self._checked(dev[0]), np.asarray(dev[1])
            _check_labels(chosen, wanted)
            check_labels_known("dev", wanted, self.classes_)
            self._choose(features, codes, chosen, label_codes(wanted, self.classes_), tell)
        elif dev is not None:
            raise MeasureError(
                "dev must be a pair: the features and the labels of the texts to choose on"
            )
        else:
            fitted, kept = _parts(codes, self.seed)
            self._choose(features[fitted], codes[fitted], features[kept], codes[kept], tell)
            self._set_scale(features)

            def keep(_: int, weights: Array) -> bool:
                self._keep(weights)
                return False

            _path(
                self._scaled(features), codes, len(self.classes_), self.C_, [self.max_iter_], keep
            )
        return self

    def _check_grids(self) -> None:
        for name, values in (("C", self.C), ("max_iter", self.max_iter)):
            if (
                isinstance(values, int | float | str)
                or not list(values)
                or not all(value > 0 for value in values)
            ):
                raise MeasureError(
                    f"{name} is {values!r}; give a list of numbers above 0 to choose from"
                )

    def _checked(self, X: Any) -> Array:  # noqa: N803
        known_names = getattr(self, "feature_names_in_", None)
        if isinstance(X, pd.DataFrame) and known_names is not None:
            missing = [name for name in known_names if name not in X]
            if missing:
                raise MeasureError(
                    f"{len(missing)} features the classifier was fitted on are missing, first {missing[0]}"
                )
            X = X[list(known_names)]  # noqa: N806
        features = np.asarray(X, dtype=np.float64)
        if features.ndim != 2 or not len(features):
            raise MeasureError(
                f"the features have shape {features.shape}; they must be [text, feature] of at least one text"
            )
        known = getattr(self, "n_features_in_", None)
        if known is not None and features.shape[1] != known:
            raise MeasureError(
                f"there are {features.shape[1]} features, but the classifier was fitted on {known}"
            )
        if not np.isfinite(features).all():
            column = int((~np.isfinite(features)).any(0).argmax())
            name = X.columns[column] if isinstance(X, pd.DataFrame) else f"column {column}"
            raise MeasureError(
                f"the features have NaN or infinite values, first in {name}; leave such features out (H1 of `barcode` is NaN for texts above its token limit)"
            )
        return features

    def _set_scale(self, features: Array) -> None:
        self.mean_ = features.mean(0)
        variance, rounding = features.var(0), len(features) * np.finfo(np.float64).eps
        still = variance <= rounding * variance + (rounding * self.mean_) ** 2
        self.scale_ = np.where(
            still, 1.0, np.sqrt(variance)
        )  # a feature that never changes says nothing

    def _scaled(self, features: Array) -> Array:
        return (features - self.mean_) / self.scale_

    def _choose(
        self,
        features: Array,
        codes: Array,
        dev: Array,
        wanted: Array,
        tell: Callable[[int, int], None],
    ) -> None:
        self._set_scale(features)
        scaled, chosen = self._scaled(features), self._scaled(dev)
        rows: list[dict[str, float]] = []
        best = -np.inf
        for number, strength in enumerate(sorted(self.C)):
            tell(number, len(self.C))
            top, since = -np.inf, 0

            def visit(iterations: int, weights: Array, strength: float = strength) -> bool:
                nonlocal best, top, since
                guesses = _decide(chosen @ weights[:-1] + weights[-1])
                table = confusion(wanted, guesses, len(self.classes_))
                reached, right = float(mcc(table)), float(accuracy(table))
                rows.append(
                    {"C": strength, "max_iter": iterations, "mcc": reached, "accuracy": right}
                )
                if reached > best:
                    best, self.C_, self.max_iter_ = reached, float(strength), int(iterations)
                    self._keep(weights)
                since = 0 if reached > top else since + 1
                top = max(top, reached)
                stuck = (
                    top > 0 or iterations >= SLOW
                )  # the first steps may still give every text one label
                return self.patience is not None and since >= self.patience and stuck

            _path(scaled, codes, len(self.classes_), strength, self.max_iter, visit)
        self.dev_scores_ = pd.DataFrame(rows)

    def _keep(self, weights: Array) -> None:
        self.coef_, self.intercept_ = (
            weights[:-1].T.copy(),
            weights[-1].copy(),
        )  # as scikit-learn's: [class or 1, feature]

    def decision_function(self, X: Any) -> Array:  # noqa: N803
        """How far each text is on the side of each class: [text] for two classes, else [text, class]."""
        check_is_fitted(self, "coef_")
        logits = self._scaled(self._checked(X)) @ self.coef_.T + self.intercept_
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The most likely class of each text."""
        logits = self.decision_function(X)
        return self.classes_[_decide(logits.reshape(len(logits), -1))]

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """The probability of each class: [text, class]."""
        logits = self.decision_function(X)
        if logits.ndim == 1:
            return np.stack([expit(-logits), expit(logits)], axis=-1)
        return softmax(logits, axis=-1)

    def save(self, folder: str | Path, model: Any = None) -> Path:
        """Write the fitted classifier: arrays as safetensors, the rest as JSON; no pickle.

        `model` is the one whose attention the features are of (anything `attlas.load` takes, or the
        TopologyFeatures that made them). It is noted, so that `load` can refuse another. A folder
        that is not empty is refused, unless it holds a topology classifier: that is replaced.
        """
        about, arrays = self.record()
        if model is not None:
            about["model"] = _record(model)
        data = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
        return FORMAT.write(folder, about, data)

    def record(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All that was fitted: plain values, and arrays; `from_record` makes the same of them."""
        check_is_fitted(self, "coef_")
        names = getattr(self, "feature_names_in_", None)
        about = {
            "classes": self.classes_.tolist(),
            "features": None if names is None else names.tolist(),
            "C": self.C_,
            "max_iter": self.max_iter_,
            "parameters": {
                "C": [float(strength) for strength in self.C],
                "max_iter": [int(count) for count in self.max_iter],
                "patience": None if self.patience is None else int(self.patience),
                "seed": int(self.seed),
            },
            "dev_scores": self.dev_scores_.to_dict("records"),
            "model": getattr(self, "fitted_on_", None),
        }
        return about, {name: getattr(self, f"{name}_") for name in ARRAYS}

    @classmethod
    def from_record(cls, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> TopologyClassifier:
        """The classifier of a `record`; its arrays may be lists."""
        out = cls(**about["parameters"])
        out.classes_ = np.array(about["classes"])
        fitted = {name: np.array(arrays[name], dtype=np.float64) for name in ARRAYS}
        check_shapes(fitted, _shapes(about, fitted["coef"]))
        for name, array in fitted.items():
            setattr(out, f"{name}_", array)
        out.C_, out.max_iter_ = about["C"], about["max_iter"]
        out.n_features_in_ = out.coef_.shape[1]
        out.dev_scores_ = pd.DataFrame(about["dev_scores"])
        if about["features"] is not None:
            out.feature_names_in_ = np.array(about["features"], dtype=object)
        out.fitted_on_ = about.get("model")
        return out

    @classmethod
    def load(cls, folder: str | Path, model: Any = None) -> TopologyClassifier:
        """A classifier that `save` wrote; it predicts the same.

        With a `model` (as `save` takes it), another than the classifier was fitted on is refused.
        `fitted_on_` has the name and the fingerprints of that model, None if they were not noted.
        """
        place = Path(folder).expanduser()
        try:
            out = cls.from_record(*FORMAT.read(place))
            known = None if out.fitted_on_ is None else dict(out.fitted_on_)
            parts = [] if model is None or known is None else _changed(known, model)
        except UNREADABLE as error:
            raise AttlasError(
                f"{place} holds no topology classifier: {first_line(error)}"
            ) from error
        if known is not None and parts:
            raise ModelError(
                f"the classifier in {place} was fitted on features of another model than the one "
                f"given (differs in {', '.join(parts)}); pass that model, {known['name']!r}"
            )
        return out


def _shapes(about: Mapping[str, Any], coef: Array) -> dict[str, tuple[int, ...]]:
    """The shapes that the arrays of a classifier of these classes and features have."""
    classes = len(about["classes"])
    rows = 1 if classes == 2 else classes
    size = coef.shape[-1] if about["features"] is None else len(about["features"])
    return {"coef": (rows, size), "intercept": (rows,), "mean": (size,), "scale": (size,)}


def _record(model: Any, task: str = "base") -> dict[str, Any]:
    """What a saved classifier notes of a model: name and task to load it by, and its identity."""
    found = model._loaded() if isinstance(model, TopologyFeatures) else load_model(model, task=task)
    identity = fitted_identity(found.identity())
    return {"name": found.name, "task": found.task, "identity": identity}


def _changed(known: dict[str, Any], model: Any) -> list[str]:
    """The parts in which a model differs from the one that a saved classifier notes."""
    return differing_parts(known["identity"], _record(model, known["task"])["identity"])


def _check_labels(features: Array, labels: Array) -> None:
    if labels.ndim != 1:
        raise MeasureError(
            f"the labels have shape {labels.shape}; give a list with one label a text"
        )
    if len(features) != len(labels):
        raise MeasureError(f"there are {len(features)} texts but {len(labels)} labels")
    if any(label is None or label != label for label in labels.tolist()):
        raise MeasureError("some labels are missing (None or NaN); leave out texts without a label")


def _parts(codes: Array, seed: int) -> tuple[Array, Array]:
    """Texts to fit on and a fifth to choose by, each class by its share where there are enough."""
    places = np.arange(len(codes))
    if len(codes) < FEWEST:
        return places, places
    return split_indices(places.tolist(), codes.tolist(), HELD_OUT, seed)


def _decide(logits: Array) -> Array:
    return (logits[:, 0] > 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(-1)


Visit = Callable[
    [int, Array], bool
]  # told the number of iterations and the weights; says whether to stop


def _path(
    features: Array, codes: Array, classes: int, strength: float, stops: Sequence[int], visit: Visit
) -> None:
    """Show `visit` what logistic regression has after each of `stops` iterations: weights [feature + 1, class], the intercept last.

    There is one column for two classes. Objective and settings of the solver are scikit-learn's, so that each stop is its
    `LogisticRegression(C=strength, max_iter=stop)`. Once it has converged the next stop is the last: nothing changes any more.
    """
    width = 1 if classes == 2 else classes
    loss = (
        _two(features, codes, strength)
        if classes == 2
        else _many(features, codes, classes, strength)
    )
    wanted, done, seen = sorted(stops), 0, 0

    def after(intermediate_result: Any) -> None:
        nonlocal done, seen
        done += 1
        if done in wanted:
            seen = done
            if visit(done, intermediate_result.x.copy().reshape(-1, width)):
                raise StopIteration

    end = minimize(
        loss,
        np.zeros((features.shape[1] + 1) * width),
        jac=True,
        method="L-BFGS-B",
        callback=after,
        options={
            "maxiter": wanted[-1],
            "maxls": 50,
            "gtol": 1e-4,
            "ftol": 64 * np.finfo(float).eps,
        },
    )
    later = [stop for stop in wanted if stop >= end.nit]
    if seen < end.nit and later:
        visit(later[0], end.x.reshape(-1, width))
    elif end.nit == 0:
        visit(wanted[0], end.x.reshape(-1, width))


Loss = Callable[[Array], tuple[float, Array]]


def _two(features: Array, codes: Array, strength: float) -> Loss:
    """Mean log loss of two classes with its penalty, and the gradient; weights [feature + 1]."""
    penalty, sign = 1 / (strength * len(features)), 2.0 * codes - 1

    def loss(weights: Array) -> tuple[float, Array]:
        margin = sign * (features @ weights[:-1] + weights[-1])
        pull = -sign * expit(-margin) / len(features)
        value = -log_expit(margin).mean() + 0.5 * penalty * weights[:-1] @ weights[:-1]
        return float(value), np.append(pull @ features + penalty * weights[:-1], pull.sum())

    return loss


def _many(features: Array, codes: Array, classes: int, strength: float) -> Loss:
    """Mean cross-entropy of several classes with its penalty, and the gradient; weights [(feature + 1) * class]."""
    penalty, rows = 1 / (strength * len(features)), np.arange(len(features))

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(-1, classes)
        logits = features @ weights[:-1] + weights[-1]
        value = (logsumexp(logits, axis=1) - logits[rows, codes]).mean() + 0.5 * penalty * (
            weights[:-1] ** 2
        ).sum()
        pull = softmax(logits, axis=1)
        pull[rows, codes] -= 1
        pull /= len(features)
        return float(value), np.concatenate(
            [features.T @ pull + penalty * weights[:-1], pull.sum(0)[None]]
        ).reshape(-1)

    return loss
