"""By how much do the numbers of a head differ between groups of texts?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attlas.stats.verdicts import Comparison, corrected, student_quantile
from attlas.support.arrays import Floats

OTHERS = "all others"
COLUMNS = (
    "measure",
    "column",
    "layer",
    "head",
    "group",
    "other",
    "value",
    "other_value",
    "difference",
    "difference_low",
    "difference_high",
    "uniform_difference",
    "beyond",
    "beyond_low",
    "beyond_high",
    "texts",
    "other_texts",
)
CORRECTED = ("corrected_low", "corrected_high", "significant")
Frames = Mapping[str, pd.DataFrame]  # by group


@dataclass(frozen=True)
class Estimate:
    """Means of heads with their standard errors and numbers of texts: each [head]."""

    mean: Floats
    error: Floats
    texts: Floats

    @property
    def free(self) -> Floats:
        """Degrees of freedom of the error."""
        out: Floats = np.maximum(self.texts - 1, 1)
        return out


def pooled(parts: Sequence[Estimate]) -> tuple[Estimate, Floats]:
    """The mean over the texts of several groups together, and the squared error per freedom.

    Groups weigh as much as they have texts, and their sizes count as given; one without an error
    (fewer than two texts) is left out of the heads where it has none.
    """
    known = np.array([np.isfinite(one.mean) & np.isfinite(one.error) for one in parts])
    texts = np.array([one.texts for one in parts]) * known
    total = texts.sum(axis=0)
    weights = np.divide(texts, total, out=np.zeros(texts.shape), where=total > 0)
    means = np.where(known, np.array([one.mean for one in parts]), 0)
    squares = weights**2 * np.where(known, np.array([one.error for one in parts]), 0) ** 2
    mean = np.where(total > 0, (weights * means).sum(axis=0), np.nan)
    error = np.where(total > 0, np.sqrt(squares.sum(axis=0)), np.nan)
    per_freedom = (squares**2 / np.array([one.free for one in parts])).sum(axis=0)
    return Estimate(mean, error, total), per_freedom


def welch(group: Estimate, others: Sequence[Estimate]) -> tuple[Floats, Floats, Floats]:
    """The difference between a group and others together, and the ends of its 95% interval.

    Variances may differ (Welch 1947), as may those of the groups that are joined.

    >>> one = Estimate(np.array([0.5]), np.array([0.03]), np.array([40.0]))
    >>> two = Estimate(np.array([0.4]), np.array([0.04]), np.array([40.0]))
    >>> [float(end.round(3)[0]) for end in welch(one, [two])]
    [0.1, 0.0, 0.2]
    """
    rest, per_freedom = pooled(others)
    squares = group.error**2 + rest.error**2
    ratio = squares**2 / np.maximum(group.error**4 / group.free + per_freedom, 1e-300)
    free = np.floor(np.clip(np.nan_to_num(ratio, nan=1.0), 1, 1e9))
    half = student_quantile(0.975, free + 1) * np.sqrt(squares)
    difference = group.mean - rest.mean
    return difference, difference - half, difference + half


def group_differences(measure: str, frames: Frames, texts: Mapping[str, int]) -> pd.DataFrame:
    """Every number of a table of heads that has a standard error, compared between groups.

    `uniform_difference` is the difference that uniform attention shows on the same texts (0 for a
    number without that control), `beyond` the rest: the difference between groups of the
    difference from the control. `texts` are those of each group; a column `NAME_texts` says it
    better.
    """
    first = next(iter(frames.values()))
    names = [str(name) for name in first.columns if f"{name}_error" in first]
    parts = [
        _compared(measure, name, frames, texts, group, others)
        for name in names
        for group, others in contrasts(list(frames))
    ]
    empty = pd.DataFrame(columns=list(COLUMNS))
    return pd.concat(parts, ignore_index=True) if parts else empty


def with_corrections(table: pd.DataFrame) -> pd.DataFrame:
    """The differences of all tables, corrected for all heads, numbers and groups.

    `significant` by Benjamini-Hochberg at 5%, and the ends of the interval of `beyond`, widened to
    match.
    """
    comparisons = [
        Comparison(
            float(row["difference"]),
            float(row["uniform_difference"]),
            float(row["beyond_low"]),
            float(row["beyond_high"]),
            int(min(row["texts"], row["other_texts"])),
            "either",
        )
        for row in table.to_dict("records")
    ]
    return table.assign(**corrected(comparisons))


def contrasts(groups: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """What is compared: two groups with each other, each of several with all others.

    >>> list(contrasts("ab")), list(contrasts("abc"))[1]
    ([('a', ['b'])], ('b', ['a', 'c']))
    """
    for group in groups[:1] if len(groups) == 2 else groups:
        yield group, [one for one in groups if one != group]


def _compared(
    measure: str,
    name: str,
    frames: Frames,
    texts: Mapping[str, int],
    group: str,
    others: Sequence[str],
) -> pd.DataFrame:
    plain = {one: _estimate(frames[one], name, texts[one]) for one in frames}
    apart = {one: _from_control(frames[one], name, texts[one]) for one in frames}
    difference, low, high = welch(plain[group], [plain[one] for one in others])
    beyond, beyond_low, beyond_high = welch(apart[group], [apart[one] for one in others])
    rest, _ = pooled([plain[one] for one in others])
    heads = frames[group]
    return pd.DataFrame(
        {
            "measure": measure,
            "column": name,
            "layer": heads["layer"],
            "head": heads["head"],
            "group": group,
            "other": others[0] if len(others) == 1 else OTHERS,
            "value": plain[group].mean,
            "other_value": rest.mean,
            "difference": difference,
            "difference_low": low,
            "difference_high": high,
            "uniform_difference": difference - beyond,
            "beyond": beyond,
            "beyond_low": beyond_low,
            "beyond_high": beyond_high,
            "texts": plain[group].texts.astype(np.int64),
            "other_texts": rest.texts.astype(np.int64),
        }
    )[list(COLUMNS)]


def _estimate(frame: pd.DataFrame, name: str, texts: int) -> Estimate:
    counts = frame.get(f"{name}_texts", pd.Series(texts, index=frame.index))
    columns = (frame[name], frame[f"{name}_error"], counts)
    return Estimate(*(one.to_numpy(dtype=np.float64) for one in columns))


def _from_control(frame: pd.DataFrame, name: str, texts: int) -> Estimate:
    """A number minus its control, with the error of that; without a control the number itself."""
    own, control, error = (
        _estimate(frame, name, texts),
        f"{name}_uniform",
        f"{name}_difference_error",
    )
    if control not in frame or error not in frame:
        return own
    mean = own.mean - frame[control].to_numpy(dtype=np.float64)
    return Estimate(mean, frame[error].to_numpy(dtype=np.float64), own.texts)
