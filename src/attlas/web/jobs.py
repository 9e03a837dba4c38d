"""Studies and explanations that are started from a page: commands in processes of their own.

    RESULTS/NAME/         the folder of the result, as from the terminal
    RESULTS/NAME.json     the command, so that a new server knows it
    RESULTS/NAME.log      what it printed

A job may only name models and corpora that were named when the server was started.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attlas.support.files import read_json, write_errors, write_json
from attlas.support.processes import start_command
from attlas.support.progress import FOLLOWED, MARK
from attlas.web.refusals import Refusal, without_paths

QUEUED, RUNNING, FINISHED = "queued", "running", "finished"
FAILED, CANCELLED, INTERRUPTED = "failed", "cancelled", "interrupted"
RESUMABLE = (FAILED, CANCELLED, INTERRUPTED)
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
MOST_JOBS = 500
PATIENCE = 10.0  # seconds to end after Ctrl-C
ENDED_BY_SIGNAL = (-signal.SIGINT, 128 + signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGTERM)
TAIL = 2**14  # bytes of a log that are read
CORPORA = ("embedded:messages", "embedded:reviews", "embedded:acceptability")
KINDS: dict[str, tuple[str, Mapping[str, Sequence[str]]]] = {  # title, and options with choices
    "study": ("Study: what does each head attend to?", {"measures": ("all", "surface,entropy")}),
    "explain": (
        "Explanations: which words does a prediction depend on?",
        {"method": ("integrated_gradients,attention_last,rollout", "all")},
    ),
}
Start = Callable[[Sequence[str], Path, Mapping[str, str]], "subprocess.Popen[bytes]"]


@dataclass(eq=False)
class Job:
    """A command, and how far it is."""

    name: str
    kind: str
    data: str  # as they were named at the start
    model: str
    options: dict[str, str]
    state: str = QUEUED
    began: float = 0.0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    is_cancelled: bool = False

    def arguments(self, folder: str) -> list[str]:
        """The command line, without its first word."""
        options = [part for name, value in self.options.items() for part in (f"--{name}", value)]
        base = [self.kind, "--data", self.data, "--model", self.model]
        return [*base, *options, "--out", folder]

    def record(self) -> dict[str, Any]:
        """As it is kept for the next server."""
        names = ("name", "kind", "data", "model", "options", "state")
        return {name: getattr(self, name) for name in names}


class Jobs:
    """The jobs of a results folder, one at a time."""

    def __init__(
        self,
        results: Path,
        models: Sequence[str],
        corpora: Sequence[str] = (),
        start: Start = start_command,
    ) -> None:
        self.results = results
        self.models, self.corpora = list(models), [*corpora, *CORPORA]
        self._start = start
        self._jobs: dict[str, Job] = {}
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._read_records()

    def _read_records(self) -> None:
        """The jobs of earlier servers: what ran then is interrupted now."""
        for path in sorted(self.results.glob("*.json")) if self.results.is_dir() else ():
            record = read_json(path) or {}
            job = self._of_record(record) if record.get("name") == path.stem else None
            if job is not None:
                self._jobs[job.name] = job

    def _of_record(self, record: Mapping[str, Any]) -> Job | None:
        """A job that this server may resume; a record with anything else is left alone."""
        known: dict[str, Any] = {
            name: record.get(name) for name in ("name", "kind", "data", "model", "options")
        }
        try:
            self._check(**known)
        except (Refusal, TypeError):
            return None
        state = record.get("state")
        is_ended = state in (FINISHED, FAILED, CANCELLED)
        job = Job(**known)
        job.state = str(state) if is_ended else INTERRUPTED
        return job

    def _check(self, name: Any, kind: Any, data: Any, model: Any, options: Any) -> None:
        """Refuse what was not named at the start, and names that are not plain."""
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise Refusal(422, "A name has 1 to 40 small letters, digits and hyphens.")
        if kind not in KINDS:
            raise Refusal(422, f"There is no job {kind!r}; jobs are {', '.join(KINDS)}.")
        if data not in self.corpora:
            raise Refusal(422, "This corpus was not named at the start (--data).")
        if model not in self.models:
            raise Refusal(422, "This model was not named at the start (--model).")
        known = KINDS[kind][1]
        if not isinstance(options, dict) or any(
            options[one] not in known.get(one, ()) for one in options
        ):
            raise Refusal(422, "An option of this job has a value that it does not know.")

    def submit(self, name: str, kind: str, data: str, model: str, options: dict[str, str]) -> Job:
        """Queue a new job."""
        self._check(name, kind, data, model, options)
        with self._changed:
            if len(self._jobs) >= MOST_JOBS:
                raise Refusal(429, f"There are {MOST_JOBS} jobs; remove some in the terminal.")
            files = (self.results / name, self._record(name), self._log(name))
            if name in self._jobs or any(map(os.path.lexists, files)):
                raise Refusal(409, f"There is a result {name} already; choose another name.")
            job = self._jobs[name] = Job(name, kind, data, model, dict(options))
            self._enqueue(job)
        return job

    def resume(self, name: str) -> Job:
        """Queue a job again that did not finish."""
        with self._changed:
            job = self.job(name)
            if job.state not in RESUMABLE:
                raise Refusal(409, f"The job {name} is {job.state}.")
            self._enqueue(job)
        return job

    def _enqueue(self, job: Job) -> None:
        job.state, job.is_cancelled, job.process = QUEUED, False, None
        self._write(job)
        self._queue.append(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
            self._thread.start()
        self._changed.notify()

    def cancel(self, name: str) -> None:
        """Cancel a job: one that runs is interrupted as by Ctrl-C, and can resume."""
        with self._changed:
            job = self.job(name)
            if job in self._queue:
                self._queue.remove(job)
                job.state = CANCELLED
                self._write(job)
            elif job.state == RUNNING:
                job.is_cancelled = True
                _interrupt(job)

    def job(self, name: str) -> Job:
        """A job by its name."""
        if name not in self._jobs:
            raise Refusal(404, "There is no such job here.")
        return self._jobs[name]

    def close(self) -> None:
        """Interrupt what runs: the same command, or the next server, resumes it."""
        with self._changed:
            self._is_closed = True
            self._queue.clear()
            running = [one for one in self._jobs.values() if one.state == RUNNING]
        for job in running:
            _interrupt(job)
            _wait(job)

    def list(self) -> list[dict[str, Any]]:
        """All jobs as a page shows them, those that run first, then the newest."""
        with self._changed:
            order = {name: number for number, name in enumerate(self._jobs)}
            rank = {RUNNING: 0, QUEUED: 1}
            jobs = sorted(
                self._jobs.values(), key=lambda one: (rank.get(one.state, 2), -order[one.name])
            )
            return [self.about(one) for one in jobs]

    def about(self, job: Job) -> dict[str, Any]:
        """A job as a page shows it; no path of this machine is in it."""
        log = log_tail(self._log(job.name))
        shown = Path(self.results.name if self.results.is_absolute() else self.results) / job.name
        command = shlex.join(["attlas", *map(shown_name, job.arguments(str(shown)))])
        about: dict[str, Any] = {
            "name": job.name,
            "kind": job.kind,
            "data": shown_name(job.data),
            "model": shown_name(job.model),
            "state": job.state,
            "command": command,
            "finding": "",
            "problem": "",
        }
        if job.state == QUEUED:
            about["ahead"] = self._queue.index(job) + 1 if job in self._queue else 0
        progress = log.progress if job.state in (RUNNING, *RESUMABLE) else {}
        step, done, total = (progress.get(one) for one in ("step", "done", "total"))
        left = None
        if job.state == RUNNING and done and total:
            left = round((time.monotonic() - job.began) * (total - done) / done)
        about |= {"step": step or log.step, "done": done or 0, "total": total or 0, "left": left}
        if job.state == FAILED:
            about["problem"] = without_paths(log.problem)
        return about

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
                job = self._queue.popleft()
                if self._is_closed:
                    return
                try:
                    self._begin(job)
                except Exception:
                    job.state = FAILED
                    continue
            assert job.process is not None
            code = job.process.wait()
            with self._changed:
                ended = self._ended(job, code)
                with suppress(Exception):
                    self._write(replace(job, state=ended))  # before anybody sees it
                job.state = ended

    def _ended(self, job: Job, code: int) -> str:
        """The state of a job whose command ended with a code."""
        if code == 0:
            return FINISHED
        if job.is_cancelled:
            return CANCELLED
        return INTERRUPTED if self._is_closed or code in ENDED_BY_SIGNAL else FAILED

    def _begin(self, job: Job) -> None:
        self._log(job.name).unlink(missing_ok=True)
        arguments = job.arguments(str(self.results / job.name))
        job.state, job.began = RUNNING, time.monotonic()
        self._write(job)
        job.process = self._start(arguments, self._log(job.name), FOLLOWED)

    def _write(self, job: Job) -> None:
        with write_errors(self.results):
            self.results.mkdir(parents=True, exist_ok=True)
            write_json(self._record(job.name), job.record())

    def _record(self, name: str) -> Path:
        return self.results / f"{name}.json"

    def _log(self, name: str) -> Path:
        return self.results / f"{name}.log"


def shown_name(given: str) -> str:
    """A name as it was given; of an absolute path only the last part.

    >>> shown_name("data/a.csv"), shown_name("/home/ann/a.csv")
    ('data/a.csv', 'a.csv')
    """
    return Path(given).name if os.path.isabs(os.path.expanduser(given)) else given


@dataclass(frozen=True)
class LogTail:
    """The end of what a command printed."""

    lines: tuple[str, ...]

    @property
    def progress(self) -> dict[str, Any]:
        """The last step that was reported in numbers."""
        for line in reversed(self.lines):
            if line.startswith(MARK):
                with suppress(ValueError):
                    content = json.loads(line.removeprefix(MARK))
                    return content if isinstance(content, dict) else {}
        return {}

    @property
    def step(self) -> str:
        """The last line that is not a number."""
        plain = [one for one in self.lines if one.strip() and not one.startswith(MARK)]
        return without_paths(plain[-1].strip()[:200]) if plain else ""

    @property
    def problem(self) -> str:
        """The line with which a command failed."""
        ours = [one for one in self.lines if one.startswith("attlas: ")]
        return ours[-1].removeprefix("attlas: ") if ours else "The command failed; see its log."


def log_tail(path: Path) -> LogTail:
    """The last lines of a log, or none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL))
            content = file.read()
    except OSError:
        return LogTail(())
    return LogTail(tuple(content.decode("utf-8", "replace").splitlines()))


def _interrupt(job: Job) -> None:
    """Send Ctrl-C; what does not end after a while is terminated."""
    if job.process is None:
        return
    _signal(job.process, signal.SIGINT)
    timer = threading.Timer(PATIENCE, _signal, (job.process, signal.SIGTERM))
    timer.daemon = True
    timer.start()


def _wait(job: Job) -> None:
    if job.process is not None:
        with suppress(subprocess.TimeoutExpired):
            job.process.wait(2 * PATIENCE)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the command and its workers, if it runs."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
