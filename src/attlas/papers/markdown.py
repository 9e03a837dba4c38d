"""Tables in Markdown."""

from __future__ import annotations


def row(*cells: object) -> str:
    """One row of a table.

    >>> row("", "accuracy", 0.5)
    '| | accuracy | 0.5 |'
    """
    return "|" + "".join(f" {cell} |" if str(cell) else " |" for cell in cells)


def header(*titles: object) -> list[str]:
    """The first two lines of a table.

    >>> header("layer", "F1")
    ['| layer | F1 |', '|---|---|']
    """
    return [row(*titles), "|" + "---|" * len(titles)]
