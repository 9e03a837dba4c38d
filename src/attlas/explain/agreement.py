"""Do two explanations of a text agree? Cosine, Kendall's tau, rank-biased overlap and the overlap of the top tokens, each beside its chance.

Tokens that do not take part are left out, never counted as zero. Zeros in both vectors tie in both, and what is tied alike in both looks like
agreement: the convention `published` shows by how much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from attlas.explain import numpy_order
from attlas.stats import chance, rankings
from attlas.stats.chance import SHUFFLES
from attlas.stats.intervals import mean_interval
from attlas.stats.rankings import rbo
from attlas.support.arrays import Floats, Ints
from attlas.support.errors import MeasureError

METRICS = ("cosine", "tau", "rbo", "jaccard")
CONVENTIONS = ("sound", "published")

__all__ = ["CONVENTIONS", "METRICS", "Agreement", "Figure", "agreement", "compare", "rbo"]


@dataclass(frozen=True)
class Figure:
    """One metric beside its chance, the mean over texts, with 95 % intervals over the `texts` in which it is defined."""

    value: float
    chance: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float
    texts: int


@dataclass(frozen=True, repr=False)
class Agreement:
    """How far two explanations agree: a figure for each metric, and what they were made with.

    `kept` is the number of tokens that took part, in all texts; `p` is that of rbo and 1 for its plain mean over depths.
    """

    cosine: Figure
    tau: Figure
    rbo: Figure
    jaccard: Figure
    p: float
    top: float
    convention: str
    texts: int
    kept: int

    def __getitem__(self, metric: str) -> Figure:
        if metric not in METRICS:
            raise MeasureError(
                f"there is no metric {metric!r}; the metrics are {', '.join(METRICS)}"
            )
        figure: Figure = getattr(self, metric)
        return figure

    def to_frame(self) -> pd.DataFrame:
        """One row a metric: its value, chance and difference with their intervals."""
        return pd.DataFrame([{"metric": metric, **asdict(self[metric])} for metric in METRICS])

    def __repr__(self) -> str:
        figures = ", ".join(
            f"{name} {_shown(figure.value, figure.low, figure.high)} (chance {_shown(figure.chance)})"
            for name, figure in self._named()
        )
        return f"Agreement({figures}; {self._made_of()})"

    def _repr_html_(self) -> str:
        """A small table: value, chance and difference of each metric."""
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(_shown(figure.value, figure.low, figure.high))}</td><td>{escape(_shown(figure.chance))}</td>"
            f"<td>{escape(_shown(figure.difference, figure.difference_low, figure.difference_high))}</td></tr>"
            for name, figure in self._named()
        )
        head = "".join(
            f"<th>{name}</th>" for name in ("metric", "value", "chance", "value - chance")
        )
        return f"<table><caption>Agreement: {escape(self._made_of())}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def _named(self) -> list[tuple[str, Figure]]:
        """The figures under the names they are shown with."""
        names = ("cosine", "tau", f"rbo (p = {self.p:g})", f"jaccard (top {100 * self.top:g} %)")
        return list(zip(names, map(self.__getitem__, METRICS), strict=True))

    def _made_of(self) -> str:
        return (
            f"{self.kept} tokens of {self.texts} text{'s' * (self.texts != 1)}, {self.convention}"
        )


def agreement(
    a: Any,
    b: Any,
    keep: Any = None,
    *,
    convention: str = "sound",
    p: float = 0.9,
    top: float = 0.05,
    permutations: int = SHUFFLES,
    seed: int = 0,
) -> Agreement:
    """How far the scores `a` and `b` of the tokens of one text, or of several, agree on the tokens that `keep` keeps.

    One text is an array, list or tensor of scores; several are a sequence of those, and `keep` then a sequence of masks. No absolute values are
    taken of numbers; two explanations (or lists of them) are compared by the sizes of their scores, on ordinary tokens if `keep` is not given. `cosine` is of the scores; `tau` is Kendall's tau-b; `rbo` is as in `rbo(a, b, p)`; `jaccard` is of the two sets of top tokens, those whose
    score is at least that of the last of the highest `top` of tokens (rounded up), so that ties at the border are all in. Chance is the mean over
    random permutations of b's scores among the kept tokens. NaN is what is not defined: tau of equal scores, the cosine of zeros.

    With several texts values are means over texts, and intervals Student's for 95 %; with one there are none.

    The convention `published` is that of Hou 2022: scores are min-max scaled over all tokens, those not kept set to 0 in both, and everything is
    computed over all tokens, with tau of the ranks and the mean overlap over all depths (p = 1) of `values.argsort()[::-1]`, and jaccard of
    the tokens above 0 that reach the (1 - top) quantile. The zeros' order is that of numpy 1.21, which Hou had; see `numpy_order.descending`.

    >>> attention, attribution = [0.4, 0.1, 0.3, 0.2, 0.9], [0.5, 0.2, 0.3, 0.1, 0.0]
    >>> found = agreement(attention, attribution, keep=[True, True, True, True, False])
    >>> round(found["tau"].value, 2), found.kept
    (0.67, 4)
    """
    check_options(convention, p, top, permutations, seed)
    if _are_explanations(a) and _are_explanations(b):
        a, b, keep = _of_explanations(a, b, keep)
    texts = _texts(a, b, keep)
    for number, text in enumerate(texts):
        _check_text(*text, convention, f"text {number}: " if len(texts) > 1 else "")
    compared = [
        compare(
            *text,
            convention=convention,
            p=p,
            top=top,
            permutations=permutations,
            seed=(seed, number),
        )
        for number, text in enumerate(texts)
    ]
    values, chances = (np.array(part) for part in zip(*compared, strict=True))  # text metric
    return Agreement(
        **{
            metric: _figure(values[:, column], chances[:, column])
            for column, metric in enumerate(METRICS)
        },
        p=float(p) if convention == "sound" else 1.0,
        top=float(top),
        convention=convention,
        texts=len(texts),
        kept=int(sum(kept.sum() for _, _, kept in texts)),
    )


def compare(
    a: Floats,
    b: Floats,
    keep: npt.NDArray[np.bool_] | None = None,
    *,
    convention: str = "sound",
    p: float = 0.9,
    top: float = 0.05,
    permutations: int = SHUFFLES,
    seed: int | Sequence[int] = 0,
) -> tuple[Floats, Floats]:
    """What `agreement` says of one text: values and chances, each [metric] in the order of METRICS; NaN where it is not defined.

    The scores are ranked once; an order of b's scores, the true one or a random one, is nothing but places in that ranking. Give each text
    another seed, such as (seed, its number), so that texts of one length do not share their permutations.

    >>> values, chances = compare(np.array([3.0, 2.0, 1.0]), np.array([6.0, 4.0, 2.0]), top=0.5)
    >>> values.round(6).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    check_options(convention, p, top, permutations, seed)
    where = np.arange(len(a)) if keep is None else np.flatnonzero(keep)
    nothing = np.full(len(METRICS), np.nan)
    if len(where) < 2:
        return nothing, nothing.copy()
    one, two = (
        _scaled(scores)[where] if convention == "published" else scores[where]
        for scores in (np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    )
    if not (np.isfinite(one).all() and np.isfinite(two).all()):
        return nothing, nothing.copy()
    (left, left_stops), (right, right_stops) = rankings.ranked(one), rankings.ranked(two)
    rows = _rows(left, right, permutations, seed)
    if convention == "published":
        tops = _published_top(one, top, len(a)), _published_top(two, top, len(a))
        found = numpy_order.published(one[left], two[right], where[left], len(a), tops, rows)
    else:
        last = max(1, math.ceil(top * len(where) - 1e-9)) - 1
        tops = int(left_stops[last]), int(right_stops[last])
        found = rankings.sound(
            _unit(one[left]), _unit(two[right]), left_stops, right_stops, tops, float(p), rows
        )
    return found[0], found[1:].mean(0)


def _figure(values: Floats, chances: Floats) -> Figure:
    """The figure of one metric from its values and chances in each text."""
    value, low, high = mean_interval(values)
    return Figure(
        value,
        mean_interval(chances)[0],
        low,
        high,
        *mean_interval(values - chances),
        texts=int((~np.isnan(values)).sum()),
    )


def _scaled(scores: Floats) -> Floats:
    """Scores from 0 to 1, the lowest and the highest; NaN if they are one and the same."""
    with np.errstate(all="ignore"):
        return np.asarray((scores - scores.min()) / (scores.max() - scores.min()))


def _unit(ordered: Floats) -> Floats:
    """Ordered values with the largest of absolute value 1, so that no square is lost to over- or underflow; zeros stay."""
    largest = max(abs(ordered[0]), abs(ordered[-1]))
    return ordered / largest if largest > 0 else ordered


def _published_top(kept: Floats, top: float, size: int) -> int:
    """How many kept values above 0 reach the (1 - top) quantile of all, those not kept being 0."""
    quantile = np.percentile(np.concatenate([kept, np.zeros(size - len(kept))]), 100 * (1 - top))
    return int(((kept >= quantile) & (kept > 0)).sum())


def _rows(left: Ints, right: Ints, permutations: int, seed: int | Sequence[int]) -> Ints:
    """At which place on the right the item at each place on the left is, in truth and then by chance: [1 + permutation, place]."""
    places = np.empty_like(right)
    places[right] = np.arange(len(right))
    return np.concatenate([places[left][None], chance.permutations(len(left), permutations, seed)])


def check_options(
    convention: str, p: float, top: float, permutations: int, seed: int | Sequence[int]
) -> None:
    """Refuse parameters that mean nothing."""
    if convention not in CONVENTIONS:
        raise MeasureError(
            f"there is no convention {convention!r}; the conventions are {', '.join(CONVENTIONS)}"
        )
    if convention == "sound" and not 0 < p < 1:
        raise MeasureError(
            f"rbo needs p between 0 and 1, both excluded, got {p}; p = 1 is what convention='published' does"
        )
    if not 0 < top <= 1:
        raise MeasureError(
            f"top is the share of tokens in the top, above 0 and at most 1, got {top}; 0.05 is five per cent"
        )
    if permutations < 1:
        raise MeasureError(
            f"chance needs at least 1 permutation, got {permutations}; 100 give it to about two digits"
        )
    if min(seed, default=0) < 0 if isinstance(seed, Sequence) else seed < 0:
        raise MeasureError(f"a seed is a number from 0 on, got {seed}")


def _check_text(
    a: Floats, b: Floats, keep: npt.NDArray[np.bool_], convention: str, prefix: str
) -> None:
    """Refuse the scores of a text that cannot be compared."""
    if len(a) != len(b):
        raise MeasureError(
            f"{prefix}a has {len(a)} scores and b {len(b)}; give one score for each token in both"
        )
    if len(keep) != len(a):
        raise MeasureError(
            f"{prefix}keep has {len(keep)} entries for {len(a)} tokens; give one for each token"
        )
    if keep.sum() < 2:
        raise MeasureError(
            f"{prefix}keep keeps {int(keep.sum())} of {len(a)} tokens; agreement needs at least 2"
        )
    for name, scores in (("a", a), ("b", b)):
        bad = ~np.isfinite(scores) & (keep | (convention == "published"))
        if bad.any():
            raise MeasureError(
                f"{prefix}the score of token {int(bad.argmax())} in {name} is not finite; mask it or mend the scores"
            )


def _are_explanations(given: Any) -> bool:
    return hasattr(given, "special") or (
        isinstance(given, list | tuple) and bool(given) and all(map(_are_explanations, given))
    )


def _of_explanations(a: Any, b: Any, keep: Any) -> tuple[Any, Any, Any]:
    """Sizes of scores and kept tokens of explanations of the same tokens."""
    left, right = (list(given) if isinstance(given, list | tuple) else [given] for given in (a, b))
    if [one.tokens for one in left] != [one.tokens for one in right]:
        raise MeasureError(
            "the two explanations are not of the same tokens; explain the same texts with the same model"
        )
    sizes = [[np.abs(one.scores) for one in side] for side in (left, right)]
    kept = (
        [~one.special for one in left]
        if keep is None
        else keep
        if isinstance(a, list | tuple)
        else [keep]
    )
    return sizes[0], sizes[1], kept


def _texts(a: Any, b: Any, keep: Any) -> list[tuple[Floats, Floats, npt.NDArray[np.bool_]]]:
    """Scores, scores and mask of each text."""
    ones, twos = (
        [_vector(text, name) for text in _separate(given, name)]
        for given, name in ((a, "a"), (b, "b"))
    )
    masks = (
        [np.ones(len(one), dtype=bool) for one in ones]
        if keep is None
        else [_mask(text) for text in _separate(keep, "keep")]
    )
    if not len(ones) == len(twos) == len(masks):
        raise MeasureError(
            f"a has {len(ones)} texts, b {len(twos)} and keep {len(masks)}; give each of them for the same texts"
        )
    return list(zip(ones, twos, masks, strict=True))


def _separate(given: Any, name: str) -> list[Any]:
    """The texts of an argument: the argument if it is of one text, its entries if it is of several."""
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        raise MeasureError(
            f"{name} is {type(given).__name__}; give a list, array or tensor with a number for each token"
        )
    if getattr(given, "ndim", 2) < 2 and getattr(getattr(given, "dtype", None), "kind", "") != "O":
        return [given]
    entries = list(given)
    several = any(
        isinstance(entry, Iterable) and getattr(entry, "ndim", 1) > 0 for entry in entries
    )
    return entries if several else [entries]


def _vector(given: Any, name: str) -> Floats:
    """The scores of one text, as float64: token."""
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu().double().numpy()
    try:
        scores = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MeasureError(
            f"{name} has something other than numbers; give a score for each token"
        ) from error
    if scores.ndim != 1:
        raise MeasureError(
            f"{name} has texts with {scores.ndim} axes; give one score for each token"
        )
    return scores


def _mask(given: Any) -> npt.NDArray[np.bool_]:
    """Which tokens of one text take part: token."""
    mask = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
    if mask.dtype != bool or mask.ndim != 1:
        raise MeasureError(
            f"keep must be True or False for each token, got {mask.ndim} axes of {mask.dtype}; for numbers write keep != 0"
        )
    return mask


def _shown(value: float, low: float = math.nan, high: float = math.nan) -> str:
    """A number to three digits, with its interval if there is one."""
    number = "undefined" if math.isnan(value) else f"{round(value, 3) + 0.0:.3f}"
    return number if math.isnan(low) else f"{number} [{low:.3f}, {high:.3f}]"
