"""What the probes share on their way from files to a result folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.corpora.splits import HELD_OUT, overlap, split
from attlas.experiments import experiment as experiments
from attlas.experiments.derived import Experiment, found_or_run, named_source, write_derived
from attlas.models import Model, load
from attlas.studies import Study
from attlas.studies.folder import SOURCE, Folder
from attlas.studies.run import about_model
from attlas.support.fingerprint import fingerprint, source_digest, versions
from attlas.support.progress import status

SHARD = 512
Tables = dict[str, pd.DataFrame]
Said = Callable[[str], None]


def _parts(
    train: Any, test: Any, reader: Callable[[Any], list[Text]], seed: int
) -> tuple[list[Text], list[Text]]:
    first = reader(train)
    return split(first, HELD_OUT, seed) if test is None else (first, reader(test))


def held_out(experiment: experiments.Experiment, opened: dict[str, Any]) -> dict[str, Any]:
    """Inputs with a share of `train` as `test` where none was given."""
    if opened["test"] is not None:
        return opened
    train, test = split(opened["train"], HELD_OUT, experiment.options["seed"])
    return {**opened, "train": train, "test": test}


def probed(
    kind: str,
    model: Any,
    train: Any,
    test: Any,
    out: str | Path,
    options: Mapping[str, Any],
    reader: Callable[[Any], list[Text]],
    work: Callable[
        [Model, list[Text], list[Text], Path], tuple[Tables, dict[str, Any], dict[str, int]]
    ],
    *,
    seed: int,
    fresh: bool,
) -> Experiment:
    """Read, run (or find again) and write one probe: `work` gives tables, the result and what was counted."""
    began, folder = time.perf_counter(), Path(out).expanduser()
    loaded = load(model) if not isinstance(model, Model) else model
    with status("reading the texts"):
        first, second = _parts(train, test, reader, seed)
    own, place = loaded.identity(), Folder(folder, kind)
    scored = fingerprint(second)
    identity = {
        "model": fingerprint(own),
        "train": fingerprint(first),
        "test": scored,
        **{name: fingerprint(value) for name, value in options.items()},
        "seed": fingerprint(seed),
        SOURCE: source_digest(),
    }

    def run() -> Experiment:
        tables, result, counts = work(loaded, first, second, place.states.folder)
        result = {
            **result,
            "texts": {"train": len(first), "test": len(second), "in_both": overlap(first, second)},
            "counts": counts,
        }
        manifest = {
            "model": about_model(loaded, own["weights"]), "corpus": {"name": named_source(train, test), "fingerprint": scored, "labels": {}}, "measures": {kind: str(dict(options))},
            "counts": counts, "seed": seed, "versions": versions(), "probe": {"kind": kind, "texts": result["texts"], "lost": result["lost"]},
            "seconds": round(time.perf_counter() - began, 3),
        }  # fmt: skip
        return Experiment(write_derived(place, manifest, tables, result), result)

    return found_or_run(place, identity, fresh, Experiment, run, {"model": own})


def counts_of(scoring: Study) -> dict[str, int]:
    """What the scoring pass read, cut and left out."""
    return dict(scoring.manifest["counts"])


def counted(model: Model, texts: Sequence[Text]) -> dict[str, int]:
    """What a pass reads and cuts."""
    out = {
        "read": len(texts),
        "analysed": len(texts),
        "quarantined": 0,
        "truncated": 0,
        "tokens": 0,
        "tokens_cut": 0,
    }
    for start in range(0, len(texts), SHARD):
        for encoded in model.encode(list(enumerate(texts[start : start + SHARD]))):
            out["truncated"] += encoded.cut > 0
            out["tokens"] += len(encoded)
            out["tokens_cut"] += encoded.cut
    return out
