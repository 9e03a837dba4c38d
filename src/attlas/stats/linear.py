"""Readers: linear classifiers, multinomial logistic regression tuned on held-out texts.

Features are standardised and then whitened (their principal axes scaled to about one, small ones
less), so that an L2 penalty treats all directions of the data alike and L-BFGS needs tens of steps,
not hundreds. Both are linear, so they fold into the coefficients: a reader is a matrix.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from attlas.stats.scores import balanced_accuracy, codes_of, confusion, macro_f1
from attlas.support.arrays import Array, Ints, Strings
from attlas.support.errors import CorpusError
from attlas.support.machine import one_thread

GRID = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # C; a small C is a strong penalty
PATIENCE = 2  # the search for C stops after this many that are not better
SHRINK = 0.03  # added to the variance along each principal axis before it is scaled to one
TOLERANCE, STEPS = 1e-5, 1000  # of the largest gradient; at most
EXACT = 1e-9  # of the largest gradient of the reader that is chosen
OUT_OF_STEPS = 1  # scipy's status
SAGA_STEPS = 100  # the paper's


@dataclass(frozen=True, eq=False)
class LinearReader:
    """Class scores that are linear in the features, and the temperature that calibrates them.

    `scale` is each feature's standard deviation in training: `coef * scale` compares features.
    `steps`, `converged` and `whitened` record how it was fitted.
    """

    classes: tuple[str, ...]
    coef: Array  # class feature
    intercept: Array  # class
    scale: Array  # feature
    penalty: float  # C
    temperature: float = 1.0
    offset: float = 0.0  # of the last class; two classes only
    steps: int = 0
    converged: bool = True
    whitened: bool = True

    def decision(self, features: Array) -> Array:
        """Class scores: [case, feature] -> [case, class]."""
        return features @ self.coef.T + self.intercept

    def probabilities(self, features: Array) -> Array:
        """Calibrated probabilities: [case, class]."""
        return self.calibrated(self.decision(features))

    def calibrated(self, scores: Array) -> Array:
        """Class scores as probabilities: [..., class]."""
        scores = np.asarray(scores, dtype=np.float64) / self.temperature
        if self.offset:
            scores = scores + np.eye(len(self.classes))[-1] * self.offset
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def predict(self, features: Array) -> Strings:
        """The most likely class of each case."""
        return np.array(self.classes)[self.probabilities(features).argmax(1)]

    def arrays(self) -> dict[str, Array]:
        """All fields as arrays, by name."""
        return {one.name: np.asarray(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array]) -> LinearReader:
        """A reader from what `arrays` returned."""
        plain = {name: array.item() for name, array in arrays.items() if not array.ndim}
        classes = tuple(map(str, arrays["classes"]))
        return cls(**{**arrays, **plain, "classes": classes})

    @property
    def importance(self) -> Array:
        """Coefficients on standardised features minus their mean over classes: [class, feature]."""
        weights: Array = self.coef * self.scale
        return weights - weights.mean(0)

    def by_map(self, maps: int) -> Array:
        """The norm of the coefficients of each attention map, over directions: [class, map]."""
        parts = self.importance.reshape(len(self.classes), -1, maps)
        return np.sqrt(np.square(parts).sum(1))


def balanced(classes: Ints) -> Array:
    """Weights of cases that give every class the same total weight; they sum to one.

    >>> balanced(np.array([0, 0, 0, 1])).round(3)
    array([0.167, 0.167, 0.167, 0.5  ])
    """
    counts = np.bincount(classes)
    return 1 / (counts[classes] * (counts > 0).sum())


def whitening(features: Array, shrink: float = SHRINK) -> tuple[Array, Array, Array]:
    """Mean and scale of each feature, and the matrix that whitens standardised features.

    The shapes are [feature], [feature] and [feature, axis].
    """
    mean, scale = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
    scale = np.where(scale > 1e-9, scale, 1.0)
    standard = ((features - mean) / scale).astype(np.float32)
    spread = (standard.T @ standard).astype(np.float64) / len(standard)
    values, axes = np.linalg.eigh(spread)
    return mean, scale, axes / np.sqrt(np.maximum(values, 0) + shrink)


@dataclass
class Solved:
    """Where L-BFGS stopped: [feature + 1, class], the last row the intercepts."""

    weights: Array
    steps: int
    converged: bool


def multinomial(
    features: Array,
    classes: Ints,
    penalty: float,
    weights: Array,
    start: Array | None = None,
    tolerance: float = TOLERANCE,
    precisions: Sequence[torch.dtype] = (torch.float32, torch.float64),
) -> Solved:
    """Minimise the weighted log loss plus |coef|^2 / (2 C n), intercepts free.

    This is scikit-learn's objective divided by C n. Matrix products are in single precision first,
    whose rounding can stop the search while the gradient is still above the tolerance, on one CPU
    and not on another; it then continues in double precision, so that `converged` means the same on
    every CPU.
    """
    count = int(classes.max()) + 1
    point = np.zeros((features.shape[1] + 1) * count) if start is None else start.ravel()
    steps, converged = 0, False
    for precision in precisions:
        loss = _objective(features, classes, penalty, weights, precision)
        options = {
            "maxiter": STEPS - steps,
            "maxfun": 2 * STEPS,
            "gtol": tolerance,
            "ftol": 1e-13,
            "maxcor": 10,
        }
        optimum = minimize(loss, point, jac=True, method="L-BFGS-B", options=options)
        point, steps, converged = optimum.x, steps + int(optimum.nit), bool(optimum.success)
        if np.abs(optimum.jac).max() <= tolerance or optimum.status == OUT_OF_STEPS:
            break
    return Solved(point.reshape(-1, count), steps, converged)


def _objective(
    features: Array, classes: Ints, penalty: float, weights: Array, precision: torch.dtype
) -> Callable[[Array], tuple[float, Array]]:
    """The value and gradient of the objective of `multinomial`, in this precision."""
    cases, size = features.shape
    count = int(classes.max()) + 1
    x = torch.from_numpy(np.ascontiguousarray(features)).to(precision)
    transposed = x.T.contiguous()
    y, rows = torch.from_numpy(classes), torch.arange(cases)
    share = torch.from_numpy(weights).to(precision)
    ridge = 1 / (penalty * cases)

    def loss(flat: Array) -> tuple[float, Array]:
        w = torch.from_numpy(flat).to(precision).reshape(size + 1, count)
        logs = torch.log_softmax(torch.addmm(w[-1], x, w[:-1]), 1)
        value = -float((logs[rows, y] * share).sum(dtype=torch.float64))
        residual = logs.exp_()
        residual[rows, y] -= 1
        residual *= share[:, None]
        gradient: Tensor = torch.empty(size + 1, count, dtype=precision)
        torch.mm(transposed, residual, out=gradient[:-1])
        gradient[:-1] += ridge * w[:-1]
        gradient[-1] = residual.sum(0)
        value += ridge / 2 * float(w[:-1].square().sum(dtype=torch.float64))
        return value, gradient.double().numpy().ravel()

    return loss


Scorer = Callable[[LinearReader, Array, Strings], float]


def by_macro_f1(reader: LinearReader, features: Array, names: Strings) -> float:
    """The mean F1 of the classes that occur."""
    return float(macro_f1(_table(reader, features, names)))


def by_balanced_accuracy(reader: LinearReader, features: Array, names: Strings) -> float:
    """The mean recall of the classes that occur."""
    return float(balanced_accuracy(_table(reader, features, names)))


def _table(reader: LinearReader, features: Array, names: Strings) -> Array:
    classes, (labels, guesses) = codes_of(names, reader.predict(features))
    return confusion(labels, guesses, len(classes))


@one_thread()
def fit_reader(
    features: Array,
    names: Sequence[str],
    dev: tuple[Array, Sequence[str]],
    scorer: Scorer,
    grid: Sequence[float] = GRID,
    whiten: bool = True,
    n_unscaled: int = 0,
) -> LinearReader:
    """Fit a reader for each penalty; the best on `dev` is calibrated there and returned.

    Each fit starts where the one before ended; of equals, the stronger penalty wins. The best is
    then solved in double precision to `EXACT`, so that it answers the same on every CPU also where
    two classes are nearly equal. The last `n_unscaled` features are not whitened.
    """
    known, classes = _classes(names)
    x, dev_names = np.asarray(features, dtype=np.float32), np.asarray(dev[1], dtype=np.str_)
    space = _space(x, x.shape[1] - n_unscaled if whiten else 0)
    inner, weights, spread = space.inside(x), balanced(classes), x.std(0)

    def reader(penalty: float, solved: Solved) -> LinearReader:
        coef = space.coef(solved.weights[:-1])
        intercept = solved.weights[-1] - coef @ space.mean
        plain = np.ascontiguousarray(coef, dtype=np.float32)
        found = LinearReader(known, plain, intercept, spread, penalty, whitened=whiten)
        return replace(found, steps=solved.steps, converged=solved.converged)

    best: tuple[float, float, Solved] | None = None
    start, worse = None, 0
    for penalty in sorted(grid):
        solved = multinomial(inner, classes, penalty, weights, start)
        start = solved.weights
        value = scorer(reader(penalty, solved), dev[0], dev_names)
        worse = 0 if best is None or value > best[0] else worse + 1
        if worse == 0:
            best = value, penalty, solved
        if worse == PATIENCE:
            break
    if best is None:
        raise CorpusError("the grid of penalties is empty; give at least one value of C")
    _, penalty, solved = best
    exact = multinomial(inner, classes, penalty, weights, solved.weights, EXACT, (torch.float64,))
    chosen = replace(solved, weights=exact.weights)
    return calibrate(reader(penalty, chosen), *dev)


@dataclass(frozen=True)
class _Space:
    """Features as they are searched: the first ones standardised and whitened, the rest as is."""

    mean: Array  # feature
    scale: Array  # feature
    axes: Array  # feature axis, of those that are whitened

    def inside(self, x: Array) -> Array:
        """Features in this space: [case, feature]."""
        n = len(self.axes)
        standard = ((x[:, :n] - self.mean[:n]) / self.scale[:n]).astype(np.float32)
        return np.concatenate([standard @ self.axes.astype(np.float32), x[:, n:]], 1)

    def coef(self, weights: Array) -> Array:
        """Coefficients of features as they were given: [feature, class] -> [class, feature]."""
        n = len(self.axes)
        return np.concatenate([self.axes @ weights[:n], weights[n:]]).T / self.scale


def _space(x: Array, n_whitened: int) -> _Space:
    mean, scale, axes = np.zeros(x.shape[1]), np.ones(x.shape[1]), np.zeros((0, 0))
    if n_whitened:
        mean[:n_whitened], scale[:n_whitened], axes = whitening(x[:, :n_whitened])
    return _Space(mean, scale, axes)


@one_thread()
def fit_published(features: Array, names: Sequence[str], weighted: bool) -> LinearReader:
    """Fit as published: raw features, C = 1, saga stopped after 100 steps, converged or not."""
    known, classes = _classes(names)
    model = LogisticRegression(
        solver="saga",
        max_iter=SAGA_STEPS,
        class_weight="balanced" if weighted else None,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(features, classes)
    coef, intercept = model.coef_, model.intercept_
    if len(known) == 2:
        coef = np.concatenate([-coef, coef]) / 2
        intercept = np.concatenate([-intercept, intercept]) / 2
    scale, steps = np.ones(features.shape[1]), int(np.max(model.n_iter_))
    converged = steps < SAGA_STEPS
    return LinearReader(known, coef, intercept, scale, 1.0, steps=steps, converged=converged)


def calibrate(reader: LinearReader, features: Array, names: Sequence[str]) -> LinearReader:
    """Fit the temperature, and for two classes the offset, by the likelihood of these cases.

    Cases of classes that the reader does not have are ignored.
    """
    number = {name: class_ for class_, name in enumerate(reader.classes)}
    known = np.array([name in number for name in names], dtype=bool)
    if not known.any():
        return reader
    scores = reader.decision(np.asarray(features)[known]).astype(np.float64)
    classes = np.array([number[name] for name in names if name in number])
    two = len(reader.classes) == 2
    weights = balanced(classes) if two else np.full(len(classes), 1 / len(classes))

    def tempered(temperature: float, offset: float) -> LinearReader:
        return replace(reader, temperature=temperature, offset=float(offset) if two else 0.0)

    def loss(parameters: Array) -> float:
        candidate = tempered(float(np.exp(parameters[0])), parameters[1])
        likelihood = candidate.calibrated(scores)[np.arange(len(classes)), classes]
        return float(-(weights * np.log(np.maximum(likelihood, 1e-12))).sum())

    options = {"xatol": 1e-3, "fatol": 1e-7, "maxiter": 400}
    log_temperature, offset = minimize(loss, np.zeros(2), method="Nelder-Mead", options=options).x
    temperature = float(np.clip(np.exp(log_temperature), 0.05, 20))
    return tempered(temperature, np.clip(offset, -5, 5))


def _classes(names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    known, classes = np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)
    if not len(known):
        raise CorpusError("there are no cases to train on; give texts with triples")
    if len(known) < 2:
        raise CorpusError(
            f"all {len(names)} cases are {known[0]!r}; give texts with at least two relations"
        )
    return tuple(map(str, known)), classes.astype(np.int64)
