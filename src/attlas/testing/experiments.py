"""The laws that every experiment keeps, each a check with a name of its own."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attlas.experiments.experiment import Experiment
from attlas.experiments.run import identity_of, run
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.studies.folder import Folder, listed_files
from attlas.studies.opened import Study
from attlas.support.errors import AttlasError
from attlas.support.fingerprint import fingerprint
from attlas.support.options import TEXTS, Given, Opening, Option, declared
from attlas.testing.controls import check_control


@dataclass(frozen=True, eq=False)
class Case:
    """A cheap instance of an experiment, and another value for every input and every option."""

    make: Callable[[], Experiment]
    changes: Mapping[str, Any]
    wrong: Mapping[str, Any] = field(default_factory=dict)  # option: a value outside its domain


def experiment_checks(case: Case) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each law with its name, to be run one by one."""
    laws = (
        check_same_inputs_give_the_same_bytes,
        check_every_field_counts,
        check_how_it_is_run_does_not_count,
        check_workers_change_nothing,
        check_it_runs_without_a_folder,
        check_a_finished_folder_is_opened_again,
        check_domains_are_refused,
        check_the_result_is_strict_json,
        check_every_control_is_there,
        check_counts_add_up,
        check_inputs_are_not_touched,
        check_a_part_is_the_experiment_alone,
    )
    for law in laws:
        yield law.__name__.removeprefix("check_"), partial(law, case)


def check_same_inputs_give_the_same_bytes(case: Case) -> None:
    """Law 1: two runs in two folders give equal tables, result and files."""
    assert _bytes(_finished(case)) == _bytes(_kept(case))


def check_every_field_counts(case: Case) -> None:
    """Law 2: another value of any input or option gives another identity."""
    experiment = case.make()
    fields = declared(experiment).items()
    counted = {name for name, about in fields if not isinstance(about, Opening)}
    missing = counted - set(case.changes)
    assert not missing, f"no other value is given for {', '.join(sorted(missing))}"
    before = identity_of(experiment)
    for name, value in case.changes.items():
        after = identity_of(dataclasses.replace(experiment, **{name: value}))
        assert after != before, f"{name} does not count"
        assert {one for one in after if after[one] != before.get(one)} == {name}, name


def check_how_it_is_run_does_not_count(case: Case) -> None:
    """Law 5: workers, progress and cache change no identity."""
    out = _kept(case).folder
    before = Study.open(out).manifest
    with tempfile.TemporaryDirectory() as cache_folder:
        again = _quietly(case.make(), out, workers=2, cache=Path(cache_folder) / "cache")
    assert again.manifest == before


def check_workers_change_nothing(case: Case) -> None:
    """Law 10: 1, 2 and 5 workers give the same bytes."""
    two, five = (_bytes(_quietly(case.make(), workers=count)) for count in (2, 5))
    assert _bytes(_finished(case)) == two == five


def check_it_runs_without_a_folder(case: Case) -> None:
    """Law 14: without `out` nothing is left when the result is gone."""
    assert _undisturbed(case).nothing_left


def check_a_finished_folder_is_opened_again(case: Case) -> None:
    """Law 8: a finished result is opened, not computed again; `fresh` computes it again."""
    out = _kept(case).folder
    first = Study.open(out)
    again = _quietly(case.make(), out)
    assert again.manifest == first.manifest == Study.open(out).manifest
    result = out / "result.json"
    written = result.stat().st_ino, result.stat().st_mtime_ns
    fresh = _quietly(case.make(), out, fresh=True)
    assert (result.stat().st_ino, result.stat().st_mtime_ns) != written, "it was not run"
    assert listed_files(fresh.manifest) == listed_files(first.manifest)


def check_domains_are_refused(case: Case) -> None:
    """Law 17: a value outside an option's domain is an error that says the domain."""
    experiment = case.make()
    bounded = {
        name: about
        for name, about in declared(experiment).items()
        if isinstance(about, Option) and about.domain
    }
    missing = set(bounded) - set(case.wrong)
    assert not missing, f"no value outside the domain is given for {', '.join(sorted(missing))}"
    for name, value in case.wrong.items():
        refusal = _refusal(lambda: dataclasses.replace(experiment, **{name: value}))  # noqa: B023
        assert refusal is not None, f"{name}={value!r} is not refused"
        assert name in refusal, refusal
        assert bounded[name].domain in refusal, refusal
        assert "\n" not in refusal, refusal


def check_the_result_is_strict_json(case: Case) -> None:
    """Law 18: the result has no NaN and no infinity."""
    json.dumps(_finished(case).result, allow_nan=False)


def check_every_control_is_there(case: Case) -> None:
    """Law 19: an experiment with tables names controls, and each is there where its score is."""
    done = _finished(case)
    controls = done.manifest["controls"]
    assert controls or not done.tables, f"none of the tables {', '.join(done.tables)} has a control"
    for table, score, control in controls:
        check_control(done.table(table), score, control)


def check_counts_add_up(case: Case) -> None:
    """Law 20: every text that was read is analysed or excluded."""
    fields = declared(case.make()).values()
    if not any(isinstance(about, Given) and about.of == TEXTS for about in fields):
        return
    counts = _finished(case).manifest["counts"]
    assert counts["read"] == counts["analysed"] + counts["quarantined"], counts


def check_inputs_are_not_touched(case: Case) -> None:
    """Law 22: models, texts and random states are as before."""
    run = _undisturbed(case)
    assert run.after == run.before


def check_a_part_is_the_experiment_alone(case: Case) -> None:
    """Law 23: run inside another, it has the identity and the bytes that it has alone."""
    with tempfile.TemporaryDirectory() as folder:
        alone = _finished(case)
        outer = Folder(Path(folder) / "outer", "outer")
        with outer.claim({}):
            inner = Workspace(outer, progress=False).run("inner", case.make())
        assert inner.manifest["identity"] == alone.manifest["identity"]
        assert _bytes(inner) == _bytes(alone)


def _refusal(make: Callable[[], Experiment]) -> str | None:
    """What is said when an experiment is refused; None if it is not."""
    try:
        make()
    except AttlasError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class _Undisturbed:
    """A run by one worker without a folder; `study` is a copy of its result."""

    study: Study
    before: Mapping[str, Any]  # inputs and random states
    after: Mapping[str, Any]
    nothing_left: bool  # when the result was gone, its folder was too


@cache
def _undisturbed(case: Case) -> _Undisturbed:
    """Run once for all laws that look at a single run."""
    experiment = case.make()
    before = _inputs_and_random_states(experiment)
    done = _quietly(experiment)
    after = _inputs_and_random_states(experiment)
    folder = done.folder
    copied = Study.open(shutil.copytree(folder, _folder(case) / "copied"))
    assert folder.is_dir()
    del done
    return _Undisturbed(copied, before, after, not folder.exists())


def _finished(case: Case) -> Study:
    """The result of one worker."""
    return _undisturbed(case).study


@cache
def _kept(case: Case) -> Study:
    """The result of another run, in a folder that laws may run it in again."""
    return _quietly(case.make(), _folder(case) / "kept")


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="attlas-laws-")


@cache
def _folder(case: Case) -> Path:
    """A folder for the results of a case, removed at the end."""
    return Path(tempfile.mkdtemp(dir=_temporary().name))


def _inputs_and_random_states(experiment: Experiment) -> dict[str, Any]:
    given = {
        name: value.identity() if isinstance(value, Model) else value
        for name, value in experiment.inputs.items()
    }
    kind, keys, position, *_ = np.random.get_state()
    return {
        "inputs": fingerprint(given),
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": (kind, np.asarray(keys).tobytes(), position),
        "python": random.getstate(),
    }


def _quietly(experiment: Experiment, out: Path | None = None, **how: Any) -> Study:
    return run(experiment, out, **{"progress": False, "workers": 1, **how})


def _bytes(done: Study) -> dict[str, bytes]:
    return {name: (done.folder / name).read_bytes() for name in listed_files(done.manifest)}
