"""Jobs in processes of their own: the one place that starts processes.

`run_in_processes` runs functions, `start_command` a command line of Attlas.

A worker is a fresh interpreter. It imports from where this process does, but never from the working
folder, in which any file may have the name of a module; it does not run the user's script again; it
computes with one thread; it leaves Ctrl-C to this process; and it ends when this process does.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import context, parent_process, spawn
from pathlib import Path
from typing import Any

from attlas.support.errors import StudyError

MOST_WORKERS = 61  # Windows waits for no more processes at a time
LOOK_EVERY = 0.5  # seconds, for workers that have ended
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_STARTING = threading.Lock()


def run_in_processes(
    function: Callable[..., Any],
    jobs: Sequence[Any],
    workers: int,
    describe: Callable[[Any], str] = str,
    common: Sequence[Any] = (),
) -> Iterator[tuple[int, Any]]:
    """Call a function on each job in worker processes; give each job's number and result.

    Results come in the order in which jobs finish. The function is one of a module; the jobs, and
    `common` arguments that follow each, are plain values: nothing else reaches a worker. The first
    job that fails stops all workers, and its error is raised here; so does a worker that ends early
    (`describe` names jobs in its error), an interrupt, and a caller who stops reading.
    """
    _check(function, [*jobs, *common], workers)
    processes = _Context()
    count = max(1, min(workers, len(jobs), MOST_WORKERS))
    with _clean_environment():  # which also starts what multiprocessing tracks its resources with
        pool = ProcessPoolExecutor(count, mp_context=processes, initializer=_begin)
    running: dict[Future[Any], int] = {}
    waiting = iter(range(len(jobs)))
    try:
        while True:
            while len(running) < count and (number := next(waiting, None)) is not None:
                running[pool.submit(_call, function, jobs[number], *common)] = number
            if not running:
                return
            done = wait(running, LOOK_EVERY, FIRST_COMPLETED).done
            if not done and processes.any_ended():
                raise BrokenProcessPool  # the pool overlooks a worker that ends early at times
            for future in done:
                result = future.result()
                yield running.pop(future), result
    except BrokenProcessPool as error:
        processes.terminate()
        pool.shutdown()
        names = " or ".join(describe(jobs[number]) for number in running.values())
        raise StudyError(
            f"a worker ended (exit code {processes.exit_code()}) while it ran {names}; "
            "run the same command again: it resumes"
        ) from error
    finally:
        processes.terminate()
        pool.shutdown(cancel_futures=True)


def start_command(
    arguments: Sequence[str], log: Path, variables: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a command line of Attlas, whose output is appended to a file.

    It runs on after Ctrl-C here, and does not import from the working folder.
    """
    with _clean_environment(), log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "attlas", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **variables},
        )


def _check(function: Callable[..., Any], jobs: Sequence[Any], workers: int) -> None:
    if workers < 1:
        raise StudyError(f"workers is {workers}; it must be at least 1")
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise StudyError(
            "with `python -E` alone, workers would import from the working folder; "
            "start Python with -P or -I as well, or use one worker"
        )
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or getattr(sys.modules.get(module), name, None) is not function:
        raise StudyError(f"workers cannot find {name} of {module}; define it in a module")
    refused = next((job for job in jobs if not _is_plain(job)), None)
    if refused is not None:
        raise StudyError(f"a job is {refused!r}; workers get plain values only")


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(_is_plain(key) and _is_plain(one) for key, one in value.items())
    return value is None or type(value) in (bool, int, float, str, bytes)


# in a worker


def _begin() -> None:
    """Prepare a worker, before it imports anything that computes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    with suppress(OSError):
        os.dup2(2, 1)  # what is printed goes to standard error, which no program reads
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the function; an error that cannot be pickled is replaced by its message."""
    try:
        return function(*arguments)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise StudyError(f"{type(error).__name__}: {error}") from error
        raise


# how a worker is started


class _Process(context.SpawnProcess):
    """A spawned process that begins without the working folder and the user's script."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802
        with _clean_environment(), _clean_preparation(), _without_interrupts():
            return context.SpawnProcess._Popen(process_obj)


class _Context(context.SpawnContext):
    """Starts such processes and knows them."""

    def __init__(self) -> None:
        self.started: list[_Process] = []

    def Process(  # type: ignore[override]  # noqa: N802
        self, *arguments: Any, **options: Any
    ) -> _Process:
        self.started.append(_Process(*arguments, **options))
        return self.started[-1]

    def any_ended(self) -> bool:
        return any(one.exitcode is not None for one in self.started)

    def exit_code(self) -> int | None:
        """How the worker ended after which the others were terminated."""
        codes = [one.exitcode for one in self.started if one.exitcode is not None]
        own = [code for code in codes if code != -signal.SIGTERM]
        return next(iter(own or codes), None)

    def terminate(self) -> None:
        for process in self.started:
            with suppress(ValueError, AttributeError):  # it was never started
                process.terminate()


def import_folders(folders: Sequence[str]) -> list[str]:
    """Leave the working folder, and whatever is relative to it, out of folders to import from.

    If Attlas itself is in the working folder, that comes last, so that it hides no other module.
    """
    here, own = os.path.realpath(os.curdir), str(Path(__file__).resolve().parents[2])
    kept = [path for path in folders if os.path.isabs(path) and os.path.realpath(path) != here]
    return [*kept, own] if own == here else kept


@contextmanager
def _clean_environment() -> Iterator[None]:
    """An interpreter that is started meanwhile does not import from the working folder."""
    with _STARTING:
        names = ("PYTHONSAFEPATH", "PYTHONPATH")
        before = {name: os.environ.get(name) for name in names}
        folders = import_folders((before["PYTHONPATH"] or "").split(os.pathsep))
        try:
            _set({"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(folders) or None})
            yield
        finally:
            _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _clean_preparation() -> Iterator[None]:
    """Of what spawn passes on, leave out the working folder and the script to run again."""
    real, thread = spawn.get_preparation_data, threading.get_ident()

    def prepared(name: str) -> dict[str, Any]:
        data = real(name)
        if threading.get_ident() != thread:  # a process that someone else starts meanwhile
            return data
        kept = {key: value for key, value in data.items() if not key.startswith("init_main_from_")}
        return {**kept, "sys_path": import_folders(sys.path)}

    try:
        spawn.get_preparation_data = prepared
        yield
    finally:
        spawn.get_preparation_data = real


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C, also from what is started meanwhile, until that can ignore it."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
