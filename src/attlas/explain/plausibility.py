"""Plausibility: do the words that an explanation scores highest agree with the words that people marked?

Scores of words against a human rationale as ERASER counts them (DeYoung et al. 2020, section 4.1), each beside what random orderings of the
same words reach. Agreement with people says nothing of whether the model used those words.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attlas.stats.chance import SHUFFLES, permutations
from attlas.stats.intervals import mean_interval
from attlas.stats.scores import retrieval_scores
from attlas.support.errors import MeasureError

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("token_f1", "auprc", "iou_f1")

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Overlap(NamedTuple):
    """How much of what was chosen people marked, how much of what they marked was chosen, and the harmonic mean of both."""

    precision: float
    recall: float
    f1: float


def rationale_words(
    text_spans: Sequence[tuple[int, int]], word_spans: Sequence[tuple[int, int]]
) -> Bools:
    """Which words people marked, those whose characters overlap a span: [span], [word] -> [word].

    >>> rationale_words([(2, 8)], [(0, 1), (2, 6), (7, 11), (11, 11)]).tolist()
    [False, True, True, False]
    """
    words = np.asarray(word_spans, dtype=np.int64).reshape(-1, 2)
    marked = np.zeros(len(words), dtype=np.bool_)
    for start, stop in text_spans:
        marked |= np.maximum(words[:, 0], start) < np.minimum(words[:, 1], stop)
    return marked


def token_f1(scores: Any, marked: Any, share: float | None = None) -> Overlap:
    """The k words of highest score against the marked ones, the earlier word first among equals: [word], [word] -> numbers.

    k is the number of marked words, so that precision and recall are one; or with `share` the rounded share of the text's words, at least 1.
    ERASER takes as share the mean over its data set.

    >>> token_f1([0.1, 0.9, 0.8, 0.0], [False, True, False, True])
    Overlap(precision=0.5, recall=0.5, f1=0.5)
    """
    check_options(share)
    values, truth = _scorable(scores, marked)
    hits, chosen, human = _word_hits(_chosen(_ranked(values), _count(truth, share)), truth)
    return _agreement(hits, chosen, human)


def auprc(scores: Any, marked: Any) -> float:
    """Area under the curve of precision by recall over all thresholds, by trapezoids from precision 1 at recall 0: [word], [word] -> number.

    Words of equal score pass a threshold together, so the order of words does not matter.

    >>> auprc([0.1, 0.9, 0.8, 0.0], [False, True, True, False])
    1.0
    """
    values, truth = _scorable(scores, marked)
    return _area_of(values, truth)


def iou_f1(scores: Any, marked: Any, share: float | None = None, threshold: float = 0.5) -> Overlap:
    """The runs of the k words of highest score against the runs of marked words: [word], [word] -> numbers.

    A chosen run is a hit if its intersection with some human run, divided by their union, is at least `threshold`. As in ERASER, precision is
    hits by chosen runs and recall the same hits by human runs; below a threshold of one half two chosen runs can hit the same human
    run, and recall can pass 1. ERASER keeps evidences that touch apart; here they are one run. k as in `token_f1`.

    >>> iou_f1([0.1, 0.9, 0.8, 0.0, 0.0, 0.7], [False, True, True, True, False, False])
    Overlap(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    check_options(share, threshold)
    values, truth = _scorable(scores, marked)
    hits, chosen, human = _run_hits(
        _chosen(_ranked(values), _count(truth, share)), truth, threshold
    )
    return _agreement(hits, chosen, human)


def scores_of(
    scores: Any,
    marked: Any,
    *,
    share: float | None = None,
    threshold: float = 0.5,
    draws: int = SHUFFLES,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """One text's values and their controls in the order of METRICS, NaN if no word is marked or all are: [word], [word] -> [metric], [metric].

    The control is the mean over `draws` random orderings of the words. They follow from `seed` and from which words are marked, so
    they are the same in every process and for every explanation of the text.

    >>> [part.round(2).tolist() for part in scores_of([0.1, 0.9, 0.8, 0.0], [False, True, False, True], draws=1000)]
    [[0.5, 0.71, 0.67], [0.49, 0.58, 0.57]]
    """
    check_options(share, threshold, draws, seed)
    values, truth = _checked(scores, marked)
    if not _has_both(truth):
        return np.full(len(METRICS), nan), np.full(len(METRICS), nan)
    chosen = _chosen(_ranked(values), _count(truth, share))
    found = (
        _f1(*_word_hits(chosen, truth))[0],
        _area_of(values, truth),
        _f1(*_run_hits(chosen, truth, threshold))[0],
    )
    return np.array(found), np.array(_control(truth.tobytes(), share, threshold, draws, seed))


@dataclass(frozen=True)
class Scored:
    """A mean over texts, the same for random orderings of the words, and the 95 % Student-t interval of the mean over texts."""

    value: float
    random: float
    low: float = nan
    high: float = nan

    def __str__(self) -> str:
        between = "" if self.low != self.low else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"{self.value:.3f}{between} (random {self.random:.3f})"


@dataclass(frozen=True, repr=False)
class Plausibility:
    """How well explanations agree with human rationales on `texts` texts; `left_out` have no marked word, or no other."""

    token_f1: Scored
    auprc: Scored
    iou_f1: Scored
    texts: int
    left_out: int = 0

    def to_frame(self) -> pd.DataFrame:
        """One row a metric: metric, value, random, low, high, texts."""
        import pandas as pd

        rows = [(name, *astuple(getattr(self, name)), self.texts) for name in METRICS]
        return pd.DataFrame(rows, columns=["metric", "value", "random", "low", "high", "texts"])

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {getattr(self, name)}" for name in METRICS)
        return f"Plausibility({numbers}; {self._counts()})"

    def _repr_html_(self) -> str:
        table = self.to_frame().to_html(
            index=False, float_format="{:.3f}".format, na_rep="", border=0
        )
        return f"<p>Plausibility, {self._counts()}</p>{table}"

    def _counts(self) -> str:
        return f"{self.texts} text{'s' * (self.texts != 1)}" + f", {self.left_out} left out" * (
            self.left_out > 0
        )


def plausibility(
    scores: Any,
    marked: Any,
    *,
    share: float | None = None,
    threshold: float = 0.5,
    draws: int = SHUFFLES,
    seed: int = 0,
) -> Plausibility:
    """How well the scores of words agree with what people marked, for one text ([word]) or a list of texts ([text][word]).

    Values and controls are means over texts of each text's own F1 and area, as ERASER's macro averages of token F1 and AUPRC are; its IOU F1
    is the F1 of mean precision and mean recall, which has no value of a text and so no interval. Texts in which no word is marked, or every word, are left out and counted.

    >>> plausibility([0.1, 0.9, 0.8, 0.0], [False, True, True, False])
    Plausibility(token_f1 1.000 (random 0.475), auprc 1.000 (random 0.574), iou_f1 1.000 (random 0.397); 1 text)
    """
    options: dict[str, Any] = {"share": share, "threshold": threshold, "draws": draws, "seed": seed}
    if _is_one_text(marked):
        _scorable(scores, marked)
        found = [scores_of(scores, marked, **options)]
    else:
        found = _of_texts(scores, marked, options)
    pairs = np.array(found)  # text, value or control, metric
    kept = pairs[~np.isnan(pairs[:, 0, 0])]
    if not len(kept):
        raise MeasureError(
            f"none of the {len(pairs)} texts has both marked and unmarked words; give texts with rationales"
        )
    token, area, run = (_scored(kept[:, 0, at], kept[:, 1, at]) for at in range(len(METRICS)))
    return Plausibility(token, area, run, len(kept), len(pairs) - len(kept))


def _of_texts(scores: Any, marked: Any, options: dict[str, Any]) -> list[tuple[Floats, Floats]]:
    if not len(marked) or len(scores) != len(marked):
        raise MeasureError(
            f"there are scores for {len(scores)} texts and rationales for {len(marked)}; give one of each for every text, and at least one text"
        )
    found = []
    for number, (one, truth) in enumerate(zip(scores, marked, strict=True)):
        try:
            found.append(scores_of(one, truth, **options))
        except MeasureError as error:
            raise MeasureError(f"text {number}: {error}") from error
    return found


def _is_one_text(marked: Any) -> bool:
    """Whether these are the marks of one text: single marks, or an array without any."""
    first = next(iter(marked), None)
    return hasattr(marked, "ndim") if first is None else np.ndim(first) == 0


def _scored(values: Floats, controls: Floats) -> Scored:
    """Means over texts and the interval of the first, which a single text does not have: [text], [text] -> numbers."""
    value, low, high = mean_interval(values)
    return Scored(value, float(controls.mean()), low, high)


@lru_cache(maxsize=256)
def _control(
    marks: bytes, share: float | None, threshold: float, draws: int, seed: int
) -> tuple[float, ...]:
    """Mean metrics of random orderings of words; marks are the bytes of [word]. Many explanations of one text share it."""
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
    """Chosen words that are marked, chosen words, marked words: [draw, word], [word] -> three of [draw]."""
    return (chosen & truth).sum(1), chosen.sum(1), np.full(len(chosen), truth.sum())


def _run_hits(chosen: Bools, truth: Bools, threshold: float) -> tuple[Ints, Ints, Ints]:
    """Chosen runs that meet a human run, chosen runs, human runs: [draw, word], [word] -> three of [draw].

    All draws stand one after another with an unchosen word between them. Two runs overlap in a single run of words that are both chosen
    and marked, so these are all pairs there are.
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
    met = our_runs[0][np.unique(one[common / union >= threshold])]
    hits, found, human = (
        np.bincount(at // width, minlength=draws) for at in (met, our_runs[0], their_runs[0])
    )
    return hits, found, human


def _runs(flags: Bools) -> Ints:
    """Where the maximal runs of true flags start and stop; the last flag must be false: [flag] -> [2, run]."""
    steps = np.diff(flags.astype(np.int8), prepend=0)
    return np.stack([np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)])


def _f1(hits: Ints, chosen: Ints, human: Ints) -> Floats:
    """The harmonic mean of precision and recall from their counts: three of [draw] -> [draw]."""
    f1: Floats = retrieval_scores(hits, chosen, hits, human)["f1"]
    return f1


def _agreement(hits: Ints, chosen: Ints, human: Ints) -> Overlap:
    return Overlap(**retrieval_scores(hits[0], chosen[0], hits[0], human[0]))


def _area_of(scores: Floats, truth: Bools) -> float:
    """Area under precision by recall; only the last word of a run of equal scores is a threshold: [word], [word] -> number."""
    order = _ranked(scores)[0]
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    return float(_area(truth[order].cumsum()[None, last], last + 1)[0])


def _area(hits: Ints, seen: Ints) -> Floats:
    """Area under precision by recall, from the marked among the words seen at each threshold: [draw, threshold], [threshold] -> [draw]."""
    precision = np.concatenate([np.ones((len(hits), 1)), hits / seen], axis=1)
    recall = np.concatenate([np.zeros((len(hits), 1)), hits / hits[:, -1:]], axis=1)
    return np.trapezoid(precision, recall, axis=1)


def _scorable(scores: Any, marked: Any) -> tuple[Floats, Bools]:
    """Scores and marks of a text in which some words are marked and some are not."""
    values, truth = _checked(scores, marked)
    if not _has_both(truth):
        some = "every word is marked" if truth.any() else "no word is marked"
        raise MeasureError(
            f"{some}, so no ordering of the words is better than another; give a text with both kinds of words"
        )
    return values, truth


def _has_both(truth: Bools) -> bool:
    return bool(truth.any() and not truth.all())


def _checked(scores: Any, marked: Any) -> tuple[Floats, Bools]:
    """Scores as numbers and marks as truths, one of each a word."""
    try:
        values, truth = np.asarray(scores, dtype=np.float64), np.asarray(marked)
    except (TypeError, ValueError) as error:
        raise MeasureError("the scores of a text must be numbers, one for each word") from error
    if values.ndim != 1 or values.shape != truth.shape:
        raise MeasureError(
            f"scores of shape {values.shape} do not fit marks of shape {truth.shape}; give one score and one mark for each word"
        )
    if not np.isfinite(values).all():
        raise MeasureError(
            f"the score of word {int(np.argmin(np.isfinite(values)))} is not a finite number; mend the explanation"
        )
    if truth.dtype != np.bool_ and not np.isin(truth, (0, 1)).all():
        raise MeasureError(
            "marks must be true or false (or 1 and 0), one for each word; make them with rationale_words()"
        )
    return values, truth.astype(np.bool_)


def check_options(
    share: float | None = None, threshold: float = 0.5, draws: int = 1, seed: int = 0
) -> None:
    """Refuse parameters that mean nothing."""
    for name, number in (("share", share), ("threshold", threshold)):
        if number is not None and not 0 < number <= 1:
            raise MeasureError(f"{name} is {number}; it must be above 0 and at most 1")
    if draws < 1 or seed < 0:
        raise MeasureError(
            f"draws is {draws} and seed is {seed}; draws must be at least 1 and seed at least 0"
        )
