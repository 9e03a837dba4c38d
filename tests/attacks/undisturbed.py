"""What every verb does when nothing happens to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.attacks.verbs import Verb
from tests.builders.processes import Run
from tests.builders.runs import Files

COUNTING = """
import os, signal, sys
from pathlib import Path
changes, out = 0, {out!r}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "shutil.rmtree")
def heard(event, arguments):
    global changes
    if event not in CHANGES and not (event == "open" and arguments[2] & WRITES):
        return
    if out in str(arguments[0]):
        changes += 1
        if changes == {at}:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(heard)
import attlas.cli
try:
    attlas.cli.main()
finally:
    Path({counted!r}).write_text(str(changes))
"""


@dataclass(frozen=True)
class Undisturbed:
    """What a verb makes when nothing happens to it, how long that takes, how often it writes."""

    files: Files
    names: set[str]
    seconds: float
    changes: int


Undisturb = Callable[[str], Undisturbed]


def assert_resumes(
    run: Run, verb: Verb, words: list[str], out: Path, expected: Undisturbed
) -> None:
    again = run(*words)
    assert again.returncode == 0, again.stderr
    assert verb.results(out) == expected.files
    assert verb.names(out) == expected.names
