"""Texts with attention above their words and attribution below, as a part of a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attlas.core.alignment import word_sums
from attlas.explain.kinds import METHODS
from attlas.explain.section.findings import named
from attlas.explain.section.picture import aligned_svg
from attlas.explain.section.texts import is_signed, methods_of, uniform_of
from attlas.support.arrays import Floats, Ints
from attlas.views.modules import View
from attlas.views.overlay import word_of
from attlas.views.section import Tables

if TYPE_CHECKING:
    from attlas.explain.explanation import Explanation

EXPLANATION = View("explanation", __name__.rpartition(".")[0])
DIGITS = 4  # of the numbers in a page
TITLE = "Attention above, attribution below"
ALL_HEADS = "attention_all"  # what goes with one explanation
LEVEL = 0.9  # of a band that a dot can be outside of


@dataclass(frozen=True, eq=False)
class Row:
    """The scores of words by one method: with its uniform attention, or for and against."""

    method: str
    values: Floats  # word
    uniform: Floats | None = None  # word
    signed: bool = False

    @property
    def data(self) -> dict[str, Any]:
        out = {"name": named(self.method), "values": rounded(self.values), "signed": self.signed}
        return out if self.uniform is None else {**out, "uniform": rounded(self.uniform)}


@dataclass(frozen=True)
class TextAgreement:
    """Kendall's tau of two methods in one text, its band by circular shifts, and as published."""

    left: str
    right: str
    keep: str
    tau: float
    low: float
    high: float
    level: float
    shifts: int
    kept: int
    published: float = math.nan
    published_chance: float = math.nan

    @property
    def outside(self) -> bool:
        """Whether tau is outside its band, and the band wide enough to say so."""
        return self.level >= LEVEL and not self.low <= self.tau <= self.high

    @property
    def data(self) -> dict[str, Any]:
        numbers = ("tau", "low", "high", "level", "published", "published_chance")
        known = {name: rounded([getattr(self, name)])[0] for name in numbers}
        words = {"left": named(self.left), "right": named(self.right), "keep": self.keep}
        counts = {"shifts": self.shifts, "kept": self.kept, "outside": self.outside}
        return {**words, **known, **counts}


@dataclass(frozen=True, eq=False)
class AlignedText:
    """The words of one text with their scores, and how far these agree."""

    text: str
    title: str
    target: str
    words: tuple[str, ...]
    special: tuple[int, ...]
    attention: tuple[Row, ...]
    attribution: Row | None
    agreement: tuple[TextAgreement, ...] = ()

    @property
    def data(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "title": self.title,
            "target": self.target,
            "words": list(self.words),
            "special": list(self.special),
            "attention": [one.data for one in self.attention],
            "attribution": None if self.attribution is None else self.attribution.data,
            "agreement": [one.data for one in self.agreement],
        }


@dataclass(frozen=True, eq=False)
class AlignedTexts:
    """Texts with attention above their words and attribution below, one shown at a time."""

    texts: tuple[AlignedText, ...]
    view: View = field(default=EXPLANATION)

    @property
    def data(self) -> Any:
        return [one.data for one in self.texts]

    def html(self, number: int) -> str:
        return self.view.html(number, kind="attlas-explanation")

    def pictures(self) -> list[str]:
        return [aligned_svg(one) for one in self.texts]


def rounded(values: Sequence[float] | Floats) -> list[float | None]:
    """Numbers to a few digits, as JSON takes them.

    >>> rounded([0.123456, float("nan"), 12345.6])
    [0.1235, None, 12350.0]
    """
    return [float(f"{one:.{DIGITS}g}") if math.isfinite(one) else None for one in values]


def aligned_text(
    text: str,
    title: str,
    target: str,
    content: str,
    tokens: pd.DataFrame,
    of: Ints | None = None,
) -> AlignedText:
    """The words of a text with what the columns of its `tokens` say: methods, uniform attention.

    Attention is every method with uniform attention; attribution the first one without.
    """
    of = word_of(content, tokens) if of is None else of
    names, special = methods_of(tokens), tokens["start"].to_numpy() < 0
    words = _words(content, tokens, of)

    def summed(values: Any) -> Floats:
        known = np.nan_to_num(np.asarray(values, dtype=np.float64))
        return word_sums(known, of, len(words))

    controlled = [name for name in names if uniform_of(name) in tokens]
    others = [name for name in names if name not in controlled and name != "random"]
    below = next((name for name in others if not _attends(name)), next(iter(others), None))
    return AlignedText(
        text,
        title,
        target,
        words,
        tuple(sorted({int(word) for word in of[special]})),
        tuple(
            Row(name, summed(tokens[name]), summed(tokens[uniform_of(name)])) for name in controlled
        ),
        None if below is None else Row(below, summed(tokens[below]), signed=is_signed(below)),
    )


def _attends(method: str) -> bool:
    return method in METHODS and METHODS[method].attends


def _words(content: str, tokens: pd.DataFrame, of: Ints) -> tuple[str, ...]:
    """The words of tokens as they are written; special tokens by their names."""
    out: list[str] = []
    frame = pd.DataFrame(
        {"word": of, "start": tokens["start"], "stop": tokens["stop"], "string": tokens["string"]}
    )
    for _, rows in frame.groupby("word", sort=True):
        start, stop = int(rows["start"].min()), int(rows["stop"].max())
        out.append(str(rows["string"].iloc[0]) if start < 0 else content[start:stop])
    return tuple(out)


def study_texts(study: Tables, rows: Sequence[Mapping[str, Any]]) -> list[AlignedText]:
    """Texts of a study with explanations; none if no method has uniform attention."""
    out = []
    for row in rows:
        text = str(row["text"])
        tokens = study.table("attributions", text=text)
        about = study.table("explanations", text=text).iloc[0]
        target = str(about["target"])
        one = aligned_text(text, _title(row), target, row["content"], tokens)
        if not one.attention:
            return []
        out.append(replace(one, agreement=study_agreement(study, text)))
    return out


def explanation_text(explanation: Explanation) -> AlignedText:
    """One explanation with attention above its words: its own, or that of all heads."""
    method, frame = explanation.method, explanation.to_frame()
    tokens = frame.drop(columns=[*explanation.parts]).rename(columns={"score": method})
    for name, values in {
        uniform_of(method): explanation.uniform,
        ALL_HEADS: None if method == ALL_HEADS else explanation.attention,
        uniform_of(ALL_HEADS): explanation.attention_uniform,
    }.items():
        if values is not None:
            tokens[name] = values
    text, (content, of) = explanation.text.id, (explanation.text.text, explanation.word_of)
    one = aligned_text(text, TITLE, explanation.target, content, tokens, of)
    found = None if one.attribution is None else explanation.agreement
    if found is None:
        return one
    numbers, chance = found
    agreement = TextAgreement(
        ALL_HEADS, method, "ordinary", numbers.tau.value, *chance, kept=numbers.kept
    )
    return replace(one, agreement=(agreement,))


def _title(row: Mapping[str, Any]) -> str:
    start = " ".join(str(row["content"]).split())
    return f"{row['text']} · {start[:60]}{'...' if len(start) > 60 else ''}"


def study_agreement(study: Tables, text: str) -> tuple[TextAgreement, ...]:
    """The agreement of attention with attribution in one text, under every mask."""
    if not study.has("agreement_texts"):
        return ()
    table = study.table("agreement_texts", text=text)
    if "tau_low" not in table:
        return ()
    pair = ["left", "right", "keep"]
    published = table[table["convention"] == "published"].set_index(pair)
    return tuple(
        _agreement_of(row, published.loc[tuple(row[name] for name in pair)])
        for row in table[table["convention"] == "sound"].to_dict("records")
    )


def _agreement_of(row: Mapping[Any, Any], published: Mapping[Any, Any]) -> TextAgreement:
    """A row of `agreement_texts`, with the same as published."""
    return TextAgreement(
        left=row["left"],
        right=row["right"],
        keep=row["keep"],
        tau=row["tau"],
        low=row["tau_low"],
        high=row["tau_high"],
        level=row["tau_level"],
        shifts=int(row["shifts"]),
        kept=int(row["kept"]),
        published=published["tau"],
        published_chance=published["tau_chance"],
    )
