"""How heads are named: L2H10 for people, L2.H10 in columns of tables; counted from 0."""

from __future__ import annotations

import re

from attlas.support.errors import AttlasError


def parse_head(name: str) -> tuple[int, int]:
    """The layer and the head of a name.

    >>> parse_head("L2H10"), parse_head("L2.H10")
    ((2, 10), (2, 10))
    """
    match = re.fullmatch(r"L(\d{1,6})\.?H(\d{1,6})", name.strip(), re.ASCII | re.IGNORECASE)
    if match is None:
        raise AttlasError(f"{name!r} is not a head; write layer and head as L2H10, both from 0")
    return int(match[1]), int(match[2])
