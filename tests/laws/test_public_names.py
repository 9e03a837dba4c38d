"""Public names: `import attlas` is light, stubs are true, and type checkers know every name."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import attlas

SOURCE = Path(attlas.__file__).parent
STUBS = sorted(SOURCE.rglob("__init__.pyi"))


def package(stub: Path) -> str:
    return ".".join(("attlas", *stub.parent.relative_to(SOURCE).parts))


def names(stub: Path) -> set[str]:
    nodes = ast.parse(stub.read_text(encoding="utf-8")).body
    return {one.name for node in nodes if isinstance(node, ast.ImportFrom) for one in node.names}


@pytest.mark.parametrize("stub", STUBS, ids=package)
def test_every_name_of_a_stub_is_completed_and_found(stub: Path) -> None:
    module = importlib.import_module(package(stub))
    assert names(stub) == {*dir(module)} - {"__version__"}
    assert all(getattr(module, name) is not None for name in names(stub))


def test_subjects_are_attributes_of_attlas_and_nothing_heavy_is_imported() -> None:
    code = (
        "import attlas, sys; assert 'betti' in dir(attlas.topology);"
        "assert not {'torch', 'transformers', 'numpy', 'pandas'} & {*sys.modules};"
        "assert callable(attlas.topology.betti)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_type_checker_knows_them(tmp_path: Path) -> None:
    code = "import attlas\nreveal_type(attlas.topology.betti)\nattlas.topology.no_such_name\n"
    (tmp_path / "snippet.py").write_text(code)
    options = ["--strict", "--follow-imports", "silent", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "snippet.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    revealed, wrong, *_ = done.stdout.splitlines()
    assert "thresholds" in revealed, done.stdout
    assert 'Module has no attribute "no_such_name"' in wrong, done.stdout
