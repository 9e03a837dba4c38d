"""What people noted in a text's words: dependency trees and coreferent mentions. They stand in `Text.annotations`, under the names below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEPENDENCIES, COREFERENCE = "dependencies", "coreference"
ROOT = -1  # the head of a word that has none
KINDS = ("pronoun", "proper", "common")  # of mentions, by their head word


@dataclass(frozen=True)
class Dependencies:
    """Each word's head (the index of a word, or ROOT), its relation to it, and its universal part of speech ("" if not known)."""

    heads: tuple[int, ...]  # word
    relations: tuple[str, ...]  # word
    tags: tuple[str, ...]  # word


@dataclass(frozen=True)
class Mention:
    """Words that name something: from `start` up to, not including, `stop`; the word that heads them; whose mentions of one `chain` name the same thing."""

    start: int
    stop: int
    head: int
    chain: str
    kind: str  # one of KINDS


@dataclass(frozen=True)
class Coreference:
    """The mentions of a text in order (by start, longer ones first), and the words at which its sentences begin.

    With `around` an antecedent may also stand after a mention, and only pronouns have one: as in pairs of names given for a pronoun.
    """

    mentions: tuple[Mention, ...]
    sentences: tuple[int, ...] = (0,)
    around: bool = False


def dependencies_of(annotations: Mapping[str, Any]) -> Dependencies | None:
    """The dependency tree of a text, if it has one."""
    found = annotations.get(DEPENDENCIES)
    return found if isinstance(found, Dependencies) else None


def coreference_of(annotations: Mapping[str, Any]) -> Coreference | None:
    """The mentions of a text, if they were noted."""
    found = annotations.get(COREFERENCE)
    return found if isinstance(found, Coreference) else None
