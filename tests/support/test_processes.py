"""Jobs in processes: each result with its job; nothing of the working folder is imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import attlas
from attlas.support import processes
from attlas.support.errors import StudyError
from attlas.support.processes import import_folders, run_in_processes
from tests.support import jobs

ROOT, SOURCE = Path(__file__).parents[2], Path(attlas.__file__).parents[1]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without modules: the tests' own would not be found in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    return tmp_path


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No worker and no thread of a pool outlives its call, and the environment is as before."""
    before = dict(os.environ)
    yield
    own = psutil.Process().children(recursive=True)
    assert [one for one in own if "spawn_main" in " ".join(one.cmdline())] == []
    assert [one for one in threading.enumerate() if "Executor" in type(one).__name__] == []
    assert {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"} == {
        k: v for k, v in before.items() if k != "PYTEST_CURRENT_TEST"
    }


def script(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a user's script in the working folder, however Python is started."""
    how = {"capture_output": True, "text": True, "timeout": 120, "env": environment(), **options}
    Path("script.py").write_text(code)
    return subprocess.run([sys.executable, "script.py"], **how)  # type: ignore[call-overload, no-any-return]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SOURCE, ROOT))), **more}


# results


@pytest.mark.parametrize("workers", [1, 3, 50])
def test_every_job_once_with_its_own_result(workers: int) -> None:
    results = list(run_in_processes(jobs.doubled, range(7), workers))
    assert sorted(results) == [(number, 2 * number) for number in range(7)]


def test_results_come_in_the_order_in_which_jobs_finish() -> None:
    assert [number for number, _ in run_in_processes(jobs.after, [3.0, 0.0, 0.1], 2)] == [1, 2, 0]


def test_no_job_starts_no_process() -> None:
    assert list(run_in_processes(jobs.doubled, [], 2)) == []


def test_a_worker_has_one_thread_and_nothing_of_the_script() -> None:
    [(_, found)] = run_in_processes(jobs.settings, [0], 1)
    assert found["threads"] == ["1"] * 3
    assert found["main"] is None
    assert found["heavy"] == []
    assert found["path"] == import_folders(sys.path)


def test_what_a_worker_prints_is_not_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(run_in_processes(jobs.printing, ["aloud"], 1)) == [(0, "aloud")]
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "aloud\n")


@pytest.mark.parametrize(
    "job", [{1, 2}, Path("a"), [object()], {"a": lambda: 0}, (1, [b"", {2: set()}])]
)
def test_only_plain_values_are_sent(job: object) -> None:
    with pytest.raises(StudyError, match="plain values"):
        next(run_in_processes(jobs.doubled, [1, job], 2))


@pytest.mark.parametrize("function", [lambda job: job, threading.Event().set, Path.exists])
def test_only_functions_of_modules_are_called(function: object) -> None:
    with pytest.raises(StudyError, match="define it in a module"):
        next(run_in_processes(function, [1], 2))  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_are_refused(workers: int) -> None:
    with pytest.raises(StudyError, match="workers"):
        next(run_in_processes(jobs.doubled, [1], workers))


# failures


def test_the_first_failure_stops_all_and_is_raised_as_it_is() -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match="no luck with this"):
        list(run_in_processes(jobs.failing, ["sleep", "this", "that"], 2))
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("job", "message"),
    [("two words", "TwoWordsError: no luck"), ("unsendable", "ValueError: .*function")],
)
def test_an_error_that_cannot_be_sent_is_told_in_words(job: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        list(run_in_processes(jobs.failing, [job], 1))


def test_a_worker_that_ends_is_one_clear_error() -> None:
    began = time.monotonic()
    with pytest.raises(
        StudyError, match=r"exit code 7\) while it ran .*exit.*run the same command again"
    ):
        list(run_in_processes(jobs.failing, ["sleep", "exit"], 2))
    assert time.monotonic() - began < 30
    with pytest.raises(SystemExit):
        list(run_in_processes(jobs.failing, ["exit at once"], 1))


def test_a_worker_that_is_killed_is_named_by_its_job(tmp_path: Path) -> None:
    def kill() -> None:
        while not (found := [*tmp_path.glob("[0-9]*")]):
            time.sleep(0.01)
        os.kill(int(found[0].name), signal.SIGKILL)

    threading.Thread(target=kill).start()
    with pytest.raises(StudyError, match=r"exit code -9\) while it ran the long one; "):
        list(run_in_processes(jobs.noted, [[str(tmp_path), 60]], 2, lambda _: "the long one"))


def test_a_caller_who_stops_reading_stops_the_workers() -> None:
    began = time.monotonic()
    for _, seconds in run_in_processes(jobs.after, [0.0, 60.0, 60.0], 2):
        assert seconds == 0
        break
    assert time.monotonic() - began < 30


# how workers are started

PLANTED = [
    "multiprocessing",
    "threading",
    "queue",
    "pickle",
    "json",
    "signal",
    "runpy",
    "socket",
    "logging",
    "numpy",
    "torch",
    "attlas",
    "sitecustomize",
]
CALL = (
    "from attlas.support.processes import run_in_processes; from tests.support import jobs; "
    "print(sorted(run_in_processes(jobs.doubled, [1, 2, 3], 2)))"
)
LATER = (
    "import pathlib, sys; from attlas.support import processes; from tests.support import jobs; "
    "[pathlib.Path(f'{name}.py').write_text(f'open(\"ran\", \"a\").write({name!r}); 1 / 0') "
    "for name in NAMES]; "
)


@pytest.mark.parametrize("how", ["-c", "script", "-m", "PYTHONPATH", "-I", "-E -P"])
def test_nothing_is_imported_from_the_working_folder(how: str) -> None:
    """The modules are planted when this process has imported its own."""
    code = LATER.replace("NAMES", repr(PLANTED)) + CALL
    setup = f"import sys; sys.path[:0] = [{str(SOURCE)!r}, {str(ROOT)!r}]; "
    variables = environment()
    if how == "PYTHONPATH":
        variables["PYTHONPATH"] = os.pathsep.join(
            (".", "", str(Path.cwd()), variables["PYTHONPATH"])
        )
    if how in ("script", "-m"):
        Path("started.py").write_text(code)
        command = ["started.py"] if how == "script" else ["-m", "started"]
    else:
        flags = how.split() if how in ("-I", "-E -P") else []
        command = [*flags, "-c", setup + code if flags else code]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=120, env=variables
    )
    assert done.stdout == "[(0, 2), (1, 4), (2, 6)]\n", done.stderr
    assert done.stderr == ""
    assert not Path("ran").exists()


def test_where_the_working_folder_cannot_be_kept_out_workers_are_refused() -> None:
    code = f"import sys; sys.path[:0] = [{str(SOURCE)!r}, {str(ROOT)!r}]; {CALL}"
    done = subprocess.run(
        [sys.executable, "-E", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert "start Python with -P or -I" in done.stderr


def test_a_script_without_a_guard_is_not_run_again() -> None:
    code = f"open('runs', 'a').write('once '); {CALL}"
    done = script(code)
    assert done.stdout == "[(0, 2), (1, 4), (2, 6)]\n", done.stderr
    assert Path("runs").read_text() == "once "
    Path("package").mkdir()
    Path("package/__init__.py").touch()
    Path("package/started.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "package.started"],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
    )
    assert done.stdout == "[(0, 2), (1, 4), (2, 6)]\n", done.stderr
    assert Path("runs").read_text() == "once once "


def test_a_function_of_the_script_is_refused() -> None:
    done = script(f"{CALL}\ndef own(job): return job\nlist(run_in_processes(own, [1], 1))")
    assert "workers cannot find own of __main__; define it in a module" in done.stderr


def test_processes_of_others_that_start_meanwhile_are_as_ever() -> None:
    real = processes.spawn.get_preparation_data
    found: list[object] = []
    with processes._clean_preparation():
        other = threading.Thread(
            target=lambda: found.append(processes.spawn.get_preparation_data("other")["sys_path"])
        )
        other.start()
        other.join()
        own = processes.spawn.get_preparation_data("own")
    assert found == [real("other")["sys_path"]]
    assert own["sys_path"] == import_folders(sys.path)
    assert not {"init_main_from_name", "init_main_from_path"} & {*own}
    assert processes.spawn.get_preparation_data is real


def test_folders_to_import_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    here = ["", ".", "lib", str(tmp_path), str(tmp_path / "link")]
    assert import_folders([*here, "/usr/lib"]) == ["/usr/lib"]
    monkeypatch.chdir(SOURCE)
    found = import_folders([str(SOURCE), "/usr/lib"])
    assert found == ["/usr/lib", str(SOURCE)]  # Attlas itself has to be found


# how workers end

# a background job of a shell ignores interrupts, and what it starts does too
SLEEP = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from attlas.support.processes import run_in_processes; from tests.support import jobs; "
    "list(run_in_processes(jobs.noted, [[sys.argv[1], 60]] * 2, 2))"
)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_workers_end_with_their_parent(tmp_path: Path, number: int) -> None:
    """Ctrl-C reaches every process of a terminal at once, the other two the parent alone."""
    command = [sys.executable, "-c", SLEEP, str(tmp_path)]
    with open("error", "w") as error:
        parent = subprocess.Popen(command, env=environment(), start_new_session=True, stderr=error)
    started: list[psutil.Process] = []
    with suppress(ProcessLookupError):
        while len(found := [*tmp_path.glob("[0-9]*")]) < 2 and parent.poll() is None:
            time.sleep(0.01)
        started = psutil.Process(parent.pid).children(recursive=True)
        (os.killpg if number == signal.SIGINT else os.kill)(parent.pid, number)
    try:
        assert parent.wait(30) == -number
    finally:
        parent.kill()
    assert {int(path.name) for path in found} <= {one.pid for one in started}
    _, alive = psutil.wait_procs(started, timeout=30)
    assert alive == []
    if number == signal.SIGINT:
        lines = Path("error").read_text().splitlines()
        assert lines[-1] == "KeyboardInterrupt"
        assert sum(line.startswith("Traceback") for line in lines) == 1  # the parent's own
