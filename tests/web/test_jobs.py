"""Jobs: commands in processes of their own, followed, cancelled and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from attlas.studies.opened import Study
from attlas.testing import tiny
from attlas.web.jobs import Jobs, log_tail
from attlas.web.refusals import Refusal
from tests.builders.served import listening, opened, shown

TEXTS = "\n".join(f"a cat number {number} sees the dog in the film" for number in range(12))
SLOW = """
import json, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
print("attlas: a warning", file=sys.stderr)
print("Reading 1/2: texts", file=sys.stderr, flush=True)
try:
    for done in range(1, 1000):
        line = json.dumps({"step": "reading", "done": done, "total": 1000})
        print("progress " + line, file=sys.stderr, flush=True)
        time.sleep(0.02)
except KeyboardInterrupt:
    sys.exit(130)
"""
QUICK = "print('finding: L0H0')"
FAILS = (
    "import sys; print('attlas: /home/ann/a.csv has no column text', file=sys.stderr); sys.exit(2)"
)


def running(code: str) -> Callable[..., subprocess.Popen[bytes]]:
    """A stand-in for the command line: other code, started the same way."""

    def start(arguments: Sequence[str], log: Path, _: Mapping[str, str]) -> Any:
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-c", code], stdout=output, stderr=output, start_new_session=True
            )

    return start


def jobs_of(folder: Path, code: str = QUICK) -> Jobs:
    return Jobs(folder, ["m"], ["texts.csv"], running(code))


def add(jobs: Jobs, name: str = "one") -> None:
    jobs.submit(name, "study", "texts.csv", "m", {})


def until(jobs: Jobs, *states: str, name: str = "one", seconds: float = 60) -> dict[str, Any]:
    """The job once it is in one of these states."""
    end = time.monotonic() + seconds
    while (about := jobs.about(jobs.job(name)))["state"] not in states:
        assert time.monotonic() < end, about
        time.sleep(0.02)
    return about


def until_progress(jobs: Jobs, seconds: float = 60) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while not (about := jobs.about(jobs.job("one")))["done"]:
        assert time.monotonic() < end, about
        time.sleep(0.02)
    return about


def test_a_job_runs_and_is_known_to_the_next_server(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path)
    add(jobs)
    about = until(jobs, "finished")
    assert about["step"] == "finding: L0H0"
    (again,) = jobs_of(tmp_path).list()
    assert (again["name"], again["state"]) == ("one", "finished")


def test_progress_and_cancel_and_resume(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, SLOW)
    add(jobs)
    about = until_progress(jobs)
    assert (about["state"], about["step"], about["total"]) == ("running", "reading", 1000)
    assert about["left"] is not None
    jobs.cancel("one")
    until(jobs, "cancelled")
    process = jobs.job("one").process
    assert process is not None
    assert process.poll() == 130
    jobs.resume("one")
    until(jobs, "running")
    jobs.cancel("one")
    until(jobs, "cancelled")


def test_one_at_a_time_and_a_waiting_one_is_cancelled_at_once(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, SLOW)
    for name in ("one", "two", "three"):
        add(jobs, name)
    until(jobs, "running")
    assert [one["name"] for one in jobs.list()] == ["one", "three", "two"]
    assert jobs.about(jobs.job("three"))["ahead"] == 2
    jobs.cancel("two")
    assert jobs.job("two").state == "cancelled"
    jobs.close()


def test_closing_the_server_interrupts_and_the_next_one_resumes(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, SLOW)
    add(jobs)
    until_progress(jobs)
    jobs.close()
    until(jobs, "interrupted")
    after = jobs_of(tmp_path)
    assert after.list()[0]["state"] == "interrupted"
    after.resume("one")
    assert until(after, "finished")["state"] == "finished"


def test_a_server_that_was_killed_leaves_an_interrupted_job(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, SLOW)
    add(jobs)
    until(jobs, "running")
    assert jobs_of(tmp_path).list()[0]["state"] == "interrupted"
    jobs.close()


def test_a_failure_is_one_line_without_a_path(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, FAILS)
    add(jobs)
    about = until(jobs, "failed")
    assert about["problem"] == "a.csv has no column text"
    assert "/home" not in str(about)


NAMED = {"name": "x", "kind": "study", "data": "texts.csv", "model": "m", "options": {}}
REFUSED: dict[str, dict[str, Any]] = {
    "a folder above": {"name": "../x"},
    "a hidden folder": {"name": ".x"},
    "an absolute folder": {"name": "/tmp/x"},
    "an option as name": {"name": "-x"},
    "a long name": {"name": "x" * 41},
    "a name with a line": {"name": "x\n"},
    "no name": {"name": None},
    "another verb": {"kind": "finetune"},
    "a verb with options": {"kind": "study --fresh"},
    "a file of this machine": {"data": "/etc/passwd"},
    "a file next to it": {"data": "other.csv"},
    "a data set of the Hub": {"data": "hub:imdb"},
    "a model of the Hub": {"model": "gpt2"},
    "a pickled model": {"model": "m --allow-pickle"},
    "another option": {"options": {"allow-pickle": "1"}},
    "another value": {"options": {"measures": "topk(k=10000)"}},
    "options as a list": {"options": ["measures"]},
}


@pytest.mark.parametrize("what", REFUSED)
def test_only_what_was_named_at_the_start(what: str, tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path)
    with pytest.raises(Refusal):
        jobs.submit(**{**NAMED, **REFUSED[what]})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", REFUSED)
def test_a_planted_record_is_not_resumed(what: str, tmp_path: Path) -> None:
    import json

    record = {**NAMED, **REFUSED[what], "state": "interrupted"}
    (tmp_path / "x.json").write_text(json.dumps(record))
    assert jobs_of(tmp_path).list() == []


def test_a_name_is_used_once(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path)
    add(jobs)
    with pytest.raises(Refusal, match="already"):
        add(jobs)
    (tmp_path / "mine").mkdir()
    with pytest.raises(Refusal, match="already"):
        add(jobs, "mine")
    until(jobs, "finished")
    with pytest.raises(Refusal, match="is finished"):
        jobs.resume("one")
    with pytest.raises(Refusal, match="no such job"):
        jobs.resume("none")


@pytest.mark.parametrize("name", ["one.json", "one.log", "one"])
def test_files_of_the_user_in_the_folder_of_jobs_are_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("years of work")
    with pytest.raises(Refusal, match="already"):
        add(jobs_of(tmp_path))
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("elsewhere")
    with pytest.raises(Refusal, match="already"):
        add(jobs_of(tmp_path))
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_the_command_that_is_shown_has_no_path(tmp_path: Path) -> None:
    given = str(tmp_path / "a file.csv")
    jobs = Jobs(tmp_path / "jobs", ["m"], [given], running(QUICK))
    jobs.submit("one", "explain", given, "m", {"method": "all"})
    about = until(jobs, "finished")
    assert about["command"] == (
        "attlas explain --data 'a file.csv' --model m --method all --out jobs/one"
    )
    assert str(tmp_path) not in str(about)


def test_a_log_of_any_bytes(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"\xff\xfe" * 50_000 + b'\nprogress {"step": 1\nprogress []\nlast \xff\n')
    tail = log_tail(log)
    assert tail.progress == {}
    assert tail.step.startswith("last")
    assert log_tail(tmp_path / "missing").step == ""


@pytest.mark.costly
@pytest.mark.slow
def test_the_folder_is_that_of_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real command: it reports progress, writes a study, and is found complete again."""
    tiny("bert").save(tmp_path / "model")
    (tmp_path / "texts.txt").write_text(TEXTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    (tmp_path / "json.py").write_text("raise SystemExit('a module of the working folder ran')")
    jobs = Jobs(Path("runs"), ["model"], ["texts.txt"])
    jobs.submit("mine", "study", "texts.txt", "model", {"measures": "surface,entropy"})
    about = until(jobs, "finished", "failed", name="mine", seconds=240)
    assert about["state"] == "finished", (tmp_path / "runs/mine.log").read_text()
    assert about["command"] == (
        "attlas study --data texts.txt --model model --measures surface,entropy --out runs/mine"
    )
    assert {"surface", "entropy"} <= set(Study.open("runs/mine").tables)
    assert "progress " in (tmp_path / "runs/mine.log").read_text()


@pytest.mark.costly
@pytest.mark.slow
def test_a_job_of_a_server_in_the_background_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a shell starts in the background ignores Ctrl-C, and passes that on."""
    tiny("bert").save(tmp_path / "model")
    (tmp_path / "texts.txt").write_text(TEXTS * 1_000)
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    jobs = Jobs(tmp_path / "jobs", [str(tmp_path / "model")], [str(tmp_path / "texts.txt")])
    monkeypatch.setattr("attlas.web.jobs.PATIENCE", 200.0)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        jobs.submit("one", "study", jobs.corpora[0], jobs.models[0], {})
        until_progress(jobs, 240)
    finally:
        signal.signal(signal.SIGINT, before)
    jobs.cancel("one")
    until(jobs, "cancelled", seconds=180)
    process = jobs.job("one").process
    assert process is not None
    assert process.poll() == 130


def test_a_job_is_run_left_cancelled_and_resumed_in_a_browser(tmp_path: Path, browser: Any) -> None:
    jobs = jobs_of(tmp_path / "jobs", SLOW)
    (tmp_path / "runs").mkdir()
    with listening([tmp_path / "runs"], {}, jobs) as one:
        page, wrong = opened(browser, one.link("/jobs"))
        page.get_by_label("name").fill("one")
        page.keyboard.press("Enter")
        row = page.locator("[data-job=one]")
        row.locator("progress").wait_for()
        assert "attlas study --data texts.csv --model m" in row.inner_text()
        page.goto(one.address)  # leaving the page loses nothing
        shown(page)
        assert jobs.job("one").state == "running"
        page.goto(f"{one.address}/jobs")
        shown(page)
        page.get_by_role("button", name="cancel one").click()
        page.locator("[data-job=one][data-state=cancelled]").wait_for()
        assert jobs.job("one").state == "cancelled"
        page.get_by_role("button", name="resume one").click()
        page.locator("[data-job=one][data-state=running]").wait_for()
        assert wrong == []
        page.context.close()
        jobs.close()
