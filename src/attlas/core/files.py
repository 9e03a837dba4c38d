"""Files that are never half written: each is written beside its place and then moved there."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from attlas.core.errors import StudyError

LOCK = ".lock"


@contextmanager
def writing(what: Path) -> Iterator[None]:
    """A full disk or a folder that cannot be written is one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StudyError(
                f"no space is left to write {what} ({os.strerror(error.errno)}); free some and run the same command again: it goes on where it stopped"
            ) from error
        raise StudyError(f"{what} cannot be written: {error.strerror or error}") from error
    except SafetensorError as error:
        raise StudyError(f"{what} cannot be written: {error}") from error


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write beside its place, moved there when all is written; whole or not at all."""
    beside = path.with_name(f"{path.name}.tmp")
    with writing(path):
        try:
            with beside.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as file:
        file.write(data)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file whole or not at all."""
    write_bytes(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold a folder of results; a second process that wants to write it is refused."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StudyError(
                f"another process is writing in {folder}; wait for it, or choose another folder"
            ) from error
        yield
