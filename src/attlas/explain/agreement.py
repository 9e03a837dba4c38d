"""Do two explanations of a text agree? Cosine, Kendall's tau, rank-biased overlap and Jaccard.

Each comes with its value by chance. Tokens that are not compared are excluded, never counted as
zero: zeros in both lists are ties in both, which looks like agreement. The convention `published`
shows by how much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from attlas.explain import numpy_order
from attlas.explain.estimate import Estimate, Estimates, count_texts, estimate
from attlas.stats import chance, rankings
from attlas.stats.chance import SHUFFLES
from attlas.stats.rankings import rbo
from attlas.support.arrays import Bools, Floats, Ints
from attlas.support.errors import MeasureError
from attlas.support.options import CONVENTIONS

METRICS = ("cosine", "tau", "rbo", "jaccard")

__all__ = ["CONVENTIONS", "METRICS", "Agreement", "agreement", "compare", "rbo"]


@dataclass(frozen=True, repr=False)
class Agreement(Estimates):
    """How far two explanations agree: an estimate for each metric, and the settings.

    `kept` is the number of tokens compared, in all texts; `p` is that of rbo, 1 for its plain mean
    over depths.
    """

    names: ClassVar[tuple[str, ...]] = METRICS
    control: ClassVar[str] = "chance"
    cosine: Estimate
    tau: Estimate
    rbo: Estimate
    jaccard: Estimate
    p: float
    top: float
    convention: str
    texts: int
    kept: int

    def _labels(self) -> tuple[str, ...]:
        return "cosine", "tau", f"rbo (p = {self.p:g})", f"jaccard (top {100 * self.top:g}%)"

    def _about(self) -> str:
        return f"{self.kept} tokens of {count_texts(self.texts)}, {self.convention}"


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
    """How far the scores `a` and `b` of the tokens of one text, or of several, agree.

    One text is an array, list or tensor of scores, and `keep` a mask of the tokens to compare;
    several texts are sequences of these. Numbers are compared as they are; two explanations (or
    lists of them) are compared by the sizes of their scores, on ordinary tokens if `keep` is not
    given. `tau` is Kendall's tau-b; `rbo` is as in `rbo(a, b, p)`; `jaccard` is of the two sets of
    top tokens: those with at least the score of the last of the highest `top` of tokens (rounded
    up), so that ties at the border are all in. Chance is the mean over random permutations of b's
    scores among the kept tokens. What is not defined is NaN: tau of equal scores, the cosine of
    zeros. With several texts, values are means over texts with 95% intervals by Student's t.

    The convention `published` is that of Hou 2022: scores are min-max scaled over all tokens, those
    not kept are set to 0 in both, and everything is computed over all tokens, with tau of the ranks
    and the mean overlap over all depths (p = 1) of `values.argsort()[::-1]`, and jaccard of the
    tokens above 0 that reach the (1 - top) quantile. The order of zeros is that of numpy 1.21,
    which Hou used; see `numpy_order.descending`.

    >>> attention, attribution = [0.4, 0.1, 0.3, 0.2, 0.9], [0.5, 0.2, 0.3, 0.1, 0.0]
    >>> result = agreement(attention, attribution, keep=[True, True, True, True, False])
    >>> round(result["tau"].value, 2), result.kept
    (0.67, 4)
    """
    check_options(convention, p, top, permutations, seed)
    if _are_explanations(a) and _are_explanations(b):
        a, b, keep = _of_explanations(a, b, keep)
    texts = _texts(a, b, keep)
    for number, text in enumerate(texts):
        _check_text(*text, convention, f"text {number}: " if len(texts) > 1 else "")
    how: Any = {"convention": convention, "p": p, "top": top, "permutations": permutations}
    compared = [compare(*text, **how, seed=(seed, number)) for number, text in enumerate(texts)]
    values, chances = np.array(compared).swapaxes(0, 1)  # text metric
    cosine, tau, overlap, jaccard = map(estimate, values.T, chances.T)
    return Agreement(
        cosine,
        tau,
        overlap,
        jaccard,
        p=float(p) if convention == "sound" else 1.0,
        top=float(top),
        convention=convention,
        texts=len(texts),
        kept=int(sum(kept.sum() for _, _, kept in texts)),
    )


def compare(
    a: Floats,
    b: Floats,
    keep: Bools | None = None,
    *,
    convention: str = "sound",
    p: float = 0.9,
    top: float = 0.05,
    permutations: int = SHUFFLES,
    seed: int | Sequence[int] = 0,
) -> tuple[Floats, Floats]:
    """The `agreement` of one text: values and chances, each [metric] in the order of METRICS.

    The scores are ranked once; an order of b's scores, the true one or a random one, is a list of
    positions in that ranking. Give each text another seed, such as (seed, its number), so that
    texts of one length do not share their permutations.

    >>> values, chances = compare(np.array([3.0, 2.0, 1.0]), np.array([6.0, 4.0, 2.0]), top=0.5)
    >>> values.round(6).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    check_options(convention, p, top, permutations, seed)
    where, one, two = compared_scores(a, b, keep, convention)
    if not len(one):
        undefined = np.full(len(METRICS), np.nan)
        return undefined, undefined.copy()
    (left, left_stops), (right, right_stops) = rankings.ranked(one), rankings.ranked(two)
    rows = _rows(left, right, permutations, seed)
    if convention == "published":
        tops = _published_top(one, top, len(a)), _published_top(two, top, len(a))
        values = numpy_order.published(one[left], two[right], where[left], len(a), tops, rows)
    else:
        last = max(1, math.ceil(top * len(where) - 1e-9)) - 1
        tops = int(left_stops[last]), int(right_stops[last])
        values = rankings.sound(
            _unit(one[left]), _unit(two[right]), left_stops, right_stops, tops, float(p), rows
        )
    return values[0], values[1:].mean(0)


def compared_scores(
    a: Floats, b: Floats, keep: Bools | None, convention: str
) -> tuple[Ints, Floats, Floats]:
    """The kept positions, and both scores there; no scores if they cannot be compared.

    >>> compared_scores(np.array([2.0, 1.0]), np.array([0.5, np.nan]), None, "sound")
    (array([0, 1]), array([], dtype=float64), array([], dtype=float64))
    """
    where = np.arange(len(a)) if keep is None else np.flatnonzero(keep)
    if len(where) >= 2:
        one, two = (
            _scaled(scores)[where] if convention == "published" else scores[where]
            for scores in (np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
        )
        if np.isfinite(one).all() and np.isfinite(two).all():
            return where, one, two
    return where, np.empty(0), np.empty(0)


def _scaled(scores: Floats) -> Floats:
    """Scores scaled to [0, 1]; NaN if they are all equal."""
    with np.errstate(all="ignore"):
        return np.asarray((scores - scores.min()) / (scores.max() - scores.min()))


def _unit(ordered: Floats) -> Floats:
    """Ordered values divided by the largest absolute value, so that no square overflows."""
    largest = max(abs(ordered[0]), abs(ordered[-1]))
    return ordered / largest if largest > 0 else ordered


def _published_top(kept: Floats, top: float, size: int) -> int:
    """How many kept values above 0 reach the (1 - top) quantile of all, with 0 for the rest."""
    quantile = np.percentile(np.concatenate([kept, np.zeros(size - len(kept))]), 100 * (1 - top))
    return int(((kept >= quantile) & (kept > 0)).sum())


def _rows(left: Ints, right: Ints, permutations: int, seed: int | Sequence[int]) -> Ints:
    """Where the item of each rank on the left is on the right: [1 + permutation, rank].

    The first row is the true ranking, the others are random.
    """
    ranks = np.empty_like(right)
    ranks[right] = np.arange(len(right))
    return np.concatenate([ranks[left][None], chance.permutations(len(left), permutations, seed)])


def check_options(
    convention: str, p: float, top: float, permutations: int, seed: int | Sequence[int]
) -> None:
    """Refuse values outside their domain."""
    if convention not in CONVENTIONS:
        raise MeasureError(
            f"there is no convention {convention!r}; the conventions are {', '.join(CONVENTIONS)}"
        )
    if convention == "sound" and not 0 < p < 1:
        raise MeasureError(
            f"rbo needs p between 0 and 1, both excluded, got {p}; convention='published' uses "
            "p = 1"
        )
    if not 0 < top <= 1:
        raise MeasureError(
            f"top is the share of tokens in the top, above 0 and at most 1, got {top}; 0.05 is 5%"
        )
    if permutations < 1:
        raise MeasureError(
            f"chance needs at least 1 permutation, got {permutations}; 100 give about two digits"
        )
    if min(seed, default=0) < 0 if isinstance(seed, Sequence) else seed < 0:
        raise MeasureError(f"seed must be at least 0, got {seed}")


def _check_text(a: Floats, b: Floats, keep: Bools, convention: str, prefix: str) -> None:
    """Refuse the scores of a text that cannot be compared."""
    if len(a) != len(b):
        raise MeasureError(
            f"{prefix}a has {len(a)} scores and b {len(b)}; give one score per token in both"
        )
    if len(keep) != len(a):
        raise MeasureError(
            f"{prefix}keep has {len(keep)} entries for {len(a)} tokens; give one per token"
        )
    if keep.sum() < 2:
        raise MeasureError(
            f"{prefix}keep keeps {int(keep.sum())} of {len(a)} tokens; agreement needs at least 2"
        )
    for name, scores in (("a", a), ("b", b)):
        bad = ~np.isfinite(scores) & (keep | (convention == "published"))
        if bad.any():
            raise MeasureError(
                f"{prefix}the score of token {int(bad.argmax())} in {name} is not finite; mask it "
                "or correct the scores"
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
            "the two explanations are not of the same tokens; explain the same texts with the "
            "same model"
        )
    if keep is None:
        keep = [~one.special for one in left]
    elif not isinstance(a, list | tuple):
        keep = [keep]
    return [np.abs(one.scores) for one in left], [np.abs(one.scores) for one in right], keep


def _texts(a: Any, b: Any, keep: Any) -> list[tuple[Floats, Floats, Bools]]:
    """Scores, scores and mask of each text."""
    ones, twos = (
        [_vector(text, name) for text in _separate(given, name)]
        for given, name in ((a, "a"), (b, "b"))
    )
    if keep is None:
        masks = [np.ones(len(one), dtype=bool) for one in ones]
    else:
        masks = [_mask(text) for text in _separate(keep, "keep")]
    if not len(ones) == len(twos) == len(masks):
        raise MeasureError(
            f"a has {len(ones)} texts, b {len(twos)} and keep {len(masks)}; give each of them for "
            "the same texts"
        )
    return list(zip(ones, twos, masks, strict=True))


def _separate(given: Any, name: str) -> list[Any]:
    """The texts of an argument: its entries if it has several texts, itself if it is one."""
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        raise MeasureError(
            f"{name} is {type(given).__name__}; give a list, array or tensor with a number per "
            "token"
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
            f"{name} has something other than numbers; give one score per token"
        ) from error
    if scores.ndim != 1:
        raise MeasureError(f"{name} has texts with {scores.ndim} axes; give one score per token")
    return scores


def _mask(given: Any) -> Bools:
    """Which tokens of one text are compared: token."""
    mask = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
    if mask.dtype != bool or mask.ndim != 1:
        raise MeasureError(
            f"keep must be True or False for each token, got {mask.ndim} axes of {mask.dtype}; for "
            "numbers write keep != 0"
        )
    return mask
