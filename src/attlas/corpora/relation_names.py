"""Names of relations by their identifiers, read from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from attlas.corpora.corpus import BadRow
from attlas.corpora.formats import ending_of
from attlas.corpora.layouts.base import inside, name_of
from attlas.corpora.rows import jsonl_rows, open_bytes
from attlas.support.errors import CorpusError


def relation_names(path: str | Path) -> dict[str, str]:
    """The names of relations by id, from a file (also .gz).

    It is .jsonl with `relation` and `title`, or .json from ids to names or to lists that begin with
    the name.
    """
    path = Path(path).expanduser()
    ending = ending_of(path)
    if ending in (".jsonl", ".ndjson"):
        names = dict(_titles(path))
    elif ending == ".json":
        names = _mapped(path)
    else:
        raise CorpusError(
            f"{path} ends in {ending or 'nothing'!r}; names of relations are .jsonl with "
            "'relation' and 'title', or .json from id to name (also .gz)"
        )
    if not names:
        raise CorpusError(f"{path} names no relations; it is empty")
    return names


def _titles(path: Path) -> Iterator[tuple[str, str]]:
    """(relation, title) of each line."""
    for where, row in jsonl_rows(path):
        if isinstance(row, BadRow):
            raise row.error()
        if not isinstance(row, Mapping):
            continue  # jsonl_rows yields nothing else
        with inside(where):
            names = name_of(row, "relation"), name_of(row, "title")
        yield names


def _mapped(path: Path) -> dict[str, str]:
    """The names of a JSON object from ids to names, or to lists that begin with them."""
    with open_bytes(path) as file:
        try:
            content = json.load(file)
        except (ValueError, RecursionError) as error:
            raise CorpusError(
                f"{path} is not JSON ({str(error) or type(error).__name__})"
            ) from error
    if not isinstance(content, dict):
        raise CorpusError(
            f"{path} is a JSON {type(content).__name__}; it must map relations to their names"
        )
    names = {
        id_: name[0] if isinstance(name, list) and name else name for id_, name in content.items()
    }
    with inside(str(path)):
        return {relation: name_of(names, relation) for relation in names}
