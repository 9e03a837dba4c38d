"""GAP: a pronoun and two names in each text (Webster et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from reprlib import repr as short

from attlas.core.annotations import COREFERENCE, WHERE, Coreference, Mention
from attlas.core.text import Text
from attlas.corpora.corpus import BadRow
from attlas.corpora.layouts.conllu import (
    TextRow,
    check_unicode,
    numbered_lines,
)
from attlas.corpora.layouts.mentions import is_read, name_head
from attlas.language.words import Span, word_spans
from attlas.support.errors import CorpusError

GAP_COLUMNS = (
    "ID",
    "Text",
    "Pronoun",
    "Pronoun-offset",
    "A",
    "A-offset",
    "A-coref",
    "B",
    "B-offset",
    "B-coref",
    "URL",
)


def gap_rows(path: Path) -> Iterator[TextRow]:
    """One text a row of GAP (Webster et al. 2018): a pronoun and two names, each in the pronoun's chain "0" or alone in its own, "A" or "B".

    Words are `word_spans` of the text, cut further where the pronoun or a name begins or ends inside one. Quotes are letters, and offsets
    count characters, as in the data set.
    """
    names: list[str] | None = None
    for line, content in numbered_lines(path):
        where = f"{path}, line {line}"
        cells = content.split("\t")
        if names is None:
            names = cells
            if _missing(names):
                raise CorpusError(
                    f"{where}: it is not GAP's header, for it has no {', '.join(_missing(names))}"
                )
        elif content.strip():
            try:
                check_unicode(line, content)
                if len(cells) != len(names):
                    raise CorpusError(
                        f"it has {len(cells)} cells, but the header has {len(names)}; cut them by tabs"
                    )
                yield where, _gap_text(where, dict(zip(names, cells, strict=True)))
            except CorpusError as error:
                yield (
                    where,
                    BadRow(
                        where,
                        str(error),
                        cells[names.index("ID")] if len(cells) == len(names) else None,
                    ),
                )


def is_gap(path: Path) -> bool:
    """Whether the first line of a file is GAP's header."""
    _, header = next(numbered_lines(path), (1, ""))
    return not _missing(header.split("\t"))


def _missing(names: list[str]) -> list[str]:
    """GAP's columns that are not among some names; the URL may be absent."""
    return [name for name in GAP_COLUMNS[:-1] if name not in names]


def _gap_text(where: str, row: Mapping[str, str]) -> Text:
    """The text of a row with its three mentions."""
    places = {name: _gap_place(row, name) for name in ("Pronoun", "A", "B")}
    spans = _cut(word_spans(row["Text"]), {border for place in places.values() for border in place})
    words = tuple(row["Text"][start:stop] for start, stop in spans)
    mentions = [_gap_mention(row, name, place, spans, words) for name, place in places.items()]
    mentions.sort(key=lambda mention: (mention.start, -mention.stop))
    notes = {WHERE: where, COREFERENCE: Coreference(tuple(mentions), around=True)}
    return Text(row["ID"], words=words, annotations=notes)


def _gap_place(row: Mapping[str, str], name: str) -> Span:
    """The characters of the pronoun or of a name."""
    form, offset = row[name], row[f"{name}-offset"].strip()
    if not (offset.isascii() and offset.isdecimal() and len(offset) < 10):
        raise CorpusError(
            f"its {name}-offset is {short(offset)}, not a number; write the character at which {name} begins"
        )
    start = int(offset)
    found = row["Text"][start : start + len(form)]
    if not is_read(form) or found != form:
        raise CorpusError(
            f"its {name} is {short(form)} at character {start}, but there stands {short(found)}; offsets count the Text's characters from 0"
        )
    return start, start + len(form)


def _gap_mention(
    row: Mapping[str, str], name: str, place: Span, spans: list[Span], words: tuple[str, ...]
) -> Mention:
    """The mention of the pronoun or of a name, given its characters and those of all words."""
    inside = [
        index for index, (start, stop) in enumerate(spans) if place[0] <= start and stop <= place[1]
    ]
    start, stop = inside[0], inside[-1] + 1
    if name == "Pronoun":
        return Mention(start, stop, start, "0", "pronoun")
    answer = row[f"{name}-coref"].strip().upper()
    if answer not in ("TRUE", "FALSE"):
        raise CorpusError(
            f"its {name}-coref is {short(answer)}; write TRUE if the pronoun means {name}, else FALSE"
        )
    return Mention(
        start,
        stop,
        start + name_head(words[start:stop]),
        "0" if answer == "TRUE" else name,
        "proper",
    )


def _cut(spans: list[Span], borders: set[int]) -> list[Span]:
    """Spans of words, cut at every border that lies inside one.

    >>> _cut([(0, 6), (7, 9)], {0, 4, 7})
    [(0, 4), (4, 6), (7, 9)]
    """
    return [
        piece
        for start, stop in spans
        for piece in pairwise(
            [start, *sorted(border for border in borders if start < border < stop), stop]
        )
    ]
