"""Linear readers: multinomial logistic regression on decorrelated features, converged, tuned and calibrated on texts that were not learnt from.

Features are standardised and then whitened (their principal axes scaled to about one, small ones less), so that an L2 penalty treats all
directions of the data alike and L-BFGS needs tens of steps, not hundreds. Both are linear, so they fold into the coefficients: a reader is a matrix.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from attlas.stats.scores import balanced_accuracy, codes_of, confusion, macro_f1
from attlas.support.errors import CorpusError
from attlas.support.machine import one_thread

Floats = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
GRID = (
    0.0003,
    0.001,
    0.003,
    0.01,
    0.03,
    0.1,
    0.3,
    1.0,
    3.0,
)  # C: how weak the penalty is, tried from strong to weak
PATIENCE = 2  # weaker penalties that are no better, after which no more are tried
SHRINK = 0.03  # added to the variance along each principal axis before it is scaled to one
TOLERANCE, STEPS = 1e-5, 1000  # of the largest gradient; at most
OUT_OF_STEPS = 1  # scipy's status
SAGA_STEPS = 100  # the paper's


@dataclass(frozen=True, eq=False)
class LinearReader:
    """Class scores that are linear in the features, and the temperature and offset that make them probabilities.

    `scale` is each feature's standard deviation in training: `coef * scale` compares features. `steps`, `converged` and `whitened` tell how it was fitted.
    """

    classes: tuple[str, ...]
    coef: Floats  # class feature
    intercept: Floats  # class
    scale: Floats  # feature
    penalty: float  # C
    temperature: float = 1.0
    offset: float = 0.0  # of the last class; two classes only
    steps: int = 0
    converged: bool = True
    whitened: bool = True

    def decision(self, features: Floats) -> Floats:
        """Class scores: [case, feature] -> [case, class]."""
        scores: Floats = features @ self.coef.T + self.intercept
        return scores

    def probabilities(self, features: Floats) -> Floats:
        """Calibrated probabilities: [case, class]."""
        return self.calibrated(self.decision(features))

    def calibrated(self, scores: Floats) -> Floats:
        """Class scores as probabilities: [..., class]."""
        scores = np.asarray(scores, dtype=np.float64) / self.temperature
        if self.offset:
            scores = scores + np.eye(len(self.classes))[-1] * self.offset
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        found: Floats = powers / powers.sum(-1, keepdims=True)
        return found

    def predict(self, features: Floats) -> npt.NDArray[np.str_]:
        """The likeliest class of each case."""
        return np.array(self.classes)[self.probabilities(features).argmax(1)]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it as arrays, by field."""
        return {one.name: np.asarray(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> LinearReader:
        """A reader from what `arrays` gave."""
        plain = {name: array.item() for name, array in arrays.items() if not array.ndim}
        classes = tuple(map(str, arrays["classes"]))
        return cls(**{**arrays, **plain, "classes": classes})

    @property
    def importance(self) -> Floats:
        """Coefficients on standardised features, less their mean over the classes: [class, feature]."""
        weights: Floats = self.coef * self.scale
        return weights - weights.mean(0)

    def by_map(self, maps: int) -> Floats:
        """How much each of so many maps weighs for each class, all directions together: [class, map]."""
        parts = self.importance.reshape(len(self.classes), -1, maps)
        found: Floats = np.sqrt(np.square(parts).sum(1))
        return found


def balanced(classes: Ints) -> Floats:
    """Weights of cases such that all classes weigh the same, in all one.

    >>> balanced(np.array([0, 0, 0, 1])).round(3)
    array([0.167, 0.167, 0.167, 0.5  ])
    """
    counts = np.bincount(classes)
    weights: Floats = 1 / (counts[classes] * (counts > 0).sum())
    return weights


def whitening(features: Floats, shrink: float = SHRINK) -> tuple[Floats, Floats, Floats]:
    """Mean and standard deviation of each feature, and the matrix that whitens what is standardised by them: [feature], [feature], [feature, axis]."""
    mean, scale = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
    scale = np.where(scale > 1e-9, scale, 1.0)
    standard = ((features - mean) / scale).astype(np.float32)
    spread = (standard.T @ standard).astype(np.float64) / len(standard)
    values, axes = np.linalg.eigh(spread)
    return mean, scale, axes / np.sqrt(np.maximum(values, 0) + shrink)


@dataclass
class Solved:
    """Where L-BFGS stopped: [feature + 1, class], the last row the intercepts."""

    weights: Floats
    steps: int
    converged: bool


def multinomial(
    features: Floats,
    classes: Ints,
    penalty: float,
    weights: Floats,
    start: Floats | None = None,
    tolerance: float = TOLERANCE,
) -> Solved:
    """Minimise the weighted log loss plus |coef|^2 / (2 C n), intercepts free: scikit-learn's objective divided by C n.

    Matrix products are in single precision. Its rounding can end the search (no descent to be seen, no change of the value) while the gradient is
    above the tolerance, on one CPU and not on another; double precision then resumes, so that `converged` means the same on every CPU.
    """
    count = int(classes.max()) + 1
    place = np.zeros((features.shape[1] + 1) * count) if start is None else start.ravel()
    steps, converged = 0, False
    for precision in (torch.float32, torch.float64):
        loss = _objective(features, classes, penalty, weights, precision)
        options = {
            "maxiter": STEPS - steps,
            "maxfun": 2 * STEPS,
            "gtol": tolerance,
            "ftol": 1e-13,
            "maxcor": 10,
        }
        found = minimize(loss, place, jac=True, method="L-BFGS-B", options=options)
        place, steps, converged = found.x, steps + int(found.nit), bool(found.success)
        if np.abs(found.jac).max() <= tolerance or found.status == OUT_OF_STEPS:
            break
    return Solved(place.reshape(-1, count), steps, converged)


def _objective(
    features: Floats, classes: Ints, penalty: float, weights: Floats, precision: torch.dtype
) -> Callable[[Floats], tuple[float, Floats]]:
    """The value and gradient that `multinomial` minimises, with matrix products in this precision."""
    cases, size = features.shape
    count = int(classes.max()) + 1
    x = torch.from_numpy(np.ascontiguousarray(features)).to(precision)
    transposed = x.T.contiguous()
    y, rows = torch.from_numpy(classes), torch.arange(cases)
    share = torch.from_numpy(weights).to(precision)
    ridge = 1 / (penalty * cases)

    def loss(flat: Floats) -> tuple[float, Floats]:
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


Judge = Callable[[LinearReader, Floats, npt.NDArray[np.str_]], float]


def by_macro_f1(reader: LinearReader, features: Floats, names: npt.NDArray[np.str_]) -> float:
    """The mean F1 of the classes that cases have."""
    return float(macro_f1(_table(reader, features, names)))


def by_balanced_accuracy(
    reader: LinearReader, features: Floats, names: npt.NDArray[np.str_]
) -> float:
    """The mean recall of the classes that cases have."""
    return float(balanced_accuracy(_table(reader, features, names)))


def _table(reader: LinearReader, features: Floats, names: npt.NDArray[np.str_]) -> npt.NDArray[Any]:
    classes, (labels, guesses) = codes_of(names, reader.predict(features))
    return confusion(labels, guesses, len(classes))


@one_thread()
def fit_reader(
    features: Floats,
    names: Sequence[str],
    dev: tuple[Floats, Sequence[str]],
    judge: Judge,
    grid: Sequence[float] = GRID,
    whiten: bool = True,
    plain: int = 0,
) -> LinearReader:
    """A reader for each penalty, each begun where the one before ended; the best on `dev` is kept (the stronger penalty of equals) and calibrated there.

    The last `plain` features are taken as they are, whatever is done with the others.
    """
    known, classes = _classes(names)
    x, told = np.asarray(features, dtype=np.float32), np.asarray(dev[1], dtype=np.str_)
    kept = x.shape[1] - plain if whiten else 0  # the others are taken as they are
    mean, scale = np.zeros(x.shape[1]), np.ones(x.shape[1])
    axes = np.zeros((0, 0))
    if kept:
        mean[:kept], scale[:kept], axes = whitening(x[:, :kept])
    white = ((x[:, :kept] - mean[:kept]) / scale[:kept]).astype(np.float32) @ axes.astype(
        np.float32
    )
    inner = np.concatenate([white, x[:, kept:]], 1)
    weights, start, spread = balanced(classes), None, x.std(0)
    best: tuple[float, LinearReader] | None = None
    worse = 0
    for penalty in sorted(grid):
        solved = multinomial(inner, classes, penalty, weights, start)
        start = solved.weights
        coef = np.concatenate([axes @ start[:kept], start[kept:-1]]).T / scale
        intercept = start[-1] - coef @ mean
        reader = LinearReader(
            known,
            np.ascontiguousarray(coef, dtype=np.float32),
            intercept,
            spread,
            penalty,
            steps=solved.steps,
            converged=solved.converged,
            whitened=whiten,
        )
        value = judge(reader, dev[0], told)
        worse = 0 if best is None or value > best[0] else worse + 1
        if worse == 0:
            best = value, reader
        if worse == PATIENCE:
            break
    if best is None:
        raise CorpusError("no penalty to try was given; give at least one value of C")
    return calibrate(best[1], *dev)


@one_thread()
def fit_published(features: Floats, names: Sequence[str], weighted: bool) -> LinearReader:
    """The paper's way: features as they are, C = 1, saga stopped after 100 steps whether it has converged or not."""
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
        coef, intercept = (
            np.concatenate([-coef, coef]) / 2,
            np.concatenate([-intercept, intercept]) / 2,
        )
    steps = int(np.max(model.n_iter_))
    return LinearReader(
        known,
        coef,
        intercept,
        np.ones(features.shape[1]),
        1.0,
        steps=steps,
        converged=steps < SAGA_STEPS,
    )


def calibrate(reader: LinearReader, features: Floats, names: Sequence[str]) -> LinearReader:
    """The temperature (and for two classes the offset) under which the classes of these cases are likeliest; classes that were not learnt are left out."""
    place = {name: number for number, name in enumerate(reader.classes)}
    known = np.array([name in place for name in names], dtype=bool)
    if not known.any():
        return reader
    scores = reader.decision(np.asarray(features)[known]).astype(np.float64)
    classes = np.array([place[name] for name in names if name in place])
    two = len(reader.classes) == 2
    weights = balanced(classes) if two else np.full(len(classes), 1 / len(classes))

    def loss(parameters: Floats) -> float:
        found = replace(
            reader,
            temperature=float(np.exp(parameters[0])),
            offset=float(parameters[1]) if two else 0.0,
        )
        likely = found.calibrated(scores)[np.arange(len(classes)), classes]
        return float(-(weights * np.log(np.maximum(likely, 1e-12))).sum())

    answer = minimize(
        loss,
        np.zeros(2),
        method="Nelder-Mead",
        options={"xatol": 1e-3, "fatol": 1e-7, "maxiter": 400},
    ).x
    temperature = float(np.clip(np.exp(answer[0]), 0.05, 20))
    return replace(
        reader, temperature=temperature, offset=float(np.clip(answer[1], -5, 5)) if two else 0.0
    )


def _classes(names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    known, classes = np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)
    if len(known) < 2:
        raise CorpusError(
            f"there is nothing to tell apart: all {len(names)} cases are {known[0]!r}; give texts with at least two relations"
            if len(known)
            else "there is no case to learn from; give texts with triples"
        )
    return tuple(map(str, known)), classes.astype(np.int64)
