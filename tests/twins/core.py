"""Slow twins of masks and of resampling."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from attlas.core.batch import Batch

Values = Any  # nested lists of numbers


def of_content_slowly(batch: Batch, stops: frozenset[str]) -> list[bool]:
    """Of one text without apostrophes: letters only, of a word with a letter that is no stop
    word."""
    out = []
    for token, (start, stop) in enumerate(batch.offsets[0].tolist()):
        word = batch.words[0].strings[batch.words[0].of[token]]
        piece = batch.texts[0].text[start:stop].strip()
        letters = [
            unicodedata.category(character)[0] in "LM" or unicodedata.category(character) == "Cf"
            for character in piece
        ]
        has_letter = any(unicodedata.category(character)[0] == "L" for character in piece + word)
        composed = unicodedata.normalize("NFC", word.casefold())
        out.append(
            not batch.special[0, token]
            and bool(letters)
            and all(letters)
            and has_letter
            and composed not in stops
        )
    return out


def poisson_slowly(random: int) -> int:
    """The smallest number whose share of a Poisson distribution of mean 1, with all below it, is
    above a random number of 32 bits."""
    draws, share, cumulated = 0, Fraction(math.exp(-1)), Fraction(math.exp(-1))
    while round(cumulated * 2**32) <= random and draws < 12:
        draws += 1
        share /= draws
        cumulated += share
    return draws


def replicates_slowly(values: Values, weights: Sequence[Sequence[int]]) -> Values:
    """Means of [text][head][column] over texts that are drawn [text][replicate] times:
    [head][column][replicate]; a text without a value for one head has none."""
    heads, columns = range(len(values[0])), range(len(values[0][0]))
    out = []
    for head in heads:
        out.append([])
        for column in columns:
            out[-1].append([])
            for replicate in range(len(weights[0])):
                drawn = []
                for text, each in enumerate(values):
                    if all(math.isfinite(each[other][column]) for other in heads):
                        drawn += [each[head][column]] * weights[text][replicate]
                out[-1][-1].append(sum(drawn) / len(drawn) if drawn else math.nan)
    return out
