"""How the tests are organised: what they share is in builders, strategies and twins."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
OF_A_TEST = re.compile(r"(^|\.)test_\w+(\.|$)")


def imported(tree: ast.AST) -> set[str]:
    """The modules, and the names of modules, that code imports; code in strings counts too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module or ''}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {*re.findall(r"^(?:from|import) (tests\.[\w.]+)", node.value, re.MULTILINE)}
    return found


def test_no_test_imports_a_test() -> None:
    for path in sorted(TESTS.rglob("*.py")):
        tests = [
            name
            for name in imported(ast.parse(path.read_text()))
            if name.startswith("tests.") and OF_A_TEST.search(name.removeprefix("tests"))
        ]
        assert not tests, f"{path.relative_to(TESTS)} imports {', '.join(sorted(tests))}"


def test_an_import_of_a_test_is_seen() -> None:
    module = "tests.views.test_views"
    for line in (
        f"import {module}",
        "from tests.views import test_views",
        f"from {module} import browser",
        f"CODE = 'import os\\nfrom {module} import browser'",
    ):
        assert any(OF_A_TEST.search(name) for name in imported(ast.parse(line))), line
