"""Files that are never half written: made under a random name in the same folder, then moved.

Every file is moved or removed by `move` and `remove`, so that a test can stop a run at each.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from attlas.support.errors import LockedError, StudyError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # filelock warns at import where there is no fcntl
    from filelock import FileLock, Timeout

fcntl: Any
try:
    import fcntl
except ImportError:  # as on Windows, where an open file cannot be removed either
    fcntl = None

LOCK = ".lock"
_TEMPORARY = re.compile(r"\.attlas-[a-z0-9_]{8}\.tmp")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MASK_LOCK = threading.Lock()


@contextmanager
def write_errors(what: Path) -> Iterator[None]:
    """Turn a full disk, or a folder that cannot be written, into one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StudyError(
                f"no space is left to write {what} ({os.strerror(error.errno or 0)}); "
                "free some space and run the same command again: it resumes"
            ) from error
        raise StudyError(f"{what} cannot be written: {error.strerror or error}") from error
    except SafetensorError as error:
        raise StudyError(f"{what} cannot be written: {error}") from error


def move(source: Path, target: Path) -> None:
    """Move a file, or a folder to a free name; a link at the target is replaced, not followed."""
    os.replace(source, target)


def link(source: Path, target: Path) -> None:
    """Give a finished file, which nobody changes, a second name; copy it where that cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def remove(path: Path) -> None:
    """Remove one file."""
    path.unlink(missing_ok=True)


def _permit(path: Path, mode: int) -> None:
    """Give a temporary file or folder, which is its owner's alone, what the user's mask allows."""
    with _MASK_LOCK:
        mask = os.umask(0o077)
        os.umask(mask)
    path.chmod(mode & ~mask)


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write; it appears at its place when all is written, or not at all."""
    with write_errors(path):
        _remove_abandoned(path.parent)
        descriptor, temporary = _temporary_file(path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                _permit(temporary, 0o666)
                if sys.platform != "win32":
                    move(temporary, path)  # while it is held: a free one counts as abandoned
            if sys.platform == "win32":  # an open file cannot be moved there
                move(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _temporary_file(folder: Path) -> tuple[int, Path]:
    """Make a file with a random name in a folder, held by this process until it is closed."""
    while True:
        descriptor, name = tempfile.mkstemp(".tmp", ".attlas-", folder)
        if fcntl is not None:
            with suppress(OSError):  # not every file system has locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.exists(name):
            return descriptor, Path(name)
        os.close(descriptor)  # another process took it for abandoned before it was held


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of processes that were killed: those that nobody holds."""
    if fcntl is None:
        return
    for path in folder.glob(".attlas-*.tmp"):
        if is_temporary(path) and path.is_file() and not path.is_symlink():
            with suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Make a folder with a random name in `parent`; what is still in it at the end is removed."""
    with write_errors(parent):
        parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(".tmp", ".attlas-", parent))
        _permit(made, 0o777)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def unnamed_folder() -> Path:
    """Make a folder where the system has its temporary ones."""
    return Path(tempfile.mkdtemp(prefix="attlas-"))


def remove_with(owner: object, folder: Path) -> None:
    """Remove a folder, and all that is in it, when an object is gone."""
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)


def is_temporary(path: Path) -> bool:
    """Whether a name is one that `atomic_write` or `temporary_folder` gives."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that a killed process left in a folder; call it under the lock."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if is_temporary(path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                remove(path)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with atomic_write(path) as file:
        file.write(data)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file whole or not at all."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None where there is no such file or it holds something else."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def file_sha256(path: Path) -> str:
    """Compute the sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_below(folder: Path) -> list[Path]:
    """List all files below a folder, sorted by their path."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder; a second process, or a second thread, that wants it is refused at once."""
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    if path.is_symlink():
        raise StudyError(f"{path} cannot be locked: it is a link; remove it")
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise LockedError(
            f"another process is writing in {folder}; wait for it, or choose another folder"
        ) from error
    except OSError as error:
        raise StudyError(f"{path} cannot be locked: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()
