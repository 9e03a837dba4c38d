"""Dependency trees and coreference from CoNLL-U, one text per sentence or per document.

See universaldependencies.org/format.html. The words of a text are the syntactic words, those with
an integer ID. Multi-word tokens (`3-4`) and empty nodes (`8.1`) must be well formed, but are not
words. A broken sentence is one bad row, as is a document with a broken sentence.
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
from attlas.corpora.rows import NOT_UTF8, lines_of
from attlas.support.errors import CorpusError

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")

Line = tuple[int, str]  # its number, from 1, and its content
TextRow = tuple[str, Text | BadRow]  # a Row that needs no columns

_COMMENT = re.compile(r"#\s*(sent_id|text|newdoc|global\.Entity)\b(?:\s+id)?\s*(?:=\s*(.*?))?\s*")
_ID = re.compile(r"(0|[1-9][0-9]{,8})(?:([-.])([1-9][0-9]{,8}))?")  # short enough for int()
_HEAD = re.compile(r"-?[0-9]{1,9}")
_BRACKET = re.compile(r"(\()?([^()]+)(\))?")
_PART = re.compile(r"\[[0-9]+/[0-9]+\]$")


class BrokenLineError(CorpusError):
    """A problem in one line of a file; the reader adds the file and makes it a bad row."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line

    def row(self, path: Path, id_: str | None) -> TextRow:
        """The bad row of a text with this line."""
        where = f"{path}, line {self.line}"
        return where, BadRow(where, str(self), id_)


@dataclass(frozen=True)
class Marks:
    """The brackets at a token: its line, its words [start, stop), none for an empty node."""

    line: int
    start: int
    stop: int
    brackets: str


@dataclass(frozen=True)
class _Sentence:
    """A parsed sentence."""

    line: int  # of its first word
    words: tuple[str, ...]
    tree: Dependencies
    marks: tuple[Marks, ...]


def conllu_rows(path: Path) -> Iterator[TextRow]:
    """One text per sentence, with its dependencies; its id is its `# sent_id`, or its number."""
    for number, lines in enumerate(_paragraphs(path)):
        id_ = _comments(lines).get("sent_id") or str(number)
        try:
            sentence = _sentence(lines)
        except BrokenLineError as broken:
            yield broken.row(path, id_)
            continue
        where = f"{path}, line {sentence.line}"
        notes = {WHERE: where, DEPENDENCIES: sentence.tree}
        yield where, Text(id_, words=sentence.words, annotations=notes)


def conllu_documents(path: Path) -> Iterator[TextRow]:
    """One text per document (`# newdoc id = ...`), with its dependencies and coreference.

    Sentences before the first `# newdoc` are a document named like the file; a document without an
    id is named by its number from 0. Mentions are the brackets of `Entity=` in MISC, as in UD-GUM
    and CorefUD (Nedoluzhko et al. 2022): `(ID-type-...` opens one, `ID)` closes the last open one,
    `(ID-...)` is a single word. Each part of a split mention, such as `(ID[1/2]-...`, is a mention
    of its own in the same chain; one that covers only empty nodes is excluded. Bridging
    (`Bridge=`, `SplitAnte=`) is not read.
    """
    id_ = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    sentences: list[list[Line]] = []
    count = 0
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
    """The lines of a file with their numbers, as `lines_of`, without line ends."""
    return ((number, line.rstrip("\r\n")) for number, line in lines_of(path))


def check_unicode(line: int, text: str) -> None:
    """Refuse a line that is not valid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BrokenLineError(line, NOT_UTF8) from error


def bracketed(marks: Iterable[Marks]) -> list[tuple[int, int, str]]:
    """(start, stop, chain) of every pair of brackets, by start, longer ones first.

    A closing bracket closes the last open one of its name.

    >>> bracketed([Marks(1, 0, 1, "(7-person(3-place-new)"), Marks(2, 1, 2, "7)")])
    [(0, 2, '7'), (0, 1, '3')]
    """
    opened: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # line and first word
    spans: list[tuple[int, int, str]] = []
    for mark in marks:
        for opens, name, closes in _brackets(mark):
            if opens:
                opened[name].append((mark.line, mark.start))
            if not closes:
                continue
            if not opened[name]:
                problem = f"it closes the entity {name!r}, which is not open; open it with ({name}"
                raise BrokenLineError(mark.line, problem)
            _, start = opened[name].pop()
            if start < mark.stop:  # else it covers only empty nodes
                spans.append((start, mark.stop, _PART.sub("", name)))
    unclosed = [(line, name) for name, ends in opened.items() for line, _ in ends]
    if unclosed:
        line, name = min(unclosed)
        problem = f"it opens the entity {name!r}, which is never closed; close it with {name})"
        raise BrokenLineError(line, problem)
    return sorted(spans, key=lambda span: (span[0], -span[1]))


def mention_head(start: int, stop: int, heads: Sequence[int]) -> int:
    """The word of [start, stop) whose head is outside it; of several the nearest to the root.

    >>> mention_head(0, 3, (2, 2, 3, ROOT))  # the old man | left
    2
    """
    outside = [word for word in range(start, stop) if not start <= heads[word] < stop]
    return min(outside, key=lambda word: (_depth(word, heads), word))


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
    visited_from = [ROOT] * len(heads)
    for first in range(len(heads)):
        word = first
        while word != ROOT and visited_from[word] == ROOT:
            visited_from[word] = first
            word = heads[word]
        if word != ROOT and visited_from[word] == first:
            return word
    return None


def _depth(word: int, heads: Sequence[int]) -> int:
    """The number of words above a word in its tree."""
    depth = 0
    while heads[word] != ROOT:
        word, depth = heads[word], depth + 1
    return depth


def _paragraphs(path: Path) -> Iterator[list[Line]]:
    """The lines of each sentence with the comments before it."""
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
    """Whether lines are a sentence, and not only comments about the file."""
    return any(not text.startswith("#") for _, text in lines) or not {"sent_id", "text"}.isdisjoint(
        _comments(lines)
    )


def _comments(lines: list[Line]) -> dict[str, str]:
    """The known comments by name; the last of a name counts."""
    matches = (_COMMENT.fullmatch(text) for _, text in lines if text.startswith("#"))
    return {match[1]: match[2] or "" for match in matches if match is not None}


def _document(path: Path, id_: str, paragraphs: list[list[Line]]) -> TextRow:
    """The text of a document, or its first broken line."""
    try:
        for lines in paragraphs:
            _check_entities(lines)
        sentences: list[_Sentence] = []
        starts = [0]
        for lines in paragraphs:
            sentences.append(_sentence(lines, starts[-1]))
            starts.append(starts[-1] + len(sentences[-1].words))
        spans = bracketed(mark for sentence in sentences for mark in sentence.marks)
    except BrokenLineError as broken:
        return broken.row(path, id_)
    where = f"{path}, line {sentences[0].line}"
    tree = Dependencies(
        tuple(head for sentence in sentences for head in sentence.tree.heads),
        tuple(relation for sentence in sentences for relation in sentence.tree.relations),
        tuple(tag for sentence in sentences for tag in sentence.tree.tags),
    )
    mentions = tuple(_mention(*span, tree) for span in spans)
    coreference = Coreference(mentions, tuple(starts[:-1]))
    notes = {WHERE: where, DEPENDENCIES: tree, COREFERENCE: coreference}
    words = tuple(word for sentence in sentences for word in sentence.words)
    return where, Text(id_, words=words, annotations=notes)


def _mention(start: int, stop: int, chain: str, tree: Dependencies) -> Mention:
    head = mention_head(start, stop, tree.heads)
    return Mention(start, stop, head, chain, kind_of(tree.tags[head], stop - start))


def _check_entities(lines: list[Line]) -> None:
    """Refuse entities whose first part is not their id, as in older versions of GUM."""
    layout = _comments(lines).get("global.Entity")
    if layout is not None and layout.split("-")[0] not in ("GRP", "eid"):
        line = next(number for number, text in lines if "global.Entity" in text)
        raise BrokenLineError(
            line,
            f"its entities have the format {short(layout)}; "
            "the first part must be the entity's id, GRP or eid",
        )


def _brackets(mark: Marks) -> Iterator[tuple[bool, str, bool]]:
    """Each bracket at a token: whether it opens, the name before its first -, whether it closes."""
    position = 0
    while not position or position < len(mark.brackets):
        match = _BRACKET.match(mark.brackets, position)
        name = match[2].partition("-")[0].strip() if match else ""
        if match is None or not (match[1] or match[3]) or not name:
            rest = short(mark.brackets[position:])
            raise BrokenLineError(
                mark.line, f"its entities end in {rest}; write each as (ID-..., ID) or (ID-...)"
            )
        yield match[1] is not None, name, match[3] is not None
        position = match.end()


def _sentence(lines: list[Line], first: int = 0) -> _Sentence:
    """The words, tree and brackets of one sentence, whose first word has this index."""
    for number, text in lines:
        check_unicode(number, text)
    rows = [(number, _cells(number, text)) for number, text in lines if not text.startswith("#")]
    _check_ids(rows)
    words = [(number, cells) for number, cells in rows if cells[0].isdecimal()]
    if not words:
        raise BrokenLineError(
            lines[0][0], "the sentence has no words; give one per line, or remove its comments"
        )
    heads = tuple(_head(number, cells, len(words)) for number, cells in words)
    cycle = word_on_cycle(heads)
    if cycle is not None:
        number, cells = words[cycle]
        raise BrokenLineError(
            number,
            f"the heads of {short(cells[1])} (word {cells[0]}) lead back to it; "
            "a word must not be above itself",
        )
    tags = tuple("" if cells[3] == "_" else cells[3] for _, cells in words)
    indices = tuple(head if head == ROOT else first + head for head in heads)
    tree = Dependencies(indices, tuple(cells[7] for _, cells in words), tags)
    forms, marks = tuple(cells[1] for _, cells in words), tuple(_marks(rows, first))
    return _Sentence(words[0][0], forms, tree, marks)


def _cells(line: int, text: str) -> list[str]:
    """The ten cells of a line."""
    cells = text.split("\t")
    if len(cells) != len(COLUMNS):
        n, got = len(text.split()), f"{len(cells)} columns"
        if len(cells) == 1 and n > 1:
            got = f"{n} columns separated by blanks, not tabs"
        expected = f"a word has {len(COLUMNS)}, separated by tabs: {', '.join(COLUMNS)}"
        raise BrokenLineError(line, f"it has {got}; {expected}")
    return cells


def _check_ids(rows: list[tuple[int, list[str]]]) -> None:
    """Refuse IDs unless words count 1, 2, 3, nodes 2.1, 2.2 follow word 2, and ranges precede."""
    count = empty = 0  # words; empty nodes after the last word
    last = last_line = 0  # end of the last range; its line
    for line, (id_, *_) in rows:
        match = _ID.fullmatch(id_)
        if match is None:
            expected = "write 3 for a word, 3-4 for a range, 8.1 for an empty node"
            raise BrokenLineError(line, f"its ID is {short(id_)}; {expected}")
        problem = None
        first, sign, second = int(match[1]), match[2], int(match[3] or 0)
        if sign is None and first != count + 1:
            fix = "; put an empty line before each sentence" if first == 1 else ""
            problem = f"words must be consecutive: {count + 1} comes next{fix}"
        elif sign == "." and (first, second) != (count, empty + 1):
            problem = f"the next empty node here is {count}.{empty + 1}"
        elif sign == "-" and not (first == count + 1 and last < first <= second):
            problem = f"a range here must begin at the next word, {max(count, last) + 1}"
        if problem is not None:
            raise BrokenLineError(line, f"its ID is {id_}, but {problem}")
        count, empty = (count + 1, 0) if sign is None else (count, empty + (sign == "."))
        last, last_line = (second, line) if sign == "-" else (last, last_line)
    if last > count:
        raise BrokenLineError(
            last_line, f"its range ends at word {last}, but the sentence has {count} words"
        )


def _head(line: int, cells: list[str], words: int) -> int:
    """The head of a word as an index; refuse a broken form, head or relation."""
    id_, form, head, relation = cells[0], cells[1], cells[6], cells[7]
    root = "or 0 for a root"
    problem = None
    if not form.strip():
        problem = "its FORM is empty; write the word, or _"
    elif head == "_" or not head:
        problem = f"it has no HEAD; write the head's ID, {root} (use .txt for texts without trees)"
    elif not _HEAD.fullmatch(head):
        problem = f"its HEAD is {short(head)}, not a number; write the head's ID, {root}"
    elif not 0 <= int(head) <= words:
        sentence = f"the sentence has words 1 to {words}"
        problem = f"its HEAD is {head}, but {sentence}; write one of them, {root}"
    elif int(head) == int(id_):
        problem = f"its HEAD is {head}, the word itself; write another word's ID, {root}"
    elif relation in ("", "_"):
        problem = "it has no DEPREL; write its relation to its head, such as nsubj"
    if problem is not None:
        raise BrokenLineError(line, problem)
    return int(head) - 1


def _marks(rows: list[tuple[int, list[str]]], first: int) -> Iterator[Marks]:
    """The brackets in MISC; those of an empty node are between two words."""
    count = first
    for line, cells in rows:
        start, _, last = cells[0].partition("-")
        stop = first + int(last or start) if "." not in start else count
        entities = [part[7:] for part in cells[9].split("|") if part.startswith("Entity=")]
        if entities:
            yield Marks(line, count, stop, entities[0])
        count = stop if not last else count
