"""Which phrases of a sentence may be a subject or an object, and which may relate the two?

Nominal and relational phrases are candidates, more than hold: a chunk is given whole and in the
parts that a reader might mark, so one may overlap another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

from attlas.language.lists import word_list
from attlas.language.sentences import MAY_BE_LAST, NEVER_LAST
from attlas.language.tagging import Word, tagged
from attlas.language.words import Span
from attlas.support.errors import MeasureError


@dataclass(frozen=True)
class Phrase:
    """A candidate phrase of a sentence, by its characters; `tag` is that of its head word."""

    start: int
    stop: int
    kind: str  # "nominal" or "relational"
    tag: str


def phrases(text: str, parser: str = "rules") -> list[Phrase]:
    """The candidate phrases of one sentence, by (start, stop); one may overlap another.

    >>> text = "Ada was born in the old town of Ghent."
    >>> found = phrases(text)
    >>> [text[one.start : one.stop] for one in found if one.kind == "nominal"]
    ['Ada', 'old town', 'town', 'Ghent']
    >>> [text[one.start : one.stop] for one in found if one.kind == "relational"]
    ['was born in', 'born', 'born in', 'old town', 'old town of', 'town', 'town of']
    """
    if parser not in PARSERS:
        raise MeasureError(
            f"there is no parser {parser!r}; choose one of {', '.join(map(repr, PARSERS))}"
        )
    words, chunks = PARSERS[parser](text)
    units = _units(words)
    candidates = {(*span, "nominal") for span in _within(units, chunks)}
    for kind, rules in _RULES.items():
        candidates.update((*span, kind) for rule in rules for span in rule(units))
    every = (
        Phrase(units[first].start, units[stop - 1].stop, kind, _head(units[first:stop]))
        for first, stop, kind in candidates
    )
    return sorted(every, key=lambda phrase: (phrase.start, phrase.stop, phrase.kind))


def head_tag(words: Sequence[Word], span: Span) -> str:
    """The tag of the word that heads a span.

    The verb of a verbal span, the last noun before a preposition of a nominal one, else the first
    word's.

    >>> words = tagged("The old mother of Ada was born in Ghent.")
    >>> head_tag(words, (4, 21)), head_tag(words, (22, 33)), head_tag(words, (19, 19))
    ('NOUN', 'VERB', 'X')
    """
    return _head([word for word in words if max(word.start, span[0]) < min(word.stop, span[1])])


def _head(words: Sequence[Word | _Unit]) -> str:
    tags = [word.tag for word in words]
    if not tags:
        return "X"
    links = (at for at, tag in enumerate(tags) if at and tag in ("ADP", "SCONJ"))
    core = tags[: next(links, None)]
    nouns = [tag for tag in core if tag in _NOUNS]
    modified = core[-1] in _NOUNS and words[0].string.endswith(("ing", "ed"))  # "operating system"
    if core[0] in ("AUX", "VERB", "ADV", "PART") and "VERB" in core and not modified:
        return "VERB"
    return nouns[-1] if nouns else core[0]


@dataclass(frozen=True)
class _Unit:
    """Words written together, as one: "north-eastern", "J.", "10,000".

    `stop` excludes a genitive mark and a final full stop.
    """

    start: int
    stop: int
    string: str
    tag: str
    opening: bool  # nothing but marks before it
    capital: bool  # written like a name, and not only because it opens the sentence
    owner: bool  # followed by a genitive mark


def _units(words: Sequence[Word]) -> list[_Unit]:
    """The words of a sentence, joined where they are written together."""
    units: list[_Unit] = []
    opening, at = True, 0
    while at < len(words):
        stop = _joined(words, at)
        units.append(_unit(words[at:stop], opening))
        opening = opening and units[-1].tag in ("PUNCT", "SYM")
        if stop < len(words) and _genitive(words[stop - 1], words[stop]):
            units[-1] = replace(units[-1], owner=True)
            stop += 1
        elif _dotted(units[-1], words[stop : stop + 2]):
            stop += 1
        at = stop
    return units


def _joined(words: Sequence[Word], at: int) -> int:
    """Where the unit that starts at a word stops: past joints that touch both words."""
    stop = at + 1
    while stop + 1 < len(words) and _joint(*words[stop - 1 : stop + 2]):
        stop += 2
    return stop


def _joint(left: Word, mark: Word, right: Word) -> bool:
    if left.stop != mark.start or mark.stop != right.start or mark.string not in _JOINTS:
        return False
    before, after = left.string[-1], right.string[0]
    if mark.string == ",":
        return before.isdigit() and after.isdigit()
    if mark.string == "–":
        return before.isalpha() and after.isalpha()
    return before.isalnum() and after.isalnum()


def _unit(words: Sequence[Word], opening: bool) -> _Unit:
    last, string = words[-1], "".join(word.string for word in words)
    owner = len(string) > 2 and string.endswith(("'s", "’s")) and last.tag in _NOUNS
    tag = last.tag
    if len(words) > 1 and tag != "NUM":
        tag = "PROPN" if last.string[0].isupper() else "ADJ" if tag in ("VERB", "ADJ") else "NOUN"
    bare = string[: len(string) - 2 * owner]
    inner = bare.strip(_MARKS) or bare
    start = words[0].start + bare.index(inner)
    has_capital = string != "I" and string.lower() != string
    capital = tag == "PROPN" or (has_capital and not opening and tag not in ("PUNCT", "SYM"))
    return _Unit(start, start + len(inner), string, tag, opening, capital, owner)


def _genitive(owner: Word, mark: Word) -> bool:
    return mark.tag == "PART" and mark.string in _GENITIVES and mark.start == owner.stop


def _dotted(unit: _Unit, after: Sequence[Word]) -> bool:
    """Whether the full stop after a unit belongs to it: an initial, a title, or "U.S."."""
    if len(after) < 2 or after[0].string != "." or after[0].start != unit.stop:
        return False
    short = len(unit.string) == 1 or "." in unit.string or unit.string in NEVER_LAST | MAY_BE_LAST
    return short and unit.string[0].isupper()


_MARKS = "_.,;:!?-–—'\"‘’“”«»()[]{}*/\\…"
_JOINTS = frozenset("-‐‑–.,&")
_MONTHS = word_list("names", "months")
_LINKS = word_list("names", "links")
_TITLES = word_list("names", "forms of address", "titles")
_PERSONAL = word_list("pronouns_by_use", "personal")
_POSSESSIVES = word_list("determiners", "possessive")
_GENITIVES = word_list("determiners", "genitive marks")
_PREPOSITIONS = word_list("prepositions", "of a relation")
_COPULAS = word_list("verbs", "be")
_ARTICLES = word_list("determiners", "articles")
_JUDGED = word_list("adjectives", "judgement")
_NOUNS = ("NOUN", "PROPN")
_MAY_OPEN = frozenset(("DET", "VERB", "ADJ", "NOUN", "ADV"))  # of a first word before a name
_NEVER_FIRST = frozenset(("PRON", "CCONJ", "SCONJ", "ADP", "AUX", "PART", "INTJ", "PUNCT"))


def _runs(units: Sequence[_Unit], belongs: Callable[[int, int], bool]) -> Iterator[Span]:
    """Runs of units; `belongs(start, at)` tests whether one continues, and a genitive ends it."""
    at = 0
    while at < len(units):
        start = at
        while at < len(units) and belongs(start, at):
            at += 1
            if units[at - 1].owner:
                break
        if at > start:
            yield start, at
        else:
            at += 1


def _names(units: Sequence[_Unit]) -> list[Span]:
    """Runs of capitalised units."""
    runs = _runs(units, lambda start, at: _in_name(units, start, at))
    return [span for span in runs if any(unit.tag != "DET" for unit in units[slice(*span)])]


def _in_name(units: Sequence[_Unit], start: int, at: int) -> bool:
    """Whether a unit belongs to the name that starts at `start`; a month of a date does not."""
    may_open = at > start or units[at].tag not in _NEVER_FIRST
    return units[at].capital and may_open and not _dated(units, at)


def _name_parts(units: Sequence[_Unit]) -> Iterator[Span]:
    """Each name, whole and in parts.

    Without its article or title, with the first word of the sentence before it, and with adjacent
    numbers.
    """
    for start, stop in _names(units):
        yield start, stop
        if units[start].tag == "DET" or units[start].string.lower() in _TITLES:
            start += 1
            if start < stop:
                yield start, stop
        elif start and _may_open(units[start - 1]):
            yield start - 1, stop
        first, last = start - _number(units, start - 1), stop + _number(units, stop)
        if (first, last) != (start, stop):
            yield first, last


def _may_open(unit: _Unit) -> bool:
    """Whether a unit is the capitalised first word of its sentence that may belong to a name."""
    return unit.opening and unit.tag in _MAY_OPEN and unit.string[0].isupper()


def _tag(units: Sequence[_Unit], at: int) -> str:
    """The tag of a unit; empty outside the sentence."""
    return units[at].tag if 0 <= at < len(units) else ""


def _string(units: Sequence[_Unit], at: int) -> str:
    """A unit as it is written; empty outside the sentence."""
    return units[at].string if 0 <= at < len(units) else ""


def _number(units: Sequence[_Unit], at: int) -> int:
    """1 if there is a number here, else 0."""
    return int(_tag(units, at) == "NUM")


def _linked_names(units: Sequence[_Unit]) -> Iterator[Span]:
    """Names joined by small words as one ("University of Ghent")."""
    runs = _names(units)
    chain = 0
    for one, (start, _) in enumerate(runs):
        chain = max(chain, one)
        while chain + 1 < len(runs) and _linked(units, runs[chain], runs[chain + 1]):
            chain += 1
        if chain > one and (one == 0 or not _linked(units, runs[one - 1], runs[one])):
            yield start, runs[chain][1]


def _linked(units: Sequence[_Unit], left: Span, right: Span) -> bool:
    between = units[left[1] : right[0]]
    links = len(between) <= 2 and all(unit.string in _LINKS for unit in between)
    return links and (bool(between) or units[left[1] - 1].owner)


def _dates(units: Sequence[_Unit]) -> Iterator[Span]:
    """Dates with a month ("12 March 1963", "March 12, 1963", "March 1963") and bare numbers."""
    for at, unit in enumerate(units):
        of_month = _day(unit) and any(_dated(units, month) for month in (at - 1, at + 1))
        if unit.tag == "NUM" and not of_month:
            yield at, at + 1
        if not _dated(units, at):
            continue
        start = at - 1 if at and _day(units[at - 1]) else at
        stop = at + 1 + _number(units, at + 1)
        stop += 2 if stop > at + 1 and _year_after_comma(units, stop) else 0
        yield start, stop
        if start < at and stop > at + 1:
            yield at, stop


def _dated(units: Sequence[_Unit], at: int) -> bool:
    """Whether there is a month here, next to a number."""
    named = _tag(units, at) in _NOUNS and units[at].string.lower() in _MONTHS
    return named and "NUM" in (_tag(units, at - 1), _tag(units, at + 1))


def _day(unit: _Unit) -> bool:
    return unit.tag == "NUM" and len(unit.string) <= 2


def _year_after_comma(units: Sequence[_Unit], at: int) -> bool:
    """Whether there is a comma here, between a day and a year."""
    if not _day(units[at - 1]) or not _number(units, at + 1):
        return False
    return units[at].string == "," and 3 <= len(units[at + 1].string) <= 4


def _pronouns(units: Sequence[_Unit]) -> Iterator[Span]:
    """Personal pronouns; not "it" before "is ... that", which names nothing."""
    for at, unit in enumerate(units):
        if unit.tag == "PRON" and unit.string.lower() in _PERSONAL and not _expletive(units, at):
            yield at, at + 1


def _expletive(units: Sequence[_Unit], at: int) -> bool:
    after = units[at + 1 : at + 4]
    if units[at].string.lower() != "it" or len(after) < 3:
        return False
    judged = after[1].string in _JUDGED and after[2].string == "to"
    return after[0].string in _COPULAS and (judged or after[2].string == "that")


def _chunks(units: Sequence[_Unit]) -> Iterator[Span]:
    """Noun chunks without article or possessive: modifiers and nouns."""
    for start, stop in _runs(units, lambda _, at: _in_chunk(units, at)):
        while stop > start and _ends_in_modifier(units, start, stop):
            stop -= 1
        if any(unit.tag != "NUM" for unit in units[start:stop]):
            yield start, stop


def _in_chunk(units: Sequence[_Unit], at: int) -> bool:
    unit = units[at]
    if _dated(units, at):
        return False
    if unit.tag in ("NOUN", "PROPN", "ADJ", "NUM"):
        return True
    if unit.capital and unit.tag not in _NEVER_FIRST and unit.tag != "DET":
        return True
    if unit.tag != "VERB" or not 0 < at < len(units) - 1:
        return False
    before, after = units[at - 1], units[at + 1]
    named = before.capital and unit.string.endswith("ing")  # "the Vulcan building code"
    owned = before.owner or before.string.lower() in _POSSESSIVES
    modifies = named or owned or before.tag in ("DET", "ADJ", "NUM")
    return modifies and after.tag in ("NOUN", "ADJ") and not after.capital


def _ends_in_modifier(units: Sequence[_Unit], start: int, stop: int) -> bool:
    """Whether a chunk ends in an adjective or participle that does not stand for a noun.

    One does with a capital, or as in "a subsidiary".
    """
    last = units[stop - 1]
    stands_alone = last.tag == "ADJ" and _tag(units, start - 1) == "DET"
    return last.tag in ("ADJ", "VERB") and not last.capital and not stands_alone


def _chunk_parts(units: Sequence[_Unit]) -> Iterator[Span]:
    """Each noun chunk whole, its common part after a name, and the nouns it ends in."""
    for start, stop in _chunks(units):
        yield start, stop
        common = stop
        while common > start and not units[common - 1].capital and units[common - 1].tag != "NUM":
            common -= 1
        if common < stop:
            yield common, stop
            yield _nouns(units, common, stop), stop
            yield stop - 1, stop
        name = next((at for at in range(start, stop) if units[at].capital), start)
        if start < name < common:
            yield name, stop


def _nouns(units: Sequence[_Unit], start: int, stop: int) -> int:
    """Where the run of nouns that ends a chunk starts."""
    first = stop - 1
    while first > start and units[first - 1].tag == "NOUN":
        first -= 1
    return first


def _predicates(units: Sequence[_Unit]) -> Iterator[Span]:
    """The common noun that heads a chunk.

    Alone, with one and with all modifiers, and each with a following preposition.
    """
    for start, stop in _chunks(units):
        before = start  # where the modifiers of this noun start
        for head in range(start, stop):
            if units[head].capital or units[head].tag == "NUM":
                before = head + 1
                continue
            if units[head].tag == "NOUN" or head == stop - 1:
                yield head, head + 1
                yield max(before, head - 1), head + 1
        if before < stop:
            yield before, stop
            if not units[stop - 1].owner and _preposition(units, stop):
                yield stop - 1, stop + 1
                yield before, stop + 1


def _verbs(units: Sequence[_Unit]) -> Iterator[Span]:
    """Each verb, alone and with what belongs to it.

    With a following preposition, with its auxiliaries, and with a bare noun and preposition ("took
    part in").
    """
    for at, unit in enumerate(units):
        if unit.tag != "VERB" or unit.string.lower() in _COPULAS:
            continue
        yield at, at + 1
        stop = at + 1 + _preposition(units, at + 1)
        yield at, stop
        if stop > at + 1 and _preposition(units, stop):
            yield at, stop + 1
        start = at
        while start and units[start - 1].tag in ("AUX", "ADV", "PART"):
            start -= 1
        while start < at and units[start].tag != "AUX":
            start += 1
        yield start, stop
        if at and units[at - 1].string.lower() == "first":
            yield at - 1, at + 1
        if _tag(units, at + 1) == "NOUN" and _preposition(units, at + 2):
            yield at, at + 2
            yield at, at + 3


def _preposition(units: Sequence[_Unit], at: int) -> int:
    """1 if there is a preposition or particle here, else 0."""
    return int(_tag(units, at) == "ADP" or _string(units, at) in _PREPOSITIONS)


def _copulas(units: Sequence[_Unit]) -> Iterator[Span]:
    """Each copula with what follows it.

    An article ("is a"), also with a noun and "of" ("is a type of"), a preposition, or an adjective
    and a preposition.
    """
    for at, unit in enumerate(units[:-1]):
        if unit.string.lower() not in _COPULAS:
            continue
        if units[at + 1].tag == "ADJ" and _preposition(units, at + 2):
            yield at, at + 3
            yield at + 1, at + 3
        if _preposition(units, at + 1) or units[at + 1].string in _ARTICLES:
            yield at, at + 2
        if units[at + 1].string not in _ARTICLES:
            continue
        noun = at + 2
        while _tag(units, noun) == "ADJ":
            noun += 1
        if _tag(units, noun) == "NOUN" and _string(units, noun + 1) == "of":
            yield at, noun + 2


_Rule = Callable[[Sequence[_Unit]], Iterator[Span]]
_RULES: dict[str, tuple[_Rule, ...]] = {
    "nominal": (_name_parts, _linked_names, _dates, _pronouns, _chunk_parts),
    "relational": (_verbs, _copulas, _predicates),
}


def _by_spacy(text: str) -> tuple[list[Word], list[Span]]:
    """The words with spaCy's tags, and its noun chunks."""
    document = _pipeline()(text)
    words = [
        Word(token.idx, token.idx + len(token.text), token.text, token.pos_)
        for token in document
        if not token.is_space
    ]
    return words, [(chunk.start_char, chunk.end_char) for chunk in document.noun_chunks]


@cache
def _pipeline() -> Any:
    """spaCy's pipeline of the first English model that is installed."""
    advice = (
        "install them with pip install 'attlas[spacy]' and "
        "python -m spacy download en_core_web_sm, or choose parser='rules'"
    )
    try:
        spacy = import_module("spacy")
    except ImportError as error:
        raise MeasureError(
            f"parser 'spacy' needs spaCy and an English model, and spaCy is not installed; {advice}"
        ) from error
    for name in MODELS:
        if spacy.util.is_package(name):
            return spacy.load(name)
    raise MeasureError(
        f"parser 'spacy' needs an English model, and none of {', '.join(MODELS)} is installed; "
        f"{advice}"
    )


def _within(units: Sequence[_Unit], chunks: Sequence[Span]) -> Iterator[Span]:
    """Given chunks as units, without what may not start or end a nominal phrase."""
    marks = ("PUNCT", "SYM", "PART")
    for start, stop in chunks:
        inside = [at for at, one in enumerate(units) if start <= one.start and one.stop <= stop]
        while inside and (
            units[inside[0]].tag in ("DET", *marks)
            or units[inside[0]].string.lower() in _POSSESSIVES
        ):
            inside.pop(0)
        while inside and units[inside[-1]].tag in marks:
            inside.pop()
        if inside:
            yield inside[0], inside[-1] + 1


MODELS = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
PARSERS: dict[str, Callable[[str], tuple[list[Word], list[Span]]]] = {
    "rules": lambda text: (tagged(text), []),
    "spacy": _by_spacy,
}
