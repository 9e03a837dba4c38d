"""LitBank: documents with coreferent mentions in CoNLL-2012 (Bamman et al. 2020)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path

from attlas.core.annotations import COREFERENCE, WHERE, Coreference, Mention
from attlas.core.text import Text
from attlas.corpora.layouts.conllu import (
    BrokenLineError,
    Line,
    Marks,
    TextRow,
    bracketed,
    check_unicode,
    numbered_lines,
)
from attlas.corpora.layouts.mentions import capitalised, surface_head, surface_kind

_BEGIN = re.compile(r"#begin document\s+(?:\((.*)\)|(.*?))\s*(?:;\s*part\s+([0-9]+))?\s*")


@dataclass
class _Part:
    """A part of a document in CoNLL-2012."""

    line: int  # at which it begins
    name: str | None  # None for lines outside of any document
    number: str
    lines: list[Line] = field(default_factory=list)
    ended: bool = False


def litbank_rows(path: Path) -> Iterator[TextRow]:
    """One text per document of CoNLL-2012, with heads and kinds of mentions by `surface_head`.

    The word is column 4, coreference the last one: `(3`, `3)`, `(3)`, joined by `|`; nothing, `_`
    or `-` for none. Columns are separated by tabs, or by blanks in a line without tabs. If a
    document has several parts, each is a text whose id names its part.
    """
    before: str | None = None
    for part, after in pairwise(chain(_parts(path), [None])):
        if part is not None:  # only the last `after` is None
            several = part.name is not None and part.name in (before, after.name if after else None)
            id_ = f"{part.name}, part {part.number}" if several else part.name
            yield _litbank_row(path, part, id_)
            before = part.name


def _parts(path: Path) -> Iterator[_Part]:
    """The parts of the documents of a file; lines outside of any are a part without a name."""
    part: _Part | None = None
    for line, text in numbered_lines(path):
        begin = _BEGIN.fullmatch(text)
        if part is not None and (begin or text.startswith("#end document")):
            part.ended = begin is None
            yield part
            part = None
        if begin:
            part = _Part(line, begin[1] or begin[2] or "", begin[3] or "0")
        elif not text.startswith("#") and (part is not None or text.strip()):
            part = part or _Part(line, None, "0")
            part.lines.append((line, text))
    if part is not None:
        yield part


def _litbank_row(path: Path, part: _Part, id_: str | None) -> TextRow:
    """The text of a part, or its first broken line."""
    try:
        if part.name is None:
            raise BrokenLineError(
                part.line,
                "it is outside of a document; put '#begin document (NAME); part 0' before it",
            )
        check_unicode(part.line, part.name)
        words, sentences, marks = _litbank_words(part.lines)
        if not words:
            raise BrokenLineError(part.line, "the document has no words; give one per line")
        if not part.ended:
            raise BrokenLineError(
                part.line, "the document does not end; put '#end document' after its last word"
            )
        spans = bracketed(marks)
    except BrokenLineError as broken:
        return broken.row(path, id_)
    names = capitalised(words, sentences)
    mentions = tuple(_surface_mention(words, *span, names) for span in spans)
    where = f"{path}, line {part.line}"
    notes = {WHERE: where, COREFERENCE: Coreference(mentions, tuple(sentences))}
    return where, Text(id_ or "", words=tuple(words), annotations=notes)


def _litbank_words(lines: list[Line]) -> tuple[list[str], list[int], list[Marks]]:
    """The words of a document, the first words of its sentences, and the brackets of mentions."""
    words: list[str] = []
    sentences: list[int] = []
    marks: list[Marks] = []
    is_new = True
    for line, text in lines:
        check_unicode(line, text)
        if not text.strip():
            is_new = True
            continue
        word, brackets = _litbank_cells(line, text)
        if is_new:
            sentences.append(len(words))
        is_new = False
        if brackets not in ("", "_", "-"):
            marks += [Marks(line, len(words), len(words) + 1, one) for one in brackets.split("|")]
        words.append(word)
    return words, sentences, marks


def _litbank_cells(line: int, text: str) -> tuple[str, str]:
    """The word of a line and its brackets."""
    cells = text.split("\t") if "\t" in text else text.split()
    if len(cells) < 5:
        raise BrokenLineError(
            line,
            f"it has {len(cells)} columns; a word has at least 5: "
            "document, part, number, word, ..., coreference",
        )
    if not cells[3].strip():
        raise BrokenLineError(line, "its word (column 4) is empty; write the word")
    return cells[3].strip(), cells[-1].strip()


def _surface_mention(
    words: list[str], start: int, stop: int, chain: str, names: set[str]
) -> Mention:
    head = start + surface_head(words[start:stop])
    return Mention(start, stop, head, chain, surface_kind(words[head], stop - start, names))
