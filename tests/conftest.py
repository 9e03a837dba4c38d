from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import attlas
from attlas.testing import tiny

# mapped from the file, or copied into memory: other alignments, other kernels
WEIGHTS = os.environ.get("ATTLAS_TEST_WEIGHTS", "mapped")
assert WEIGHTS in {"mapped", "memory"}, (
    f"ATTLAS_TEST_WEIGHTS is {WEIGHTS!r}; it must be 'mapped' or 'memory'"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a browser is slow."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def minilm() -> attlas.Model:
    model = attlas.load()
    if WEIGHTS == "memory":
        for parameter in model.network.parameters():
            parameter.data = parameter.data.clone()
    return model


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT saved as a folder, as a user's own model would be."""
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    model = tiny("bert")
    model.network.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


def stirred(model: attlas.Model, seed: int = 1) -> attlas.Model:
    """The same model with biases and norms that are not 0 and 1, so that none can be forgotten
    unseen.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.network.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model


# A process of attlas costs seconds of imports before it does anything. This one has them behind it
# and forks: whatever is
# asked for runs in a process of its own, with its own folder, environment, output and exit code,
# and can be killed.
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


@pytest.fixture(scope="session")
def _forks() -> Iterator[Callable[[object], str]]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    environment["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    with subprocess.Popen(
        [sys.executable, "-c", FORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as server:

        def ask(order: object) -> str:
            assert server.stdin is not None
            assert server.stdout is not None
            print(json.dumps(order), file=server.stdin, flush=True)
            said = server.stdout.readline().strip()
            assert said, "the process that forks has ended"
            return said

        yield ask
        assert server.stdin is not None
        server.stdin.close()


@pytest.fixture
def attlas_start(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, _forks: Callable[[object], str]
) -> Iterator[Start]:
    """Start the command line, or code, in a process of its own, whose imports are done; what still
    runs at the end is killed.
    """
    every: list[Started] = []

    def start(*arguments: str | Path, code: str | None = None, **environment: str) -> Started:
        said = tmp_path_factory.mktemp("said")
        order = {
            "arguments": [*map(str, arguments)],
            "code": code,
            "folder": str(tmp_path),
            "environment": environment,
        }
        pid = int(_forks({**order, "out": str(said / "out"), "error": str(said / "error")}))
        every.append(Started(_forks, pid, said / "out", said / "error"))
        return every[-1]

    yield start
    for process in every:
        process.send_signal(signal.SIGKILL)
        process.wait(30)


@pytest.fixture
def attlas_command(attlas_start: Start) -> Run:
    """Run the command line in a process of its own, whose imports are done, to its end."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        process = attlas_start(*arguments, **environment)
        out, error = process.communicate(timeout=240)
        assert process.returncode is not None
        return subprocess.CompletedProcess(
            ["attlas", *map(str, arguments)], process.returncode, out, error
        )

    return run


@pytest.fixture
def attlas_anew(tmp_path: Path) -> Run:
    """Run the command line as a user does, from nothing."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "attlas", *map(str, arguments)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=240,
            cwd=tmp_path,
            env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
        )

    return run
