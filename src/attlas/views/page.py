"""What pages have in common: templates, data inside a script, a frame in a notebook."""

from __future__ import annotations

import json
from functools import cache
from html import escape

import jinja2
from markupsafe import Markup


@cache
def templates(package: str = "attlas.views") -> jinja2.Environment:
    """The page templates of a package, and those of views; what is put into them is escaped."""
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package), jinja2.PackageLoader("attlas.views")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def inline_json(content: object) -> Markup:
    """JSON that can stand inside a script element."""
    return Markup(
        json.dumps(content, ensure_ascii=False)
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def framed(page: str, characters: int) -> str:
    """A page in an isolated frame, as high as a text of so many characters needs."""
    lines = 12 + characters // 60
    return (
        f'<iframe srcdoc="{escape(page, quote=True)}" '
        f'style="width:100%;border:0;height:{min(760, 24 * lines)}px" sandbox="allow-scripts">'
        "</iframe>"
    )
