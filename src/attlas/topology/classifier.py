"""TopologyClassifier: logistic regression on scaled features, with C and max_iter chosen on dev."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from safetensors.numpy import save
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from attlas.corpora.splits import check_labels_known, label_codes, ordered_labels, split_indices
from attlas.models import load as load_model
from attlas.stats.scores import accuracy, confusion, mcc
from attlas.support.arrays import Array
from attlas.support.errors import AttlasError, MeasureError, ModelError
from attlas.support.machine import one_thread
from attlas.support.saving import Saved, check_shapes, differing_parts, fitted_identity
from attlas.topology.features import TopologyFeatures

Coded = tuple[Array, Array]  # features [text, feature], numbers of classes [text]

# the grids of Kushnareva et al. 2022; stopping early regularises
STRENGTHS = (1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0)  # C
ITERATIONS = (1, 2, 3, 5, 10, 25, 50, 100, 500, 1000, 2000)  # max_iter
ARRAYS = ("coef", "intercept", "mean", "scale")  # what is fitted, each with an underscore
HELD_OUT = 0.2  # share of texts to choose on, if no dev is given
FEWEST = 5  # with fewer texts, all of them
ROUNDING = 64 * np.finfo(float).eps  # relative change of the loss at which the solver stops
SLOW = 100  # iterations after which a path without any success is abandoned too
Visit = Callable[[int, Array], bool]  # gets iterations and weights; returns whether to stop
Loss = Callable[[Array], tuple[float, Array]]
FORMAT = Saved(
    "topology classifier",
    "attlas topology classifier 1",
    "classifier.json",
    "classifier.safetensors",
)


@dataclass(kw_only=True, eq=False, repr=False)
class TopologyClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """L2-penalised logistic regression on standardised features; C and max_iter chosen by dev MCC.

    For each C the solver (L-BFGS from zero, as scikit-learn's) runs once: its weights after 1, 2,
    3, 5, ... iterations are the classifiers of all values of `max_iter`. A path is abandoned after
    `patience` values of `max_iter` without a better score (None: never; while the score is 0, not
    before 100). Among equals the smaller C wins, then the fewer iterations. Without `dev` texts, a
    fifth of the training texts serves to choose, and the chosen classifier is fitted on all.
    """

    C: Sequence[float] = STRENGTHS
    max_iter: Sequence[int] = ITERATIONS
    patience: int | None = 3
    seed: int = 0

    @one_thread()
    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        dev: tuple[Any, Any] | None = None,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Self:
        """Fit on features and labels, choosing on `dev`, a pair of features and labels.

        `on_progress` gets the number of values of C that are done, and of all.
        """
        self._check_grids()
        for name in [name for name in self.__dict__ if name.endswith("_")]:
            del self.__dict__[name]  # of an earlier fit
        features, labels = self._checked(X), np.asarray(y)
        _check_labels(features, labels)
        self.classes_ = ordered_labels(labels)
        if len(self.classes_) < 2:
            raise MeasureError("all texts have the same label; a classifier needs at least two")
        if isinstance(X, pd.DataFrame):
            self.feature_names_in_ = np.array(list(X.columns), dtype=object)
        self.n_features_in_ = features.shape[1]
        codes = label_codes(labels, self.classes_)
        if dev is not None:
            self._choose((features, codes), self._checked_dev(dev), on_progress)
            return self
        fitted, held_out = _parts(codes, self.seed)
        train, chosen = (features[fitted], codes[fitted]), (features[held_out], codes[held_out])
        self._choose(train, chosen, on_progress)
        self._set_scale(features)

        def keep(_: int, weights: Array) -> bool:
            self._keep(weights)
            return False

        _path((self._scaled(features), codes), len(self.classes_), self.C_, [self.max_iter_], keep)
        return self

    def _checked_dev(self, dev: tuple[Any, Any]) -> Coded:
        """Features and codes of the texts to choose on."""
        if len(dev) != 2:
            raise MeasureError(
                "dev must be a pair: the features and the labels of the texts to choose on"
            )
        features, labels = self._checked(dev[0]), np.asarray(dev[1])
        _check_labels(features, labels)
        check_labels_known("dev", labels, self.classes_)
        return features, label_codes(labels, self.classes_)

    def _check_grids(self) -> None:
        for name, values in (("C", self.C), ("max_iter", self.max_iter)):
            several = not isinstance(values, int | float | str) and len(list(values))
            if not several or not all(value > 0 for value in values):
                raise MeasureError(
                    f"{name} is {values!r}; give a list of numbers above 0 to choose from"
                )

    def _checked(self, X: Any) -> Array:  # noqa: N803
        known_names = getattr(self, "feature_names_in_", None)
        if isinstance(X, pd.DataFrame) and known_names is not None:
            missing = [name for name in known_names if name not in X]
            if missing:
                raise MeasureError(
                    f"{len(missing)} features the classifier was fitted on are missing, first "
                    f"{missing[0]}"
                )
            X = X[list(known_names)]  # noqa: N806
        features = np.asarray(X, dtype=np.float64)
        if features.ndim != 2 or not len(features):
            raise MeasureError(
                f"the features have shape {features.shape}; they must be [text, feature] of at "
                "least one text"
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
                f"the features have NaN or infinite values, first in {name}; exclude such features "
                "(H1 of `barcode` is NaN for texts above its token limit)"
            )
        return features

    def _set_scale(self, features: Array) -> None:
        self.mean_ = features.mean(0)
        variance, rounding = features.var(0), len(features) * np.finfo(np.float64).eps
        constant = variance <= rounding * variance + (rounding * self.mean_) ** 2
        self.scale_ = np.where(constant, 1.0, np.sqrt(variance))

    def _scaled(self, features: Array) -> Array:
        return (features - self.mean_) / self.scale_

    def _choose(self, train: Coded, dev: Coded, on_progress: Callable[[int, int], None]) -> None:
        """Fit a path per C on train and keep what is best on dev."""
        self._set_scale(train[0])
        scaled, dev_features = (self._scaled(train[0]), train[1]), self._scaled(dev[0])
        rows: list[dict[str, float]] = []
        best = -np.inf
        for number, strength in enumerate(sorted(self.C)):
            on_progress(number, len(self.C))
            top, since = -np.inf, 0

            def visit(iterations: int, weights: Array, strength: float = strength) -> bool:
                nonlocal best, top, since
                predictions = _decide(dev_features @ weights[:-1] + weights[-1])
                table = confusion(dev[1], predictions, len(self.classes_))
                scores = {"mcc": float(mcc(table)), "accuracy": float(accuracy(table))}
                rows.append({"C": strength, "max_iter": iterations, **scores})
                if scores["mcc"] > best:
                    best, self.C_, self.max_iter_ = scores["mcc"], float(strength), int(iterations)
                    self._keep(weights)
                since = 0 if scores["mcc"] > top else since + 1
                top = max(top, scores["mcc"])
                stuck = top > 0 or iterations >= SLOW  # early steps may predict one label for all
                return self.patience is not None and since >= self.patience and stuck

            _path(scaled, len(self.classes_), strength, self.max_iter, visit)
        self.dev_scores_ = pd.DataFrame(rows)

    def _keep(self, weights: Array) -> None:
        """Keep weights in scikit-learn's shape, [class or 1, feature]."""
        self.coef_, self.intercept_ = weights[:-1].T.copy(), weights[-1].copy()

    def decision_function(self, X: Any) -> Array:  # noqa: N803
        """The logits of each text: [text] for two classes, else [text, class]."""
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
        TopologyFeatures that made them). It is recorded, so that `load` can refuse another. A
        folder that is not empty is refused, unless it holds a topology classifier, which is
        replaced.
        """
        about, arrays = self.record()
        if model is not None:
            about["model"] = _about_model(model)
        data = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
        return FORMAT.write(folder, about, data)

    def record(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All that was fitted: plain values, and arrays; `from_record` restores them."""
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
        """Load a classifier that `save` wrote.

        A `model` (as `save` takes it) that the classifier was not fitted on is refused.
        `fitted_on_` has the name and the fingerprints of that model, None if not recorded.
        """
        folder = Path(folder).expanduser()
        with FORMAT.readable(
            folder, "give a folder that TopologyClassifier.save wrote", AttlasError
        ):
            out = cls.from_record(*FORMAT.read(folder))
            known = None if out.fitted_on_ is None else dict(out.fitted_on_)
            parts = [] if model is None or known is None else _changed(known, model)
        if known is not None and parts:
            raise ModelError(
                f"the classifier in {folder} was fitted on features of another model than the one "
                f"given (differs in {', '.join(parts)}); pass that model, {known['name']!r}"
            )
        return out


def _shapes(about: Mapping[str, Any], coef: Array) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of a classifier with these classes and features."""
    classes = len(about["classes"])
    rows = 1 if classes == 2 else classes
    size = coef.shape[-1] if about["features"] is None else len(about["features"])
    return {"coef": (rows, size), "intercept": (rows,), "mean": (size,), "scale": (size,)}


def _about_model(model: Any, task: str = "base") -> dict[str, Any]:
    """What a saved classifier records of a model: name and task to load it, and its identity."""
    model = model._loaded() if isinstance(model, TopologyFeatures) else load_model(model, task=task)
    identity = fitted_identity(model.identity())
    return {"name": model.name, "task": model.task, "identity": identity}


def _changed(known: dict[str, Any], model: Any) -> list[str]:
    """The parts in which a model differs from the one that a saved classifier records."""
    return differing_parts(known["identity"], _about_model(model, known["task"])["identity"])


def _check_labels(features: Array, labels: Array) -> None:
    if labels.ndim != 1:
        raise MeasureError(
            f"the labels have shape {labels.shape}; give a list with one label per text"
        )
    if len(features) != len(labels):
        raise MeasureError(f"there are {len(features)} texts but {len(labels)} labels")
    if any(label is None or label != label for label in labels.tolist()):
        raise MeasureError("some labels are missing (None or NaN); exclude texts without a label")


def _parts(codes: Array, seed: int) -> tuple[Array, Array]:
    """Texts to fit on and a fifth to choose on, stratified by class where there are enough."""
    indices = np.arange(len(codes))
    if len(codes) < FEWEST:
        return indices, indices
    return split_indices(indices.tolist(), codes.tolist(), HELD_OUT, seed)


def _decide(logits: Array) -> Array:
    return (logits[:, 0] > 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(-1)


def _path(train: Coded, classes: int, strength: float, stops: Sequence[int], visit: Visit) -> None:
    """Call `visit` with the weights of logistic regression after each of `stops` iterations.

    Weights are [feature + 1, class], the intercept last, with one column for two classes. Objective
    and settings of the solver are scikit-learn's, so that each stop is its
    `LogisticRegression(C=strength, max_iter=stop)`. After convergence the next stop is the last.
    """
    features, codes = train
    width = 1 if classes == 2 else classes
    loss = _two if classes == 2 else _many
    stops, iterations, visited = sorted(stops), 0, 0

    def after(intermediate_result: Any) -> None:
        nonlocal iterations, visited
        iterations += 1
        if iterations in stops:
            visited = iterations
            if visit(iterations, intermediate_result.x.copy().reshape(-1, width)):
                raise StopIteration

    end = minimize(
        loss(features, codes, strength),
        np.zeros((features.shape[1] + 1) * width),
        jac=True,
        method="L-BFGS-B",
        callback=after,
        options={"maxiter": stops[-1], "maxls": 50, "gtol": 1e-4, "ftol": ROUNDING},
    )
    later = [stop for stop in stops if stop >= end.nit]
    if visited < end.nit and later:
        visit(later[0], end.x.reshape(-1, width))
    elif end.nit == 0:
        visit(stops[0], end.x.reshape(-1, width))


def _two(features: Array, codes: Array, strength: float) -> Loss:
    """Mean log loss of two classes with its penalty, and the gradient; weights [feature + 1]."""
    penalty, sign = 1 / (strength * len(features)), 2.0 * codes - 1

    def loss(weights: Array) -> tuple[float, Array]:
        margin = sign * (features @ weights[:-1] + weights[-1])
        pull = -sign * expit(-margin) / len(features)
        value = -log_expit(margin).mean() + 0.5 * penalty * weights[:-1] @ weights[:-1]
        return float(value), np.append(pull @ features + penalty * weights[:-1], pull.sum())

    return loss


def _many(features: Array, codes: Array, strength: float) -> Loss:
    """Mean cross-entropy with its penalty, and the gradient; weights [(feature + 1) * class]."""
    penalty, rows = 1 / (strength * len(features)), np.arange(len(features))

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(features.shape[1] + 1, -1)
        logits = features @ weights[:-1] + weights[-1]
        entropy = (logsumexp(logits, axis=1) - logits[rows, codes]).mean()
        value = entropy + 0.5 * penalty * (weights[:-1] ** 2).sum()
        pull = softmax(logits, axis=1)
        pull[rows, codes] -= 1
        pull /= len(features)
        gradient = np.vstack([features.T @ pull + penalty * weights[:-1], pull.sum(0)])
        return float(value), gradient.reshape(-1)

    return loss
