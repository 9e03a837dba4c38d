"""Files that a user names to be written: with a fitting ending, never over existing files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from attlas.support.errors import StudyError
from attlas.support.options import Option

GENERATOR = '<meta name="generator" content="attlas">'  # by which a page is known as ours
PAGE = ".html"
PICTURES = (".svg", ".png", ".pdf")
TEXT = ".txt"
MARKDOWN = ".md"
TABLES = (".tex", ".csv")
CHARTS = (".svg", ".pdf", ".png", ".html", ".json")
FORMAT = Option("Format of --charts.", choices=tuple(ending[1:] for ending in CHARTS))


def check_output(path: str | Path, endings: Sequence[str], force: bool = False) -> Path:
    """The path of a file to write, refused if its ending does not fit or if it already exists.

    A page that Attlas wrote may be replaced, anything else only with `force`. It is called before
    anything costly is done, and again by whatever writes the file.

    >>> check_output("look.csv", [".html"])
    Traceback (most recent call last):
        ...
    attlas.support.errors.StudyError: look.csv ends in '.csv'; name a file that ends in .html
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise StudyError(f"{path} is a folder; give a file, such as {path / f'look{endings[0]}'}")
    if path.suffix not in endings:
        ending = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
        raise StudyError(f"{path} {ending}; name a file that ends in {' or '.join(endings)}")
    if os.path.lexists(path) and not force and not is_our_page(path):
        raise StudyError(
            f"{path} already exists; choose another name, or overwrite it with --force "
            "(in Python, force=True)"
        )
    return path


def is_our_page(path: Path, mark: str = "") -> bool:
    """Whether a page was written by Attlas, with a mark near its beginning."""
    if path.suffix != PAGE or not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        begin = file.read(4096)
    return GENERATOR.encode() in begin and mark.encode() in begin
