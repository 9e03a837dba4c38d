"""Slow twins of candidates, antecedents and baselines of mentions."""

from __future__ import annotations

from attlas.core.annotations import Coreference


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
