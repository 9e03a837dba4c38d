"""Dependency trees and coreferent mentions from CoNLL-U (universaldependencies.org/format.html), one text a sentence or one text a document.

The words of a text are the syntactic words, those whose ID is a whole number. Multi-word tokens (`3-4`) and empty nodes (`8.1`) must be well
formed, but are no words. A sentence with anything broken is one bad row, and a document with a broken sentence is one too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short

from attlas.core.annotations import (
    COREFERENCE,
    DEPENDENCIES,
    ROOT,
    WHERE,
    Coreference,
    Dependencies,
    Mention,
)
from attlas.core.text import Text
from attlas.corpora.corpus import BadRow
from attlas.corpora.rows import lines_of
from attlas.support.errors import CorpusError

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")

Line = tuple[int, str]  # its number, from 1, and what it says
TextRow = tuple[str, Text | BadRow]  # a Row that needs no columns

_COMMENT = re.compile(r"#\s*(sent_id|text|newdoc|global\.Entity)\b(?:\s+id)?\s*(?:=\s*(.*?))?\s*")
_ID = re.compile(
    r"(0|[1-9][0-9]{,8})(?:([-.])([1-9][0-9]{,8}))?"
)  # no number is so long that int() refuses it
_HEAD = re.compile(r"-?[0-9]{1,9}")
_BRACKET = re.compile(r"(\()?([^()]+)(\))?")
_PART = re.compile(r"\[[0-9]+/[0-9]+\]$")


class BrokenLineError(CorpusError):
    """What is wrong with one line of a file; the reader adds the file and makes it a bad row."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line

    def row(self, path: Path, id_: str | None) -> TextRow:
        """The bad row of a text with this line."""
        where = f"{path}, line {self.line}"
        return where, BadRow(where, str(self), id_)


@dataclass(frozen=True)
class Marks:
    """The brackets noted at a word: its line, the words [start, stop) it stands for (none, for an empty node), and the brackets."""

    line: int
    start: int
    stop: int
    brackets: str


@dataclass(frozen=True)
class _Sentence:
    """A sentence as read: the line of its first word, its words, their tree, and the brackets of its entities."""

    line: int
    words: tuple[str, ...]
    tree: Dependencies
    marks: tuple[Marks, ...]


def conllu_rows(path: Path) -> Iterator[TextRow]:
    """One text a sentence, with its dependencies; its id is its `# sent_id`, or its number in the file from 0."""
    for number, lines in enumerate(_paragraphs(path)):
        id_ = _comments(lines).get("sent_id") or str(number)
        try:
            sentence = _sentence(lines)
        except BrokenLineError as broken:
            yield broken.row(path, id_)
            continue
        where = f"{path}, line {sentence.line}"
        yield (
            where,
            Text(
                id_, words=sentence.words, annotations={WHERE: where, DEPENDENCIES: sentence.tree}
            ),
        )


def conllu_documents(path: Path) -> Iterator[TextRow]:
    """One text a document (`# newdoc id = ...`), with the dependencies of all its words and its coreferent mentions.

    Sentences before the first `# newdoc` are a document named like the file; a document without an id is named by its number from 0.
    Mentions are the brackets of `Entity=` in MISC, as in UD-GUM and CorefUD (Nedoluzhko et al. 2022): `(ID-type-...` opens one, `ID)`
    closes the last that is open, `(ID-...)` is a single word. Each part of a split mention, such as `(ID[1/2]-...`, is a mention of its own
    in the same chain; one that covers only empty nodes has no words and is left out. Bridging (`Bridge=`, `SplitAnte=`) is not read.
    """
    id_, sentences, count = (
        path.name.removesuffix(".gz").rpartition(".")[0] or path.name,
        list[list[Line]](),
        0,
    )
    for lines in _paragraphs(path):
        comments = _comments(lines)
        if "newdoc" in comments:
            if sentences:
                yield _document(path, id_, sentences)
            id_, sentences, count = comments["newdoc"] or str(count), [], count + 1
        sentences.append(lines)
    if sentences:
        yield _document(path, id_, sentences)


def numbered_lines(path: Path) -> Iterator[Line]:
    """The lines of a file with their numbers from 1, without line ends and byte-order mark; bytes that are no UTF-8 become lone surrogates."""
    return ((number, line.rstrip("\r\n")) for number, line in lines_of(path))


def check_unicode(line: int, text: str) -> None:
    """Refuse a line that is not valid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BrokenLineError(line, "it is not valid UTF-8; convert the file to UTF-8") from error


def bracketed(marks: Iterable[Marks]) -> list[tuple[int, int, str]]:
    """(start, stop, chain) of every pair of brackets, by start, longer ones first; a closing bracket closes the last of its name that is open.

    >>> bracketed([Marks(1, 0, 1, "(7-person(3-place-new)"), Marks(2, 1, 2, "7)")])
    [(0, 2, '7'), (0, 1, '3')]
    """
    waiting: defaultdict[str, list[tuple[int, int]]] = defaultdict(
        list
    )  # the lines and first words of what is open
    spans: list[tuple[int, int, str]] = []
    for mark in marks:
        for opens, name, closes in _brackets(mark):
            if opens:
                waiting[name].append((mark.line, mark.start))
            if not closes:
                continue
            if not waiting[name]:
                raise BrokenLineError(
                    mark.line,
                    f"it closes the entity {name!r}, which is not open; open it with ({name}",
                )
            _, start = waiting[name].pop()
            if start < mark.stop:  # else it covers only empty nodes
                spans.append((start, mark.stop, _PART.sub("", name)))
    left = [(line, name) for name, places in waiting.items() for line, _ in places]
    if left:
        line, name = min(left)
        raise BrokenLineError(
            line, f"it opens the entity {name!r}, which is never closed; close it with {name})"
        )
    return sorted(spans, key=lambda span: (span[0], -span[1]))


def mention_head(start: int, stop: int, heads: Sequence[int]) -> int:
    """The word of [start, stop) whose head lies outside it; of several the one nearest to the root, then the first. `heads` is [word].

    >>> mention_head(0, 3, (2, 2, 3, ROOT))  # the old man | left
    2
    """
    outside = [word for word in range(start, stop) if not start <= heads[word] < stop]
    return (
        outside[0]
        if len(outside) == 1
        else min(outside, key=lambda word: (_depth(word, heads), word))
    )


def kind_of(tag: str, words: int) -> str:
    """The kind of a mention by the universal part of speech of its head and its number of words.

    >>> kind_of("DET", 1), kind_of("DET", 2)
    ('pronoun', 'common')
    """
    if tag == "PRON" or (tag == "DET" and words == 1):
        return "pronoun"
    return "proper" if tag == "PROPN" else "common"


def word_on_cycle(heads: Sequence[int]) -> int | None:
    """A word that is above itself, or None if the heads [word] make trees.

    >>> word_on_cycle((1, 2, 1)), word_on_cycle((1, ROOT))
    (1, None)
    """
    seen = [ROOT] * len(heads)  # the word from which the walk upwards came by first
    for first in range(len(heads)):
        word = first
        while word != ROOT and seen[word] == ROOT:
            seen[word] = first
            word = heads[word]
        if word != ROOT and seen[word] == first:
            return word
    return None


def _depth(word: int, heads: Sequence[int]) -> int:
    """How many heads stand above a word."""
    depth = 0
    while heads[word] != ROOT:
        word, depth = heads[word], depth + 1
    return depth


def _paragraphs(path: Path) -> Iterator[list[Line]]:
    """The lines of each sentence with its comments; comments that stand alone go with the sentence after them."""
    lines: list[Line] = []
    for number, text in numbered_lines(path):
        if text.strip():
            lines.append((number, text))
        elif _is_sentence(lines):
            yield lines
            lines = []
    if _is_sentence(lines):
        yield lines


def _is_sentence(lines: list[Line]) -> bool:
    """Whether lines are, or say that they are, a sentence: comments about the file alone are none."""
    return any(not text.startswith("#") for _, text in lines) or not {"sent_id", "text"}.isdisjoint(
        _comments(lines)
    )


def _comments(lines: list[Line]) -> dict[str, str]:
    """What the comments we know say; the last of a name counts."""
    found = (_COMMENT.fullmatch(text) for _, text in lines if text.startswith("#"))
    return {match[1]: match[2] or "" for match in found if match is not None}


def _document(path: Path, id_: str, paragraphs: list[list[Line]]) -> TextRow:
    """The text of a document, or its first broken line."""
    try:
        for lines in paragraphs:
            _check_entities(lines)
        sentences = [_sentence(lines) for lines in paragraphs]
        starts = [0]
        for sentence in sentences:
            starts.append(starts[-1] + len(sentence.words))
        spans = bracketed(_shifted_marks(sentences, starts))
    except BrokenLineError as broken:
        return broken.row(path, id_)
    where = f"{path}, line {sentences[0].line}"
    tree = _joined(sentences, starts)
    notes = {
        WHERE: where,
        DEPENDENCIES: tree,
        COREFERENCE: Coreference(
            tuple(_mention(*span, tree) for span in spans), tuple(starts[:-1])
        ),
    }
    return where, Text(
        id_,
        words=tuple(word for sentence in sentences for word in sentence.words),
        annotations=notes,
    )


def _shifted_marks(sentences: list[_Sentence], starts: list[int]) -> Iterator[Marks]:
    """The brackets of a document, their words counted from its beginning."""
    for sentence, first in zip(sentences, starts[:-1], strict=True):
        for mark in sentence.marks:
            yield Marks(mark.line, first + mark.start, first + mark.stop, mark.brackets)


def _joined(sentences: list[_Sentence], starts: list[int]) -> Dependencies:
    """The trees of a document's sentences as one forest over its words."""
    heads = [
        head if head == ROOT else first + head
        for sentence, first in zip(sentences, starts[:-1], strict=True)
        for head in sentence.tree.heads
    ]
    return Dependencies(
        tuple(heads),
        tuple(relation for sentence in sentences for relation in sentence.tree.relations),
        tuple(tag for sentence in sentences for tag in sentence.tree.tags),
    )


def _mention(start: int, stop: int, chain: str, tree: Dependencies) -> Mention:
    head = mention_head(start, stop, tree.heads)
    return Mention(start, stop, head, chain, kind_of(tree.tags[head], stop - start))


def _check_entities(lines: list[Line]) -> None:
    """Refuse entities whose first part is not their id, as in older versions of GUM: all people would become one."""
    layout = _comments(lines).get("global.Entity")
    if layout is not None and layout.split("-")[0] not in ("GRP", "eid"):
        line = next(number for number, text in lines if "global.Entity" in text)
        raise BrokenLineError(
            line,
            f"its entities are written as {short(layout)}; the first part must be the entity's id, GRP or eid",
        )


def _brackets(mark: Marks) -> Iterator[tuple[bool, str, bool]]:
    """Each bracket of a word: whether it opens, the entity's name (what stands before the first -), whether it closes."""
    place = 0
    while not place or place < len(mark.brackets):
        match = _BRACKET.match(mark.brackets, place)
        name = match[2].partition("-")[0].strip() if match else ""
        if match is None or not (match[1] or match[3]) or not name:
            rest = short(mark.brackets[place:])
            raise BrokenLineError(
                mark.line, f"its entities end in {rest}; write each as (ID-..., ID) or (ID-...)"
            )
        yield match[1] is not None, name, match[3] is not None
        place = match.end()


def _sentence(lines: list[Line]) -> _Sentence:
    """The words, tree and brackets of one sentence."""
    for number, text in lines:
        check_unicode(number, text)
    rows = [(number, _cells(number, text)) for number, text in lines if not text.startswith("#")]
    _check_ids(rows)
    words = [(number, cells) for number, cells in rows if cells[0].isdecimal()]
    if not words:
        raise BrokenLineError(
            lines[0][0], "the sentence has no words; give it one a line, or leave out its comments"
        )
    heads = tuple(_head(number, cells, len(words)) for number, cells in words)
    cycle = word_on_cycle(heads)
    if cycle is not None:
        number, cells = words[cycle]
        raise BrokenLineError(
            number,
            f"the heads of {short(cells[1])} (word {cells[0]}) lead back to it; a word must not be above itself",
        )
    tags = tuple("" if cells[3] == "_" else cells[3] for _, cells in words)
    tree = Dependencies(heads, tuple(cells[7] for _, cells in words), tags)
    return _Sentence(words[0][0], tuple(cells[1] for _, cells in words), tree, tuple(_marks(rows)))


def _cells(line: int, text: str) -> list[str]:
    """The ten cells of a line."""
    cells = text.split("\t")
    if len(cells) != len(COLUMNS):
        blanks = len(text.split())
        got = (
            f"{blanks} columns cut by blanks, not tabs"
            if len(cells) == 1 and blanks > 1
            else f"{len(cells)} columns"
        )
        raise BrokenLineError(
            line, f"it has {got}; a word has {len(COLUMNS)}, cut by tabs: {', '.join(COLUMNS)}"
        )
    return cells


def _check_ids(rows: list[tuple[int, list[str]]]) -> None:
    """Refuse IDs that do not count words 1, 2, 3, empty nodes 2.1, 2.2 after word 2, and ranges of words that follow."""
    count, empty, last, last_line = (
        0,
        0,
        0,
        0,
    )  # words; empty nodes after the last; where the last range ends; its line
    for line, (id_, *_) in rows:
        match = _ID.fullmatch(id_)
        if match is None:
            raise BrokenLineError(
                line,
                f"its ID is {short(id_)}; write a word's as 3, a range as 3-4, an empty node's as 8.1",
            )
        first, sign, second = int(match[1]), match[2], int(match[3] or 0)
        if sign is None and first != count + 1:
            again = "; put an empty line before each sentence" if first == 1 else ""
            raise BrokenLineError(
                line, f"its ID is {id_}, but words must count on: {count + 1} comes next{again}"
            )
        if sign == "." and (first, second) != (count, empty + 1):
            raise BrokenLineError(
                line, f"its ID is {id_}, but the next empty node here is {count}.{empty + 1}"
            )
        if sign == "-" and not (first == count + 1 and last < first <= second):
            raise BrokenLineError(
                line,
                f"its ID is {id_}, but a range here must begin at word {max(count, last) + 1}, the next",
            )
        count, empty = (count + 1, 0) if sign is None else (count, empty + (sign == "."))
        last, last_line = (second, line) if sign == "-" else (last, last_line)
    if last > count:
        raise BrokenLineError(
            last_line, f"its range ends at word {last}, but the sentence has {count} words"
        )


def _head(line: int, cells: list[str], words: int) -> int:
    """The head of a word as an index; its form and relation are looked at too."""
    id_, form, head, relation = cells[0], cells[1], cells[6], cells[7]
    if not form.strip():
        raise BrokenLineError(line, "its FORM is empty; write the word, or _")
    if head == "_" or not head:
        raise BrokenLineError(
            line,
            "it has no HEAD; write the head's ID, or 0 for a root (texts without trees go in a .txt)",
        )
    if not _HEAD.fullmatch(head):
        raise BrokenLineError(
            line, f"its HEAD is {short(head)}, not a number; write the head's ID, or 0 for a root"
        )
    if not 0 <= int(head) <= words:
        raise BrokenLineError(
            line,
            f"its HEAD is {head}, but the sentence has words 1 to {words}; write one of them, or 0 for a root",
        )
    if int(head) == int(id_):
        raise BrokenLineError(
            line, f"its HEAD is {head}, the word itself; write another word's ID, or 0 for a root"
        )
    if relation in ("", "_"):
        raise BrokenLineError(
            line, "it has no DEPREL; write its relation to its head, such as nsubj"
        )
    return int(head) - 1


def _marks(rows: list[tuple[int, list[str]]]) -> Iterator[Marks]:
    """The brackets in MISC; those of an empty node stand between two words, those of a multi-word token at its words."""
    count = 0
    for line, cells in rows:
        first, _, last = cells[0].partition("-")
        stop = int(last or first) if "." not in first else count
        brackets = next(
            (part[7:] for part in cells[9].split("|") if part.startswith("Entity=")), None
        )
        if brackets is not None:
            yield Marks(line, count, stop, brackets)
        count = stop if not last else count
