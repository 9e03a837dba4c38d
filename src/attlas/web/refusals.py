"""What a reader sees of an error: one sentence and an id for the log; no traceback and no path."""

from __future__ import annotations

import json
import re
import secrets
from html import escape

from attlas.support.errors import AttlasError

PATH = re.compile(
    r"(?<![\w.:/])"  # not inside a word or an address of the web
    r"(?:~?/|[A-Za-z]:[\\/]|\\\\)"  # /home, ~/data, C:\data, \\server
    r"(?:[^\s'\"<>|,;]*[\\/])*"  # folders
    r"(?=[^\s'\"<>|,;])"  # and a name, which stays
)
Content = tuple[bytes, str]  # bytes and their type
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Attlas: {title}</title>
<link rel="stylesheet" href="/static/plain/page.css"></head>
<body class="served"><main><h1>{title}</h1><p class="problem">{sentence}{number}</p>
<p><a href="/">All studies</a></p></main></body></html>
"""
TITLES = {
    400: "This request cannot be read",
    403: "Not allowed",
    404: "Not found",
    405: "Not allowed",
    408: "Too slow",
    413: "Too large",
    414: "Too long",
    415: "Not allowed",
    421: "Not this address",
    429: "Busy",
}


class Refusal(AttlasError):  # noqa: N818
    """A request that is not answered: a status of HTTP, and a sentence for the reader."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def error_id() -> str:
    """A short id that stands on the page and in the log."""
    return secrets.token_hex(4)


def without_paths(sentence: str) -> str:
    """A sentence in which the folders of every absolute path are left out.

    >>> without_paths("there is no study folder /home/ann/runs/tour; see https://a.org/b")
    'there is no study folder tour; see https://a.org/b'
    """
    return PATH.sub("", sentence)


def error_content(status: int, sentence: str, number: str = "", html: bool = False) -> Content:
    """The body of an error: a page for a reader who opens it, JSON for a script."""
    sentence = without_paths(sentence)
    if not html:
        known = {"error": sentence, **({"id": number} if number else {})}
        return json.dumps(known, ensure_ascii=False).encode("utf-8", "replace"), "application/json"
    title = TITLES.get(status, "This did not work")
    shown = f' <span class="grey">error {escape(number)} in the log</span>' if number else ""
    page = PAGE.format(title=title, sentence=escape(sentence), number=shown)
    return page.encode("utf-8", "replace"), "text/html; charset=utf-8"
