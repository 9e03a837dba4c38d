"""How do two models differ on the same texts? From the tables of two studies alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attlas.core.measure import RELIABILITY, REPLICATES, companion_table
from attlas.stats.replicates import paired_interval
from attlas.stats.verdicts import Comparison, corrected
from attlas.support.errors import StudyError

if TYPE_CHECKING:
    from attlas.studies.opened import Study

HEADS = ["layer", "head"]


def paired_differences(study: Study, other: Study, table: str) -> pd.DataFrame:
    """The differences of two studies of one corpus in a table of heads, with 95% intervals.

    One row per head: `layer head`, and for every column with bootstrap replicates
    `COLUMN_difference` (this study minus the other), `COLUMN_low` and `COLUMN_high`; then, for all
    heads and columns together, `COLUMN_significant` by Benjamini-Hochberg at 5%, and the ends
    `COLUMN_corrected_low` and `COLUMN_corrected_high` of intervals that are widened to match.
    """
    heads, others = _checked(study, other, table)
    replicates, other_replicates = (
        one.table(companion_table(table, REPLICATES)).sort_values(
            [*HEADS, "replicate"], kind="stable"
        )
        for one in (study, other)
    )
    texts = np.minimum(_texts(study, table), _texts(other, table))
    names = [name for name in replicates if name not in (*HEADS, "replicate")]
    out, comparisons = heads[HEADS].copy(), []
    for name in names:
        drawn, other_drawn = (
            rows[name].to_numpy().reshape(len(heads), -1) for rows in (replicates, other_replicates)
        )
        ends = paired_interval(heads[name], others[name], drawn, other_drawn, texts[name])
        for kind, values in zip(("difference", "low", "high"), ends, strict=True):
            out[f"{name}_{kind}"] = values
        numbers = zip(heads[name], others[name], *ends[1:], strict=True)
        free = min(int(texts[name]), drawn.shape[-1])  # as for the interval
        comparisons += [
            Comparison(float(value), float(control), float(low), float(high), free, "either")
            for value, control, low, high in numbers
        ]
    by_column = {
        kind: values.reshape(len(names), -1) for kind, values in corrected(comparisons).items()
    }
    together = {
        f"{name}_{kind}": values[number]
        for number, name in enumerate(names)
        for kind, values in by_column.items()
    }
    return out.join(pd.DataFrame(together, index=out.index))


def _texts(study: Study, table: str) -> pd.Series[int]:
    """How many texts each column of a table of heads is a mean over."""
    halves = study.table(companion_table(table, RELIABILITY)).set_index("column")
    return halves["first_texts"] + halves["second_texts"]


def unpaired_reason(study: Study, other: Study) -> str:
    """Why the texts of two studies cannot be paired; empty if they can."""
    if study.manifest["corpus"].get("fingerprint") != other.manifest["corpus"].get("fingerprint"):
        names = [one.manifest["corpus"]["name"] for one in (study, other)]
        return (
            f"{study.folder} is of other texts ({names[0]}) than {other.folder} ({names[1]}); "
            "paired differences need two studies of one corpus"
        )
    read = [one.manifest["counts"].get("read") for one in (study, other)]
    if read[0] != read[1]:
        return (
            f"{study.folder} read {read[0]:,} texts of the corpus, {other.folder} {read[1]:,}; "
            "paired differences need the same texts"
        )
    return ""


def measure_of(study: Study, table: str) -> str | None:
    """The measure that made a table, with its parameters."""
    measures: dict[str, str] = study.manifest.get("measures") or {}
    return measures.get(study.manifest["tables"][table].get("measure", ""))


def _checked(study: Study, other: Study, table: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables of heads of two studies; refused if they have no pairs of replicates."""
    for one in (study, other):
        for name in (table, companion_table(table, REPLICATES)):
            if not one.has(name):
                raise StudyError(
                    f"{one.folder} has no table {name!r}; compare tables of heads that have "
                    "bootstrap replicates, such as 'surface' and 'entropy'"
                )
    mine, theirs = (one.study_with_table(table) for one in (study, other))
    if reason := unpaired_reason(mine, theirs):
        raise StudyError(reason)
    measures = [measure_of(one, table) for one in (mine, theirs)]
    if measures[0] != measures[1]:
        raise StudyError(
            f"{mine.folder} has {table!r} of {measures[0]}, {theirs.folder} of {measures[1]}; "
            "paired differences need one measure with the same parameters"
        )
    heads, others = (one.table(table).sort_values(HEADS, kind="stable") for one in (mine, theirs))
    heads, others = heads.reset_index(drop=True), others.reset_index(drop=True)
    if not heads[HEADS].equals(others[HEADS]) or list(heads) != list(others):
        raise StudyError(
            f"{mine.folder} has other heads or columns in {table!r} than {theirs.folder}; "
            "compare models of one shape"
        )
    return heads, others
