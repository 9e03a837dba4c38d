"""numba takes no settings from the working folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SHOW = """
import os.path
exists = os.path.exists
from attlas.stats.jit import numba
assert os.path.exists is exists
assert numba.njit(lambda: 3)() == 3  # compiled, or not if it is disabled
print(numba.config.DISABLE_JIT, numba.config.CACHE_DIR)
"""


@pytest.mark.parametrize(
    "content", ["disable_jit: 1\ncache_dir: planted\n", "!!python/object/apply:os.system [true]\n"]
)
def test_a_planted_configuration_is_not_read(content: str, tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text(content)
    command = [sys.executable, "-c", SHOW]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0"]


def test_environment_variables_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    command = [sys.executable, "-c", SHOW]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
