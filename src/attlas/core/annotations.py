"""Annotations of a text and their names in `Text.annotations`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attlas.language.words import Span

DEPENDENCIES, COREFERENCE, RELATIONS = "dependencies", "coreference", "relations"
COLUMNS = "columns"  # another column of the data that was asked for: its value by its name
WHERE = "where"  # the file and row a text was read from; alone not part of its identity
GLOBAL_SPANS = "global"  # (start, stop) in characters, whose tokens attend globally in a Longformer
RATIONALE = "rationale"  # (start, stop) in characters; () if nothing was marked, absent if unknown
ROOT = -1  # the head of a word that has none
KINDS = ("pronoun", "proper", "common")  # of mentions, by their head word


@dataclass(frozen=True)
class Dependencies:
    """Each word's head (an index, or ROOT), relation and part of speech ("" if unknown)."""

    heads: tuple[int, ...]  # word
    relations: tuple[str, ...]  # word
    tags: tuple[str, ...]  # word


@dataclass(frozen=True)
class Mention:
    """Words `start` to `stop` (exclusive) that name something, headed by `head`.

    Mentions of one `chain` name the same thing.
    """

    start: int
    stop: int
    head: int
    chain: str
    kind: str  # one of KINDS


@dataclass(frozen=True)
class Coreference:
    """The mentions of a text (by start, longer ones first) and the first word of each sentence.

    With `around` an antecedent may also follow its mention, and only pronouns have one, as in data
    sets that give two names for a pronoun.
    """

    mentions: tuple[Mention, ...]
    sentences: tuple[int, ...] = (0,)
    around: bool = False


@dataclass(frozen=True)
class Triple:
    """A relation between two phrases, and the words that express it (None if not annotated).

    Phrases are character spans of `Text.text`, stop exclusive.
    """

    head: Span
    tail: Span
    relation: str
    words: Span | None = None


@dataclass(frozen=True)
class Relations:
    """The triples of a text, in the data's order.

    In a document `entities` are the spans of each one's mentions, `facts` the relations between
    entities (head, tail, relation), of which `triples` hold a pair of mentions each, and
    `sentences` the characters at which sentences begin. `lost` counts unusable triples by reason.
    """

    triples: tuple[Triple, ...]
    entities: tuple[tuple[Span, ...], ...] = ()  # entity: mentions
    facts: tuple[tuple[int, int, str], ...] = ()
    sentences: tuple[int, ...] = (0,)
    lost: tuple[tuple[str, int], ...] = ()


def dependencies_of(annotations: Mapping[str, Any]) -> Dependencies | None:
    """The dependency tree of a text, if it has one."""
    found = annotations.get(DEPENDENCIES)
    return found if isinstance(found, Dependencies) else None


def coreference_of(annotations: Mapping[str, Any]) -> Coreference | None:
    """The mentions of a text, if they were noted."""
    found = annotations.get(COREFERENCE)
    return found if isinstance(found, Coreference) else None


def relations_of(annotations: Mapping[str, Any]) -> Relations | None:
    """The triples of a text, if they were noted."""
    found = annotations.get(RELATIONS)
    return found if isinstance(found, Relations) else None
