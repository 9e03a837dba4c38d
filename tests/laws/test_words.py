"""Words that no user should read: in the help of every verb, in pages, findings and messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from attlas.cli.entry import app

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "attlas"
WORDS = (
    "beside",
    "told",
    "gone on",
    "goes on",
    "is no text",
    "are no words",
    "to be had",
    "learnt",
    "even attention",
    "the commonest",
    "flatter",
    "weighed",
    "sought",
)
PATTERN = re.compile(r"\b(" + "|".join(WORDS).replace(" ", r"\s+") + r")\b", re.IGNORECASE)
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted(path for kind in ("md", "html", "js") for path in SOURCE.rglob(f"*.{kind}")),
]
CODE = sorted(SOURCE.rglob("*.py"))
KEYS = {"learnt"}  # a key of extractor.json: saved extractors must still load


def found(text: str) -> list[str]:
    """Each word of the list in a text, with its line."""
    return [
        f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for match in PATTERN.finditer(text)
    ]


def literals(source: str) -> Iterator[tuple[int, str]]:
    """The strings of a module that are not docstrings, each with its line."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_string and id(node) not in docstrings:
            yield node.lineno, node.value


def verbs(group: typer.Typer = app, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every verb and group of verbs."""
    yield before
    for one in group.registered_commands:
        assert one.callback is not None
        yield (*before, one.name or one.callback.__name__)
    for other in group.registered_groups:
        assert other.typer_instance is not None
        yield from verbs(other.typer_instance, (*before, str(other.name)))


def test_words_are_found_as_whole_words() -> None:
    assert found("It was TOLD\nand goes\n  on.") == ["line 1: TOLD", "line 2: goes\n  on"]
    assert not found("besides, untold flattering learned soughts")


def test_docstrings_are_not_literals() -> None:
    source = '"""beside"""\nx = "told"\ndef f():\n    """learnt"""\n    return f"sought {x}"\n'
    assert [text for _, text in literals(source)] == ["told", "sought "]


@pytest.mark.parametrize("verb", [" ".join(verb) for verb in verbs()])
def test_help(verb: str) -> None:
    result = CliRunner().invoke(app, [*verb.split(), "--help"])
    assert result.exit_code == 0
    assert not found(result.output)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page(page: Path) -> None:
    assert not found(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", CODE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_strings(module: Path) -> None:
    strings = literals(module.read_text(encoding="utf-8"))
    assert not [
        (line, words) for line, text in strings if text not in KEYS and (words := found(text))
    ]
