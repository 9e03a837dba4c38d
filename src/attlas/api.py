"""The public functions: names are resolved here and in the command line, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attlas.catalogue import measures_of
from attlas.core.measure import Measure
from attlas.corpora import read
from attlas.studies import Study
from attlas.studies.run import study as run_study


def study(
    model: Any = None,
    texts: Any = "embedded:all",
    measures: str | Measure[Any] | Iterable[str | Measure[Any]] = "all",
    out: str | Path | None = None,
    *,
    engine: str = "local",
    workers: int | None = None,
    text: str | None = None,
    label: str | None = None,
    long: str = "truncate",
    bad: str = "quarantine",
    fresh: bool = False,
    keep_states: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Study:
    """Run measures over a corpus and write their tables to `out`; interrupted, it resumes.

    `model` is anything `attlas.load` takes, `texts` anything `attlas.read` takes, `measures` names
    or measures. A text longer than the model is truncated and counted, or refused with
    `long="error"`; a row that is not a text goes to quarantine, or ends the study with
    `bad="error"`. `fresh` clears what an earlier study wrote to the folder, and nothing else.
    Without `out` the study lives in a temporary folder as long as the result does.
    """
    return run_study(
        model,
        read(texts, text=text, label=label),
        measures_of(measures),
        out,
        engine=engine,
        workers=workers,
        long=long,
        bad=bad,
        fresh=fresh,
        keep_states=keep_states,
        seed=seed,
        progress=progress,
    )
