"""GAP: a pronoun and two names in each text (Webster et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from reprlib import repr as short

from attlas.core.annotations import COREFERENCE, WHERE, Coreference, Mention
from attlas.core.text import Text
from attlas.corpora.corpus import BadRow
from attlas.corpora.layouts.conllu import TextRow, check_unicode, numbered_lines
from attlas.corpora.layouts.mentions import is_read, name_head
from attlas.language.words import Span, word_spans
from attlas.support.errors import CorpusError

_NAMED = ("A", "A-offset", "A-coref", "B", "B-offset", "B-coref")
GAP_COLUMNS = ("ID", "Text", "Pronoun", "Pronoun-offset", *_NAMED, "URL")


def gap_rows(path: Path) -> Iterator[TextRow]:
    """One text per row, with a pronoun and two names.

    A name is in the pronoun's chain "0", or alone in its own, "A" or "B". Words are `word_spans` of
    the text, split further where the pronoun or a name begins or ends inside one. Quotes are
    characters, and offsets count characters, as in the dataset.
    """
    names: list[str] | None = None
    for line, content in numbered_lines(path):
        where = f"{path}, line {line}"
        cells = content.split("\t")
        if names is None:
            names = cells
            if _missing(names):
                raise CorpusError(
                    f"{where}: it is not GAP's header: it has no {', '.join(_missing(names))}"
                )
        elif content.strip():
            row = dict(zip(names, cells, strict=False))
            fits = len(cells) == len(names)
            try:
                check_unicode(line, content)
                if not fits:
                    expected = f"the header has {len(names)}; separate them by tabs"
                    raise CorpusError(f"it has {len(cells)} cells, but {expected}")
                yield where, _gap_text(where, row)
            except CorpusError as error:
                yield where, BadRow(where, str(error), row["ID"] if fits else None)


def is_gap(path: Path) -> bool:
    """Whether the first line of a file is GAP's header."""
    _, header = next(numbered_lines(path), (1, ""))
    return not _missing(header.split("\t"))


def _missing(names: list[str]) -> list[str]:
    """The columns of GAP that are missing; the URL may be."""
    return [name for name in GAP_COLUMNS[:-1] if name not in names]


def _gap_text(where: str, row: Mapping[str, str]) -> Text:
    """The text of a row with its three mentions."""
    phrases = {name: _phrase(row, name) for name in ("Pronoun", "A", "B")}
    spans = _split_at(word_spans(row["Text"]), {end for span in phrases.values() for end in span})
    words = tuple(row["Text"][start:stop] for start, stop in spans)
    mentions = [_mention(row, name, phrase, spans, words) for name, phrase in phrases.items()]
    mentions.sort(key=lambda mention: (mention.start, -mention.stop))
    notes = {WHERE: where, COREFERENCE: Coreference(tuple(mentions), around=True)}
    return Text(row["ID"], words=words, annotations=notes)


def _phrase(row: Mapping[str, str], name: str) -> Span:
    """The characters of the pronoun or of a name."""
    form, offset = row[name], row[f"{name}-offset"].strip()
    if not (offset.isascii() and offset.isdecimal() and len(offset) < 10):
        raise CorpusError(
            f"its {name}-offset is {short(offset)}, not a number; "
            f"give the character at which {name} begins"
        )
    start = int(offset)
    actual = row["Text"][start : start + len(form)]
    if not is_read(form) or actual != form:
        raise CorpusError(
            f"its {name} is {short(form)} at character {start}, but the Text has "
            f"{short(actual)} there; offsets count the Text's characters from 0"
        )
    return start, start + len(form)


def _mention(
    row: Mapping[str, str], name: str, phrase: Span, spans: list[Span], words: tuple[str, ...]
) -> Mention:
    """The mention of the pronoun or of a name, given its characters and those of all words."""
    inside = [
        index for index, span in enumerate(spans) if phrase[0] <= span[0] and span[1] <= phrase[1]
    ]
    start, stop = inside[0], inside[-1] + 1
    if name == "Pronoun":
        return Mention(start, stop, start, "0", "pronoun")
    answer = row[f"{name}-coref"].strip().upper()
    if answer not in ("TRUE", "FALSE"):
        raise CorpusError(
            f"its {name}-coref is {short(answer)}; "
            f"give TRUE if the pronoun refers to {name}, else FALSE"
        )
    head = start + name_head(words[start:stop])
    return Mention(start, stop, head, "0" if answer == "TRUE" else name, "proper")


def _split_at(spans: list[Span], borders: set[int]) -> list[Span]:
    """Spans of words, split at every border inside one.

    >>> _split_at([(0, 6), (7, 9)], {0, 4, 7})
    [(0, 4), (4, 6), (7, 9)]
    """
    pieces: list[Span] = []
    for start, stop in spans:
        inner = sorted(border for border in borders if start < border < stop)
        pieces += pairwise([start, *inner, stop])
    return pieces
