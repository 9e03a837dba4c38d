"""The result folder: one class reads, writes, resumes, refuses and clears every result folder.

    DIR/manifest.json       its inputs, and the sha256 of every result file; written first with the
                            status `running` and last with the status `complete`
    DIR/tables/, result.json, files/, quarantine.jsonl       the results
    DIR/states/FINGERPRINT/ what an interrupted run has done so far, under what it was made from
    DIR/parts/NAME/         result folders of its own
    DIR/report.html, summary.json, log.txt       made from the result, and known by a mark of ours

Only files that a manifest or an entry of `states` lists are ever replaced or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attlas.support.errors import AttlasError, StudyError
from attlas.support.files import (
    LOCK,
    file_sha256,
    files_below,
    is_temporary,
    locked,
    move,
    read_json,
    remove,
    remove_leftovers,
    temporary_folder,
    write_bytes,
    write_errors,
    write_json,
)
from attlas.support.outputs import is_our_page

FORMAT = 2
MANIFEST, QUARANTINE = "manifest.json", "quarantine.jsonl"
TABLES, STATES, PARTS = "tables", "states", "parts"
RESULT, FILES, REPORT, ENTRY = "result.json", "files", "report.html", "entry.json"
SUMMARY = "summary.json"  # what the terminal printed
LOG, LOG_MARK = "log.txt", "# what attlas did here, and when\n"  # the first line of a log of ours
COMPLETE, RUNNING, FAILED = "complete", "running", "failed"
SOURCE, PUBLISHED = "source", "published"
INPUTS = {  # what people call an input, where it is not the value of an option
    **{name: name for name in ("model", "corpus", "seed", "source", "convention", "extractor")},
    **{name: name for name in ("length", "window", "parser")},
    "frozen": "frozen model",
    "measures": "set of measures",
    "methods": "set of methods",
    "data": "corpus",
    "texts": "set of texts",
    "train": "training set",
    "dev": "dev set",
    "test": "test set",
    "vectors": "set of vectors",
    "studies": "set of studies",
    "features": "set of features",
    "thresholds": "set of thresholds",
}
Identity = Mapping[str, str]  # input -> fingerprint
Details = Mapping[str, Identity]  # the parts of an input, by their names
ELSEWHERE = "choose another folder (--out), or delete this one by hand"


class ForeignFolderError(StudyError):
    """A folder that Attlas did not make, or not of this kind."""


class DamagedError(StudyError):
    """A result of which a file is missing or has changed since it was written."""


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of a result folder; None where there is no folder or an empty one.

    A folder with anything in it that Attlas did not write, and without a manifest, is refused.
    """
    if folder.exists() and not folder.is_dir():
        raise ForeignFolderError(f"{folder} is a file; give a folder for the results")
    path = folder / MANIFEST
    if not path.exists():
        unknown = next(_unknown_entries(folder), None)
        if unknown is not None and "settings" in (read_json(folder / "finetune.json") or {}):
            raise ForeignFolderError(
                f"{folder} was fine-tuned by an earlier Attlas, which did not list its files: "
                f"it can be loaded, not continued or cleared; {ELSEWHERE}"
            )
        if unknown is not None:
            raise ForeignFolderError(
                f"{folder} is not empty (it has {_name(unknown, folder)}) and holds no results of "
                f"Attlas; {ELSEWHERE}"
            )
        return None
    manifest = read_json(path)
    if manifest is None or not isinstance(manifest.get("attlas", 1), int):
        raise ForeignFolderError(f"{path} is not a manifest of Attlas; {ELSEWHERE}")
    if "attlas" not in manifest:
        return _first_format(path, manifest)
    if manifest["attlas"] > FORMAT:
        raise ForeignFolderError(f"{folder} was made by a newer Attlas; upgrade to open it")
    if not {"kind", "status", "identity"} <= set(manifest):
        raise ForeignFolderError(f"{path} is not a manifest of Attlas; {ELSEWHERE}")
    return _checked(path, manifest)


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _is_digest(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether something is a mapping all of whose values pass a check."""
    return lambda value: _is_mapping(value) and all(map(check, value.values()))


def _with(**checks: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether something is a mapping that has these keys, with values that pass their checks."""
    return lambda value: (
        _is_mapping(value)
        and all(name in value and check(value[name]) for name, check in checks.items())
    )


def _is_model(value: Any) -> bool:
    if value is None or not _with(name=_is_string)(value):
        return value is None
    return all(_is_count(value.get(name, 0)) for name in ("n_layers", "n_heads"))


def _are_controls(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list)
        and len(one) == 3
        and all(map(_is_string, one[:2]))
        and (_is_string(one[2]) or _of(_is_string)(one[2]))
        for one in value
    )


def is_inside(name: str) -> bool:
    """Whether a name is that of a file in a folder, and of nothing outside it.

    >>> [is_inside(name) for name in ("tables/a.parquet", "../a", "/a", "")]
    [True, False, False, False]
    """
    path = Path(name)
    return path != Path() and not path.is_absolute() and ".." not in path.parts and "\0" not in name


SHAPES: dict[str, Callable[[Any], bool]] = {  # of what a manifest may have
    "kind": _is_string,
    "status": _is_string,
    "identity": _of(_is_string),
    "details": _of(_of(_is_string)),
    "files": lambda value: _of(_is_digest)(value) and all(map(is_inside, value)),
    "tables": lambda value: (
        _of(_with(rows=_is_count, kind=_is_string))(value)
        and all(name.isprintable() and "/" not in name for name in value)
    ),
    "model": _is_model,
    "corpus": _with(name=_is_string),
    "measures": _of(_is_string),
    "inputs": _of(_is_mapping),
    "counts": _of(_is_count),
    "controls": _are_controls,
    "versions": _of(_is_string),
    "seconds": _is_number,
    "until": _with(
        half_width=_is_number,
        widest=lambda value: value is None or _is_number(value),
        reached=lambda value: isinstance(value, bool),
        corpus_rows=_is_count,
    ),
    "opened_from": _of(_is_string),
}


def _checked(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest whose parts are what they must be; one that was damaged is refused."""
    for name, is_right in SHAPES.items():
        if name in manifest and not is_right(manifest[name]):
            raise ForeignFolderError(
                f"{path} is damaged: its {name!r} cannot be read; restore the file, or {ELSEWHERE}"
            )
    return manifest


def _unknown_entries(folder: Path) -> Iterator[Path]:
    """Entries that are neither the lock, nor left by a killed run, nor result folders of ours."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name == LOCK or is_temporary(path):
            continue
        if path.name == PARTS and path.is_dir() and not path.is_symlink():
            yield from (one for one in sorted(path.iterdir()) if not _is_ours(one))
        else:
            yield path


def _is_ours(folder: Path) -> bool:
    return "attlas" in (read_json(folder / MANIFEST) or {})


def _first_format(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest from before formats had numbers: it can be opened, and nothing else."""
    identity = manifest.get("identity")
    known = isinstance(identity, dict) and "versions" in {*manifest, *identity}
    if not known or manifest.get("status") not in (COMPLETE, RUNNING):
        raise ForeignFolderError(f"{path} is not a manifest of Attlas; {ELSEWHERE}")
    return {**manifest, "attlas": 1}


def listed_files(manifest: Mapping[str, Any]) -> dict[str, str | None]:
    """The result files that a manifest lists, with their sha256 (None if it was never written)."""
    return dict(manifest.get("files", {}))


def check_file(folder: Path, name: str, manifest: Mapping[str, Any]) -> Path:
    """Return the path of a result file; one that was changed since it was written is refused."""
    path, expected = folder / name, listed_files(manifest).get(name)
    damage = None if expected is None and manifest["attlas"] < FORMAT else _damage(path, expected)
    if damage or not path.is_file():
        raise DamagedError(
            f"{path} {damage or 'is missing'}; "
            "run the command again with fresh=True (--fresh), or restore the file"
        )
    return path


def _damage(path: Path, expected: str | None) -> str | None:
    if not path.is_file():
        return "is missing"
    return None if file_sha256(path) == expected else "has changed since it was written"


class States:
    """What a run has done so far: entries under the fingerprint of what each was made from.

    An entry is a folder with a file `entry.json` that lists the sha256 of every other file in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, key: str) -> Path | None:
        """Return the folder of an entry if it is there and whole."""
        entry = self.folder / key
        files = _entry_files(entry)
        if files is None or any(_damage(entry / name, sha) for name, sha in files.items()):
            return None
        return entry

    @contextmanager
    def make(self, key: str, **about: Any) -> Iterator[Path]:
        """Open a temporary folder to write an entry in; it is moved to its key at the end."""
        entry = self.folder / key
        with write_errors(entry), temporary_folder(self.folder) as temporary:
            yield temporary
            files = {_name(path, temporary): file_sha256(path) for path in files_below(temporary)}
            write_json(temporary / ENTRY, {"attlas": FORMAT, **about, "files": files})
            if _moved(temporary, entry) or self.find(key) is not None:
                return  # or another process or thread has made it meanwhile: theirs stays
            self.drop(key)
            if _moved(temporary, entry):
                return
            for name in (*files, ENTRY):  # a folder of the user's has that name
                (entry / name).parent.mkdir(parents=True, exist_ok=True)
                move(temporary / name, entry / name)

    def drop(self, key: str) -> None:
        """Remove an entry; its list goes last."""
        entry = self.folder / key
        files = _entry_files(entry)
        if files is not None:
            remove_files(entry, files)
            remove(entry / ENTRY)
            remove_if_empty(entry)

    def clear(self) -> None:
        """Remove all entries and result folders in it, and the folder itself if it is empty."""
        remove_leftovers(self.folder)
        for entry in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            if not entry.is_symlink():
                self.drop(entry.name)
                clear(entry)
                remove_if_empty(entry)  # a run killed before this left it without its list
        remove_if_empty(self.folder)


def _entry_files(folder: Path) -> dict[str, str] | None:
    """The files of an entry; None if it is not one of ours."""
    entry = read_json(folder / ENTRY)
    files = None if entry is None or "attlas" not in entry else entry.get("files")
    return files if SHAPES["files"](files) else None


def _moved(folder: Path, target: Path) -> bool:
    """Move a folder to its name in one step; False if it is taken."""
    try:
        move(folder, target)
    except OSError:
        if not (target.exists() or target.is_symlink()):
            raise
        return False
    return True


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files by their names, and the folders between if nothing else is in them."""
    root = folder.resolve()
    for name in names:
        path = folder / name
        ours = path.is_symlink() or not path.is_dir()  # only files were written
        if ours and path.parent.resolve().is_relative_to(root):  # nothing behind a link
            remove(path)
    parents = {parent for name in names for parent in Path(name).parents if parent != Path()}
    for parent in sorted(parents, reverse=True):
        remove_if_empty(folder / parent)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder in which nothing is left."""
    with suppress(OSError):
        folder.rmdir()


@dataclass(frozen=True)
class Folder:
    """A result folder of one kind: `study`, `syntax`, `finetune`, ...

    One that `grows` gets results piece by piece, as a recipe its parts: when it is claimed, it is
    locked and continued even if it is complete and undamaged; its result files stay listed, and its
    manifest keeps what it says.
    """

    path: Path
    kind: str
    grows: bool = False

    @property
    def states(self) -> States:
        return States(self.path / STATES)

    @contextmanager
    def claim(
        self,
        identity: Identity,
        fresh: bool = False,
        details: Details | None = None,
        **about: Any,
    ) -> Iterator[dict[str, Any] | None]:
        """Hold the folder for what is made from `identity`: input -> fingerprint.

        Gives the manifest if the very result is there, complete and undamaged; nothing is locked or
        written then. Otherwise gives None: the folder is locked, cleared if `fresh`, and its
        manifest says `running`. Whatever else the folder holds is refused, but a run of this kind
        that ended in a mistake of the user's has no claim on it. `details` are the parts of an
        input, so that a refusal can name what changed; `about` goes into the manifest.
        """
        found = self._finished(identity, details, fresh)
        if found is not None and not self.grows:
            yield found
            return
        with locked(self.path):
            found = self._finished(identity, details, fresh)  # by a process that held it until now
            if found is not None and not self.grows:
                yield found
                return
            manifest = read_manifest(self.path)
            for name in (STATES, PARTS, TABLES, FILES):
                refuse_link(self.path / name)
            if manifest is not None and manifest.get(PUBLISHED) and not (fresh or self.grows):
                remove_leftovers(self.path)
                self._complete(_content(manifest), listed_files(manifest), keep_states=False)
                yield self._finished(identity, details, fresh)
                return
            remove_leftovers(self.path)
            remove_leftovers(self.path / STATES)
            kept = {} if manifest is None or fresh else listed_files(manifest)
            if manifest is not None and fresh:
                self._clear(manifest)
            named = {"details": details} if details else {}
            content = {"identity": dict(identity), **named, **about}
            if self.grows and manifest is not None and not fresh:
                content = _content(manifest) | content
            self._write(RUNNING, content, kept)
            try:
                yield None
            except AttlasError as error:
                if not isinstance(error, StudyError):  # a mistake that the user will mend
                    self._write(FAILED, {**content, "reason": str(error)}, kept)
                raise

    def refuse_foreign(self) -> None:
        """Refuse a folder that no run of this kind could ever write, before anything is written."""
        self._check({}, None, fresh=True)

    def reset(self) -> None:
        """Clear the folder, parts and all, for whatever of its kind is run next."""
        if self._check({}, None, fresh=True) is not None:
            with locked(self.path):
                self._clear(read_manifest(self.path) or {})
                self._write(FAILED, {"identity": {}, "reason": "cleared to be run again"}, {})

    def _finished(
        self, identity: Identity, details: Details | None, fresh: bool
    ) -> dict[str, Any] | None:
        """The manifest of this very result if it is complete; anything else in there is refused."""
        with write_errors(self.path):
            manifest = self._check(identity, details, fresh)
        if manifest is None or fresh or manifest["status"] != COMPLETE:
            return None
        self.check_files(manifest)
        return manifest

    def check_files(self, manifest: Mapping[str, Any]) -> None:
        """Refuse a result of which any file has changed since it was written."""
        for name in listed_files(manifest):
            check_file(self.path, name, manifest)

    def log(self, line: str) -> None:
        """Add a line to the folder's log; a file of that name that is not ours is left alone."""
        path = self.path / LOG
        if path.is_symlink() or (path.exists() and not _is_our_log(path)):
            return
        if not path.exists():
            write_bytes(path, LOG_MARK.encode())
        with write_errors(path), path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")

    def _check(
        self, identity: Identity, details: Details | None, fresh: bool
    ) -> dict[str, Any] | None:
        """Read the manifest; refuse a folder that holds anything but this very result."""
        manifest = read_manifest(self.path)
        if manifest is None:
            return None
        if manifest["attlas"] < FORMAT:
            raise ForeignFolderError(
                f"{self.path} was made by an earlier Attlas, which did not list its files: "
                f"it can be opened and reported, not continued or cleared; {ELSEWHERE}"
            )
        if manifest["kind"] != self.kind:
            raise ForeignFolderError(
                f"{self.path} holds another kind of result ({manifest['kind']}, not {self.kind}); "
                "choose another folder (--out)"
            )
        if not fresh and (manifest["status"] != FAILED or listed_files(manifest)):
            refuse_other(self.path, manifest, identity, details or {})
        return manifest

    def _write(
        self, status: str, content: Mapping[str, Any], files: Mapping[str, str | None]
    ) -> dict[str, Any]:
        manifest = {"attlas": FORMAT, "kind": self.kind, "status": status, **content}
        manifest["files"] = dict(files)
        write_json(self.path / MANIFEST, manifest)
        return manifest

    def _clear(self, manifest: Mapping[str, Any]) -> None:
        """Remove everything that is listed; the manifest stays, with the status `running`."""
        self._write(RUNNING, _content(manifest), listed_files(manifest))
        self.states.clear()
        for part in sorted(path for path in (self.path / PARTS).glob("*") if _is_ours(path)):
            if not part.is_symlink():
                clear(part)
        remove_if_empty(self.path / PARTS)
        remove_files(self.path, listed_files(manifest))
        for name, is_ours in DERIVED.items():
            if is_ours(self.path / name):
                remove(self.path / name)

    def result(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Read `result.json` of a complete result."""
        return read_json(check_file(self.path, RESULT, manifest)) or {}

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Open a temporary folder to write result files in, under the names they shall have."""
        with temporary_folder(self.path) as stage:
            yield stage

    def publish(
        self,
        stage: Path,
        content: Mapping[str, Any],
        keep_states: bool = False,
        kept: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Move staged files to their places, clear the states, and mark the result complete.

        What is about to be moved is listed first, so that a run killed here leaves nothing unknown;
        one killed after the last move is completed by the next. Files that an earlier run listed
        are removed unless they are staged again or `kept`.
        """
        manifest = read_manifest(self.path) or {}
        before = listed_files(manifest)
        files: dict[str, str | None] = {
            _name(path, stage): file_sha256(path) for path in files_below(stage)
        }
        with write_errors(self.path):
            for name in files:
                self._refuse_overwriting(name, before)
            about = _content(manifest) | dict(content)
            for name, table in about.get("tables", {}).items():
                table["sha256"] = files[f"{TABLES}/{name}.parquet"]
            self._write(RUNNING, about, {**before, **files})
            for name in files:
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                move(stage / name, self.path / name)
            files |= {name: before[name] for name in kept if name not in files}
            remove_files(self.path, [name for name in before if name not in files])
            if not keep_states and self.states.folder.is_dir():
                self._write(RUNNING, {**about, PUBLISHED: True}, files)
            return self._complete(about, files, keep_states)

    def _complete(
        self, content: Mapping[str, Any], files: Mapping[str, str | None], keep_states: bool
    ) -> dict[str, Any]:
        if not keep_states:
            self.states.clear()
        return self._write(COMPLETE, content, files)

    def _refuse_overwriting(self, name: str, before: Mapping[str, Any]) -> None:
        path = self.path / name
        for parent in path.relative_to(self.path).parents:
            if parent != Path():
                refuse_link(self.path / parent)
        if name not in before and (path.exists() or path.is_symlink()):
            raise ForeignFolderError(
                f"{path} was not written by Attlas; move it away and run the same command again"
            )


def _content(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says of its result, without what a folder adds."""
    own = ("attlas", "kind", "status", "files", PUBLISHED)
    return {name: value for name, value in manifest.items() if name not in own}


def clear(path: Path) -> None:
    """Remove a whole result folder of ours, and nothing else that may be in it.

    Where something else is left, the manifest stays, so that the folder is still known as ours.
    """
    manifest = read_json(path / MANIFEST)
    if manifest is None or "attlas" not in manifest:
        return
    with locked(path):
        Folder(path, str(manifest["kind"]))._clear(manifest)
        remove_leftovers(path)
    if {one.name for one in path.iterdir()} <= {LOCK, MANIFEST}:
        remove(path / LOCK)
        remove(path / MANIFEST)
        remove_if_empty(path)


def refuse_link(path: Path) -> None:
    """Refuse to write behind a link."""
    if path.is_symlink():
        raise ForeignFolderError(f"{path} is a link; remove it")


def _is_our_log(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(len(LOG_MARK)) == LOG_MARK.encode()


def is_our_summary(path: Path) -> bool:
    """Whether a file is a summary that Attlas wrote."""
    if not path.is_file() or path.is_symlink():
        return False
    return {"attlas", "made_from", "summary"} <= set(read_json(path) or {})


DERIVED = {REPORT: is_our_page, SUMMARY: is_our_summary, LOG: _is_our_log}  # not in the manifest


def refuse_other(
    path: Path, manifest: Mapping[str, Any], identity: Identity, details: Details
) -> None:
    """Refuse a folder that was made from other inputs, and say which of them changed."""
    theirs = manifest["identity"]
    changed = [name for name in {**identity, **theirs} if theirs.get(name) != identity.get(name)]
    if {"measures", "until"} & set(changed):
        changed = [name for name in changed if name != "cut"]  # which follows from them
    if not changed:
        return
    again = "pass fresh=True (--fresh) to run it again, or choose another folder (--out)"
    if changed == [SOURCE]:
        raise StudyError(
            f"{path} was made with another source: other code of Attlas, or another version of a "
            f"library it computes with; {again}"
        )
    named = []
    for name in changed:
        parts, known = details.get(name, {}), manifest.get("details", {}).get(name, {})
        inside = [part for part in parts if parts[part] != known.get(part)]
        label = INPUTS.get(name, f"value of {name}")
        named.append(f"{label} ({', '.join(inside)})" if inside else label)
    raise StudyError(f"{path} was made with another {', '.join(named)}; {again}")
