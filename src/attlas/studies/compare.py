"""How do two models differ on the same texts? From the tables of two studies alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from attlas.core.measure import RELIABILITY, REPLICATES, companion_table
from attlas.stats.replicates import paired_interval
from attlas.support.errors import StudyError

if TYPE_CHECKING:
    from attlas.studies.opened import Study

HEADS = ["layer", "head"]


def paired_differences(study: Study, other: Study, table: str) -> pd.DataFrame:
    """The differences of two studies of one corpus in a table of heads, with 95% intervals.

    One row per head: `layer head`, and for every column with bootstrap replicates
    `COLUMN_difference` (this study minus the other), `COLUMN_low` and `COLUMN_high`.
    """
    heads, others = _checked(study, other, table)
    replicates, other_replicates = (
        one.table(companion_table(table, REPLICATES)).sort_values(
            [*HEADS, "replicate"], kind="stable"
        )
        for one in (study, other)
    )
    reliability = study.table(companion_table(table, RELIABILITY)).set_index("column")
    texts = reliability["first_texts"] + reliability["second_texts"]
    names = [name for name in replicates if name not in (*HEADS, "replicate")]
    out = heads[HEADS].copy()
    for name in names:
        drawn, other_drawn = (
            rows[name].to_numpy().reshape(len(heads), -1) for rows in (replicates, other_replicates)
        )
        ends = paired_interval(heads[name], others[name], drawn, other_drawn, texts[name])
        for kind, values in zip(("difference", "low", "high"), ends, strict=True):
            out[f"{name}_{kind}"] = values
    return out


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
    if mine.manifest["corpus"].get("fingerprint") != theirs.manifest["corpus"].get("fingerprint"):
        names = [one.manifest["corpus"]["name"] for one in (mine, theirs)]
        raise StudyError(
            f"{mine.folder} is of other texts ({names[0]}) than {theirs.folder} ({names[1]}); "
            "paired differences need two studies of one corpus"
        )
    read = [one.manifest["counts"].get("read") for one in (mine, theirs)]
    if read[0] != read[1]:
        raise StudyError(
            f"{mine.folder} read {read[0]:,} texts of the corpus, {theirs.folder} {read[1]:,}; "
            "paired differences need the same texts"
        )
    heads, others = (one.table(table).sort_values(HEADS, kind="stable") for one in (mine, theirs))
    heads, others = heads.reset_index(drop=True), others.reset_index(drop=True)
    if not heads[HEADS].equals(others[HEADS]) or list(heads) != list(others):
        raise StudyError(
            f"{mine.folder} has other heads or columns in {table!r} than {theirs.folder}; "
            "compare models of one shape"
        )
    return heads, others
