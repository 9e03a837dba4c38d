"""What a comparison of studies shows: grids of A, B and B minus A, the largest changes, matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from attlas.compare.charts import largest_chart, series_chart
from attlas.measures.section.columns import SHARE, column_words, declared_column, least_of
from attlas.views.charts import MUTED, head_grid
from attlas.views.claims import Claim, control_of_difference
from attlas.views.head_changes import Changes, HeadChanges, HeadRanking, ranking_rows
from attlas.views.numbers import decimal, head_name, head_names, some
from attlas.views.parts import Part
from attlas.views.section import Figure, LaterChart, Section, Tables, prose
from attlas.views.tables import Column, Kind, TextTable, text_table

TEXT = prose(__file__)["compare"]
MOST_HEADS = 14  # of a chart of the largest changes
STUDIES = (
    Column("study", "study", format="words"),
    Column("model", "model", format="words"),
    Column("corpus", "corpus", format="words"),
    Column("texts", "texts", format="count"),
)
MATCHES = (
    Column("name", "head of A", format="words"),
    Column("match", "matched to, in B", format="words"),
    Column("divergence", "divergence (nats)", format="three"),
    Column("nearest_other", "nearest other head of A (nats)", format="three"),
    Column(
        "difference",
        "difference (nats)",
        format="three",
        interval=("corrected_low", "corrected_high"),
    ),
    Column("again", "also on the other texts", format="words"),
)


def _changes(study: Tables) -> pd.DataFrame:
    """The changes with their names, whether they count, and whether another seed reverses them."""
    table = study.table("head_changes")
    least = [least_of(*pair) for pair in table[["measure", "column"]].itertuples(index=False)]
    large = table["beyond"].abs() >= np.array(least, dtype=float)
    counts = table["significant"].astype(bool) & large
    reverses = table["seed_difference"] * table["difference"] < 0
    return table.assign(
        key=table["measure"] + "." + table["column"],
        name=head_names(table),
        least=least,
        counts=counts,
        reverses=counts & reverses,
    )


def _claims(study: Tables) -> list[Claim]:
    """Every head and number, B minus A, against the difference that uniform attention shows."""
    return [_claim(row) for row in _changes(study).to_dict("records")]


def _claim(row: Mapping[Any, Any]) -> Claim:
    """A row in words."""
    what = column_words(row["measure"], row["column"])
    size = max(1.0, abs(float(row["value_a"])), abs(float(row["value_b"])))
    control, control_name, uniform = control_of_difference(row)
    also = [*uniform, f"two halves of A ±{decimal(row['halves'])}"]
    if row["seed_difference"] == row["seed_difference"]:
        also.append(f"another seed {decimal(row['seed_difference'])}")
    return Claim(
        f"{head_name(row)} changed its {what}",
        float(row["difference"]),
        float(row["difference_low"]),
        float(row["difference_high"]),
        control,
        control_name,
        float(row["beyond_low"]),
        float(row["beyond_high"]),
        texts=int(row["free"]),
        n=int(row["texts"]),
        also=tuple(also),
        what="B minus A",
        group=str(row["key"]),
        direction="either",
        bounds=(-size, size),
        least=float(row["least"]),
        # [CLS] is the first token: columns with the same numbers are one fact
        fact=f"{row['value_a']} {row['value_b']}",
    )


def _figures(study: Tables) -> list[Figure]:
    changes, names = _changes(study), _names(study)
    out = _grids(changes, names) if len(changes) else []
    if study.has("head_series") and len(study.table("head_series")):
        lines = study.table("head_series")
        chart = series_chart(lines, {key: column_words(*key.split(".", 1)) for key in _keys(lines)})
        out.append(TEXT.figure("series", chart, **names))
    if study.has("head_matches"):
        out.append(TEXT.figure("matches", table=_match_table(study.table("head_matches"))))
    return [*out, TEXT.figure("studies", table=text_table(study.table("compared"), STUDIES))]


def _names(study: Tables) -> dict[str, Any]:
    """What A and B are called: their models, or where these are the same, their letters."""
    rows = study.table("compared").set_index("study")["model"].to_dict()
    names = {one.lower(): str(rows.get(one, one)) for one in ("A", "B")}
    return names if names["a"] != names["b"] else {"a": "A", "b": "B"}


def _keys(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["measure"] + "." + table["column"]))


def _grids(changes: pd.DataFrame, names: dict[str, Any]) -> list[Figure]:
    """B minus A, on a page next to A and B; A against B; and the largest changes."""
    shown, first = _shown(changes), _first(changes)
    rows = ranking_rows(changes[changes["key"] == first]).head(MOST_HEADS)
    seed = "; a ring: another training run of B" if changes["seed_difference"].notna().any() else ""
    grid = LaterChart(lambda: head_grid(shown.frame, shown.columns, first))
    both = LaterChart(lambda: head_grid(shown.both, shown.plain, f"{first} b"))
    largest = LaterChart(lambda: largest_chart(rows, _label(first)))
    own = (names["a"], names["b"]) if names["a"] != "A" else ("", "")
    grids = HeadChanges(shown, changes, answers(changes), own)
    pages: list[tuple[Figure, Part]] = [
        (TEXT.figure("changes", grid, **names), grids),
        (TEXT.figure("largest", largest, seed=seed), HeadRanking(grids)),
        (TEXT.figure("both", both, **names), shown.scatter),
    ]
    return [replace(figure, page=(part,)) for figure, part in pages]


def _shown(changes: pd.DataFrame) -> Changes:
    """The changes with a column for each number, and the values of A and B in the same way."""
    wide = changes.set_index(["layer", "head"])
    keys, columns, kinds = _keys(changes), [], dict[str, Kind]()
    frame, both = dict[str, Any](), dict[str, Any]()
    for key in keys:
        rows, own = wide[wide["key"] == key], declared_column(*key.split(".", 1))
        label = column_words(*key.split(".", 1))
        columns.append(Column(key, label, own.unit, kind="signed", least=rows["least"].max()))
        kinds[key] = own.kind
        frame |= {key: rows["beyond"], f"{key}{MUTED}": ~rows["significant"].astype(bool)}
        for letter in "ab":
            both[f"{key} {letter}"] = rows[f"value_{letter}"]
            both[f"{key} {letter}_uniform"] = rows[f"uniform_{letter}"]
    first, second = (pd.DataFrame(one).sort_index().reset_index() for one in (frame, both))
    for key in keys:  # a head without this number
        first[f"{key}{MUTED}"] = first[f"{key}{MUTED}"].fillna(True).astype(bool)
    return Changes(first, second, tuple(columns), kinds, _first(changes))


def _first(changes: pd.DataFrame) -> str:
    """The number that is shown at first: that of the largest change that counts."""
    rows = changes[changes["counts"]]
    rows = rows if len(rows) else changes
    sizes = (rows["beyond"].abs() / rows["least"]).fillna(0)
    return str(rows["key"].loc[sizes.idxmax()])


def _label(key: str) -> str:
    unit = declared_column(*key.split(".", 1)).unit
    return column_words(*key.split(".", 1)) + (f", {unit}" if unit else "")


def answers(changes: pd.DataFrame) -> dict[str, str]:
    """The changes of each number in one or two sentences."""
    return {str(key): answer(rows) for key, rows in changes.groupby("key", sort=False)}


def answer(rows: pd.DataFrame) -> str:
    """How many heads rose and fell in one number, the means, and what another seed says."""
    first_row = rows.iloc[0]
    what = column_words(first_row["measure"], first_row["column"])
    counts = rows[rows["counts"]]
    least = decimal(first_row["least"])
    if counts.empty:
        return f"No head changed its {what} by {least} or more."
    up, down = int((counts["difference"] > 0).sum()), int((counts["difference"] < 0).sum())
    means = [decimal(rows[name].mean()) for name in ("value_b", "value_a", "uniform_a")]
    out = (
        f"{what[:1].upper()}{what[1:]} rose in {up} and fell in {down} of {len(rows)} heads by "
        f"{least} or more; mean {means[0]} in B, {means[1]} in A, uniform attention {means[2]}."
    )
    return f"{out} {_seed_words(counts)}".strip()


def _seed_words(counts: pd.DataFrame) -> str:
    """How many changes another training run repeats, and which it reverses."""
    known = counts[counts["seed_difference"].notna()]
    if known.empty:
        return ""
    same = int((known["seed_difference"] * known["difference"] > 0).sum())
    against = ranking_rows(known[known["reverses"]])["name"]
    more = (
        f"; {some(against)} {'reverses' if len(against) == 1 else 'reverse'}"
        if len(against)
        else ""
    )
    which = "of this change" if len(known) == 1 else f"of {same} of these {len(known)} changes"
    how = "does not repeat" if same == 0 and len(known) == 1 else "repeats"
    return f"Another seed {how} the sign {which}{more}."


def _warnings(study: Tables) -> list[str]:
    """Warnings if another seed reverses the largest changes."""
    changes = _changes(study)
    if changes.empty:
        return []
    rows = ranking_rows(changes[changes["key"] == _first(changes)]).head(2)
    against = rows.loc[rows["reverses"], "name"]
    if against.empty:
        return []
    return [
        f"Another training run reverses the largest changes ({some(against)}): they belong to the "
        "run, not to what was trained."
    ]


def _notes(study: Tables) -> list[str]:
    """The strongest number in a sentence, how texts were paired, and the matches."""
    changes = _changes(study)
    if len(changes):
        notes = [answer(changes[changes["key"] == _first(changes)]), _pairing(changes)]
    else:
        notes = ["A and B have no heads in common places; only matched heads are compared."]
    if study.has("head_matches") and len(study.table("head_matches")):
        notes.append(_match_words(study.table("head_matches")))
    return notes


def _pairing(changes: pd.DataFrame) -> str:
    """Whether intervals are paired, and how large differences between halves are."""
    paired, texts = bool(changes["paired"].all()), int(changes["texts"].min())
    how = f"paired over {texts:,} texts" if paired else "unpaired, as texts or tokens differ"
    rows = changes[changes["key"] == _first(changes)]
    return (
        f"Intervals are {how}; {int(changes['significant'].sum()):,} of {len(changes):,} "
        f"differences are significant after correction. Two random halves of A's texts differ by "
        f"up to {decimal(rows['halves'].max())} in {_label(_first(changes))}."
    )


def _match_words(matches: pd.DataFrame) -> str:
    nearer = matches["significant"] & (matches["difference"] < 0)
    moved = (matches["layer"] != matches["other_layer"]) | (
        matches["head"] != matches["other_head"]
    )
    return (
        f"{int(nearer.sum())} of {len(matches)} heads of A have a counterpart in B, nearer than "
        f"any other head of A; {int((nearer & moved).sum())} of these are in another place "
        f"(n = {int(matches['texts'].iloc[0]):,} texts)."
    )


def _match_table(matches: pd.DataFrame) -> TextTable:
    rows = matches.sort_values("divergence", ascending=False, kind="stable")
    rows = rows.assign(
        name=head_names(rows),
        match=head_names(rows, "other_layer", "other_head"),
        again=np.where(rows["stable"], "yes", "no"),
    )
    return text_table(rows, MATCHES)


def _texts_used(study: Tables) -> dict[str, float]:
    rows = study.table("compared")
    return {f"texts of {row.study}": row.texts for row in rows.itertuples()}


def _lines(study: Tables) -> list[TextTable]:
    return [text_table(study.table("compared"), STUDIES)]


SECTIONS: dict[str, Section] = {
    "compare": TEXT.section(
        needs=("head_changes", "compared"),
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
