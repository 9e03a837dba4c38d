"""The files that a corpus is read from, known without reading them."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from attlas.support.errors import CorpusError

EMBEDDED = ("acceptability", "messages", "reviews")
SENTENCES, RELATIONS = "sentences", "relations"  # embedded too; not part of `all`
SYNTHETIC = "synthetic"


def embedded_file(name: str) -> Path:
    """The file of an embedded corpus."""
    ending = "conllu" if name == SENTENCES else "jsonl"
    return Path(str(files("attlas.corpora") / "embedded")) / f"{name}.{ending}"


def files_of(source: Any) -> list[Path] | None:
    """The files a named source is read from; None for one that is not made of local files.

    >>> [path.name for path in files_of("embedded:reviews")], files_of([{"text": "a"}])
    (['reviews.jsonl'], None)
    """
    if not isinstance(source, str | os.PathLike):
        return None
    name = str(source)
    if name == SYNTHETIC or name.startswith(f"{SYNTHETIC}:"):
        return []  # generated from its name
    if name.startswith("hub:"):
        return None
    if name.startswith("embedded:"):
        part = name.removeprefix("embedded:")
        return [embedded_file(one) for one in (EMBEDDED if part == "all" else (part,))]
    return [Path(name).expanduser()]


def no_embedded(name: str) -> CorpusError:
    """The error for an unknown embedded corpus."""
    known = ", ".join((*EMBEDDED, SENTENCES, RELATIONS))
    return CorpusError(f"there is no embedded corpus {name!r}; choose {known} or all")


def check_source(source: Any) -> None:
    """Refuse a file that does not exist, before anything is loaded."""
    for path in files_of(source) or ():
        if not os.path.exists(path):  # unlike Path.exists, no error if a whole text was given
            if str(source).startswith("embedded:"):
                raise no_embedded(str(source).removeprefix("embedded:"))
            raise CorpusError(f"there is no file {str(path)[:200]!r}; give the path of a corpus")
