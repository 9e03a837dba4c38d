"""Many readers at once: 45 of pages and 5 who try texts, for a minute, on a server of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.request import HTTPCookieProcessor, Request, build_opener

import psutil
import pytest

from attlas.testing import tiny
from attlas.web.library import opaque
from tests.builders.studies import measured

READERS, TRYING, SECONDS = 45, 5, 60
PATIENCE = 240  # seconds for one answer, on a busy machine
TABS = ("atlas", "texts", "text?id=one", "topology", "explain", "head/L0H1", "tables")
TEXTS = [f"a cat saw the {word} , and it was good" for word in ("dog", "film", "mat", "cat")]


@contextmanager
def server(folder: Path, model: Path) -> Iterator[tuple[psutil.Process, str]]:
    """A server as a user starts it, and its address."""
    options = ["--model", str(model), "--port", "0", "--out", str(folder.parent / "jobs")]
    command = [sys.executable, "-m", "attlas", "serve", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        try:
            yield psutil.Process(process.pid), found[0]
        finally:
            process.terminate()
            process.wait(60)


class Visitor:
    """A reader with a browser's cookie, who has opened the address that the server printed."""

    def __init__(self, link: str) -> None:
        self.address, _, token = link.partition("/?")
        self.opener = build_opener(HTTPCookieProcessor())
        self.get(f"/?{token}")

    def get(self, path: str) -> bytes:
        return self._answer(Request(self.address + path, headers={"Accept": "text/html,*/*"}))

    def post(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json", "X-Attlas": "1"}
        return json.loads(
            self._answer(Request(self.address + path, json.dumps(body).encode(), headers))
        )

    def _answer(self, request: Request) -> bytes:
        with self.opener.open(request, timeout=PATIENCE) as answer:  # other states raise
            content: bytes = answer.read()
        return content

    def read(self, paths: Sequence[str]) -> None:
        for path in paths:
            assert self.get(path)

    def attempt(self, model: str, texts: Sequence[str]) -> None:
        """Read texts with the model and ask for what a page shows of them."""
        for text in texts:
            about = self.post("/api/looks", {"model": model, "text": text})
            while about["state"] in ("waiting", "running"):
                time.sleep(0.05)
                about = json.loads(self.get(f"/api/looks/{about['id']}"))
            assert about["state"] == "ready", about
            self.read([f"/api/looks/{about['id']}/{one}" for one in ("views", "words/L1H1/3")])


@pytest.mark.slow
def test_fifty_readers_for_a_minute(tmp_path: Path) -> None:
    tiny("bert").save(tmp_path / "model")
    folder = Path(measured().folder)
    study = f"/s/{opaque(folder.resolve())}"
    paths = ["/", "/try", "/jobs", "/api/studies", *(f"{study}/{tab}" for tab in TABS)]
    problems: list[str] = []
    counts = {"pages": 0, "texts": 0}
    with server(folder, tmp_path / "model") as (process, link):
        one = Visitor(link)
        found = re.search(r'"models": \[\{"id": "(\w+)"', one.get("/try").decode())
        assert found is not None
        model = found[1]

        def visit(number: int) -> None:
            visitor, trying = Visitor(link), number < TRYING
            try:
                for at in cycle(range(number, number + len(paths))):
                    if time.monotonic() > end:
                        return
                    if trying:
                        visitor.attempt(model, [TEXTS[at % len(TEXTS)]])
                    else:
                        visitor.read([paths[at % len(paths)]])
                    counts["texts" if trying else "pages"] += 1
            except Exception as error:
                problems.append(f"{type(error).__name__}: {error}")

        def run(seconds: float) -> int:
            nonlocal end
            end = time.monotonic() + seconds
            threads = [
                threading.Thread(target=visit, args=(number,)) for number in range(READERS + TRYING)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return int(process.memory_info().rss)

        end = 0.0
        one.read(paths)
        one.attempt(model, TEXTS)
        before = run(SECONDS / 4)
        after = run(SECONDS)
    assert problems == []
    assert counts["pages"] > READERS
    assert counts["texts"] > TRYING
    assert after < 1.1 * before, (before, after, counts)
