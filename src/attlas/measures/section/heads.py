"""What measures know of every head beyond the claims of their sections."""

from __future__ import annotations

from attlas.measures.section.columns import FAR, GRADIENT, IMPORTANCE, offset_columns
from attlas.views.findings import analysed
from attlas.views.head_rows import Head, HeadRow, column_rows, is_known
from attlas.views.numbers import head_name, head_of
from attlas.views.section import Tables

NEAREST = 3  # heads


def position_rows(study: Tables) -> dict[Head, list[HeadRow]]:
    """The offset at which each head is furthest above uniform attention."""
    frame, texts = study.table("positions"), analysed(study, "positions")
    labels = {one.name: one.label for one in offset_columns(map(str, frame.columns))}
    out = {}
    for row in frame.to_dict("records"):
        above = {
            name: row[name] - row[f"{name}_uniform"]
            for name in labels
            if is_known(row[name]) and is_known(row[f"{name}_uniform"])
        }
        if not above:
            continue
        best = max(above, key=lambda name: above[name])
        found = HeadRow(
            label=f"{'attention' if best in FAR else 'attention at offset'} {labels[best]}",
            value=float(row[best]),
            control=float(row[f"{best}_uniform"]),
            control_name="uniform attention",
            kind="above",
            n=texts,
        )
        out[head_of(row)] = [found]
    return out


def importance_rows(study: Tables) -> dict[Head, list[HeadRow]]:
    """Estimates of importance against the median head; the effect of removal is a claim."""
    columns = [column for column in IMPORTANCE if column.name != "ablation"]
    texts = analysed(study, "importance")
    return column_rows(study.table("importance"), columns, texts=texts)


def special_gradient_rows(study: Tables) -> dict[Head, list[HeadRow]]:
    """How much the loss depends on attention to sorts of tokens, against all tokens."""
    columns = [column for column in GRADIENT if column.name != "all"]
    texts = analysed(study, "special_gradient")
    return column_rows(study.table("special_gradient"), columns, "all tokens", texts)


def head_distance_rows(study: Tables) -> dict[Head, list[HeadRow]]:
    """The nearest heads, against each head's divergence from uniform attention."""
    table, texts = study.table("head_distance"), analysed(study, "head_distance")
    is_other = (table["other_layer"] != table["layer"]) | (table["other_head"] != table["head"])
    known = table[is_other].dropna(subset=["mean", "mean_uniform"])
    near = known.sort_values("mean", kind="stable").groupby(["layer", "head"]).head(NEAREST)
    out: dict[Head, list[HeadRow]] = {}
    for row in near.to_dict("records"):
        other = head_name({"layer": row["other_layer"], "head": row["other_head"]})
        found = HeadRow(
            label=f"divergence from {other}",
            value=float(row["mean"]),
            unit="nats",
            control=float(row["mean_uniform"]),
            control_name="divergence from uniform attention",
            kind="below",
            n=texts,
            other=other,
        )
        out.setdefault(head_of(row), []).append(found)
    return out
