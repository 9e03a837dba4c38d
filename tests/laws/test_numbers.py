"""Numbers of sentences and cells are written in one place, `views/numbers.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import attlas

SOURCE = Path(attlas.__file__).parent
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "views" / "numbers.py"]
FINDINGS = [path for path in MODULES if path.stem in ("cards", "claims", "findings", "section")]
TEMPLATE = re.compile(r"\{\w*:([^{}]*)\}")  # of str.format


def name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def formats(source: str) -> Iterator[tuple[int, str]]:
    """The formats of numbers in f-strings and templates, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            assert isinstance(node.format_spec, ast.JoinedStr)
            parts = (part for part in node.format_spec.values if isinstance(part, ast.Constant))
            yield node.lineno, "".join(str(part.value) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, one) for one in TEMPLATE.findall(node.value))


def test_formats_are_seen() -> None:
    source = 'a = f"{x:.2f} of {y:.{n}%}"\nb = "{:.1%}".format\nc = f"{count:,} texts"\n'
    assert sorted(formats(source)) == [(1, ".%"), (1, ".2f"), (2, ".1%"), (3, ",")]


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_percentages(module: Path) -> None:
    written = formats(module.read_text(encoding="utf-8"))
    assert not [(line, one) for line, one in written if one.endswith("%")]


@pytest.mark.parametrize("module", FINDINGS, ids=name)
def test_decimals_of_findings(module: Path) -> None:
    written = formats(module.read_text(encoding="utf-8"))
    assert not [(line, one) for line, one in written if re.search(r"\.[1-9]?[feg]$", one)]
