"""Plausibility: do the words that an explanation scores highest agree with human rationales?

Scores of words against a human rationale as in ERASER (DeYoung et al. 2020, section 4.1), with
random orderings of the same words as control. Agreement with people does not show that the model
used those words.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from attlas.explain.estimate import Estimate, Estimates, count_texts, estimate
from attlas.stats.chance import SHUFFLES, permutations
from attlas.stats.scores import retrieval_scores
from attlas.support.arrays import Bools, Floats, Ints
from attlas.support.errors import MeasureError

METRICS = ("token_f1", "auprc", "iou_f1")


class Overlap(NamedTuple):
    """Precision, recall and F1 of chosen words or spans against marked ones."""

    precision: float
    recall: float
    f1: float


def rationale_words(
    text_spans: Sequence[tuple[int, int]], word_spans: Sequence[tuple[int, int]]
) -> Bools:
    """Which words overlap a marked span: [span], [word] -> [word].

    >>> rationale_words([(2, 8)], [(0, 1), (2, 6), (7, 11), (11, 11)]).tolist()
    [False, True, True, False]
    """
    words = np.asarray(word_spans, dtype=np.int64).reshape(-1, 2)
    marked = np.zeros(len(words), dtype=np.bool_)
    for start, stop in text_spans:
        marked |= np.maximum(words[:, 0], start) < np.minimum(words[:, 1], stop)
    return marked


def token_f1(scores: Any, marked: Any, share: float | None = None) -> Overlap:
    """The k highest-scoring words against the marked ones: [word], [word] -> numbers.

    Among equal scores the earlier word is first. k is the number of marked words, so that precision
    and recall are equal; with `share` it is that share of the text's words, rounded, at least 1
    (ERASER uses the mean share of its data set).

    >>> token_f1([0.1, 0.9, 0.8, 0.0], [False, True, False, True])
    Overlap(precision=0.5, recall=0.5, f1=0.5)
    """
    check_options(share)
    values, truth = _scorable(scores, marked)
    return _overlap(*_word_hits(_chosen(_ranked(values), _count(truth, share)), truth))


def auprc(scores: Any, marked: Any) -> float:
    """Area under the precision-recall curve: [word], [word] -> number.

    By trapezoids from precision 1 at recall 0. Words of equal score pass a threshold together, so
    the order of words does not matter.

    >>> auprc([0.1, 0.9, 0.8, 0.0], [False, True, True, False])
    1.0
    """
    return _area_of(*_scorable(scores, marked))


def iou_f1(scores: Any, marked: Any, share: float | None = None, threshold: float = 0.5) -> Overlap:
    """The runs of the k highest-scoring words against the marked runs: [word], [word] -> numbers.

    A chosen run is a hit if its intersection over union with some human run is at least
    `threshold`. As in ERASER, precision is hits by chosen runs and recall the same hits by human
    runs; below a threshold of 0.5 two chosen runs can hit the same human run, and recall can exceed
    1. Adjacent evidences are one run (ERASER separates them). k as in `token_f1`.

    >>> iou_f1([0.1, 0.9, 0.8, 0.0, 0.0, 0.7], [False, True, True, True, False, False])
    Overlap(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    check_options(share, threshold)
    values, truth = _scorable(scores, marked)
    chosen = _chosen(_ranked(values), _count(truth, share))
    return _overlap(*_run_hits(chosen, truth, threshold))


def scores_of(
    scores: Any,
    marked: Any,
    *,
    share: float | None = None,
    threshold: float = 0.5,
    draws: int = SHUFFLES,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """One text's values and controls in the order of METRICS: [word], [word] -> [metric], [metric].

    NaN if no word is marked or all are. The control is the mean over `draws` random orderings of
    the words. They follow from `seed` and from which words are marked, so they are the same in
    every process and for every explanation of the text.

    >>> values, controls = scores_of([0.1, 0.9, 0.8, 0.0], [False, True, False, True], draws=1000)
    >>> values.round(2).tolist(), controls.round(2).tolist()
    ([0.5, 0.71, 0.67], [0.49, 0.58, 0.57])
    """
    check_options(share, threshold, draws, seed)
    scores, truth = _checked(scores, marked)
    if not _has_both(truth):
        return np.full(len(METRICS), nan), np.full(len(METRICS), nan)
    chosen = _chosen(_ranked(scores), _count(truth, share))
    values = (
        _f1(*_word_hits(chosen, truth))[0],
        _area_of(scores, truth),
        _f1(*_run_hits(chosen, truth, threshold))[0],
    )
    return np.array(values), np.array(_control(truth.tobytes(), share, threshold, draws, seed))


@dataclass(frozen=True, repr=False)
class Plausibility(Estimates):
    """How well explanations agree with human rationales; `left_out` texts could not be scored."""

    names: ClassVar[tuple[str, ...]] = METRICS
    token_f1: Estimate
    auprc: Estimate
    iou_f1: Estimate
    texts: int
    left_out: int = 0

    def to_frame(self) -> pd.DataFrame:
        return super().to_frame()[["metric", "value", "random", "low", "high", "texts"]]

    def _about(self) -> str:
        excluded = f", {self.left_out} excluded" if self.left_out else ""
        return f"{count_texts(self.texts)}{excluded}"


def plausibility(
    scores: Any,
    marked: Any,
    *,
    share: float | None = None,
    threshold: float = 0.5,
    draws: int = SHUFFLES,
    seed: int = 0,
) -> Plausibility:
    """How well the scores of words agree with what people marked.

    For one text ([word]) or a list of texts ([text][word]). Values and controls are means over
    texts of each text's own F1 and area, as are ERASER's macro averages of token F1 and AUPRC. Its
    IOU F1 is the F1 of mean precision and mean recall, which is not defined for one text and so has
    no interval. Texts in which no word is marked, or every word, are excluded and counted.

    >>> result = plausibility([0.1, 0.9, 0.8, 0.0], [False, True, True, False])
    >>> result.token_f1.shown("random"), result.texts
    ('1.000 (random 0.475)', 1)
    """
    options: dict[str, Any] = {"share": share, "threshold": threshold, "draws": draws, "seed": seed}
    if _is_one_text(marked):
        _scorable(scores, marked)
        pairs = np.array([scores_of(scores, marked, **options)])  # text, value or control, metric
    else:
        pairs = np.array(_scores_of_texts(scores, marked, options))
    scored = pairs[~np.isnan(pairs[:, 0, 0])]
    if not len(scored):
        raise MeasureError(
            f"none of the {len(pairs)} texts has both marked and unmarked words; give texts with "
            "rationales"
        )
    f1, area, iou = map(estimate, scored[:, 0].T, scored[:, 1].T)
    return Plausibility(f1, area, iou, len(scored), len(pairs) - len(scored))


def _scores_of_texts(
    scores: Any, marked: Any, options: dict[str, Any]
) -> list[tuple[Floats, Floats]]:
    if not len(marked) or len(scores) != len(marked):
        raise MeasureError(
            f"there are scores for {len(scores)} texts and rationales for {len(marked)}; give one "
            "of each for every text, and at least one text"
        )
    pairs = []
    for number, (one, truth) in enumerate(zip(scores, marked, strict=True)):
        try:
            pairs.append(scores_of(one, truth, **options))
        except MeasureError as error:
            raise MeasureError(f"text {number}: {error}") from error
    return pairs


def _is_one_text(marked: Any) -> bool:
    """Whether these are the marks of one text: single marks, or an empty array."""
    first = next(iter(marked), None)
    return hasattr(marked, "ndim") if first is None else np.ndim(first) == 0


@lru_cache(maxsize=256)
def _control(
    marks: bytes, share: float | None, threshold: float, draws: int, seed: int
) -> tuple[float, ...]:
    """Mean metrics of random orderings of a text's words; `marks` are the bytes of [word]."""
    truth = np.frombuffer(marks, dtype=np.bool_)
    n = len(truth)
    order = permutations(n, draws, (seed, n, zlib.crc32(marks)))  # draw, rank -> word
    chosen = _chosen(order, _count(truth, share))
    areas = _area(truth[order].cumsum(1), np.arange(1, n + 1))
    parts = _f1(*_word_hits(chosen, truth)), areas, _f1(*_run_hits(chosen, truth, threshold))
    return tuple(float(part.mean()) for part in parts)


def _ranked(scores: Floats) -> Ints:
    """Words by falling score, the earlier first among equals: [word] -> [1, rank]."""
    return np.argsort(-scores, kind="stable")[None]


def _count(truth: Bools, share: float | None) -> int:
    """How many words are chosen."""
    return int(truth.sum()) if share is None else max(1, round(share * len(truth)))


def _chosen(order: Ints, count: int) -> Bools:
    """Which words are among the first of each ordering: [draw, rank] -> [draw, word]."""
    chosen = np.zeros(order.shape, dtype=np.bool_)
    np.put_along_axis(chosen, order[:, :count], True, axis=1)
    return chosen


def _word_hits(chosen: Bools, truth: Bools) -> tuple[Ints, Ints, Ints]:
    """Chosen marked words, chosen words, marked words: [draw, word], [word] -> three of [draw]."""
    return (chosen & truth).sum(1), chosen.sum(1), np.full(len(chosen), truth.sum())


def _run_hits(chosen: Bools, truth: Bools, threshold: float) -> tuple[Ints, Ints, Ints]:
    """Chosen runs that hit a human run, chosen runs, human runs: [draw, word] -> three of [draw].

    All draws are concatenated with an unchosen word between them. Two runs overlap in a single run
    of words that are both chosen and marked, so these are all pairs.
    """
    draws, width = chosen.shape[0], chosen.shape[1] + 1
    ours = np.pad(chosen, ((0, 0), (0, 1))).ravel()
    theirs = np.tile(np.append(truth, False), draws)
    our_runs, their_runs, shared = _runs(ours), _runs(theirs), _runs(ours & theirs)
    one, other = (
        np.searchsorted(runs[0], shared[0], side="right") - 1 for runs in (our_runs, their_runs)
    )
    common = shared[1] - shared[0]
    union = (our_runs[1] - our_runs[0])[one] + (their_runs[1] - their_runs[0])[other] - common
    hit_starts = our_runs[0][np.unique(one[common / union >= threshold])]
    hits, runs, human = (
        np.bincount(starts // width, minlength=draws)
        for starts in (hit_starts, our_runs[0], their_runs[0])
    )
    return hits, runs, human


def _runs(flags: Bools) -> Ints:
    """Start and stop of maximal runs of true flags; the last is false: [flag] -> [2, run]."""
    steps = np.diff(flags.astype(np.int8), prepend=0)
    return np.stack([np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)])


def _f1(hits: Ints, chosen: Ints, human: Ints) -> Floats:
    """The harmonic mean of precision and recall from their counts: three of [draw] -> [draw]."""
    f1: Floats = retrieval_scores(hits, chosen, hits, human)["f1"]
    return f1


def _overlap(hits: Ints, chosen: Ints, human: Ints) -> Overlap:
    return Overlap(**retrieval_scores(hits[0], chosen[0], hits[0], human[0]))


def _area_of(scores: Floats, truth: Bools) -> float:
    """Area under precision by recall, with one threshold per distinct score."""
    order = _ranked(scores)[0]
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    return float(_area(truth[order].cumsum()[None, last], last + 1)[0])


def _area(hits: Ints, seen: Ints) -> Floats:
    """Area under precision by recall from the hits among the first words: [draw, threshold]."""
    precision = np.concatenate([np.ones((len(hits), 1)), hits / seen], axis=1)
    recall = np.concatenate([np.zeros((len(hits), 1)), hits / hits[:, -1:]], axis=1)
    return np.trapezoid(precision, recall, axis=1)


def _scorable(scores: Any, marked: Any) -> tuple[Floats, Bools]:
    """Scores and marks of a text in which some words are marked and some are not."""
    values, truth = _checked(scores, marked)
    if not _has_both(truth):
        some = "every word is marked" if truth.any() else "no word is marked"
        raise MeasureError(
            f"{some}, so all orderings of the words are equal; give a text with both kinds of words"
        )
    return values, truth


def _has_both(truth: Bools) -> bool:
    return bool(truth.any() and not truth.all())


def _checked(scores: Any, marked: Any) -> tuple[Floats, Bools]:
    """Scores as numbers and marks as booleans, one of each per word."""
    try:
        values, truth = np.asarray(scores, dtype=np.float64), np.asarray(marked)
    except (TypeError, ValueError) as error:
        raise MeasureError("the scores of a text must be numbers, one per word") from error
    if values.ndim != 1 or values.shape != truth.shape:
        raise MeasureError(
            f"scores of shape {values.shape} do not fit marks of shape {truth.shape}; give one "
            "score and one mark per word"
        )
    if not np.isfinite(values).all():
        raise MeasureError(
            f"the score of word {int(np.argmin(np.isfinite(values)))} is not a finite number; "
            "correct the explanation"
        )
    if truth.dtype != np.bool_ and not np.isin(truth, (0, 1)).all():
        raise MeasureError(
            "marks must be true or false (or 1 and 0), one per word; rationale_words() makes them"
        )
    return values, truth.astype(np.bool_)


def check_options(
    share: float | None = None, threshold: float = 0.5, draws: int = 1, seed: int = 0
) -> None:
    """Refuse values outside their domain."""
    for name, number in (("share", share), ("threshold", threshold)):
        if number is not None and not 0 < number <= 1:
            raise MeasureError(f"{name} is {number}; it must be above 0 and at most 1")
    if draws < 1 or seed < 0:
        raise MeasureError(
            f"draws is {draws} and seed is {seed}; draws must be at least 1 and seed at least 0"
        )
