"""What workers do in the tests of processes; a module, as workers know no other functions."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any


def doubled(number: int) -> int:
    return 2 * number


def after(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def noted(job: list[Any]) -> None:
    """Write the own process number into a folder, then sleep."""
    folder, seconds = job
    Path(folder, str(os.getpid())).touch()
    time.sleep(seconds)


def settings(_: int) -> dict[str, Any]:
    """What a worker finds itself with."""
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {
        "path": sys.path,
        "threads": [os.environ[name] for name in variables],
        "main": getattr(sys.modules["__main__"], "__file__", None),
        "heavy": [name for name in ("torch", "numpy", "pandas") if name in sys.modules],
    }


class TwoWordsError(Exception):
    """An error that does not survive being sent: it is made from two words and keeps one."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def failing(job: str) -> None:
    if job == "sleep":
        time.sleep(60)
    if job == "two words":
        raise TwoWordsError("no", "luck")
    if job == "exit":
        os._exit(7)
    if job == "exit at once":
        sys.exit(3)
    if job == "unsendable":
        raise ValueError(lambda: job)
    raise ValueError(f"no luck with {job}")


def printing(word: str) -> str:
    print(word)
    return word
