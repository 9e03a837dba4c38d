"""Which results are served, and how they are opened: no path leaves the library."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from attlas.studies.folder import MANIFEST, PARTS
from attlas.support.errors import AttlasError
from attlas.web.library import Cache, Library, UnknownStudyError
from tests.builders.studies import OLD


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with one result in it."""
    shutil.copytree(OLD / "syntax", tmp_path / "runs" / "syntax")
    return tmp_path / "runs"


def test_a_folder_is_a_result_or_holds_results(runs: Path) -> None:
    (one,) = Library([runs]).entries()
    assert (one.name, one.status, one.is_open) == ("syntax", "complete", True)
    assert [own.id for own in Library([runs / "syntax"]).entries()] == [one.id]
    assert len(Library([runs, runs / "syntax"]).entries()) == 1
    assert str(runs) not in repr(one)


def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AttlasError, match="there is no folder"):
        Library([tmp_path / "none"])


def test_an_id_that_is_unknown_is_refused(runs: Path) -> None:
    with pytest.raises(UnknownStudyError):
        Library([runs]).entry("../syntax")


def test_a_changed_folder_is_opened_anew(runs: Path) -> None:
    library = Library([runs])
    first = library.study(library.entries()[0])
    assert library.study(library.entries()[0]) is first
    manifest = runs / "syntax" / MANIFEST
    manifest.write_text(manifest.read_text() + "\n")
    assert library.study(library.entries()[0]) is not first


@pytest.mark.parametrize(
    ("content", "status"),
    [("{", "damaged"), ("[]", "damaged"), ('{"attlas": 999}', "damaged"), (None, "running")],
)
def test_what_cannot_be_opened_is_listed(runs: Path, content: str | None, status: str) -> None:
    path = runs / "syntax" / MANIFEST
    manifest = json.loads(path.read_text()) | {"status": "running"}
    path.write_text(json.dumps(manifest) if content is None else content)
    (one,) = Library([runs]).entries()
    assert (one.status, one.is_open) == (status, False)
    assert one.note
    assert str(runs) not in one.note
    with pytest.raises(AttlasError):
        Library([runs]).study(one)


def test_links_that_lead_out_are_not_followed(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(OLD / "tree", tmp_path / "elsewhere")
    (runs / "link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    library = Library([runs])
    assert [one.name for one in library.entries()] == ["syntax"]
    table = next((runs / "syntax" / "tables").glob("*.parquet"))
    os.replace(table, tmp_path / "table.parquet")
    table.symlink_to(tmp_path / "table.parquet")
    manifest = runs / "syntax" / MANIFEST
    listed = json.loads(manifest.read_text())
    listed["files"] = {f"tables/{table.name}": None, **listed.get("files", {})}
    manifest.write_text(json.dumps(listed))
    assert [one.status for one in Library([runs]).entries()] == ["damaged"]


@pytest.mark.parametrize("what", ["part", "table of a part", "table that is not listed"])
def test_links_inside_a_result_are_not_followed(what: str, runs: Path, tmp_path: Path) -> None:
    own, part = runs / "syntax", runs / "syntax" / PARTS / "tree"
    shutil.copytree(OLD / "tree", part)
    linked = {
        "part": part,
        "table of a part": part / "tables" / "tree.parquet",
        "table that is not listed": own / "tables" / "syntax.parquet",
    }[what]
    if what == "table that is not listed":
        manifest = json.loads((own / MANIFEST).read_text())
        manifest["files"] = {}
        (own / MANIFEST).write_text(json.dumps(manifest))
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    library = Library([runs])
    assert [one.status for one in library.entries()] == ["damaged"]
    with pytest.raises(AttlasError):
        library.study(library.entries()[0])


def test_what_is_asked_for_in_vain_is_not_remembered() -> None:
    cache: Cache[bytes] = Cache(10, len)

    def fail() -> bytes:
        raise UnknownStudyError("no such text")

    for number in range(20):
        with pytest.raises(UnknownStudyError):
            cache.get((str(number),), fail)
        cache.get(("known",), lambda: b"1")
    assert not cache._making
    assert cache.used == 1


def test_the_cache_is_bounded_and_makes_each_value_once() -> None:
    cache: Cache[bytes] = Cache(10, len)
    assert cache.get(("a",), lambda: b"12345") == b"12345"
    assert cache.get(("a",), lambda: b"other") == b"12345"
    assert cache.get(("b",), lambda: b"1234567") == b"1234567"
    assert cache.used == 7
    assert cache.get(("a",), lambda: b"anew") == b"anew"
    assert cache.get(("c",), lambda: b"x" * 11) == b"x" * 11
    assert cache.used == 4
    made: list[int] = []
    slow: Cache[bytes] = Cache(10, len)

    def make() -> bytes:
        made.append(1)
        return b"slow"

    threads = [threading.Thread(target=slow.get, args=(("k",), make)) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(made) == 1
