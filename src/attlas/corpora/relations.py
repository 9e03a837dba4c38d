"""Relations: which phrases of a text stand in which relation, read from the rows of data sets that hold them.

A text's triples are its annotation `relations`. A triple that its text cannot hold is left out and counted in `Relations.lost`; what is
broken in itself is an error of its row. Spans are never moved to fit.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise, permutations
from pathlib import Path
from reprlib import repr as short
from typing import Any

import numpy as np
import regex

from attlas.core.annotations import RELATIONS, Relations, Triple
from attlas.core.words import Span, given_spans
from attlas.corpora.corpus import BadRow
from attlas.corpora.files import jsonl_rows, opened
from attlas.corpora.rationales import Fields, Layout, has, is_whole, items_of, missing, span_of
from attlas.support.errors import CorpusError

ABSENT, EMPTY, OVERLAP, REPEATED = "not in the text", "empty", "overlap", "repeated"  # why a triple is lost

Part = str | Span  # a phrase that occurs in the text, or its characters

_LETTER = regex.compile(r"[\p{L}\p{M}\p{N}_]")
_TAG = re.compile(r"</?e[12]>")
_TAGGED = (["<e1>", "</e1>", "<e2>", "</e2>"], ["<e2>", "</e2>", "<e1>", "</e1>"])


def located(text: str, head: Part, tail: Part, words: Part | None = None) -> tuple[Span, Span, Span | None] | str:
    """The characters of a triple's phrases in its text, or why it is lost: "empty", "not in the text" or "overlap".

    An occurrence inside a longer word counts only if there is no other. Of all ways to place the phrases side by side it is the one of the
    smallest extent, of several such the earliest.

    >>> located("Ann sat by Anna; Anna taught Ann.", "Anna", "Ann", "taught")
    ((17, 21), (29, 32), (22, 28))
    >>> located("Ann taught Anna.", "Ann", "Ben"), located("Ann taught Anna.", [0, 3], "Ann taught")
    ('not in the text', 'overlap')
    """
    places = []
    for part in (head, tail) if words is None else (head, tail, words):
        found = _places(text, part)
        if isinstance(found, str):
            return found
        places.append(found)
    spans = _tightest(places)
    if spans is None:
        return OVERLAP
    return spans[0], spans[1], None if words is None else spans[2]


def closest(heads: Iterable[Span], tails: Iterable[Span], sentences: Sequence[int] = (0,)) -> tuple[Span, Span] | None:
    """The pair of mentions (head, tail) that lie closest without overlapping, in one sentence if any do; of several the earliest.

    `sentences` are the characters at which sentences begin.

    >>> closest([(0, 3), (20, 23)], [(9, 12), (16, 19)]), closest([(0, 3), (20, 23)], [(9, 12), (16, 19)], (0, 14, 20))
    (((20, 23), (16, 19)), ((0, 3), (9, 12)))
    """

    def distance(pair: tuple[Span, Span]) -> tuple[bool, int, Span, tuple[Span, Span]]:
        left, right = sorted(pair)
        apart = bisect_right(sentences, left[0]) != bisect_right(sentences, right[0])
        return apart, right[0] - left[1], left, pair

    tails = list(tails)
    pairs = ((head, tail) for head in heads for tail in tails if head[1] <= tail[0] or tail[1] <= head[0])
    return min(pairs, key=distance, default=None)


def trex(row: Fields) -> tuple[str, Relations]:
    """Text and relations of a row with `text` and `triples`: mappings with `head`, `tail`, `relation` and perhaps `relation_words`.

    The form of Chizhikova et al. 2022 for sentences of T-REx, and of users' own files. A phrase is a string that occurs in the text, or a
    pair [start, stop] of characters; `located` says which occurrence is meant.

    >>> trex({"text": "Ann taught Ben.", "triples": [{"head": "Ann", "tail": [11, 14], "relation": "teacher"}]})[1].triples
    (Triple(head=(0, 3), tail=(11, 14), relation='teacher', words=None),)
    """
    text = _string(row, "text")
    return text, _relations(_listed(text, items_of(row.get("triples"), "triples")))


def fewrel(row: Fields) -> tuple[tuple[str, ...], Relations]:
    """Words and relation of a row of FewRel (Han et al. 2018): `tokens`, `relation`, and `h` and `t` that are [name, id, [[positions], ...]].

    Positions count, names are not looked at; of several mentions it is the pair that lies closest. Blank tokens are no words.

    >>> fewrel({"tokens": ["Ann", " ", "taught", "Ben"], "h": ["ann", "Q1", [[0]]], "t": ["ben", "Q2", [[3]]], "relation": "P1"})
    (('Ann', 'taught', 'Ben'), Relations(triples=(Triple(head=(0, 3), tail=(11, 14), relation='P1', words=None),), ...))
    """
    words, spans = _solid(items_of(row.get("tokens"), "tokens"), "tokens")
    pair = closest(_mentions(row, "h", spans), _mentions(row, "t", spans))
    relation = _name(row, "relation")
    return words, _relations([Triple(*pair, relation) if pair else OVERLAP])


def semeval(row: Fields) -> tuple[str, Relations]:
    """Text and relation of a row of SemEval-2010 Task 8 (Hendrickx et al. 2010): `relation`, and a `sentence` with `<e1>` and `<e2>`.

    The head is e1 and the tail e2, whichever comes first; the relation is as written, with its direction.

    >>> semeval({"sentence": "A <e1>baker</e1> baked <e2>bread</e2>.", "relation": "Product-Producer(e2,e1)"})[0]
    'A baker baked bread.'
    """
    sentence, relation = _string(row, "sentence"), _name(row, "relation")
    tags = _TAG.findall(sentence)
    if tags not in _TAGGED:
        raise CorpusError(
            f"its 'sentence' has the tags {' '.join(tags) or 'none'}; it must have one <e1>...</e1> and one <e2>...</e2>, side by side"
        )
    pieces = _TAG.split(sentence)
    ends = list(accumulate(map(len, pieces)))
    spans = (ends[0], ends[1]), (ends[2], ends[3])
    head, tail = spans if tags == _TAGGED[0] else spans[::-1]
    text = "".join(pieces)
    return text, _relations(_listed(text, [{"head": head, "tail": tail, "relation": relation}]))


def docred(row: Fields) -> tuple[tuple[str, ...], Relations]:
    """Words and relations of a document of DocRED (Yao et al. 2019) or Re-DocRED (Tan et al. 2022): `sents`, `vertexSet`, `labels`.

    Each fact between entities gives the triple of their mentions that lie closest, in one sentence if any do. Without `labels` there are no
    facts. Blank tokens are no words.
    """
    sentences = [items_of(sentence, "sents") for sentence in items_of(row.get("sents"), "sents")]
    words, spans = _solid([token for sentence in sentences for token in sentence], "sents")
    firsts = [0, *accumulate(map(len, sentences))]  # sentence: its first token
    entities = []
    for number, entity in enumerate(items_of(row.get("vertexSet"), "vertexSet")):
        with _in(f"entity {number} of its 'vertexSet'"):
            entities.append(_entity(items_of(entity, "mentions"), sentences, firsts, spans))
    begins = [next(filter(None, spans[start:stop]), None) for start, stop in pairwise(firsts)]
    starts = tuple(begin[0] for begin in begins if begin is not None)
    facts = _facts(row, len(entities))
    pairs = [closest(entities[head], entities[tail], starts) for head, tail, _ in facts]
    triples = [Triple(*pair, fact[2]) if pair else OVERLAP for pair, fact in zip(pairs, facts, strict=True)]
    return words, _relations(triples, tuple(entities), tuple(dict.fromkeys(facts)), starts)


def relation_names(path: str | Path) -> dict[str, str]:
    """What relations' ids mean, from a file: .jsonl with `relation` and `title`, or .json that maps ids to names or to lists with the name first; also .gz."""
    path = Path(path).expanduser()
    ending = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if ending in (".jsonl", ".ndjson"):
        names = dict(_titles(path))
    elif ending == ".json":
        names = _mapped(path)
    else:
        raise CorpusError(
            f"{path} ends in {ending or 'nothing'!r}; names of relations are .jsonl with 'relation' and 'title', or .json from id to name (also .gz)"
        )
    if not names:
        raise CorpusError(f"{path} names no relations; it is empty")
    return names


TREX = Layout(RELATIONS, "text", has("triples"), trex)
FEWREL = Layout(RELATIONS, "tokens", has("h", "t"), fewrel)
SEMEVAL = Layout(RELATIONS, "sentence", lambda row: "relation" in row and _is_tagged(row["sentence"]), semeval)
DOCRED = Layout(RELATIONS, "sents", has("vertexSet"), docred)
LAYOUTS = (TREX, FEWREL, SEMEVAL, DOCRED)


def _places(text: str, part: Part) -> list[Span] | str:
    """Where a phrase stands in a text, in order, or why it is lost."""
    if isinstance(part, str):
        return (_occurrences(text, part) or ABSENT) if part.strip() else EMPTY
    start, stop = part
    if start >= stop:
        return EMPTY
    if start < 0 or stop > len(text):
        return ABSENT
    return [(start, stop)] if text[start:stop].strip() else EMPTY


def _occurrences(text: str, phrase: str) -> list[Span]:
    """Every occurrence of a phrase that is not inside a longer word, or else every one.

    >>> _occurrences("Ann sat by Anna", "Ann"), _occurrences("banana", "ana")
    ([(0, 3)], [(1, 4), (3, 6)])
    """
    spans, start = [], text.find(phrase)
    while start >= 0:
        spans.append((start, start + len(phrase)))
        start = text.find(phrase, start + 1)
    return [span for span in spans if not any(_is_inside_word(text, end) for end in span)] or spans


def _is_inside_word(text: str, place: int) -> bool:
    """Whether a letter, digit or underscore stands on either side of a place."""
    return 0 < place < len(text) and all(_LETTER.match(text[at]) for at in (place - 1, place))


def _tightest(places: Sequence[list[Span]]) -> tuple[Span, ...] | None:
    """One span of each list, without overlap and of the smallest extent; None if there are none. The spans of a list are in order and equally long."""

    def rank(spans: tuple[Span, ...]) -> tuple[int, int, tuple[Span, ...]]:
        start = min(start for start, _ in spans)
        return max(stop for _, stop in spans) - start, start, spans

    found = (
        tuple(spans[order.index(part)] for part in range(len(places)))
        for order in permutations(range(len(places)))
        for spans in _side_by_side(*(places[part] for part in order))
    )
    return min(found, key=rank, default=None)


def _side_by_side(first: list[Span], second: list[Span], third: list[Span] | None = None) -> Iterator[tuple[Span, ...]]:
    """For each span of the second list the nearest one of the first before it, and of the third after it: no others have the smallest extent."""
    stops = [stop for _, stop in first]
    starts = [start for start, _ in third or ()]
    for span in second:
        left, right = bisect_right(stops, span[0]) - 1, bisect_left(starts, span[1])
        if left >= 0 and third is None:
            yield first[left], span
        elif left >= 0 and third is not None and right < len(third):
            yield first[left], span, third[right]


def _listed(text: str, items: Iterable[Any]) -> Iterator[Triple | str]:
    """The triples of a text as a list of mappings gives them, or why each is lost."""
    for number, item in enumerate(items):
        with _in(f"item {number} of its 'triples'"):
            if not isinstance(item, Mapping):
                raise CorpusError(f"it is a {type(item).__name__}, not a mapping")
            head, tail, words = (_part(item, field) for field in ("head", "tail", "relation_words"))
            if head is None or tail is None:
                raise CorpusError(missing(item, "head" if head is None else "tail", "string"))
            relation = _name(item, "relation")
        spans = located(text, head, tail, words)
        yield spans if isinstance(spans, str) else Triple(spans[0], spans[1], relation, spans[2])


def _part(item: Fields, field: str) -> Part | None:
    value = item.get(field)
    if value is None or isinstance(value, str):
        return value
    ends = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(ends, list | tuple) or len(ends) != 2 or not all(map(is_whole, ends)):
        raise CorpusError(f"its {field!r} is {short(ends)}; it must be a string, or a span [start, stop] of characters")
    return int(ends[0]), int(ends[1])


def _relations(
    found: Iterable[Triple | str],
    entities: tuple[tuple[Span, ...], ...] = (),
    facts: tuple[tuple[int, int, str], ...] = (),
    sentences: tuple[int, ...] = (0,),
) -> Relations:
    """Relations of the triples that are not lost, each once, and of what else is known of a document."""
    triples: dict[Triple, None] = {}
    lost: Counter[str] = Counter()
    for one in found:
        if isinstance(one, str) or one in triples:
            lost[one if isinstance(one, str) else REPEATED] += 1
        else:
            triples[one] = None
    return Relations(tuple(triples), entities, facts, sentences, tuple(sorted(lost.items())))


def _solid(tokens: Sequence[Any], field: str) -> tuple[tuple[str, ...], list[Span | None]]:
    """The tokens that are not blank, and for each token its characters in them joined by blanks, None for a blank one."""
    for number, token in enumerate(tokens):
        if not isinstance(token, str):
            raise CorpusError(f"token {number} of its {field!r} is {short(token)}, not a string")
    words = tuple(token for token in tokens if token.strip())
    spans = iter(given_spans(words))
    return words, [next(spans) if token.strip() else None for token in tokens]


def _characters(spans: Sequence[Span | None], start: int, stop: int) -> Span:
    """The characters of the tokens [start, stop)."""
    solid = [span for span in spans[start:stop] if span is not None]
    if not solid:
        raise CorpusError(f"its tokens [{start}, {stop}) are blank; a mention must have words")
    return solid[0][0], solid[-1][1]


def _mentions(row: Fields, field: str, spans: Sequence[Span | None]) -> list[Span]:
    """The mentions in FewRel's `h` or `t`."""
    entity = items_of(row.get(field), field)
    mentions = items_of(entity[2], field) if len(entity) == 3 else []
    if not mentions:
        raise CorpusError(f"its {field!r} is {short(entity)}; it must be [name, id, [[token positions], ...]]")
    with _in(f"its {field!r}"):
        return [_characters(spans, *_run(items_of(positions, field), len(spans))) for positions in mentions]


def _run(positions: list[Any], size: int) -> Span:
    """Consecutive positions as a span [start, stop) of tokens."""
    if not positions or not all(map(is_whole, positions)):
        raise CorpusError(f"it holds {short(positions)} where token positions must stand")
    start, stop = int(positions[0]), int(positions[-1]) + 1
    if not 0 <= start < stop <= size:
        raise CorpusError(f"it holds the positions {short(positions)}, but the text has {size} tokens")
    if stop - start != len(positions) or any(position != start + at for at, position in enumerate(positions)):
        raise CorpusError(f"it holds the positions {short(positions)}, which are not consecutive")
    return start, stop


def _entity(
    mentions: list[Any], sentences: Sequence[list[Any]], firsts: Sequence[int], spans: Sequence[Span | None]
) -> tuple[Span, ...]:
    """The mentions of an entity of DocRED."""
    if not mentions:
        raise CorpusError("it has no mentions")
    found = []
    for number, mention in enumerate(mentions):
        with _in(f"mention {number}"):
            if not isinstance(mention, Mapping):
                raise CorpusError(f"it is a {type(mention).__name__}, not a mapping")
            sentence = _index(mention, "sent_id", len(sentences), "sentences")
            start, stop = span_of(mention.get("pos"), "pos", len(sentences[sentence]), "tokens", "sentence")
            found.append(_characters(spans, firsts[sentence] + start, firsts[sentence] + stop))
    return tuple(found)


def _facts(row: Fields, entities: int) -> list[tuple[int, int, str]]:
    """The facts (head, tail, relation) in DocRED's `labels`, if it has them."""
    facts = []
    for number, label in enumerate([] if row.get("labels") is None else items_of(row["labels"], "labels")):
        with _in(f"item {number} of its 'labels'"):
            if not isinstance(label, Mapping):
                raise CorpusError(f"it is a {type(label).__name__}, not a mapping")
            head, tail = (_index(label, field, entities, "entities") for field in ("h", "t"))
            facts.append((head, tail, _name(label, "r")))
    return facts


def _index(fields: Fields, field: str, size: int, unit: str) -> int:
    """The number of one of the sentences or entities."""
    value = fields.get(field)
    if not is_whole(value) or not 0 <= value < size:  # type: ignore[operator]
        raise CorpusError(f"its {field!r} is {short(value)}, but there are {size} {unit}, numbered from 0")
    return int(value)  # type: ignore[arg-type]


def _string(fields: Fields, field: str) -> str:
    """A field that must hold a string."""
    value = fields.get(field)
    if not isinstance(value, str):
        raise CorpusError(missing(fields, field, "string"))
    return value


def _name(fields: Fields, field: str) -> str:
    """A field that must hold a string that can be shown."""
    value = _string(fields, field)
    if not value.strip():
        raise CorpusError(f"its {field!r} is empty")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(f"its {field!r} is not valid UTF-8; convert the file to UTF-8") from error
    return value


def _is_tagged(sentence: Any) -> bool:
    return isinstance(sentence, str) and _TAG.search(sentence) is not None


def _titles(path: Path) -> Iterator[tuple[str, str]]:
    """(relation, title) of each line."""
    for where, row in jsonl_rows(path):
        if isinstance(row, BadRow):
            raise row.error()
        if not isinstance(row, Mapping):
            continue  # jsonl_rows has nothing else
        with _in(where):
            names = _name(row, "relation"), _name(row, "title")
        yield names


def _mapped(path: Path) -> dict[str, str]:
    """The names in a mapping from ids to names, or to lists that begin with them."""
    with opened(path) as file:
        try:
            content = json.load(file)
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{path} is not JSON ({str(error) or type(error).__name__})") from error
    if not isinstance(content, dict):
        raise CorpusError(f"{path} is a JSON {type(content).__name__}; it must map relations to their names")
    first = {key: value[0] if isinstance(value, list) and value else value for key, value in content.items()}
    with _in(str(path)):
        return {relation: _name(first, relation) for relation in first}


@contextmanager
def _in(where: str) -> Iterator[None]:
    """Say of an error where it stands."""
    try:
        yield
    except CorpusError as error:
        raise CorpusError(f"{where}: {error}") from error
