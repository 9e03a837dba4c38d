"""Slow twins of candidates, antecedents and baselines of mentions."""

from __future__ import annotations

from attlas.core.annotations import Coreference, Mention
from attlas.coreference.baselines import UNKNOWN, features


def candidates_slowly(noted: Coreference, number: int) -> list[int]:
    mine = noted.mentions[number]
    return [
        other
        for other, mention in enumerate(noted.mentions)
        if mention.head != mine.head and (other < number or (noted.around and other != number))
    ]


def antecedents_slowly(noted: Coreference, number: int) -> list[int]:
    chain = noted.mentions[number].chain
    if noted.around and noted.mentions[number].kind != "pronoun":
        return []
    return [
        other for other in candidates_slowly(noted, number) if noted.mentions[other].chain == chain
    ]


def nearest_slowly(noted: Coreference, number: int, allowed: list[int]) -> int:
    """Walk away from the head word, backwards first, and take the first mention met."""
    here = noted.mentions[number].head
    last = max(mention.head for mention in noted.mentions)
    before, after = list(range(here - 1, -1, -1)), list(range(here + 1, last + 1))
    steps = before + after
    if noted.around:
        steps = [word for step in range(1, last + 2) for word in (here - step, here + step)]
    for word in steps:
        for other in allowed:
            if noted.mentions[other].head == word:
                return other
    return -1


def string_slowly(words: tuple[str, ...], mention: Mention) -> str:
    own = [(word, words[word].lower()) for word in range(mention.start, mention.stop)]
    while own[0][1] in ("the", "a", "his") and own[0][0] != mention.head:
        own = own[1:]
    while own[-1][1] == "'s" and own[-1][0] != mention.head:
        own = own[:-1]
    return " ".join(word for _, word in own)


def agree_slowly(words: tuple[str, ...], left: Mention, right: Mention) -> bool:
    for mine, theirs in zip(features(words, left), features(words, right), strict=True):
        if mine != theirs and mine != UNKNOWN and theirs != UNKNOWN:
            return False
    return True


def choice_slowly(name: str, words: tuple[str, ...], noted: Coreference, number: int) -> int:
    mine, allowed = noted.mentions[number], candidates_slowly(noted, number)

    def of(test) -> int:
        return nearest_slowly(
            noted, number, [other for other in allowed if test(noted.mentions[other])]
        )

    def same_head(other: Mention) -> bool:
        return words[other.head].lower() == words[mine.head].lower()

    if name == "nearest":
        return of(lambda other: True)
    if name == "head_match":
        return of(same_head)
    if mine.kind == "pronoun":
        nested = {
            other
            for other in allowed
            for theirs in [noted.mentions[other]]
            if (theirs.start <= mine.start and mine.stop <= theirs.stop)
            or (mine.start <= theirs.start and theirs.stop <= mine.stop)
        }
        allowed = [other for other in allowed if other not in nested]
    sieves = [
        lambda other: string_slowly(words, other) == string_slowly(words, mine),
        same_head,
        lambda other: agree_slowly(words, other, mine),
        lambda other: True,
    ]
    return next((found for found in map(of, sieves) if found >= 0), -1)


def right_slowly(noted: Coreference, number: int, chosen: int) -> bool:
    """Whether the word that heads the chosen mention heads an antecedent."""
    if chosen < 0:
        return False
    word = noted.mentions[chosen].head
    return any(noted.mentions[other].head == word for other in antecedents_slowly(noted, number))


def preferred_slowly(noted: Coreference, number: int, weight) -> int:
    """The candidate with the most weight, the earlier of equals; none if no weight is above 0."""
    best = -1
    for other in sorted(
        candidates_slowly(noted, number), key=lambda other: noted.mentions[other].head
    ):
        if best < 0 or weight(noted.mentions[other].head) > weight(noted.mentions[best].head):
            best = other
    return best if best >= 0 and weight(noted.mentions[best].head) > 0 else -1
