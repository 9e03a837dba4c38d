"""Workspace: loads models, runs passes and jobs for an experiment, and caches what they give."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attlas.core.measure import Measure
from attlas.core.text import Text
from attlas.corpora import Corpus
from attlas.experiments.cache import MISSING, Cache
from attlas.models import Model, load
from attlas.studies.engines import default_workers
from attlas.studies.folder import PARTS, DamagedError, Folder, States, clear
from attlas.studies.opened import Study
from attlas.studies.run import Hashed, pass_over
from attlas.studies.shards import Survey, survey, survey_of_texts
from attlas.support.errors import LockedError, StudyError
from attlas.support.fingerprint import fingerprint, source_digest
from attlas.support.machine import cores, one_thread, threads_of_one
from attlas.support.options import WORKERS, checked
from attlas.support.processes import run_in_processes
from attlas.support.progress import Report, progress_bar

if TYPE_CHECKING:
    from attlas.experiments.experiment import Excluded, Experiment

Line = Callable[[str], None]


class Workspace:
    """Models, passes and other costly values of one run, each made once.

    A killed run leaves what it made in the folder's states (or in the user's `cache`); the next
    run of the same inputs finds it there.
    """

    def __init__(
        self,
        folder: Folder,
        *,
        cache: Path | None = None,
        workers: int | None = None,
        engine: str = "local",
        progress: bool | None = None,
        log: Line | None = None,
    ) -> None:
        self.folder, self.engine = folder, engine
        self.workers = checked("workers", workers, int | None, WORKERS, StudyError)
        self._progress, self._log, self._user_cache = progress, log, cache
        self._passes = folder.states.folder if cache is None else cache
        self._cache = Cache(self._passes)
        self._models: dict[str, Model] = {}
        self._known: dict[int, tuple[Any, Any]] = {}  # by id: the thing, and its identity
        self._weights: dict[int, str] = {}  # by id of the network
        self._surveys: dict[int, Survey] = {}  # by id of the corpus
        self.excluded: Excluded = []

    def load(self, model: Any = None, **opening: Any) -> Model:
        """Load a model once: the same options give the same object."""
        if not isinstance(model, str | Path | None):
            return load(model, **{"task": "auto", **opening})
        key = fingerprint((None if model is None else str(model), opening))
        if key not in self._models:
            self._models[key] = load(model, **{"task": "auto", **opening})
        return self._models[key]

    def identity(self, thing: Any) -> Any:
        """What identifies a thing: the parts of a model, the fingerprint of anything else.

        Computed once per object, which must not change. A model with random weights is identified
        by its origin and seed.
        """
        known = self._known.get(id(thing))
        if known is None or known[0] is not thing:
            known = thing, self._identity(thing)
            self._known[id(thing)] = known
        return known[1]

    def survey(self, texts: Sequence[Text] | Corpus) -> Survey:
        """Count rows and labels of texts; a corpus is read once for this and its identity."""
        digest = self.identity(texts)
        if isinstance(texts, Corpus):
            return self._surveys[id(texts)]
        return survey_of_texts(texts, digest)

    def _identity(self, thing: Any) -> Any:
        if isinstance(thing, Corpus):
            self._surveys[id(thing)] = survey(thing)
            return self._surveys[id(thing)].digest
        if not isinstance(thing, Model):
            return fingerprint(thing)
        origin, weights = thing.origin, None
        if origin is not None and id(origin[0]) in self._weights:
            weights = fingerprint(("random", self._weights[id(origin[0])], origin[1]))
        parts = thing.identity(weights)
        self._weights[id(thing.network)] = parts["weights"]
        return parts

    def key(self, *things: Any) -> str:
        """The fingerprint of things and of the code that computes.

        Models, lists, and whatever has a `digest` (vectors of words) are hashed once per object.
        """
        parts = [
            self.identity(one)
            if isinstance(one, Model | Corpus | list | tuple) or hasattr(type(one), "digest")
            else one
            for one in things
        ]
        return fingerprint((parts, source_digest()))

    def study(
        self, model: Model, texts: Sequence[Text] | Corpus, measures: Sequence[Measure[Any]]
    ) -> Study:
        """One pass of texts through a model: resumed by shard, cached when complete.

        Rows of a corpus that are not texts are quarantined; a corpus must not have changed since
        its identity was computed.
        """
        inputs = Hashed(model, self.identity(model), texts, self.survey(texts))
        chosen = {measure.name: measure for measure in measures}
        if len(chosen) < len(measures):
            raise StudyError(
                f"two measures have the same name: {', '.join(one.name for one in measures)}"
            )
        folder = self._passes / self.key("study", model, texts, chosen)

        def read() -> Study:
            return pass_over(
                inputs,
                measures,
                folder,
                engine=self.engine,
                workers=self.workers,
                progress=self._progress,
            )

        while True:
            try:
                return read()
            except DamagedError:  # made again, as any entry of a cache
                clear(folder)
                return read()
            except LockedError:  # by another process that shares the cache
                if self._user_cache is None:
                    raise
                time.sleep(0.2)

    def cached(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """`function(*inputs)`, computed once for these inputs; it gets nothing else.

        The function is defined at the top level of a module; it returns a DataFrame, a mapping of
        DataFrames or of arrays, or JSON.
        """
        key = self.key("cached", function, *inputs)
        value = self._cache.find(key)
        return self._cache.keep(key, function(*inputs)) if value is MISSING else value

    def map(
        self,
        function: Callable[..., Any],
        jobs: Iterable[Any],
        *,
        common: Sequence[Any] = (),
        processes: bool = False,
        short: bool = False,
        what: str = "working",
        name: Callable[[Any], str] = str,
    ) -> list[Any]:
        """`function(job, *common)` for each job, in threads; each result is kept at once.

        `common` is what all jobs share; each of its values is hashed once. With `processes`, jobs
        and `common` must be plain values, and the function gets one more argument: the folder of
        the cache, where a job finds what `files` wrote under the key it was given. `name` names a
        job in the error if its process ends. Jobs that are `short` next to the seconds that a
        process takes to start run one after the other here, unless the user chose the workers. A
        killed run loses the jobs that are running.
        """
        each = list(jobs)
        keys = [self.key("cached", function, job, *common) for job in each]
        values = [self._cache.find(key) for key in keys]
        missing = {n: each[n] for n, value in enumerate(values) if value is MISSING}
        read = [*common, str(self._passes.resolve())] if processes else common
        described = name if processes else None
        for number, value in self._each(
            function, missing, read, len(each), what, described, one=short
        ):
            values[number] = self._cache.keep(keys[number], value)
        return values

    def map_files(
        self,
        function: Callable[..., Any],
        jobs: Iterable[Any],
        *,
        common: Sequence[Any] = (),
        what: str = "working",
    ) -> list[Path]:
        """Files that `function(folder, job, *common)` writes for each job, in threads: the folders.

        As `map`, for what is too large for memory: each folder is cached as it was written.
        """
        each = list(jobs)
        keys = [self.key("files", function, job, *common) for job in each]
        missing = {
            number: (key, job)
            for number, (key, job) in enumerate(zip(keys, each, strict=True))
            if self._cache.entries.find(key) is None
        }
        read = (self._cache.entries, function, *common)
        for _ in self._each(_write_entry, missing, read, len(each), what):
            pass
        return [self._cache.entries.folder / key for key in keys]

    def _each(
        self,
        function: Callable[..., Any],
        jobs: Mapping[int, Any],
        common: Sequence[Any],
        total: int,
        what: str,
        described: Callable[[Any], str] | None = None,
        one: bool = False,
    ) -> Iterator[tuple[int, Any]]:
        """The number and result of each job as it finishes; one bar for all.

        In processes if jobs are `described` for errors; one at a time by default if `one`.
        """
        devices = [value.device for value in common if isinstance(value, Model)]
        default = 1 if one else min([cores(), *map(default_workers, devices)])
        most = self.workers or default
        workers, numbers, before = min(most, max(1, len(jobs))), list(jobs), total - len(jobs)
        rest = list(jobs.values())
        with self.progress(what, "jobs") as report:
            report(before, total)
            finished = (
                run_in_processes(function, rest, workers, described, common)
                if described is not None and workers > 1
                else _in_threads(function, rest, workers, common=common)
            )
            for done, (number, value) in enumerate(finished, before + 1):
                yield numbers[number], value
                report(done, total)

    def files(self, function: Callable[..., Any], *inputs: Any) -> Path:
        """Files that `function(folder, *inputs)` writes once for these inputs: their folder.

        For what is too large for memory, or read by processes; the folder's name is its key.
        """
        key = self.key("files", function, *inputs)
        if self._cache.entries.find(key) is None:
            _write_entry((key, *inputs), self._cache.entries, function)
        return self._cache.entries.folder / key

    @property
    def cache_folder(self) -> Path:
        """Where passes and values are kept: for an estimator that takes `cache=`."""
        return self._passes

    def run(self, name: str, experiment: Experiment) -> Study:
        """Run an experiment inside this one, in a result folder of its own under `parts/NAME`."""
        from attlas.experiments.run import run

        return run(
            experiment,
            self.folder.path / PARTS / name,
            workers=self.workers,
            engine=self.engine,
            cache=self._user_cache,
            progress=self._progress,
            log=self._log,
        )

    @contextmanager
    def progress(self, what: str, unit: str = "texts") -> Iterator[Report]:
        """One bar for a long loop: call what it gives with (done, total)."""
        with progress_bar(what, unit, wanted=self._progress) as report:
            yield report

    def log(self, line: str) -> None:
        """Report a step: on the terminal, and with the time in the folder's `log.txt`."""
        self.folder.log(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}")
        if self._log is not None:
            self._log(line)
        elif self._progress or (self._progress is None and sys.stderr.isatty()):
            print(line, file=sys.stderr, flush=True)


def _write_entry(
    job: tuple[Any, ...], entries: States, function: Callable[..., Any], *common: Any
) -> None:
    """Let a function write the files of an entry; the job is the entry's key and its inputs."""
    key, *inputs = job
    with entries.make(key) as folder:
        function(folder, *inputs, *common)


@contextmanager
def scratch(
    cache: str | Path | None = None, workers: int | None = None, progress: bool | None = None
) -> Iterator[Workspace]:
    """A workspace for an estimator that is used on its own; without a cache nothing is left."""
    shared = None if cache is None else Path(cache).expanduser()
    with tempfile.TemporaryDirectory(prefix="attlas-") as folder:
        yield Workspace(
            Folder(Path(folder), "scratch"), cache=shared, workers=workers, progress=progress
        )


def _in_threads(
    function: Callable[..., Any], jobs: Sequence[Any], workers: int, *, common: Sequence[Any] = ()
) -> Iterator[tuple[int, Any]]:
    """Each job's number and result, as they finish; the first failure ends all.

    A single worker runs in the calling thread, so that an interrupt ends its job at once.
    """
    if workers == 1:
        with one_thread():
            yield from ((number, function(job, *common)) for number, job in enumerate(jobs))
        return
    with threads_of_one(workers) as pool:
        futures = {pool.submit(function, job, *common): number for number, job in enumerate(jobs)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
