"""What differences between groups show: grids of heads, claims and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from attlas.measures.section.columns import SHARE, column_words, least_of
from attlas.stats.verdicts import judge
from attlas.views.charts import MUTED
from attlas.views.claims import Claim, control_of_difference, whole
from attlas.views.numbers import head_name
from attlas.views.section import Figure, Tables, prose, with_head_grid
from attlas.views.tables import Column, TextTable, text_table

TEXT = prose(__file__)["groups"]
MOST_GRIDS = 8  # groups whose differences are drawn
LENGTHS = 1.25  # how many times as long texts of one group may be without a warning
COLUMNS = (
    Column("group", "group", format="words"),
    Column("texts", "texts", format="count"),
    Column("tokens", "tokens", format="count"),
    Column("length", "tokens per text"),
)


def _claims(study: Tables) -> list[Claim]:
    """Every head, number and group against what uniform attention shows."""
    table = study.table("group_differences")
    ends = table.groupby(["measure", "column"])[["value", "other_value"]].transform("max").max(1)
    rows = table.assign(most=ends.clip(lower=1.0)).to_dict("records")
    return [_claim(row) for row in rows]


def _claim(row: Mapping[Any, Any]) -> Claim:
    """A row in words."""
    what = column_words(row["measure"], row["column"])
    group, other = row["group"], row["other"]
    texts = whole(row["texts"]), whole(row["other_texts"])
    control, control_name, also = control_of_difference(row)
    return Claim(
        f"{head_name(row)} differs in {what} between {group} and {other}",
        float(row["difference"]),
        float(row["difference_low"]),
        float(row["difference_high"]),
        control,
        control_name,
        float(row["beyond_low"]),
        float(row["beyond_high"]),
        texts=min(texts),
        n=sum(texts),
        also=also,
        what=f"{group} minus {other}",
        group=f"{row['measure']} {row['column']} {group}",
        label=_label(row),
        direction="either",
        bounds=(-float(row["most"]), float(row["most"])),
        least=least_of(row["measure"], row["column"]),
        # [CLS] is the first token: columns with the same numbers are one fact
        fact=f"{group} {row['value']} {row['other_value']}",
    )


def significant(study: Tables) -> pd.DataFrame:
    """The differences with an interval, and whether each is significant after correction."""
    table, claims = study.table("group_differences"), _claims(study)
    known = np.array([claim.comparison.has_interval for claim in claims], dtype=bool)
    judged = judge([claim.comparison for claim in claims], SHARE)
    sure = np.array([one.significant for one in judged], dtype=bool)
    return table.loc[known].assign(significant=sure)


def _figures(study: Tables) -> list[Figure]:
    table, groups = significant(study), study.table("groups")
    out = []
    pairs = table[["group", "other"]].drop_duplicates().head(MOST_GRIDS)
    for number, (group, other) in enumerate(pairs.itertuples(index=False, name=None)):
        rows = table[(table["group"] == group) & (table["other"] == other)]
        words = TEXT.figure("heads", group=group, other=other)
        figure = with_head_grid(words, *_grid(rows))
        out.append(replace(figure, name=f"heads-{number}") if len(pairs) > 1 else figure)
    if len(groups):
        out.append(TEXT.figure("groups", table=_table(study)))
    return out


def _grid(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[Column], str | None]:
    """The differences of one group: a row per head, a column per number, and which is first."""
    names = rows["measure"] + "." + rows["column"]
    frame = rows[["layer", "head"]].drop_duplicates().sort_values(["layer", "head"])
    columns = []
    for name in dict.fromkeys(names):
        some = rows[names == name]
        first_row = some.iloc[0]
        number = first_row["measure"], first_row["column"]
        columns.append(Column(name, _label(first_row), kind="signed", least=least_of(*number)))
        values = some[["layer", "head"]].assign(
            **{name: some["beyond"], f"{name}{MUTED}": ~some["significant"]}
        )
        frame = frame.merge(values, on=["layer", "head"], how="left")
    strongest = rows[rows["significant"]]["beyond"].abs().dropna()
    first = names[strongest.idxmax()] if len(strongest) else None
    return frame.reset_index(drop=True), columns, first


def _label(row: Mapping[Any, Any]) -> str:
    """What a difference is called, in claims and in grids."""
    words = column_words(row["measure"], row["column"])
    return f"{words}, {row['group']} minus {row['other']}, beyond the control"


def _table(study: Tables) -> TextTable:
    groups = study.table("groups")
    return text_table(groups.assign(length=groups["tokens"] / groups["texts"]), COLUMNS)


def _texts_used(study: Tables) -> dict[str, float]:
    groups = study.table("groups")
    return {f"texts of {row.group}": row.texts for row in groups.itertuples()}


def _warnings(study: Tables) -> list[str]:
    """A warning if the texts of one group are longer than those of another."""
    groups = study.table("groups")
    length = (groups["tokens"] / groups["texts"].where(groups["texts"] > 0)).dropna()
    if length.empty or not length.max() > LENGTHS * length.min():
        return []
    long, short = groups.loc[length.idxmax()], groups.loc[length.idxmin()]
    return [
        f"Texts of {long['group']} have {length.max():.0f} tokens on average, those of "
        f"{short['group']} {length.min():.0f}: differences may be due to length, which the control "
        "allows for only in part."
    ]


def _notes(study: Tables) -> list[str]:
    """How many differences there are, and groups that could not be compared."""
    table, groups = significant(study), study.table("groups")
    out = []
    if len(table):
        out.append(
            f"{int(table['significant'].sum()):,} of {len(table):,} differences are significant "
            "after correction."
        )
    alone = groups[groups["texts"] < 2]["group"].tolist()
    if alone:
        out.append(f"Groups of fewer than two texts are not compared: {', '.join(alone)}.")
    if (more := table["group"].nunique() - MOST_GRIDS) > 0:
        out.append(f"The differences of {more} more groups are in the table group_differences.")
    return out


def _lines(study: Tables) -> list[TextTable]:
    return [_table(study)]


SECTIONS = {
    "groups": TEXT.section(
        needs=("group_differences", "groups"),
        figures=_figures,
        claims=_claims,
        smallest_effect=SHARE,
        texts_used=_texts_used,
        warnings=_warnings,
        notes=_notes,
        terminal=_lines,
        order=1,
    )
}
