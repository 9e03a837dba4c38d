"""The JavaScript of pages: every view has anywidget's shape, and one source serves every host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from attlas.views.modules import PACKAGE, View, import_map, joined, source, with_imports
from tests.builders.pages import open_page

ROOT = Path(__file__).parents[2] / "src" / "attlas"
STATIC = sorted(ROOT.glob("**/static/*.js"))


def module_of(path: Path) -> str:
    package = ".".join(["attlas", *path.parent.parent.relative_to(ROOT).parts])
    return f"{'attlas' if package == PACKAGE else package}/{path.name}"


MODULES = {module_of(path): path for path in STATIC}
VIEWS = [name for name in MODULES if "export default" in source(name)]


@pytest.mark.parametrize("name", MODULES)
def test_modules_import_what_is_there_and_nothing_else(name: str) -> None:
    code = MODULES[name].read_text(encoding="utf-8")
    assert code.startswith("// ")  # what it is for
    assert max(map(len, code.splitlines())) <= 100
    assert len(re.findall(r"\bimport\b.* from ", code)) == len(
        re.findall(r'^import \{ [^}]+ \} from "attlas(?:\.\w+)*/\w+\.js";$', code, re.MULTILINE)
    )
    assert not re.search(r"\b(eval|innerHTML|document\.write|https?://(?!www\.w3))", code)


def test_modules_come_after_those_that_they_import() -> None:
    names = with_imports(MODULES)
    assert sorted(names) == sorted(MODULES)
    assert names.index("attlas/packing.js") < names.index("attlas/text.js")
    assert "<" not in str(import_map(MODULES))


def test_every_view_can_be_imported_in_every_way(tmp_path: Path, browser: Any) -> None:
    """From an import map, as a report does, and joined to one module, as a notebook does."""
    views = [
        View(
            name.rpartition("/")[2].removesuffix(".js"),
            PACKAGE if name.startswith("attlas/") else name.rpartition("/")[0],
        )
        for name in VIEWS
    ]
    for number, view in enumerate(views):
        (tmp_path / f"{number}.mjs").write_text(joined(view), encoding="utf-8")
    page = tmp_path / "page.html"
    page.write_text(
        f'<!doctype html><script type="importmap">{import_map(MODULES)}</script>', encoding="utf-8"
    )
    shown, wrong = open_page(browser, page)
    for number, view in enumerate(views):
        mapped = "name => import(name).then(one => typeof one.default.render)"
        assert shown.evaluate(mapped, view.module) == "function"
        blob = (
            "text => import(URL.createObjectURL(new Blob([text], {type: 'text/javascript'})))"
            ".then(one => typeof one.default.render)"
        )
        text = (tmp_path / f"{number}.mjs").read_text(encoding="utf-8")
        assert shown.evaluate(blob, text) == "function"
    assert wrong == []
