"""Processes of Attlas that tests start, stop and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# A process of attlas costs seconds of imports before it does anything. This one has them behind
# it and forks: whatever is asked for runs in a process of its own, with its own folder,
# environment, output and exit code, and can be killed.
FORKS = """
import gc, json, os, runpy, signal, sys, tempfile, traceback
import attlas.cli.entry, attlas.explain, attlas.finetune.work, attlas.experiments.workspace
import attlas.studies, attlas.testing, attlas.topology.work, attlas.models.look
import attlas.views.report, attlas.views.terminal
import pydantic, torch
from threadpoolctl import threadpool_limits

torch.set_num_threads(1)  # a fork has no threads but its own
with tempfile.TemporaryDirectory() as folder:  # what numba and transformers do on first use
    attlas.testing.tiny("bert").save(folder)
    attlas.attention(folder, "a cat")
gc.collect()
gc.freeze()
while line := sys.stdin.readline():
    order = json.loads(line)
    if "wait" in order:
        pid, status, usage = os.wait4(order["wait"], os.WNOHANG)
        used = (usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
        print(*(os.waitstatus_to_exitcode(status), *used) if pid else ["running"], flush=True)
        continue
    if not (pid := os.fork()):
        break
    print(pid, flush=True)
else:
    os._exit(0)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
for number, name in enumerate((os.devnull, order["out"], order["error"])):
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
sys.stdin = open(0)
os.chdir(order["folder"])
os.environ.update(order["environment"])
if threads := int(os.environ.get("OMP_NUM_THREADS") or os.environ.get("ATTLAS_TEST_THREADS", 0)):
    torch.set_num_threads(threads)  # else one: two test processes share two cores
    threadpool_limits(threads)
sys.argv, ended = ["attlas", *order["arguments"]], 0
try:
    if order["code"] is None:
        runpy.run_module("attlas", run_name="__main__", alter_sys=True)
    else:
        exec(order["code"], {"__name__": "__main__"})
except SystemExit as end:
    ended = end.code or 0  # attlas gives numbers
except BaseException:
    traceback.print_exc()
    ended = 1
sys.stdout.flush()
sys.stderr.flush()
os._exit(ended)  # it need not take apart what it never used
"""


class Started:
    """A process that was started by another, used like one of subprocess."""

    def __init__(self, ask: Callable[[object], str], pid: int, out: Path, error: Path) -> None:
        self.pid, self.returncode = pid, None
        self.peak, self.seconds = 0, 0.0  # bytes of memory at most, processor time
        self._ask, self._out, self._error = ask, out, error

    returncode: int | None

    def poll(self) -> int | None:
        if self.returncode is None and (found := self._ask({"wait": self.pid})) != "running":
            code, peak, seconds = found.split()
            self.returncode, self.peak, self.seconds = int(code), int(peak) * 1024, float(seconds)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                self.send_signal(signal.SIGKILL)
                raise subprocess.TimeoutExpired("attlas", timeout)
            time.sleep(0.002)
        return code

    def communicate(self, timeout: float) -> tuple[str, str]:
        self.wait(timeout)
        return self._out.read_text(), self._error.read_text()


Start = Callable[..., Started]


Run = Callable[..., subprocess.CompletedProcess[str]]


def kill_when(process: subprocess.Popen[bytes] | Started, moment: Callable[[], bool]) -> bool:
    """Kill a process at a moment; whether it was still running then."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if moment():
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    code = process.wait(30)
    if isinstance(process, subprocess.Popen) and process.stderr is not None:
        process.stderr.close()
    return code == -signal.SIGKILL


class CommandOutput(NamedTuple):
    code: int
    out: str
    error: str
