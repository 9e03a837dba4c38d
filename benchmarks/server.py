"""The workbench: how soon the first page is there, and what a text of 4,096 tokens costs on it.

The server is a process of its own, as a user starts it, with the embedded long model; the text is
one of a study, so that its page has everything. Its first load is all that the browser fetches
until its views are drawn; lines of more heads and matrices follow when they come into view.
"""

from __future__ import annotations

import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attlas
from benchmarks.browser import TOKENS, opened
from benchmarks.table import Row

HEAD = "L2H8"
# From a click on a word until the lists have its numbers, the median of some, in ms.
CLICKS = """async () => {
  const words = [...document.querySelectorAll(".attlas-look w")];
  const listed = () => document.querySelector(".attlas-look .side .lists tbody tr");
  const times = [];
  for (const share of [0.5, 0.1, 0.3, 0.9, 0.7, 0.2, 0.8]) {
    const word = words[Math.floor(share * words.length)];
    word.scrollIntoView({ block: "center" });
    await new Promise((on) => setTimeout(on, 300));
    const began = performance.now();
    word.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    while (!listed()) await new Promise((on) => setTimeout(on));
    times.push(performance.now() - began);
  }
  return times.slice(1).sort((a, b) => a - b)[3];
}"""


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, float]]:
    """A server: the address that it prints, with its token, and the seconds until it listened."""
    command = [sys.executable, "-m", "attlas", "serve", str(folder), "--model", "embedded:long"]
    began = time.perf_counter()
    options = ["--port", "0", "--out", str(folder.parent / "jobs")]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        try:
            yield found[0], time.perf_counter() - began
        finally:
            process.terminate()


def seconds(address: str, path: str) -> float:
    """How long an answer takes."""
    connection = http.client.HTTPConnection(address)
    began = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, (path, answer.status)
    return time.perf_counter() - began


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name, opened() as browser:
        folder = Path(name) / "study"
        text = " ".join(one.text for one in attlas.read("embedded:all"))
        attlas.study("embedded:long", [text], "surface,totals", folder, progress=False)
        with server(folder) as (link, started):
            first = seconds(urlsplit(link).netloc, "/")
            yield Row("first page of the workbench", first, "target", 1, "below 1")
            what = "  the same, from the command on, with imports"
            yield Row(what, started + first, "none", 1, "none")
            yield from _long_text(browser, link)


def _long_text(browser: Any, link: str) -> Iterator[Row]:
    address = urlsplit(link).netloc
    page = browser.new_context(viewport={"width": 1_400, "height": 900}).new_page()
    page.set_default_timeout(120_000)
    page.goto(link)
    page.goto(page.locator("table.studies a").get_attribute("href").join((f"http://{address}", "")))
    study = page.url.rpartition("/")[0]
    page.goto(f"{study}/texts")
    place = page.locator("table.texts tbody th a").get_attribute("href")
    page.goto(f"http://{address}{place}")
    page.wait_for_selector("html[data-ready]")
    if (read := page.get_by_role("button", name="Read with this model")).count():
        read.click()  # the weights of this model are known once it is loaded
    page.wait_for_selector(".attlas-look[data-drawn]")
    look = page.get_attribute(".attlas-look", "data-look")
    cookies = page.context.storage_state()
    page.context.close()
    page, loaded = _loaded(browser, f"http://{address}{place}", cookies)
    what = f"first load of the page of a text of {TOKENS:,} tokens"
    yield Row(what, loaded / 1e6, "target", 1, "below 1", "MB")
    words = [seconds(address, f"/api/looks/{look}/words/{HEAD}/{at}") for at in range(9, 999, 99)]
    what = "  a word of one head, exactly: the server's answer"
    yield Row(what, 1e3 * statistics.median(words), "target", 100, "below 1", "ms")
    page.select_option(".attlas-look [data-choose=head]", HEAD)
    what = "  click on a word, until its numbers are listed"
    yield Row(what, page.evaluate(CLICKS), "target", 100, "below 1", "ms")


def _loaded(browser: Any, address: str, cookies: Any) -> tuple[Any, float]:
    """A page with an empty cache, and the bytes that it fetched until its views were drawn."""
    size = {"width": 1_400, "height": 900}
    page = browser.new_context(viewport=size, storage_state=cookies).new_page()
    page.set_default_timeout(120_000)
    session, sizes = page.context.new_cdp_session(page), list[float]()
    session.on("Network.loadingFinished", lambda one: sizes.append(one["encodedDataLength"]))
    session.send("Network.enable")
    page.goto(address)
    page.wait_for_selector(".attlas-look[data-drawn]")
    page.wait_for_timeout(3_000)
    return page, sum(sizes)


if __name__ == "__main__":
    for row in rows():
        print(row)
