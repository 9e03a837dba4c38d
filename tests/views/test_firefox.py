"""The report in another browser: every view is drawn, a choice in one is seen in the others."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

import attlas
from attlas.testing import tiny
from tests.builders.firefox import firefox

pytestmark = pytest.mark.slow
MOST_SECONDS = 60
DRAWN = """
const all = [...document.querySelectorAll("[data-view]")];
const late = all.filter((one) => one.dataset.drawn === undefined);
const failed = document.body.innerText.match(/could not be drawn[^\\n]*/g) ?? [];
return { views: all.length, late: late.length, failed };
"""
CHOOSE = """
const cell = document.querySelector('#all-heads [role=gridcell][data-head="L1H2"]');
cell.click();
const card = () => document.querySelector("#card").innerText;
const until = performance.now() + 20000;  // the card follows when its data are unpacked
while (!card().startsWith("L1H2") && performance.now() < until) {
  await new Promise((done) => setTimeout(done, 50));
}
const chosen = [...document.querySelectorAll('.attlas-heads [aria-selected=true]')];
return { names: chosen.map((one) => one.dataset.head), card: card() };
"""


@pytest.mark.skipif(
    not (shutil.which("firefox-esr") or shutil.which("firefox") or os.environ.get("CI")),
    reason="there is no Firefox on this machine; install Debian's firefox-esr to run this",
)
def test_the_report_works_in_firefox(tmp_path: Path) -> None:
    texts = [f"a good film about the {word} and the cat" for word in ("dog", "mat", "sea", "man")]
    study = attlas.study(tiny("bert"), texts, "surface,entropy,totals,betti", progress=False)
    page = study.report(tmp_path / "report.html")
    profile = tmp_path / "profile"
    profile.mkdir()
    with firefox(profile) as browser:
        browser.open(page)
        until = time.monotonic() + MOST_SECONDS
        while (drawn := browser.run(DRAWN))["late"] and time.monotonic() < until:
            time.sleep(0.2)
        assert drawn["views"] >= 5
        assert (drawn["late"], drawn["failed"]) == (0, [])
        chosen = browser.run(CHOOSE)
        assert {*chosen["names"]} == {"L1H2"}
        assert len(chosen["names"]) >= 2  # in the first grid and in those of sections
        assert chosen["card"].startswith("L1H2")
