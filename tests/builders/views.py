"""Pages with views alone, whose shared state a test can read and set, as a browser opens them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attlas.views.modules import View, import_map, page_scripts
from attlas.views.page import inline_json, templates
from attlas.views.parts import Part
from tests.builders.pages import open_page

# a host with messages: what a notebook has
HOST = """
import view from "%s";
import { Model, State } from "attlas/model.js";
const state = new State();
const model = new Model(JSON.parse(document.getElementById("data").textContent), state);
window.sent = [];
window.state = state;
window.stop = new AbortController();
model.send = (content) => window.sent.push(content);
window.answer = (content, floats) => {
  const bytes = new ArrayBuffer(4 * floats.length + 3);
  const view = new DataView(bytes, 3);  // a host's buffers need not be aligned
  floats.forEach((one, at) => view.setFloat32(4 * at, one, true));
  for (const listener of state.listeners.get("msg:custom") ?? []) listener(content, [view]);
};
await view.render({ model, el: document.getElementById("here"), signal: window.stop.signal });
"""


def page_of(parts: Sequence[Part], style: str = "", width: str = "none") -> str:
    """A page that holds nothing but parts; `state` is what they share."""
    data: dict[View, list[Any]] = {}
    elements = []
    for part in parts:
        items = data.setdefault(part.view, [])
        elements.append(part.html(len(items)))
        items.append(part.data)
    scripts = page_scripts(data)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>views</title>'
        f"<style>{style}{scripts['view_css']}</style>"
        f'<main style="max-width:{width}">{"".join(elements)}</main>'
        f'<script type="importmap">{scripts["import_map"]}</script>'
        f'<script type="application/json" id="views">{scripts["view_data"]}</script>'
        '<script type="module">import { mount } from "attlas/mount.js"; window.state = await '
        'mount(document, JSON.parse(document.getElementById("views").textContent));</script>'
    )


def view_page(parts: Sequence[Part], path: Path, style: str = "") -> Path:
    """A page with these parts, as a file: without the rules of a report, as a notebook has them."""
    path.write_text(page_of(parts, style), encoding="utf-8")
    return path


def hosted(part: Part) -> str:
    """A page that shows one view without the rules of the report, through a host that answers."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>view</title>'
        f'<style>{part.view.css}</style><div id="here" style="width:800px"></div>'
        f'<script type="importmap">{import_map([part.view.module, "attlas/model.js"])}</script>'
        f'<script type="application/json" id="data">{inline_json(part.data)}</script>'
        f'<script type="module">{HOST % part.view.module}</script>'
    )


def open_views(
    browser: Any, folder: Path, *parts: Part, host: bool = False, **options: Any
) -> tuple[Any, list[str]]:
    """The page of parts, opened without a network, and everything that went wrong in it."""
    path = folder / "views.html"
    style = templates().get_template("style.css").render()
    page = hosted(parts[0]) if host else page_of(parts, style, "1000px")
    path.write_text(page, encoding="utf-8")
    return open_page(browser, path, **options)
