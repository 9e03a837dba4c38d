"""Functions stay short enough to read: at most 60 lines (compiled kernels 90) and 8 parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import attlas

SOURCE = Path(attlas.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> Iterator[tuple[str, Function]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, Function):
                yield f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}", node


def is_compiled(function: Function) -> bool:
    return any("njit" in ast.unparse(one) for one in function.decorator_list)


def test_functions_are_short() -> None:
    long = {
        name: node.end_lineno - node.lineno + 1
        for name, node in functions()
        if node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > (90 if is_compiled(node) else 60)
    }
    assert long == {}


def test_functions_have_few_parameters() -> None:
    many = {}
    for name, node in functions():
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        given += [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
        count = sum(one.arg not in ("self", "cls") for one in given)
        if count > 8:
            many[name] = count
    assert many == {}


def test_nothing_escapes_the_formatter() -> None:
    marks = ("fmt: " + "skip", "fmt: " + "off", "noqa: " + "E501")
    files = [*SOURCE.rglob("*.py"), *Path(__file__).parents[1].rglob("*.py")]
    found = [str(path) for path in files for mark in marks if mark in path.read_text("utf-8")]
    assert found == []


def test_lines_have_at_most_100_columns() -> None:
    """Also those with a pragma, which ruff does not measure."""
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in SOURCE.rglob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > 100
    ]
    assert found == []
