"""The experiment: a grid of classifiers over attention, encoder, scale and seed, as a study with tables, a result and a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attlas.core.text import Text
from attlas.corpora.labelled import labelled
from attlas.corpora.splits import label_codes, label_names, overlap, split
from attlas.dynamics.classifier import AttentionClassifier, check_labels
from attlas.dynamics.grid import PARTS, Cell, Data, assembled, run_grid
from attlas.dynamics.inputs import (
    cut_off,
    encoded,
    identity_parts,
    model_of,
    static_rows,
    vectors_of,
    word_states,
)
from attlas.dynamics.layers import ENCODERS
from attlas.dynamics.ragged import TOKENIZERS, Bags, bagged, tokens_of, vocabulary_of
from attlas.experiments.derived import Experiment, found_or_run, named_source, write_derived
from attlas.models import Model
from attlas.models.vectors import Vectors
from attlas.studies.folder import SOURCE, Folder
from attlas.support.errors import MeasureError
from attlas.support.fingerprint import fingerprint, source_digest, versions
from attlas.support.json import to_json
from attlas.support.machine import cores
from attlas.support.progress import progress_bar, status

KIND = "dynamics"
SCALES = (0.001, 1.0, 10.0, 20.0, 50.0, 100.0, 10000.0)
TEST, DEV = 0.2, 0.1  # shares that are set aside where no files are given
FLOATS = ("dropout", "l2", "vw_penalty", "learning_rate", "lr_decay", "init")
INTEGERS = ("dim", "epochs", "batch_size", "patience", "min_count", "record")
Said = Callable[[str], None]
Published = Mapping[tuple[str, str, float], float]


def run_dynamics(
    train: Any,
    dev: Any = None,
    test: Any = None,
    out: str | Path = "runs/dynamics",
    *,
    scales: Sequence[float] = (10.0,),
    encoders: Sequence[str] = ("none",),
    attention: Sequence[str] = ("dot",),
    models: Sequence[tuple[str, str]] | None = None,
    seeds: int = 1,
    seed: int = 0,
    text: str | None = None,
    label: str = "label",
    vectors: Any = None,
    model: Any = None,
    published: Published | None = None,
    tokenize: str = "words",
    by_encoder: Mapping[str, Mapping[str, Any]] | None = None,
    workers: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    say: Said = lambda line: None,
    **options: Any,
) -> Experiment:
    """Train a classifier for every attention, encoder, scale and seed, and write what each is and does to `out`.

    `test` is a fifth of `train` if None, `dev` a tenth of what is left. `models` are pairs of attention and encoder, where not every pair is wanted. `vectors` and
    `model` are those of the frozen encoders (the embedded model if None), `published` accuracies to stand beside. Further options are those of `AttentionClassifier`, `by_encoder` has those that hold for one encoder only; `record` is how often scores and flow are noted, about ten times if not given.
    """
    began, place = time.perf_counter(), Folder(Path(out).expanduser(), KIND)
    settings = _settings(options)
    strange = sorted({*(by_encoder or {})} - {*ENCODERS})
    if strange:
        raise MeasureError(f"by_encoder names {strange[0]!r}; encoders are {', '.join(ENCODERS)}")
    others = {encoder: _settings({**options, **own}) for encoder, own in (by_encoder or {}).items()}
    pairs = list(
        dict.fromkeys(
            (one, other) for one, other in models or [(one, other) for one in attention for other in encoders]
        )
    )
    cells = [Cell(one, other, float(scale), seed + number) for one, other in pairs for scale in dict.fromkeys(scales) for number in range(seeds)]  # fmt: skip
    if not cells:
        raise MeasureError("the grid is empty; give at least one scale, encoder, attention and seed")
    for cell in cells:
        AttentionClassifier(
            cell.attention,
            cell.encoder,
            cell.scale,
            seed=cell.seed,
            tokenize=tokenize,
            **others.get(cell.encoder, settings),
        ).check()
    cells = [replace(cell, seed=int(cell.seed)) for cell in cells]
    if workers is not None and workers < 1:
        raise MeasureError(f"workers is {workers}; it must be at least 1")
    with status("reading the texts"):
        parts = _parts(train, dev, test, text, label, seed)
        classes = _classes(parts)
    own_options = {cell: others.get(cell.encoder, settings) for cell in cells}
    frozen = {"vectors": _vectors(vectors, pairs), "model": _model(model, pairs)}
    given = {name: one for name, one in frozen.items() if one is not None}
    details = {name: identity_parts(one) for name, one in given.items()}
    prints = {name: fingerprint(part) for name, part in parts.items()}
    made_from = {
        **prints,
        "tokenize": fingerprint(tokenize),
        "min_count": fingerprint(settings["min_count"]),
        **{name: fingerprint(content) for name, content in details.items()},
        SOURCE: source_digest(),
    }
    identity = {
        **made_from,
        **{name: fingerprint(value) for name, value in settings.items()},
        "by_encoder": fingerprint(others),
        "cells": fingerprint(cells),
        "published": fingerprint(_numbers(published)),
        "seed": fingerprint(int(seed)),
    }

    def run() -> Experiment:
        say(f"{counted(len(cells), 'classifier')}: {counted(len(pairs), 'model')}, {counted(len(set(scales)), 'scale')}, {counted(seeds, 'seed')}; {', '.join(f'{len(part):,} {name}' for name, part in parts.items())} texts")  # fmt: skip
        tokens = {name: tokens_of(part, TOKENIZERS[tokenize]) for name, part in parts.items()}
        words = vocabulary_of(tokens["train"], settings["min_count"])
        if not words:
            raise MeasureError(f"no token occurs {settings['min_count']} times; lower min_count")
        bags = {name: bagged(found, words) for name, found in tokens.items()}
        with progress_bar("training", "epochs", progress) as tell:
            done = run_grid(
                place.states,
                lambda: _data(parts, classes, bags, tokens, given, progress),
                fingerprint(made_from),
                own_options,
                cores() if workers is None else workers,
                tell,
            )
        tables = assembled(done)
        if published is not None:
            known = tables["dynamics_summary"][["attention", "encoder", "scale"]].itertuples(index=False, name=None)
            accuracies = _numbers(published) or {}
            tables["dynamics_summary"]["published"] = [accuracies.get(one, np.nan) for one in known]
        cut = cut_off(model_of(given["model"]), [text for part in tokens.values() for text in part]) if "model" in given else (0, 0)  # fmt: skip
        two = len(classes) == 2
        rows = tables["dynamics_summary"].to_dict("records")
        size = sum(len(part.ids) for part in bags.values())
        result = to_json({
            "cells": rows, "classes": list(classes), "positive": classes[1] if two else None, "texts": {**{name: len(part) for name, part in parts.items()}, "in_both": overlap(parts["train"], parts["test"])}, "labels": {name: sum(text.label == name for text in parts["train"]) for name in classes}, "vocabulary": len(words),
            "kinds": _kinds(tables), "unknown": {name: float((part.ids == len(words)).mean()) for name, part in bags.items()}, "options": settings,
        })  # fmt: skip
        manifest = {
            "model": {"name": "attention classifiers", "class": "AttentionClassifier", "task": "classify", "n_layers": 1, "n_heads": 1, "max_length": 0, "banded": False, "sha256": None, "state_sha256": None},
            "corpus": {"name": named_source(train, test), "fingerprint": prints["test"], "labels": {}}, "measures": {KIND: str(settings)},
            "counts": {"read": sum(map(len, parts.values())), "analysed": sum(map(len, parts.values())), "quarantined": 0, "truncated": cut[0], "tokens": size, "tokens_cut": cut[1]},
            "seed": seed, "versions": versions(), KIND: result,
            "seconds": round(time.perf_counter() - began, 3),
        }  # fmt: skip
        return Experiment(write_derived(place, manifest, tables, result), result)

    return found_or_run(place, identity, fresh, Experiment, run, details)


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of every classifier of the grid, checked, as plain numbers and strings."""
    known = AttentionClassifier().get_params()
    for name in ("attention", "encoder", "scale", "seed", "tokenize", "source", "progress"):
        del known[name]
    strange = [name for name in options if name not in known]
    if strange:
        raise MeasureError(f"a classifier has no option {strange[0]!r}; it has {', '.join(sorted(known))}")
    settings = {**known, **options, "record": options.get("record") or 0}
    AttentionClassifier(**settings).check()
    for names, kind in ((FLOATS, float), (INTEGERS, int)):
        settings |= {name: kind(settings[name]) for name in names if settings[name] is not None}
    settings["record"] = settings["record"] or max(1, settings["epochs"] // 10)
    return settings


def _numbers(published: Published | None) -> dict[tuple[str, str, float], float] | None:
    """Published accuracies as plain numbers: 10 and 10.0 are one scale."""
    if published is None:
        return None
    return {(one, other, float(scale)): float(n) for (one, other, scale), n in published.items()}


def _parts(train: Any, dev: Any, test: Any, text: str | None, label: str, seed: int) -> dict[str, list[Text]]:
    """Texts with labels to learn from, to choose the epoch by and to score on."""
    learnt = labelled(train, text, label)
    check_labels([text.label for text in learnt])
    if test is None:
        learnt, scored = split(learnt, TEST, seed)
    else:
        scored = labelled(test, text, label)
    if dev is None:
        learnt, kept = split(learnt, DEV, seed)
    else:
        kept = labelled(dev, text, label)
    return dict(zip(PARTS, (learnt, kept, scored), strict=True))


def _classes(parts: Mapping[str, Sequence[Text]]) -> tuple[str, ...]:
    check_labels([text.label for text in parts["train"]])
    return tuple(label_names(**parts))


def _data(
    parts: Mapping[str, Sequence[Text]], classes: tuple[str, ...], bags: Mapping[str, Bags], tokens: Mapping[str, list[list[str]]], given: Mapping[str, Any], progress: bool | None
) -> Data:  # fmt: skip
    """The texts numbered, with what frozen encoders make of them, each made once."""
    codes = {name: label_codes([str(text.label) for text in part], classes) for name, part in parts.items()}  # fmt: skip
    words = bags["train"].words
    rows: dict[str, Any] = {}
    states: dict[str, Any] = {}
    if "vectors" in given:
        rows["vectors"] = static_rows(words, given["vectors"])
    if "model" in given:
        rows["model"] = word_states(words, given["model"], progress)
        states |= {name: encoded(part, tokens[name], given["model"], progress).states for name, part in bags.items()}
    return Data(classes, bags, codes, rows, states)


def _vectors(source: Any, pairs: Sequence[tuple[str, str]]) -> Vectors | None:
    """The static vectors that the grid needs."""
    return vectors_of(source) if any(encoder == "vectors" for _, encoder in pairs) else None


def _model(source: Any, pairs: Sequence[tuple[str, str]]) -> Model | None:
    """The frozen model that the grid needs, loaded once."""
    return model_of(source) if any(encoder == "model" for _, encoder in pairs) else None


def counted(count: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "scale"), counted(2, "scale")
    ('1 scale', '2 scales')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def _kinds(tables: Mapping[str, Any]) -> dict[str, int]:
    """How many words are of each kind."""
    tokens = tables["dynamics_tokens"]
    first = tokens.drop_duplicates("token") if len(tokens) else tokens
    return {str(kind): int(count) for kind, count in first["kind"].value_counts().items()}
