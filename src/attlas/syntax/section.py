"""What syntax heads show: which head finds which relation, in charts, numbers and sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attlas.views.charts import Estimates, with_controls
from attlas.views.claims import Claim, whole
from attlas.views.head_rows import Head, HeadRow
from attlas.views.lines import Lines
from attlas.views.numbers import decimal, head_name, head_names, head_of
from attlas.views.parts import LinedSentences
from attlas.views.probes import probe_section
from attlas.views.section import Figure, Tables, prose
from attlas.views.tables import Column, TextTable, text_table
from attlas.views.vega import alt

TEXT = prose(__file__)["syntax"]
# The smallest difference of interest; section.md has the reason.
ACCURACY = 0.05
ALL = {"all": "all relations"}
FEWEST, MOST_ROWS = 10, 3  # cases of a relation, and relations, on the card of a head
RELATIONS = {  # of Universal Dependencies
    "acl": "clauses that modify nouns",
    "advcl": "adverbial clauses",
    "advmod": "adverbs",
    "amod": "adjectives",
    "appos": "appositions",
    "aux": "auxiliaries",
    "aux:pass": "passive auxiliaries",
    "case": "prepositions",
    "cc": "conjunctions",
    "ccomp": "clausal complements",
    "compound": "compounds",
    "compound:prt": "verb particles",
    "conj": "conjuncts",
    "cop": "copulas",
    "csubj": "clausal subjects",
    "det": "determiners",
    "expl": "expletives",
    "fixed": "fixed expressions",
    "flat": "flat names",
    "iobj": "indirect objects",
    "mark": "subordinating conjunctions",
    "nmod": "nominal modifiers",
    "nmod:poss": "possessives",
    "nsubj": "subjects",
    "nsubj:pass": "passive subjects",
    "nummod": "numbers",
    "obj": "direct objects",
    "obl": "oblique nominals",
    "parataxis": "parataxis",
    "xcomp": "open clausal complements",
}
_PAIRED = "random_difference_low"  # not in tables of earlier versions
DIRECTIONS = {"dependent->head": "dependent to head", "head->dependent": "head to dependent"}
COLUMNS = (
    Column("relation", "relation", format="words", words=ALL),
    Column("name", "head", format="words"),
    Column("direction", "attention from", format="words", words=DIRECTIONS),
    Column("accuracy", "accuracy", kind="above", interval=("low", "high"), control="baseline"),
    Column("baseline", "best offset"),
    Column("offset", "offset", format="offset"),
    Column("random_accuracy", "random weights"),
    Column(
        "difference",
        "above offset",
        format="difference",
        interval=("difference_low", "difference_high"),
    ),
    Column("n", "n", format="count"),
)


def relations(frame: pd.DataFrame) -> alt.HConcatChart:
    """The best head of each relation; grey is the best fixed offset, hollow random weights."""
    data = frame.assign(
        row=frame["relation"].replace(ALL).map(_called) + "  " + head_names(frame),
        panel="share of words whose syntactic head is found",
        value=frame["accuracy"],
    )
    also = "random_accuracy" if "random_accuracy" in data else None
    labels = {"row": "relation", "baseline": "best offset", "random_accuracy": "random weights"}
    what = Estimates("row", "panel", "baseline", also=also, width=420, labels=labels)
    return with_controls(data, what)


def study_lines(study: Tables) -> tuple[Lines, ...]:
    """The example sentences of a study with syntax heads."""
    arcs, words = study.table("example_arcs"), study.table("example_words")
    out = []
    for example, rows in arcs.groupby("example", sort=True):
        strings = tuple(words[words["example"] == example].sort_values("word")["string"])
        weights = np.zeros((len(strings),) * 2)
        weights[rows["query"], rows["key"]] = rows["weight"].fillna(0)
        first, gold = rows.iloc[0], rows[rows["gold"]]
        begins = " ".join(string for string in strings[:9] if not string.startswith("["))
        about = (
            f"{first['relation']}, {head_name(first)}, {first['direction'].replace('->', ' → ')}"
        )
        pairs = tuple(zip(gold["query"].tolist(), gold["key"].tolist(), strict=True))
        title = f"{about}: {begins} ..."
        special = _special_words(strings)
        out.append(Lines(title, strings, weights, pairs, about, str(first["relation"]), special))
    return tuple(out)


def _special_words(strings: Sequence[str]) -> tuple[int, ...]:
    """The first and the last word, if they are special tokens.

    >>> _special_words(("[CLS]", "It", "works", "[SEP]")), _special_words(("It", "works"))
    ((0, 3), ())
    """
    ends = sorted({0, len(strings) - 1} & set(range(len(strings))))
    return tuple(at for at in ends if re.fullmatch(r"\[[A-Z]+\]|<[^<>]+>", strings[at]))


def _figures(study: Tables) -> list[Figure]:
    table, same = study.table("syntax"), study.table("syntax_published")
    if table.empty:
        return []
    out = [
        TEXT.figure("relations", relations(table), table=_table(table)),
        TEXT.figure("published", table=_table(same.drop(columns="difference"))),
    ]
    if study.has("example_arcs") and (sentences := study_lines(study)):
        out.append(TEXT.figure("examples", parts=(LinedSentences(sentences),)))
    return out


def _table(frame: pd.DataFrame) -> TextTable:
    return text_table(frame.assign(name=head_names(frame)), COLUMNS)


def _claims(study: Tables) -> list[Claim]:
    """Every chosen head against the best fixed offset of its relation, or random weights."""
    return [
        _claim(row)
        for row in study.table("syntax").to_dict("records")
        if not pd.isna(row["accuracy"])
    ]


def _claim(row: Mapping[Any, Any]) -> Claim:
    """A chosen head against the stronger of two controls.

    Where heads lie anywhere in a sentence, an offset often points beyond its end, and the best head
    of random weights does better.
    """
    words, random = f"{head_name(row)} {_points(row)}", _random(row)
    offset = f"best fixed offset ({int(row['offset']):+d})"
    counts = {"n": row["n"], "group": str(row["relation"]), "head": head_of(row)}
    counts |= {"label": f"accuracy: {_called(row['relation'])}"}
    if random <= row["baseline"] or pd.isna(random):
        also = () if pd.isna(random) else (f"random weights {decimal(random)}",)
        return Claim.of_row(words, row, "accuracy", "baseline", offset, also=also, **counts)
    rival = {"accuracy": random, "low": row["random_low"], "high": row["random_high"]}
    also, columns = (f"{offset} {decimal(row['baseline'])}",), ("accuracy", "low", "high")
    counts |= {"texts": whole(row.get("texts")), "also": also}
    paired = (
        (row["random_difference_low"], row["random_difference_high"]) if _PAIRED in row else None
    )
    return Claim.against(words, row, rival, "random weights", columns, paired, **counts)


def _points(row: Mapping[Any, Any]) -> str:
    """What a head does, in its direction.

    >>> _points({"relation": "det", "direction": "dependent->head"})
    'points from determiners (det) to their syntactic heads'
    >>> _points({"relation": "all", "direction": "head->dependent"})
    'points from syntactic heads to their dependents'
    """
    is_all, to_heads = row["relation"] == "all", row.get("direction") != "head->dependent"
    if is_all:
        ends = (
            "words to their syntactic heads" if to_heads else "syntactic heads to their dependents"
        )
        return f"points from {ends}"
    called = _called(row["relation"])
    if to_heads:
        return f"points from {called} to their syntactic heads"
    return f"points to {called} from their syntactic heads"


def _called(relation: str) -> str:
    """A relation in words, with its code.

    >>> _called("obj"), _called("dep:other"), _called("all")
    ('direct objects (obj)', 'dep:other', 'the syntactic heads of all words')
    """
    if relation == "all":
        return "the syntactic heads of all words"
    return f"{RELATIONS[relation]} ({relation})" if relation in RELATIONS else relation


def _random(row: Mapping[Any, Any]) -> float:
    return float(row.get("random_accuracy", math.nan))


def _head_rows(study: Tables) -> dict[Head, list[HeadRow]]:
    """What each head finds furthest above the best fixed offset; chosen afterwards, no verdict.

    Relations that a head is chosen for are claimed.
    """
    if not study.has("syntax_offsets"):
        return {}
    offsets = study.table("syntax_offsets").dropna(subset=["accuracy"])
    best = offsets.sort_values("accuracy", kind="stable").groupby("relation").tail(1)
    best = best.rename(columns={"accuracy": "baseline"})[["relation", "offset", "baseline"]]
    table = study.table("syntax_heads").dropna(subset=["accuracy"])
    table = table[table["n"] >= FEWEST].merge(best, on="relation")
    keys = ["layer", "head", "relation"]
    claimed = pd.MultiIndex.from_frame(study.table("syntax")[keys])
    table = table[~pd.MultiIndex.from_frame(table[keys]).isin(claimed)]
    above = table.assign(above=table["accuracy"] - table["baseline"])
    above = above[above["above"] > 0].sort_values("above", ascending=False, kind="stable")
    out: dict[Head, list[HeadRow]] = {}
    for row in above.groupby(["layer", "head"]).head(MOST_ROWS).to_dict("records"):
        way = DIRECTIONS.get(row["direction"], row["direction"])
        found = HeadRow(
            label=f"accuracy: {_called(row['relation'])}, {way}",
            value=float(row["accuracy"]),
            control=float(row["baseline"]),
            control_name=f"best fixed offset ({int(row['offset']):+d})",
            kind="above",
            n=whole(row["n"]),
        )
        out.setdefault(head_of(row), []).append(found)
    return out


def _notes(study: Tables) -> list[str]:
    """Relations for which an offset does better."""
    table = study.table("syntax")
    below = table[(table["relation"] != "all") & (table["difference_high"] < 0)]
    names = ", ".join(below["relation"])
    return [f"A fixed offset does better than the chosen head for {names}."] if names else []


def _lines(study: Tables) -> list[TextTable]:
    hidden = ["direction", "difference"]
    return [_table(study.table("syntax").drop(columns=hidden))]


SECTIONS = {
    "syntax": probe_section(
        TEXT,
        ("syntax", "syntax_heads"),
        figures=_figures,
        claims=_claims,
        smallest_effect=ACCURACY,
        head_rows=_head_rows,
        notes=_notes,
        terminal=_lines,
    )
}
