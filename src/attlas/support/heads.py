"""Heads by their names: L2H10 for people, L2.H10 as columns of tables have it."""

from __future__ import annotations

import re

from attlas.support.errors import AttlasError


def parse_head(name: str) -> tuple[int, int]:
    """The layer and the head of a name.

    >>> parse_head("L2H10"), parse_head("L2.H10")
    ((2, 10), (2, 10))
    >>> parse_head("2.10")
    Traceback (most recent call last):
        ...
    attlas.support.errors.AttlasError: '2.10' is no head; write layer and head as L2H10
    """
    written = re.fullmatch(r"\s*L(\d{1,4})\.?H(\d{1,4})\s*", name, flags=re.IGNORECASE | re.ASCII)
    if written is None:
        raise AttlasError(f"{name!r} is no head; write layer and head as L2H10")
    return int(written[1]), int(written[2])


def layer_and_head(
    layer: int | str | None, head: int | str | None = None
) -> tuple[int | None, int | None]:
    """A layer and a head given as two numbers, or as one name in place of either.

    >>> layer_and_head(2, 10), layer_and_head("L2H10"), layer_and_head(None, "L2.H10")
    ((2, 10), (2, 10), (2, 10))
    >>> layer_and_head(None, "10")
    (None, 10)
    """
    first, second = _number(layer), _number(head)
    if isinstance(first, str) and second is None:
        return parse_head(first)
    if isinstance(second, str) and (first is None or first == parse_head(second)[0]):
        return parse_head(second)
    if isinstance(first, str) or isinstance(second, str):
        raise AttlasError(
            f"layer is {layer!r} and head is {head!r}; give two numbers, or one name such as L2H10"
        )
    return first, second


def _number(given: int | str | None) -> int | str | None:
    return int(given) if isinstance(given, str) and given.strip().isdecimal() else given
