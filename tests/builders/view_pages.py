"""Pages with some views and nothing else, as a notebook would have them: no rules of a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attlas.views.modules import View, page_scripts
from attlas.views.page import templates
from attlas.views.parts import Part


def view_page(parts: Sequence[Part], path: Path, style: str = "") -> Path:
    """A page with these parts."""
    data: dict[View, list[object]] = {}
    bodies = []
    for part in parts:
        items = data.setdefault(part.view, [])
        bodies.append(part.html(len(items)))
        items.append(part.data)
    scripts = page_scripts(data)
    views = templates().get_template("views.html").render(**scripts)
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>views</title>'
        f"<style>{style}{scripts['view_css']}</style><body>{''.join(bodies)}{views}</body></html>",
        encoding="utf-8",
    )
    return path


def shown(page: object) -> None:
    """Wait until all views of a page are drawn."""
    page.wait_for_function(  # type: ignore[attr-defined]
        "document.querySelectorAll('[data-view]').length"
        " === document.querySelectorAll('[data-drawn]').length"
    )
