"""Slow twins of readers."""

from __future__ import annotations

from itertools import pairwise, product

from attlas.core.annotations import ROOT


def head_slowly(start, stop, heads):
    """The head of a mention: of the words whose head is outside, the one nearest to the root."""
    best = None
    for word in range(start, stop):
        way = [word]
        while heads[way[-1]] != ROOT:
            way.append(heads[way[-1]])
        leaves = len(way) == 1 or way[1] < start or way[1] >= stop
        if leaves and (best is None or len(way) < len(best)):
            best = way
    return best[0]


def located_slowly(text, head, tail, words=None):
    """Every combination of every occurrence."""
    places = []
    for part in (head, tail, words)[: 2 if words is None else 3]:
        if isinstance(part, str):
            if not part.strip():
                return "empty"
            spans = [(at, at + len(part)) for at in range(len(text)) if text.startswith(part, at)]
            whole = [span for span in spans if not any(inside_word(text, at) for at in span)]
            if not spans:
                return "not in the text"
            places.append(whole or spans)
        else:
            if part[0] >= part[1]:
                return "empty"
            if not 0 <= part[0] < part[1] <= len(text):
                return "not in the text"
            if not text[slice(*part)].strip():
                return "empty"
            places.append([part])
    fits = [
        spans for spans in product(*places) if all(a[1] <= b[0] for a, b in pairwise(sorted(spans)))
    ]
    if not fits:
        return "overlap"
    best = min(
        fits, key=lambda spans: (max(b for _, b in spans) - min(spans)[0], min(spans)[0], spans)
    )
    return best if words is not None else (*best, None)


def inside_word(text, at):
    return 0 < at < len(text) and all(
        letter.isalnum() or letter == "_" for letter in text[at - 1 : at + 1]
    )
