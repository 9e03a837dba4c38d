"""A widget in a browser, in a host that does what hosts of anywidget promise and nothing else."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from attlas.views.widgets import PartsWidget
from tests.builders.pages import open_page

HOST = """<!doctype html><html lang="en"><meta charset="utf-8"><title>host</title>
<style>%(css)s</style><body %(body)s><main style="width:%(width)s"><p class="beside">outside</p>
<div id="here"></div></main>
<script type="application/json" id="esm">%(esm)s</script>
<script type="application/json" id="state">%(state)s</script>
<script type="module">
const read = (name) => JSON.parse(document.getElementById(name).textContent);
const listeners = new Map();
const of = (event) => listeners.get(event) ?? listeners.set(event, new Set()).get(event);
const values = read("state");
window.sent = [];
window.saved = 0;
window.listening = () => [...listeners.values()].reduce((sum, one) => sum + one.size, 0);
window.model = {
  get: (name) => values[name],
  set: (name, value) => {
    if (JSON.stringify(values[name]) === JSON.stringify(value)) return;
    values[name] = value;
    for (const one of [...of("change:" + name)]) one();
  },
  save_changes: () => { window.saved += 1; window.kept?.(JSON.stringify(values)); },
  on: (event, listener) => of(event).add(listener),
  off: (event, listener) => of(event).delete(listener),
  send: async (content) => {
    window.sent.push(content);
    const answer = await window.kernel?.(JSON.stringify(content));
    if (!answer) return;
    const { message, bytes } = JSON.parse(answer);
    const all = Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0));
    const padded = new Uint8Array(all.length + 3);  // a host's buffers need not be aligned
    padded.set(all, 3);
    const view = new DataView(padded.buffer, 3);
    for (const one of [...of("msg:custom")]) one(message, [view]);
  },
};
const url = URL.createObjectURL(new Blob([read("esm")], { type: "text/javascript" }));
const afm = (await import(url)).default;
window.draw = (signal) =>
  afm.render({ model: window.model, el: document.getElementById("here"), signal });
window.end = await window.draw();
</script></body></html>"""


class Kernel:
    """Answers the messages of a browser as the kernel does."""

    def __init__(self, widget: PartsWidget) -> None:
        self.widget = widget
        self.replies: list[str] = []
        widget.send = self._keep

    def _keep(self, message: dict[str, Any], buffers: list[bytes]) -> None:
        content = base64.b64encode(buffers[0]).decode()
        self.replies.append(json.dumps({"message": message, "bytes": content}))

    def ask(self, message: str) -> str:
        self.widget._hear(None, json.loads(message), [])
        return self.replies.pop()


def state_of(widget: PartsWidget) -> dict[str, Any]:
    """The values that a browser gets, of our own traits."""
    names = ("head", "column", "selection", "layout_kind", "parts", "stored", "title", "picture")
    return {name: getattr(widget, name) for name in names}


def open_widget(
    browser: Any,
    folder: Path,
    widget: PartsWidget,
    *,
    kernel: bool = True,
    body: str = "",
    width: str = "900px",
    drawn: bool = True,
    **options: Any,
) -> tuple[Any, list[str]]:
    """A widget in a page without a network, and everything that went wrong in it."""
    inline = {"esm": widget._esm, "state": state_of(widget)}
    values = {name: json.dumps(one).replace("<", "\\u003c") for name, one in inline.items()}
    path = folder / "widget.html"
    page = HOST % {**values, "css": widget._css, "body": body, "width": width}
    path.write_text(page, encoding="utf-8")
    context = browser.new_context(offline=True, **options)
    if kernel:
        context.expose_function("kernel", Kernel(widget).ask)
    page, wrong = open_page(browser, path, context=context)
    page.wait_for_selector(".attlas-widget", state="attached")
    if drawn:
        page.wait_for_function(
            "[...document.querySelectorAll('[data-part]')].every((one) => 'drawn' in one.dataset)"
        )
    return page, wrong
