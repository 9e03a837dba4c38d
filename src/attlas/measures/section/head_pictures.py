"""Small pictures of every head from the tables of measures, each next to its control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from attlas.measures.section.columns import ENTROPY, IMPORTANCE, SURFACE, offset_columns
from attlas.measures.section.findings import with_median_head
from attlas.views.head_profiles import Floats, HeadProfile, column_profile, head_values
from attlas.views.section import Tables
from attlas.views.tables import Column

SHORT = {  # targets, as a small picture has room for them
    "previous": "previous",
    "next": "next",
    "self": "itself",
    "first": "first",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "punctuation": ". and ,",
}


def position_profiles(study: Tables) -> list[HeadProfile]:
    """The share of attention at each offset."""
    table = study.table("positions")
    columns = offset_columns(map(str, table.columns))
    about = {"x": "offset, key minus query", "scale": "own", "unit": "share of attention"}
    return _profile(study, table, columns, title="Offset profile", picture="bars", **about)


def surface_profiles(study: Tables) -> list[HeadProfile]:
    """The share of attention to each simple target; [CLS] is the first token where there is one."""
    table = study.table("surface")
    shown = [one for one in SURFACE if one.name in SHORT and one.name in table]
    known = [one for one in shown if table[one.name].notna().any()]
    has_cls = any(one.name == "cls" for one in known)
    columns = [
        replace(one, label=SHORT[one.name]) for one in known if one.name != "first" or not has_cls
    ]
    about = {"x": "targets may coincide, such as previous and [CLS]" if has_cls else "targets"}
    return _profile(
        study, table, columns, title="Targets", picture="rows", unit="share of attention", **about
    )


def entropy_profiles(study: Tables) -> list[HeadProfile]:
    """The mean entropy in texts of similar length; earlier versions have no such table."""
    if not study.has("entropy_by_length"):
        return []
    table = study.table("entropy_by_length").dropna(subset=["entropy", "uniform"])
    bins = sorted(set(zip(table["from"].tolist(), table["to"].tolist(), strict=True)))
    if not bins:
        return []
    shape = (study.n_layers, study.n_heads)
    parts = [table[table["from"] == first] for first, _ in bins]
    values, control = (
        np.concatenate([head_values(part, [name], *shape) for part in parts], axis=-1)
        for name in ("entropy", "uniform")
    )
    return [
        HeadProfile(
            title="Entropy by length",
            picture="line",
            values=values,
            control=control,
            control_name="uniform attention",
            labels=tuple(f"{first:,} to {last:,}" for first, last in bins),
            x="tokens of a text",
            unit=ENTROPY[0].unit,
            kind="below",
        )
    ]


def heatmap_profiles(study: Tables) -> list[HeadProfile]:
    """The average heat map, each head on its own scale."""
    table, uniform = study.table("heatmap"), study.table("heatmap_uniform")
    cells = sum(str(name)[:1] == "c" and str(name)[1:].isdecimal() for name in table.columns)
    names = [f"c{cell}" for cell in range(cells)]
    layers, heads = study.n_layers, study.n_heads
    values = np.full((layers, heads, cells, cells), np.nan)
    control = np.full((layers, 1, cells, cells), np.nan)
    _fill(values, table, names)
    _fill(control, uniform.assign(head=0), names)
    return [
        HeadProfile(
            title="Average heat map",
            picture="tile",
            values=values,
            control=control,
            control_name="uniform attention",
            x="queries down, keys across",
            unit="share of attention",
            kind="above",
            scale="own",
        )
    ]


def _fill(tiles: Floats, frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Write the rows of a table of heat maps into tiles [layer, head, row, cell]."""
    inside = (frame["layer"] < tiles.shape[0]) & (frame["head"] < tiles.shape[1])
    rows = frame[inside & (frame["row"] < tiles.shape[2])]
    where = (rows[key].to_numpy(dtype=int) for key in ("layer", "head", "row"))
    tiles[tuple(where)] = rows[list(names)].to_numpy()


def importance_profiles(study: Tables) -> list[HeadProfile]:
    """What removing each head does to the loss, or its estimate: all heads in order."""
    table = with_median_head(study.table("importance"))
    name, title = "ablation", "Removal, all heads"
    if name not in table or table[name].isna().all():
        name, title = "importance", "Importance, all heads"
    values = head_values(table, [name], study.n_layers, study.n_heads)[..., 0]
    if not np.isfinite(values).any():
        return []
    column = next(one for one in IMPORTANCE if one.name == name)
    median = np.asarray(np.nanmedian(values))
    if column.control in table:
        median = head_values(table, [column.control], *values.shape)[..., 0]
    return [
        HeadProfile(
            title=title,
            picture="ranks",
            values=values,
            control=median,
            control_name="median head",
            x="heads, largest first",
            unit=column.label,
            kind="plain",
        )
    ]


def _profile(
    study: Tables, table: pd.DataFrame, columns: Sequence[Column], **about: Any
) -> list[HeadProfile]:
    """A picture of columns of a head-level table, against uniform attention."""
    shape = (study.n_layers, study.n_heads)
    return column_profile(table, columns, shape, control_name="uniform attention", **about)
