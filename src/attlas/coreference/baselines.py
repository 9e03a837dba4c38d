"""Antecedents without a model: the nearest mention, the same head word, or four sieves of rules.

Clark et al. 2019, section 4.2, whose code was not released: nearest 27%, same head word 52%, rules
69% of the mentions of CoNLL-2012. A baseline takes a text's words and its mentions, and gives for
each scored mention the index of the mention it chooses, or -1 for none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from attlas.core.annotations import Coreference, Mention, coreference_of
from attlas.core.text import Text
from attlas.language.lists import word_list
from attlas.support.errors import CorpusError

Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Features: TypeAlias = tuple[int, int, int]  # number, gender, person

UNKNOWN = 0  # a feature that agrees with anything
SINGULAR, PLURAL = 1, 2
MASCULINE, FEMININE, NEUTER = 1, 2, 3

_PRONOUNS: dict[Features, tuple[str, ...]] = {  # by sections of the list; others agree with all
    (SINGULAR, UNKNOWN, 1): ("first person singular",),
    (PLURAL, UNKNOWN, 1): ("first person plural",),
    (UNKNOWN, UNKNOWN, 2): ("second person",),
    (SINGULAR, MASCULINE, 3): ("masculine",),
    (SINGULAR, FEMININE, 3): ("feminine",),
    (SINGULAR, NEUTER, 3): ("neuter", "demonstrative singular", "indefinite things"),
    (PLURAL, UNKNOWN, 3): ("third person plural", "demonstrative plural"),
    (SINGULAR, UNKNOWN, 3): ("indefinite persons",),
}
_FEATURES = {"'s": (PLURAL, UNKNOWN, 1)} | {  # "'s" is the "us" of "let's"
    word: features
    for features, sections in _PRONOUNS.items()
    for word in word_list("pronouns", *sections)
}
_GENDERS = {
    word: gender
    for gender, section in ((MASCULINE, "masculine"), (FEMININE, "feminine"))
    for word in word_list("nouns", section)
}
_PLURALS = word_list("nouns", "plural")
_TITLES = word_list("names", "forms of address", "titles")
_LEADING = word_list("determiners", "articles", "possessive")
_GENITIVES = word_list("determiners", "genitive marks")


def mentions_of(text: Text) -> tuple[tuple[str, ...], Coreference] | None:
    """A text's words and its mentions; None without coreference annotations."""
    coreference = coreference_of(text.annotations)
    if coreference is None:
        return None
    if text.words is None:
        raise CorpusError(
            f"text {text.id!r} has mentions but no words, which mentions count; "
            "make it with Text(id, words=...)"
        )
    for mention in coreference.mentions:
        if not 0 <= mention.start <= mention.head < mention.stop <= len(text.words):
            raise CorpusError(
                f"a mention of text {text.id!r} has words {mention.start} to {mention.stop} and "
                f"head {mention.head}; expected a head among them and all among the text's "
                f"{len(text.words)} words: correct the annotation"
            )
    return text.words, coreference


def candidates(coreference: Coreference) -> Bools:
    """Which mentions each mention chooses from: [mention, mention].

    All earlier ones (with `around` all others) that another word heads.
    """
    heads = _heads(coreference)
    others: Bools = heads[:, None] != heads
    return others if coreference.around else np.tril(others, -1)


def antecedents(coreference: Coreference) -> Bools:
    """Which candidates of each mention name the same thing: [mention, mention].

    With `around` only pronouns have any.
    """
    mentions = coreference.mentions
    same: Bools = candidates(coreference) & _equal([mention.chain for mention in mentions])
    asking = [not coreference.around or mention.kind == "pronoun" for mention in mentions]
    return same & np.array(asking, dtype=bool)[:, None]


def scored(coreference: Coreference) -> Ints:
    """The mentions that have an antecedent, in order."""
    return np.flatnonzero(antecedents(coreference).any(1))


def nearest(words: Sequence[str], coreference: Coreference) -> Ints:
    """The candidate whose head word is the nearest before the mention's: [scored].

    With `around` on either side, the earlier of two. Where no candidate's head word comes before,
    as of "his" in "his wife", the nearest after.
    """
    return _nearest(coreference, candidates(coreference))


def head_match(words: Sequence[str], coreference: Coreference) -> Ints:
    """The nearest candidate with the same head word, -1 where there is none: [scored]."""
    return _nearest(coreference, candidates(coreference) & _same_heads(words, coreference))


def rules(words: Sequence[str], coreference: Coreference) -> Ints:
    """The nearest candidate by the first of four sieves that holds any: [scored].

    The same string without leading articles and possessives; the same head word; agreement of
    number, gender and person; any. What contains a pronoun, or lies within it, is not its candidate
    ("his" in "his wife"); of nouns and names it is, as appositions are often nested.
    """
    pronoun = np.array([mention.kind == "pronoun" for mention in coreference.mentions], dtype=bool)
    free = candidates(coreference) & ~(_nested(coreference) & pronoun[:, None])
    out = np.full(len(scored(coreference)), -1)
    for sieve in (_same_strings, _same_heads, _agreeing):
        chosen = _nearest(coreference, free & sieve(words, coreference))
        out = np.where(out < 0, chosen, out)
    return np.where(out < 0, _nearest(coreference, free), out)


BASELINES: dict[str, Callable[[Sequence[str], Coreference], Ints]] = {
    "nearest": nearest,
    "head_match": head_match,
    "rules": rules,
}


def features(words: Sequence[str], mention: Mention) -> Features:
    """Number, gender and person of a mention, UNKNOWN where its words do not show it.

    A name that looks plural may be one thing (Athens) or several (the Beatles); a name takes its
    gender from the title before it.

    >>> features(["Mrs.", "Dalloway"], Mention(0, 2, 1, "1", "proper")) == (SINGULAR, FEMININE, 3)
    True
    """
    head, name = words[mention.head].casefold(), mention.kind == "proper"
    if mention.kind == "pronoun":
        return _FEATURES.get(head, (UNKNOWN, UNKNOWN, 3))
    number = SINGULAR if not _looks_plural(head) else UNKNOWN if name else PLURAL
    title = words[mention.start].casefold().rstrip(".")
    known = _GENDERS.get(title, UNKNOWN) if name and title in _TITLES else UNKNOWN
    return number, _GENDERS.get(head.rstrip("."), known), 3


def _looks_plural(word: str) -> bool:
    ends = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "'s"))
    return ends or word in _PLURALS


def _string(words: Sequence[str], mention: Mention) -> str:
    """A mention's words without leading articles and possessives and without a final 's.

    Never less than its head.
    """
    start, stop = mention.start, mention.stop
    while start < mention.head and words[start].casefold() in _LEADING:
        start += 1
    while stop - 1 > mention.head and words[stop - 1] in _GENITIVES:
        stop -= 1
    return " ".join(words[start:stop]).casefold()


def _heads(coreference: Coreference) -> Ints:
    return np.array([mention.head for mention in coreference.mentions], dtype=np.int64)


def _equal(values: Sequence[Any]) -> Bools:
    """Which of some values are the same: [value, value]."""
    number = {value: number for number, value in enumerate(dict.fromkeys(values))}
    numbers = np.array([number[value] for value in values], dtype=np.int64)
    same: Bools = numbers[:, None] == numbers
    return same


def _same_strings(words: Sequence[str], coreference: Coreference) -> Bools:
    return _equal([_string(words, mention) for mention in coreference.mentions])


def _same_heads(words: Sequence[str], coreference: Coreference) -> Bools:
    return _equal([words[mention.head].casefold() for mention in coreference.mentions])


def _agreeing(words: Sequence[str], coreference: Coreference) -> Bools:
    """Which mentions do not differ in a feature that is known of both: [mention, mention]."""
    known = np.array([features(words, mention) for mention in coreference.mentions]).reshape(-1, 3)
    left, right = known[:, None], known[None]
    return np.asarray(((left == right) | (left == UNKNOWN) | (right == UNKNOWN)).all(-1))


def _nested(coreference: Coreference) -> Bools:
    """Which mentions lie within each other, either way: [mention, mention]."""
    pairs = [(mention.start, mention.stop) for mention in coreference.mentions]
    spans = np.array(pairs).reshape(-1, 2)
    within = (spans[:, None, 0] >= spans[:, 0]) & (spans[:, None, 1] <= spans[:, 1])
    return within | within.T


def _nearest(coreference: Coreference, allowed: Bools) -> Ints:
    """The nearest allowed mention of each scored one: [mention, mention] -> [scored].

    Of those that one word heads, the first.
    """
    rows = scored(coreference)
    if not len(rows):
        return rows
    heads = _heads(coreference)
    gap, far = heads[rows, None] - heads, int(heads.max()) + 1
    distance = 2 * abs(gap) + (gap < 0) if coreference.around else np.where(gap > 0, gap, far - gap)
    return np.where(allowed[rows].any(1), np.where(allowed[rows], distance, 4 * far).argmin(1), -1)
