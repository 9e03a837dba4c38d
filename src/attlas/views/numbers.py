"""How numbers, heads and findings are written for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

SMALL = 0.01  # numbers that two places do not show


def decimal(value: float, places: int = 2) -> str:
    """A number as it stands in a sentence.

    >>> decimal(0.834), decimal(-0.001), decimal(float("nan")), decimal(0.8221, 3)
    ('0.83', '0.00', '-', '0.822')
    """
    if value is None or value != value:
        return "-"
    return f"{abs(value) if abs(value) < 0.5 / 10**places else value:.{places}f}"


def percent(value: float, places: int = 0) -> str:
    """A share as percent.

    >>> percent(0.954), percent(0.0314, 1), percent(float("nan"))
    ('95%', '3.1%', '-')
    """
    return "-" if value is None or value != value else f"{value:.{places}%}"


def number(value: float, places: int = 2) -> str:
    """A number as it stands in a cell of a table: no zero before the point.

    >>> number(0.834), number(-0.05), number(2.5), number(-0.001), number(float("nan"))
    ('.83', '-.05', '2.50', '.00', '-')
    """
    written = decimal(value, places)
    return written.replace("0.", ".", 1) if written.lstrip("-").startswith("0.") else written


def written(value: float, largest: float) -> str:
    """A number with two places, or with two digits where that shows nothing.

    `largest` is the larger one of a value and its control, which are written alike.

    >>> written(0.5, 0.5), written(0.001234, 0.002), written(0.0, 0.0)
    ('.50', '0.0012', '0')
    """
    return f"{value:.2g}" if abs(largest) < SMALL else number(value)


def estimate(value: float, low: float, high: float, places: int = 2) -> str:
    """A number with its interval, for a sentence.

    >>> estimate(0.74, 0.71, 0.77)
    '0.74 [0.71, 0.77]'
    """
    return f"{decimal(value, places)} [{decimal(low, places)}, {decimal(high, places)}]"


def interval(row: Mapping[Any, Any], name: str) -> str:
    """The same from a row with columns that end in `_low` and `_high`.

    >>> interval({"f1": 0.5, "f1_low": 0.4, "f1_high": 0.625}, "f1")
    '0.50 [0.40, 0.62]'
    """
    return estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


def finding(claim: str, effect: str = "", *controls: str, n: float | None = None) -> str:
    """A sentence: what was found, its size, its controls and the number of cases.

    >>> claim, effect = "L2H0 finds direct objects", estimate(0.74, 0.71, 0.77)
    >>> finding(claim, effect, "best fixed offset 0.36", n=1204)
    'L2H0 finds direct objects: 0.74 [0.71, 0.77], best fixed offset 0.36 (n = 1,204).'
    """
    parts = ", ".join(filter(None, (effect, *controls)))
    cases = "" if n is None or n != n else f" (n = {int(n):,})"
    return f"{claim}{': ' if claim and parts else ''}{parts}{cases}."


def head_name(row: Mapping[Any, Any]) -> str:
    """A head's name: layer and head, from 0.

    >>> head_name({"layer": 2, "head": 7})
    'L2H7'
    """
    return f"L{int(row['layer'])}H{int(row['head'])}"


def head_of(row: Mapping[Any, Any]) -> tuple[int, int]:
    """The layer and the head that a row is about.

    >>> head_of({"layer": 2.0, "head": 7.0})
    (2, 7)
    """
    return int(row["layer"]), int(row["head"])


def head_names(frame: pd.DataFrame, layer: str = "layer", head: str = "head") -> pd.Series[str]:
    """The names of the heads in the rows of a table."""
    return "L" + frame[layer].astype(str) + "H" + frame[head].astype(str)


def listed(words: Sequence[str], last: str = "and") -> str:
    """Words as a list in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b"], "or")
    ('a', 'a, b and c', 'a or b')
    """
    *first, end = words
    return f"{', '.join(first)} {last} {end}" if first else end


def some(names: Iterable[str], most: int = 4) -> str:
    """The first few names of a list.

    >>> some("abc"), some("abc", most=2)
    ('a, b, c', 'a, b, ...')
    """
    listed = list(names)
    return ", ".join([*listed[:most], *(["..."] if len(listed) > most else [])])
