"""Documents with coreferent mentions: LitBank (CoNLL-2012), GAP, and CoNLL-U with entities; and the heads of mentions without trees."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from reprlib import repr as short
from typing import Any

from attlas.core.annotations import COREFERENCE, Coreference, Mention
from attlas.core.text import Text
from attlas.core.words import Span, word_spans
from attlas.corpora.conllu import (
    BrokenLineError,
    Line,
    Marks,
    TextRow,
    bracketed,
    check_unicode,
    conllu_documents,
    numbered_lines,
)
from attlas.corpora.corpus import BadRow, Corpus
from attlas.corpora.read import SENTENCES, embedded_file, read
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
TAKEN = (
    ".conllu (with Entity= in MISC), .conll (CoNLL-2012, as LitBank's), .tsv with GAP's header, each also .gz; "
    f"'embedded:{SENTENCES}', a Corpus, or a list of Texts"
)

_BEGIN = re.compile(r"#begin document\s+(?:\((.*)\)|(.*?))\s*(?:;\s*part\s+([0-9]+))?\s*")


def _forms(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_PRONOUNS = _forms(
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its itself "
    "they them their theirs themselves oneself thou thee thy thine thyself ye who whom whose which what whoever whomever"
)
_DEMONSTRATIVES = _forms("this that these those")  # pronouns only if they stand alone
_PREPOSITIONS = _forms(
    "about above across after against along alongside amid among amongst around as at before behind below beneath beside besides between "
    "beyond by concerning despite down during except for from in inside into like near of off on onto opposite out outside over past per "
    "regarding round since than through throughout till to toward towards under underneath unlike until unto up upon via with within "
    "without"
)
_CLAUSES = _forms("who whom whose which that where when why whereby i he she they we")  # begin a relative clause
_MARKS = _forms(", ; : ( [ -- — – ... …")
_DETERMINERS = _forms("a an the my your his her its our their thy every no")
_CONJUNCTIONS = _forms("and or nor but &")
_TITLES = _forms("mr mrs miss ms dr sir lady lord messrs mme mlle")
_POSSESSIVES = _forms("'s ’s ' ’")
_OPENING = _forms("\" “ ‘ ' ` `` . ! ? ...")  # a word after these is written large whatever it is
_GENERATIONS = _forms("jr sr jnr snr esq i ii iii iv v vi vii viii ix xi xii xiii xiv xv xvi")

_ENDERS = _PREPOSITIONS | _CLAUSES | _MARKS
_PASSED = _ENDERS | _CONJUNCTIONS | _POSSESSIVES  # at the beginning of a mention
_CLOSED = _ENDERS | _PRONOUNS | _DEMONSTRATIVES | _DETERMINERS | _CONJUNCTIONS


@dataclass
class _Part:
    """A part of a document in CoNLL-2012: the line it begins at, its name (None for lines outside of any) and number, its lines, whether it ended."""

    line: int
    name: str | None
    number: str
    lines: list[Line] = field(default_factory=list)
    ended: bool = False


def documents(source: str | Path | Corpus | Sequence[Text]) -> Corpus:
    """Texts with coreferent mentions, one a document, read lazily from a path by its ending; a Corpus and Texts are taken as they are."""
    if isinstance(source, Corpus):
        return source
    if isinstance(source, list | tuple):
        return _given(source)
    if not isinstance(source, str | Path):
        raise CorpusError(f"documents with coreference cannot be made of a {type(source).__name__}; give {TAKEN}")
    if source == f"embedded:{SENTENCES}":
        return _corpus(source, embedded_file(SENTENCES), conllu_documents)
    path = Path(source).expanduser()
    if not os.path.exists(path):  # unlike Path.exists, no error if a whole text was given
        raise CorpusError(f"there is no file {str(path)[:200]!r}; documents with coreference are {TAKEN}")
    return _corpus(str(path), path, _reader(path))


def litbank_rows(path: Path) -> Iterator[TextRow]:
    """One text a document of CoNLL-2012, as LitBank has it (Bamman et al. 2020), with its mentions by `surface_head` and `surface_kind`.

    The word is column 4, coreference the last one: `(3`, `3)`, `(3)`, joined by `|`; nothing, `_` or `-` for none. Columns are cut by tabs,
    or by blanks in a line without tabs. If a document has several parts, each is a text whose id names its part.
    """
    before: str | None = None
    for part, after in pairwise(chain(_parts(path), [None])):
        if part is not None:  # only the last `after` is None
            several = part.name is not None and part.name in (before, after.name if after else None)
            yield _litbank_row(path, part, f"{part.name}, part {part.number}" if several else part.name)
            before = part.name


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
            names = _gap_header(path, cells)
        elif content.strip():
            try:
                check_unicode(line, content)
                if len(cells) != len(names):
                    raise CorpusError(f"it has {len(cells)} cells, but the header has {len(names)}; cut them by tabs")
                yield where, _gap_text(where, dict(zip(names, cells, strict=True)))
            except CorpusError as error:
                yield where, BadRow(where, str(error), cells[names.index("ID")] if len(cells) == len(names) else None)


def surface_head(words: Sequence[str]) -> int:
    """The index of the word that heads a mention [word], found without a tree.

    It is the last word before the first that begins a post-modifier: a preposition, a relative pronoun, the subject of a clause, a comma, a
    bracket or a dash; such words at the very beginning are passed over. `and` or `or` ends a name, so that the first of several names is the
    head. A comma between adjectives ("a tall, thin man") ends nothing; nor does what looks like a preposition after a determiner ("the near
    side"). A possessive 's and punctuation are no heads. Of the mentions of several words of UD-GUM's dev documents it finds the tree's head in 86 of 100, in
    fiction in 96; a third of the others are full names, where UD takes the first name and this rule the last.

    >>> surface_head("the old man with the dog".split()), surface_head("Anna and Ben".split()), surface_head("Tom 's".split())
    (2, 0, 0)
    """
    lower = [word.lower() for word in words]
    begin = next((at for at, word in enumerate(lower) if word not in _PASSED and _is_read(word)), None)
    if begin is None:
        return next((at for at, word in enumerate(words) if _is_read(word)), 0)
    stop = next((at for at in range(begin + 1, len(words)) if _ends(at, begin, words, lower)), len(words))
    return next(
        (at for at in range(stop - 1, begin, -1) if lower[at] not in _POSSESSIVES and _is_read(words[at])), begin
    )


def surface_kind(form: str, words: int, names: Collection[str]) -> str:
    """The kind of a mention of some words by the form of its head; `names` are the document's forms as in `capitalised`.

    >>> surface_kind("That", 1, {"Anna"}), surface_kind("Anna", 1, {"Anna"}), surface_kind("Dogs", 1, {"Anna"})
    ('pronoun', 'proper', 'common')
    """
    if form.lower() in _PRONOUNS or (form.lower() in _DEMONSTRATIVES and words == 1):
        return "pronoun"
    return "proper" if form in names else "common"


def capitalised(words: Sequence[str], sentences: Sequence[int]) -> set[str]:
    """The forms that a document [word] writes with a capital inside a sentence: not as its first word, nor as the first after a quote or full stop.

    >>> sorted(capitalised(["Dogs", "bark", ".", "“", "No", ",", "Anna", "”"], (0, 3)))
    ['Anna']
    """
    found, first, starts = set(), True, set(sentences)
    for index, word in enumerate(words):
        first = first or index in starts or word in _OPENING
        if _is_read(word):
            if not first and word[0].isupper():
                found.add(word)
            first = False
    return found


def name_head(words: Sequence[str]) -> int:
    """The index of the last word of a name [word], before a comma, a bracket or a mark of generation.

    >>> name_head(["Sammy", "Davis", ",", "Jr", "."]), name_head(["Henry", "VIII"]), name_head(["Ada"])
    (1, 0, 0)
    """
    stop = next((at for at, word in enumerate(words) if at and word in (",", "(")), len(words))
    return next(
        (at for at in range(stop - 1, 0, -1) if _is_read(words[at]) and words[at].lower() not in _GENERATIONS), 0
    )


def _is_read(word: str) -> bool:
    """Whether a word has a letter or digit."""
    return any(letter.isalnum() for letter in word)


def _ends(at: int, begin: int, words: Sequence[str], lower: Sequence[str]) -> bool:
    """Whether what heads a mention ends before a word, which begins a post-modifier or another name."""
    if lower[at] == ",":
        return not _between_adjectives(at, begin, words, lower)
    if lower[at] in _PREPOSITIONS:
        return lower[at - 1] not in _DETERMINERS
    if lower[at] in _CONJUNCTIONS:
        return words[at - 1][0].isupper() and lower[at - 1].rstrip(".") not in _TITLES
    return lower[at] in _ENDERS


def _between_adjectives(comma: int, begin: int, words: Sequence[str], lower: Sequence[str]) -> bool:
    """Whether a comma stands after a single plain word and before two, or before one and another comma: "a tall, thin man"."""
    if comma + 2 >= len(words):
        return False
    is_single = comma - 2 < begin or lower[comma - 2] in _DETERMINERS | _DEMONSTRATIVES | {","}
    is_plain = [words[at][0].islower() and lower[at] not in _CLOSED for at in (comma - 1, comma + 1)]
    return is_single and all(is_plain) and (lower[comma + 2] == "," or lower[comma + 2] not in _CLOSED)


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
                part.line, "it stands outside of a document; put '#begin document (NAME); part 0' before it"
            )
        check_unicode(part.line, part.name)
        words, sentences, marks = _litbank_words(part.lines)
        if not words:
            raise BrokenLineError(part.line, "the document has no words; give it one a line")
        if not part.ended:
            raise BrokenLineError(part.line, "the document does not end; put '#end document' after its last word")
        spans = bracketed(marks)
    except BrokenLineError as broken:
        return broken.row(path, id_)
    names = capitalised(words, sentences)
    mentions = tuple(_surface_mention(words, *span, names) for span in spans)
    where = f"{path}, line {part.line}"
    notes = {"where": where, COREFERENCE: Coreference(mentions, tuple(sentences))}
    return where, Text(id_ or "", words=tuple(words), annotations=notes)


def _litbank_words(lines: list[Line]) -> tuple[list[str], list[int], list[Marks]]:
    """The words of a document, the words at which its sentences begin, and the brackets of its mentions."""
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
            line, f"it has {len(cells)} columns; a word has document, part, number, word, ..., coreference, at least 5"
        )
    if not cells[3].strip():
        raise BrokenLineError(line, "its word (column 4) is empty; write the word")
    return cells[3].strip(), cells[-1].strip()


def _surface_mention(words: list[str], start: int, stop: int, chain: str, names: set[str]) -> Mention:
    head = start + surface_head(words[start:stop])
    return Mention(start, stop, head, chain, surface_kind(words[head], stop - start, names))


def _gap_header(path: Path, names: list[str]) -> list[str]:
    """The names of GAP's columns in a file's first line."""
    missing = [name for name in GAP_COLUMNS[:-1] if name not in names]
    if missing:
        raise CorpusError(
            f"{path}, line 1: it is not GAP's header, for it has no {', '.join(missing)}; documents with coreference are {TAKEN}"
        )
    return names


def _gap_text(where: str, row: Mapping[str, str]) -> Text:
    """The text of a row with its three mentions."""
    places = {name: _gap_place(row, name) for name in ("Pronoun", "A", "B")}
    spans = _cut(word_spans(row["Text"]), {border for place in places.values() for border in place})
    words = tuple(row["Text"][start:stop] for start, stop in spans)
    mentions = [_gap_mention(row, name, place, spans, words) for name, place in places.items()]
    mentions.sort(key=lambda mention: (mention.start, -mention.stop))
    notes = {"where": where, COREFERENCE: Coreference(tuple(mentions), around=True)}
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
    if not _is_read(form) or found != form:
        raise CorpusError(
            f"its {name} is {short(form)} at character {start}, but there stands {short(found)}; offsets count the Text's characters from 0"
        )
    return start, start + len(form)


def _gap_mention(row: Mapping[str, str], name: str, place: Span, spans: list[Span], words: tuple[str, ...]) -> Mention:
    """The mention of the pronoun or of a name, given its characters and those of all words."""
    inside = [index for index, (start, stop) in enumerate(spans) if place[0] <= start and stop <= place[1]]
    start, stop = inside[0], inside[-1] + 1
    if name == "Pronoun":
        return Mention(start, stop, start, "0", "pronoun")
    told = row[f"{name}-coref"].strip().upper()
    if told not in ("TRUE", "FALSE"):
        raise CorpusError(f"its {name}-coref is {short(told)}; write TRUE if the pronoun means {name}, else FALSE")
    return Mention(start, stop, start + name_head(words[start:stop]), "0" if told == "TRUE" else name, "proper")


def _cut(spans: list[Span], borders: set[int]) -> list[Span]:
    """Spans of words, cut at every border that lies inside one.

    >>> _cut([(0, 6), (7, 9)], {0, 4, 7})
    [(0, 4), (4, 6), (7, 9)]
    """
    return [
        piece
        for start, stop in spans
        for piece in pairwise([start, *sorted(border for border in borders if start < border < stop), stop])
    ]


def _given(texts: Sequence[Any]) -> Corpus:
    """A list of Texts as a corpus."""
    other = next((item for item in texts if not isinstance(item, Text)), None)
    if other is not None:
        raise CorpusError(
            f"the list holds a {type(other).__name__}, which has no mentions; documents with coreference are {TAKEN}"
        )
    return read(texts)


def _reader(path: Path) -> Callable[[Path], Iterator[TextRow]]:
    """What reads a file, by its ending; the header of a .tsv is looked at."""
    ending = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if path.is_dir() or ending not in READERS:
        kind = "is a folder" if path.is_dir() else f"ends in {ending or 'nothing'!r}"
        raise CorpusError(f"{path} {kind}; documents with coreference are {TAKEN}")
    if READERS[ending] is gap_rows:
        _gap_header(path, next(numbered_lines(path), (1, ""))[1].split("\t"))
    return READERS[ending]


def _corpus(name: str, path: Path, reader: Callable[[Path], Iterator[TextRow]]) -> Corpus:
    """The documents of a file."""

    def texts() -> Iterator[Text | BadRow]:
        empty = True
        for _, row in reader(path):
            empty = False
            yield row
        if empty:
            raise CorpusError(f"{path} holds no documents; it is empty")

    return Corpus(name, texts)


READERS: dict[str, Callable[[Path], Iterator[TextRow]]] = {
    ".conllu": conllu_documents,
    ".conll": litbank_rows,
    ".tsv": gap_rows,
}
