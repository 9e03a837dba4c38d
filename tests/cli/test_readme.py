"""The commands of the README run as they are written, in their order, in an empty folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.builders.processes import Run

README = Path(__file__).parents[2] / "README.md"


def commands() -> list[str]:
    section = README.read_text(encoding="utf-8").partition("## The command line\n")[2]
    block = re.search(r"^```\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert block is not None
    return block[1].splitlines()


@pytest.mark.slow
def test_the_commands_of_the_readme(attlas_command: Run, tmp_path: Path) -> None:
    assert len(commands()) > 5
    for line in commands():
        program, *words = shlex.split(line)
        assert program == "attlas"
        done = attlas_command(*words)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        last = done.stdout.splitlines()[-1]
        assert last.startswith("next      "), f"{line}\n{done.stdout}"
        written = [words[at + 1] for at, word in enumerate(words) if word in ("--out", "--html")]
        assert all((tmp_path / path).exists() for path in written), line
