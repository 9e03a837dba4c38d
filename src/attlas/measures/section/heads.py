"""What measures know of one head beyond the claims of their sections."""

from __future__ import annotations

from attlas.measures.section.columns import (
    FAR,
    GRADIENT,
    IMPORTANCE,
    TARGETS,
    offset_columns,
)
from attlas.views.findings import analysed
from attlas.views.head_rows import HeadExample, HeadRow, column_rows, is_known, row_of_head
from attlas.views.numbers import head_name, head_names, number
from attlas.views.section import Tables
from attlas.views.tables import TextTable
from attlas.views.texts import excerpt

NEAREST = 3  # heads


def position_rows(study: Tables, layer: int, head: int) -> list[HeadRow]:
    """The offset at which the head is furthest above uniform attention."""
    frame = study.table("positions")
    row = row_of_head(frame, layer, head)
    if row is None:
        return []
    labels = {one.name: one.label for one in offset_columns(map(str, frame.columns))}
    above = {
        name: row[name] - row[f"{name}_uniform"]
        for name in labels
        if is_known(row[name]) and is_known(row[f"{name}_uniform"])
    }
    if not above:
        return []
    best = max(above, key=lambda name: above[name])
    return [
        HeadRow(
            label=f"{'attention' if best in FAR else 'attention at offset'} {labels[best]}",
            value=float(row[best]),
            control=float(row[f"{best}_uniform"]),
            control_name="uniform attention",
            kind="above",
            n=analysed(study, "positions"),
        )
    ]


def importance_rows(study: Tables, layer: int, head: int) -> list[HeadRow]:
    """Estimates of importance against the median head; the effect of removal is a claim."""
    columns = [column for column in IMPORTANCE if column.name != "ablation"]
    texts = analysed(study, "importance")
    return column_rows(study.table("importance"), columns, (layer, head), texts=texts)


def special_gradient_rows(study: Tables, layer: int, head: int) -> list[HeadRow]:
    """How much the loss depends on attention to sorts of tokens, against all tokens."""
    columns = [column for column in GRADIENT if column.name != "all"]
    texts = analysed(study, "special_gradient")
    frame = study.table("special_gradient")
    return column_rows(frame, columns, (layer, head), "all tokens", texts)


def head_distance_rows(study: Tables, layer: int, head: int) -> list[HeadRow]:
    """The nearest heads, against the head's divergence from uniform attention."""
    table = study.table("head_distance")
    own = table[(table["layer"] == layer) & (table["head"] == head)]
    others = own[(own["other_layer"] != layer) | (own["other_head"] != head)]
    near = others.dropna(subset=["mean", "mean_uniform"]).nsmallest(NEAREST, "mean")
    return [
        HeadRow(
            label=f"divergence from {_other(row)}",
            value=float(row["mean"]),
            unit="nats",
            control=float(row["mean_uniform"]),
            control_name="divergence from uniform attention",
            kind="below",
            n=analysed(study, "head_distance"),
        )
        for row in near.to_dict("records")
    ]


def _other(row: dict[str, float]) -> str:
    return head_name({"layer": row["other_layer"], "head": row["other_head"]})


def score_label(name: str) -> str:
    """What a score of the table `examples` is called.

    >>> score_label("entropy"), score_label("sep")
    ('entropy below uniform', 'attention to [SEP]')
    """
    return (
        "entropy below uniform" if name == "entropy" else f"attention to {TARGETS.get(name, name)}"
    )


def head_examples(study: Tables, layer: int, head: int) -> list[HeadExample]:
    """The texts at quantiles of the score of a head."""
    table = study.table("examples")
    own = table[(table["layer"] == layer) & (table["head"] == head)]
    known = own.dropna(subset=["quantile", "score", "control"]).sort_values("quantile")
    return [
        HeadExample(
            quantile=float(row["quantile"]),
            text=str(row["text"]),
            begins=str(row["begins"]),
            score=float(row["score"]),
            control=float(row["control"]),
            label=score_label(row["score_of"]),
            unit="nats" if row["score_of"] == "entropy" else "",
        )
        for row in known.to_dict("records")
    ]


def examples_table(study: Tables) -> TextTable | None:
    """The scores of every head at quantiles, and the beginning of the text with the highest."""
    table = study.table("examples").dropna(subset=["quantile", "score", "control"])
    if table.empty:
        return None
    table = table.assign(name=head_names(table))
    scores = table.pivot_table("score", "name", "quantile", sort=False)
    scores = scores.reindex(columns=sorted(scores.columns))
    top = table[table["quantile"] == table["quantile"].max()].set_index("name")
    titles = ("head", *(f"{one:.0%}" for one in scores), "uniform", "text with the highest")
    rows = tuple(
        (name, *map(number, scores.loc[name]), number(row["control"]), excerpt(row["begins"]))
        for name, row in top.iterrows()
    )
    return TextTable(titles, rows, (True, *[False] * (len(titles) - 2), True))
