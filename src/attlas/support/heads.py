"""How heads are named: L2H10 for people, L2.H10 in columns of tables; counted from 0."""

from __future__ import annotations

import re

from attlas.support.errors import AttlasError
from attlas.support.options import Option, checked

NUMBER = Option("Number of a layer or a head.", at_least=0, at_most=9_999)


def parse_head(name: str) -> tuple[int, int]:
    """The layer and the head of a name.

    >>> parse_head("L2H10"), parse_head("L2.H10")
    ((2, 10), (2, 10))
    >>> parse_head("2.10")
    Traceback (most recent call last):
        ...
    attlas.support.errors.AttlasError: '2.10' is not a head; write it as L2H10, counted from 0
    """
    written = re.fullmatch(r"\s*L(\d{1,4})\.?H(\d{1,4})\s*", name, flags=re.IGNORECASE | re.ASCII)
    if written is None:
        raise AttlasError(f"{name!r} is not a head; write it as L2H10, counted from 0")
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
    first, second = _number("layer", layer), _number("head", head)
    if isinstance(first, str) and second is None:
        return parse_head(first)
    if isinstance(second, str) and (first is None or first == parse_head(second)[0]):
        return parse_head(second)
    if isinstance(first, str) or isinstance(second, str):
        raise AttlasError(
            f"layer is {layer!r} and head is {head!r}; give two numbers, or one name such as L2H10"
        )
    return first, second


def _number(name: str, given: int | str | None) -> int | str | None:
    """A layer or a head as a number, checked; the name of a head as it is."""
    if given is None or (isinstance(given, str) and not re.fullmatch(r"\s*-?\d+\s*", given)):
        return given
    return int(checked(name, int(given), int, NUMBER))
