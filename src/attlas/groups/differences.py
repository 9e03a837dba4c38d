"""By how much do the numbers of a head differ between groups of texts?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from attlas.stats.verdicts import Comparison, corrected
from attlas.stats.welch import beyond_both, from_control, own_estimate, pooled, welch

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
Frames = Mapping[str, pd.DataFrame]  # by group


def group_differences(measure: str, frames: Frames, texts: Mapping[str, int]) -> pd.DataFrame:
    """Every number of a table of heads that has a standard error, compared between groups.

    `uniform_difference` is the difference that uniform attention shows on the same texts (0 for a
    number without that control), `beyond` how far the difference exceeds both that and none; 0
    between them. `texts` are those of each group; a column `NAME_texts` says it
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
            float(row["beyond"]),
            0.0,
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
    plain = {one: own_estimate(frames[one], name, texts[one]) for one in frames}
    apart = {one: from_control(frames[one], name, texts[one]) for one in frames}
    own = welch(plain[group], [plain[one] for one in others])
    without = welch(apart[group], [apart[one] for one in others])
    beyond = beyond_both(own, without)
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
            **dict(zip(("difference", "difference_low", "difference_high"), own, strict=True)),
            "uniform_difference": own[0] - without[0],
            **dict(zip(("beyond", "beyond_low", "beyond_high"), beyond, strict=True)),
            "texts": plain[group].texts.astype(np.int64),
            "other_texts": rest.texts.astype(np.int64),
        }
    )[list(COLUMNS)]
