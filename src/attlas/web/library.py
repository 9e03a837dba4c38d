"""Which results are served: the folders given at start, opened when first needed.

A result is known by an opaque id. What is made of it is cached, bounded in bytes, as long as its
manifest stays as it is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from attlas.studies.folder import (
    COMPLETE,
    FAILED,
    MANIFEST,
    PARTS,
    RUNNING,
    TABLES,
    ForeignFolderError,
    listed_files,
    read_manifest,
)
from attlas.support.errors import AttlasError, StudyError
from attlas.support.fingerprint import fingerprint
from attlas.web.refusals import without_paths

if TYPE_CHECKING:
    from attlas.studies.opened import Study

MOST_KEPT = 16  # opened results, their lists and figures
CACHE_BYTES = 256 * 2**20
ID_LENGTH = 12
DAMAGED = "damaged"
NOTES = {
    RUNNING: "Not complete: it runs, or the same command resumes it.",
    FAILED: "Failed: run the same command again.",
    DAMAGED: "Damaged: run its command again with --fresh, or restore its files.",
}
Kept = TypeVar("Kept")
Value = TypeVar("Value")
Key = tuple[Any, ...]
Stamp = tuple[tuple[str, int, int], ...]  # name, time and size of each manifest


class UnknownStudyError(AttlasError):
    """An id that no folder has."""


@dataclass(frozen=True)
class Entry:
    """A result folder as it is listed."""

    id: str
    name: str
    status: str
    manifest: Mapping[str, Any] = field(repr=False)
    shown: str  # how a command names its folder
    folder: Path = field(repr=False)  # never part of an answer
    stamp: Stamp = field(repr=False)

    @property
    def note(self) -> str:
        """Why it cannot be opened; empty if it can."""
        return NOTES.get(self.status, "")

    @property
    def is_open(self) -> bool:
        """Whether its tables can be read."""
        return self.status == COMPLETE and bool(self.manifest.get("tables"))

    @property
    def time(self) -> float:
        """When it last changed, in seconds."""
        return max((time for _, time, _ in self.stamp), default=0) / 1e9

    @property
    def model(self) -> str:
        """The name of its model, or of what was trained instead."""
        model = self.manifest.get("model") or {}
        return str(model.get("name") or self.manifest.get("subject") or "")

    @property
    def has_heads(self) -> bool:
        """Whether it is of one model with heads; a comparison is not."""
        return bool((self.manifest.get("model") or {}).get("n_heads"))

    @property
    def corpus(self) -> str:
        """The name of its corpus."""
        return str((self.manifest.get("corpus") or {}).get("name", ""))

    @property
    def title(self) -> str:
        """What it is of, in a menu."""
        return " · ".join(filter(None, (self.name, self.corpus, self.model)))


class Cache(Generic[Value]):
    """Values by key, the least recently used given up first; each is made once at a time."""

    def __init__(self, most: int, size: Callable[[Value], int]) -> None:
        self.most, self.size = most, size
        self.used = 0
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._making: dict[Key, Lock] = {}
        self._lock = Lock()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """A value, made if it is not known."""
        with self._lock:
            making = self._making.setdefault(key, Lock())
        try:
            with making:
                with self._lock:
                    if key in self._values:
                        self._values.move_to_end(key)
                        return self._values[key]
                value = make()
                with self._lock:
                    self._add(key, value)
        finally:  # also if there is no such value: what is asked for does not fill the memory
            with self._lock:
                self._making.pop(key, None)
        return value

    def _add(self, key: Key, value: Value) -> None:
        if self.size(value) > self.most:
            return
        if key in self._values:  # made twice, as its lock was given up in between
            self.used -= self.size(self._values.pop(key))
        self.used += self.size(value)
        self._values[key] = value
        while self.used > self.most:
            _, oldest = self._values.popitem(last=False)
            self.used -= self.size(oldest)


class Library:
    """The results in some folders: each folder is a result, or has results in it."""

    def __init__(self, folders: Sequence[Path], cache_bytes: int = CACHE_BYTES) -> None:
        self.folders = {one: one.expanduser().resolve() for one in folders}  # as given: where it is
        for given, folder in self.folders.items():
            if not folder.is_dir():
                raise StudyError(f"there is no folder {given}; make one with attlas tour")
        self.cache: Cache[bytes] = Cache(cache_bytes, len)
        self.objects: Cache[Any] = Cache(MOST_KEPT, lambda _: 1)

    def add(self, folder: Path) -> None:
        """Serve the results of one more folder."""
        self.folders[folder] = folder.expanduser().resolve()

    def entries(self) -> list[Entry]:
        """All results, the newest first."""
        every = (_entries(*one) for one in list(self.folders.items()))
        found = {one.id: one for some in every for one in some}
        return sorted(found.values(), key=lambda one: one.time, reverse=True)

    def entry(self, study: str) -> Entry:
        """A result by its id."""
        found = next((one for one in self.entries() if one.id == study), None)
        if found is None:
            raise UnknownStudyError("there is no such study here; choose one from the list")
        return found

    def study(self, entry: Entry) -> Study:
        """A result with its parts, opened anew if it has changed."""
        if not entry.is_open:
            raise StudyError(entry.note or "This result has no tables.")
        opened: Study = self.objects.get((entry.id, entry.stamp), lambda: _opened(entry.folder))
        return opened

    def kept(self, entry: Entry, kind: Callable[[Study], Kept]) -> Kept:
        """What is read again and again of a few results, such as the list of their texts."""
        key = (entry.id, entry.stamp, kind)
        made: Kept = self.objects.get(key, lambda: kind(self.study(entry)))
        return made

    def cached(self, entry: Entry, name: tuple[str, ...], make: Callable[[Study], bytes]) -> bytes:
        """What is made of a result, from the cache if it was made before."""
        key = (entry.id, entry.stamp, *name)
        return self.cache.get(key, lambda: make(self.study(entry)))


def _opened(folder: Path) -> Study:
    """A result with its parts, whose manifests name no folder."""
    from attlas.studies.opened import Study

    study = Study.open(folder).with_parts()
    for one in (study, *study.others):
        one.manifest = without_folders(one.manifest)
    return study


def without_folders(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest in which nothing is named by where it is: a model in a folder has its last name.

    >>> without_folders({"model": {"name": "/home/ann/bert", "n_heads": 2}, "corpus": None})
    {'model': {'name': 'bert', 'n_heads': 2}, 'corpus': None}
    """
    out = dict(manifest)
    for part in ("model", "corpus"):
        if isinstance(about := out.get(part), Mapping) and "name" in about:
            out[part] = {**about, "name": without_paths(str(about["name"]))}
    if "subject" in out:
        out["subject"] = without_paths(str(out["subject"]))
    return out


def opaque(folder: Path) -> str:
    """The id of a folder, which says nothing about where it is."""
    return fingerprint(str(folder))[:ID_LENGTH]


def _entries(given: Path, folder: Path) -> Iterator[Entry]:
    """The result in a folder, or those one level below that do not lead out of it."""
    named = Path(folder.name) if given.is_absolute() else given
    if (folder / MANIFEST).is_file():
        yield _entry(folder, str(named), tuple(_stamps(folder)))
        return
    for path in sorted(folder.iterdir()):
        own = path.resolve()
        if own.is_relative_to(folder) and (own / MANIFEST).is_file():
            yield _entry(own, str(named / path.name), tuple(_stamps(own)))


@lru_cache(maxsize=1_000)
def _entry(folder: Path, shown: str, stamp: Stamp) -> Entry:
    """A result, read again only if its manifests have changed."""
    try:
        manifest = read_manifest(folder) or {}
        status = str(manifest.get("status", DAMAGED))
        if not _stays_inside(folder):
            status = DAMAGED
    except (ForeignFolderError, OSError):
        manifest, status = {}, DAMAGED
    named = without_folders(manifest)
    return Entry(opaque(folder), folder.name, status, named, shown, folder, stamp)


def _stays_inside(folder: Path) -> bool:
    """Whether no file of a result or of its parts is a link to somewhere else."""
    results = (folder, *(folder / PARTS).glob("*/"))
    return all(path.resolve().is_relative_to(folder) for one in results for path in _files(one))


def _files(folder: Path) -> Iterator[Path]:
    """What is read of a result: what its manifest lists, and tables, which older ones do not."""
    yield from (folder, folder / MANIFEST)
    try:
        manifest = read_manifest(folder) or {}
    except ForeignFolderError:  # not ours: nothing of it is read
        return
    yield from (folder / one for one in listed_files(manifest))
    yield from (folder / TABLES / f"{one}.parquet" for one in manifest.get("tables", {}))


def _stamps(folder: Path) -> Iterator[tuple[str, int, int]]:
    for path in (folder / MANIFEST, *sorted((folder / PARTS).glob(f"*/{MANIFEST}"))):
        try:
            about = path.stat()
        except OSError:  # removed meanwhile
            continue
        yield str(path.relative_to(folder)), about.st_mtime_ns, about.st_size
