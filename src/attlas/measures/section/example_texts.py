"""Texts in which a head does most, and least, of what it does, with lines between their tokens."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from attlas.measures.section.columns import TARGETS
from attlas.views.head_rows import ExampleToken, Head, HeadExample
from attlas.views.numbers import head_names, head_of, number, percent
from attlas.views.section import Tables
from attlas.views.tables import TextTable
from attlas.views.texts import excerpt

LINES_PER_TOKEN, FEWEST_LINES = 2, 8  # of a text
MOST_LINES = 120_000  # of all texts of all heads


def score_label(name: str) -> str:
    """What a score of the table `examples` is called.

    >>> score_label("entropy"), score_label("sep")
    ('entropy below uniform', 'attention to [SEP]')
    """
    return (
        "entropy below uniform" if name == "entropy" else f"attention to {TARGETS.get(name, name)}"
    )


def head_examples(study: Tables) -> dict[Head, list[HeadExample]]:
    """The texts at quantiles of the score of each head, with the largest weights between tokens."""
    known = study.table("examples").dropna(subset=["quantile", "score", "control"])
    tokens = _example_tokens(study)
    lines = _example_lines(study, {place: len(some) for place, some in tokens.items()})
    out: dict[Head, list[HeadExample]] = {}
    for row in known.sort_values("quantile", kind="stable").to_dict("records"):
        found = HeadExample(
            quantile=float(row["quantile"]),
            text=str(row["text"]),
            begins=str(row["begins"]),
            score=float(row["score"]),
            control=float(row["control"]),
            label=score_label(row["score_of"]),
            unit="nats" if row["score_of"] == "entropy" else "",
            tokens=tokens.get(row["place"], ()),
            lines=lines.get((*head_of(row), row["place"]), ()),
        )
        out.setdefault(head_of(row), []).append(found)
    return out


def _example_tokens(study: Tables) -> dict[int, tuple[ExampleToken, ...]]:
    """The tokens of the example texts by their place."""
    if not study.has("examples_tokens"):
        return {}
    table = study.table("examples_tokens").sort_values(["place", "token"], kind="stable")
    stops = table.groupby("place")["stop"].shift(fill_value=-1)
    special = table["start"] < 0
    columns = table["string"].astype(str), (table["start"] == stops) & ~special, special
    tokens = [ExampleToken(*row) for row in zip(*map(list, columns), strict=True)]
    rows = pd.Series(range(len(tokens))).groupby(table["place"].to_numpy())
    return {int(place): tuple(tokens[at] for at in some) for place, some in rows}


def _example_lines(
    study: Tables, sizes: Mapping[int, int]
) -> dict[tuple[int, int, int], tuple[tuple[int, int, float], ...]]:
    """The largest weights above uniform attention, by layer, head and place of a text.

    Of a causal model, in which no query sees a later key, uniform attention is over earlier ones.
    """
    if not study.has("examples_keys"):
        return {}
    table = study.table("examples_keys").dropna(subset=["weight"])
    table = table[table["place"].isin(list(sizes))]
    n_tokens = table["place"].map(sizes)
    causal = not (table["key"] > table["query"]).any()
    uniform = 1 / (table["query"] + 1 if causal else n_tokens.clip(lower=1))
    keys = ["layer", "head", "place"]
    above = table[table["weight"] > uniform].sort_values("weight", ascending=False, kind="stable")
    n_texts = max(1, len(above[keys].drop_duplicates()))
    most = n_tokens.loc[above.index] * LINES_PER_TOKEN
    rank = above.groupby(keys).cumcount()
    shown = above[rank < most.clip(upper=max(FEWEST_LINES, MOST_LINES // n_texts))]
    lines = list(zip(*(shown[name].tolist() for name in ("query", "key", "weight")), strict=True))
    rows = pd.Series(range(len(lines))).groupby([shown[name].to_numpy() for name in keys])
    return {
        (int(layer), int(head), int(place)): tuple(lines[at] for at in some)
        for (layer, head, place), some in rows
    }


def examples_table(study: Tables) -> TextTable | None:
    """The scores of every head at quantiles, and the beginning of the text with the highest."""
    table = study.table("examples").dropna(subset=["quantile", "score", "control"])
    if table.empty:
        return None
    table = table.assign(name=head_names(table))
    scores = table.pivot_table("score", "name", "quantile", sort=False)
    scores = scores.reindex(columns=sorted(scores.columns))
    top = table[table["quantile"] == table["quantile"].max()].set_index("name")
    titles = ("head", *map(percent, scores), "uniform", "text with the highest")
    rows = tuple(
        (name, *map(number, scores.loc[name]), number(row["control"]), excerpt(row["begins"]))
        for name, row in top.iterrows()
    )
    return TextTable(titles, rows, (True, *[False] * (len(titles) - 2), True))
