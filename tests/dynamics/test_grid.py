"""Grids of attention classifiers: cells, workers, interruption and resuming, errors."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import psutil
import pytest
from hypothesis import given, strategies as st
from threadpoolctl import threadpool_limits

import attlas
from attlas.cli import main
from attlas.core.text import Text
from attlas.corpora.labelled import labelled
from attlas.corpora.synthetic import synthetic
from attlas.dynamics import AttentionClassifier, experiment, grid, ragged, work
from attlas.dynamics.experiment import Dynamics
from attlas.dynamics.grid import Cell, Data
from attlas.dynamics.ragged import RaggedTexts, starts_of, to_ragged, vocabulary_of
from attlas.experiments import workspace
from attlas.models import load
from attlas.stats.intervals import wilson
from attlas.studies.opened import Study
from attlas.support.errors import AttlasError, StudyError
from attlas.support.files import file_sha256
from attlas.support.options import Opening, Option, declared
from attlas.testing import tiny
from tests.builders.dynamics import BAD, GOOD, REST, reviews
from tests.builders.processes import Start, Started, kill_when
from tests.builders.studies import table_bytes

OPTIONS = {"dim": 8, "epochs": 6, "batch_size": 20, "learning_rate": 0.1}
GRID = {"scales": (1.0, 10.0, 100.0), "encoders": ("none", "lstm", "vectors")}
NAMES = {"bad": "down", "good": "up", "odd": "Side-ways"}


def write_csv(
    path: Path,
    count: int,
    classes: int = 2,
    seed: int = 0,
    header: tuple[str, str] = ("text", "label"),
) -> Path:
    texts, labels = reviews(count, classes, seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(
            (f"{' '.join(text)} x{number}", NAMES[label])
            for number, (text, label) in enumerate(zip(texts, labels, strict=True))
        )
    return path


def texts_for(count: int = 60, classes: int = 2, seed: int = 0) -> list[Text]:
    texts, labels = reviews(count, classes, seed)
    return [
        Text(str(place), words=tuple(text), label=NAMES[label])
        for place, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]


def run(
    out: Path, train: object = None, dev: object = None, test: object = None, **options: object
) -> Study:
    """A grid over few texts, in this process."""
    how = {"workers": 1, "progress": False}
    how |= {
        name: options.pop(name)
        for name in ("workers", "fresh", "progress", "cache")
        if name in options
    }
    parts = {
        "train": train or texts_for(),
        "dev": dev or texts_for(21, seed=1),
        "test": test or texts_for(30, seed=2),
    }
    return attlas.run(Dynamics(**{**parts, "scales": (10.0,), **OPTIONS, **options}), out, **how)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Files of texts with labels, vectors of words, and a grid over them that one process ran."""
    place = tmp_path_factory.mktemp("dynamics")
    files = [
        write_csv(place / f"{name}.csv", count, seed=seed)
        for name, count, seed in (("train", 300, 0), ("dev", 41, 1), ("test", 60, 2))
    ]
    rng = np.random.default_rng(0)
    (place / "vectors.txt").write_text(
        "".join(
            f"{word} {' '.join(f'{number:.3f}' for number in rng.normal(size=5))}\n"
            for word in (*GOOD, *BAD, *REST)
        )
    )
    done = run(place / "whole", *files, vectors=place / "vectors.txt", **GRID)
    command = [
        "dynamics",
        "--train",
        files[0],
        "--dev",
        files[1],
        "--test",
        files[2],
        "--scales",
        "1,10,100",
        "--encoders",
        "none,lstm,vectors",
        "--vectors",
        place / "vectors.txt",
    ]
    command += [
        "--dim",
        "8",
        "--epochs",
        "6",
        "--batch-size",
        "20",
        "--learning-rate",
        "0.1",
        "--no-report",
    ]
    return SimpleNamespace(place=place, files=files, done=done, command=command)


# what a grid says is what its classifiers say


def test_a_row_is_what_the_classifier_alone_says(home):
    train, dev, test = (labelled(path) for path in home.files)
    rows, tokens, path, flows = (
        home.done.table(name)
        for name in ("dynamics", "dynamics_tokens", "dynamics_path", "dynamics_flow")
    )
    assert len(rows) == 9
    wanted = [(encoder, scale) for encoder in GRID["encoders"] for scale in GRID["scales"]]
    assert list(zip(rows["encoder"], rows["scale"], strict=True)) == wanted
    for row in rows[rows["scale"] == 10].to_dict("records"):
        encoder, scale = row["encoder"], row["scale"]
        alone = AttentionClassifier(
            encoder=encoder,
            scale=scale,
            source=home.place / "vectors.txt",
            record=1,
            progress=False,
            **OPTIONS,
        ).fit(train, dev=dev)
        labels = [text.label for text in test]
        assert row["accuracy"] == alone.score(test, labels)
        assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx(
            wilson(row["accuracy"], 60)
        )
        assert row["dev_accuracy"] == alone.score(dev, [text.label for text in dev])
        assert row["majority"] == 0.5
        assert row["epoch"] == alone.epoch_
        for name, value in alone.interpretability().items():
            assert row[name] == pytest.approx(value, nan_ok=True), name
        table = alone.tokens(test)
        mine = tokens[(tokens["encoder"] == encoder) & (tokens["scale"] == scale)].reset_index(
            drop=True
        )
        shown = table[table["kind"] != ""].reset_index(drop=True)
        for name in (
            "token",
            "kind",
            "count",
            "gamma",
            "polarity",
            "attention_score",
            "attention_local",
            "weight",
        ):
            pd.testing.assert_series_equal(mine[name], shown[name], check_dtype=False)
        assert np.isnan(row["separation_local"]) == (encoder != "lstm")
        assert [row[f"tokens_{kind}"] for kind in ("positive", "negative", "neutral")] == [
            (table["kind"] == kind).sum() for kind in ("positive", "negative", "neutral")
        ]
        along = path[(path["encoder"] == encoder) & (path["scale"] == scale)]
        assert along["loss"].to_numpy() == pytest.approx(
            alone.history_["loss"].to_numpy(), nan_ok=True
        )
        terms = flows[(flows["encoder"] == encoder) & (flows["scale"] == scale)]
        assert len(terms) == len(alone.flow_)
        if encoder != "lstm":
            assert terms["mean"].to_numpy() == pytest.approx(alone.flow_["mean"].to_numpy())


def test_the_result_is_complete_and_plain(home):
    result = home.done.result
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert len(result["cells"]) == 9
    for cell in result["cells"]:
        assert {
            "scale",
            "encoder",
            "attention",
            "accuracy",
            "separation",
            "seeds",
            "majority",
            "separation_untrained",
            "gap",
        } <= {*cell}
        assert cell["accuracy_low"] < cell["accuracy"] < cell["accuracy_high"]
    assert (result["classes"], result["positive"]) == (["down", "up"], "up")
    assert result["texts"] == {"train": 300, "dev": 41, "test": 60, "in_both": 0}
    assert result["labels"] == {"down": 150, "up": 150}
    assert result["vocabulary"] == 16 + 300
    assert result["unknown"]["train"] == 0
    assert result["unknown"]["test"] == 0  # x0 to x59 are in all three
    assert (home.done.folder / "tables").is_dir()
    assert not (home.done.folder / "cells").exists()
    assert not (home.done.folder / "states").exists()
    manifest = home.done.manifest
    assert (manifest["attlas"], manifest["kind"], manifest["status"]) == (2, "dynamics", "complete")
    assert manifest["dynamics"] == result
    assert {"model", "corpus", "measures", "counts", "seed", "versions", "tables"} <= {*manifest}
    for name, digest in manifest["files"].items():
        assert file_sha256(home.done.folder / name) == digest


def test_seeds_are_summed_up(tmp_path):
    done = run(tmp_path / "out", seeds=3, seed=4, scales=(1.0, 50.0))
    rows, means = done.table("dynamics"), done.table("dynamics_summary")
    assert rows["seed"].tolist() == [4, 5, 6] * 2
    assert rows["accuracy"].nunique() > 1
    for row in means.to_dict("records"):
        mine = rows[rows["scale"] == row["scale"]]
        assert row["seeds"] == 3
        for name in ("accuracy", "separation", "gap"):
            assert row[name] == pytest.approx(mine[name].mean(), nan_ok=True)
            assert row[f"{name}_sd"] == pytest.approx(np.std(mine[name], ddof=1), nan_ok=True)
        assert row["gap_size"] == pytest.approx(mine["gap"].abs().mean(), nan_ok=True)
        assert (row["gap_low"], row["gap_high"]) == pytest.approx(
            (mine["gap"].min(), mine["gap"].max()), nan_ok=True
        )
    assert set(done.table("dynamics_tokens")["scale"]) == {1.0, 50.0}
    assert len(done.table("dynamics_path")) == 2 * 7  # of the first seed


def test_three_classes_and_a_frozen_model_end_to_end(tmp_path, tiny_folder):
    parts = texts_for(90, 3), texts_for(21, 3, 1), texts_for(30, 3, 2)
    done = run(
        tmp_path / "out",
        *parts,
        encoders=("none", "model"),
        attention=("dot", "additive"),
        model=tiny_folder,
    )
    assert done.result["classes"] == ["Side-ways", "down", "up"]
    assert done.result["positive"] is None
    assert {"Side-ways", "down", "up"} <= {*done.result["kinds"]}
    assert done.manifest["model"] is None  # of what was trained; the frozen encoder is an input
    assert done.manifest["subject"] == "attention classifiers"
    assert [(cell["attention"], cell["encoder"]) for cell in done.result["cells"]] == [
        ("dot", "none"),
        ("dot", "model"),
        ("additive", "none"),
        ("additive", "model"),
    ]
    for cell in done.result["cells"]:
        alone = AttentionClassifier(
            attention=cell["attention"],
            encoder=cell["encoder"],
            source=tiny_folder,
            progress=False,
            **OPTIONS,
        ).fit(parts[0], dev=parts[1])
        assert cell["accuracy"] == alone.score(parts[2], [text.label for text in parts[2]])
        assert (cell["separation_local"] is None) == (cell["encoder"] == "none")
        assert cell["polarity_auc"] is None


def test_a_class_called_neutral_is_no_neutral_word(tmp_path):
    names = {"down": "negative", "up": "positive", "Side-ways": "neutral"}
    parts = [
        [
            Text(text.id, label=names[text.label], words=text.words)
            for text in texts_for(count, 3, seed)
        ]
        for count, seed in ((150, 0), (21, 1), (30, 2))
    ]
    done = run(tmp_path / "out", *parts)
    plain = run(tmp_path / "plain", texts_for(150, 3), texts_for(21, 3, 1), texts_for(30, 3, 2))
    assert sum(done.result["kinds"].values()) == sum(plain.result["kinds"].values())
    for name in ("tokens_polarity", "tokens_neutral"):
        assert done.table("dynamics")[name].tolist() == plain.table("dynamics")[name].tolist(), name


def test_options_hold_for_all_or_for_one_encoder(tmp_path):
    parts = texts_for(), texts_for(21, seed=1), texts_for(30, seed=2)
    done = run(
        tmp_path / "out",
        *parts,
        encoders=("none", "affine"),
        by_encoder="affine.l2=5,affine.epochs=3",
    )
    alone = AttentionClassifier(
        encoder="affine", progress=False, **{**OPTIONS, "l2": 5.0, "epochs": 3}
    ).fit(parts[0], dev=parts[1])
    path = done.table("dynamics_path")
    assert path.loc[path["encoder"] == "affine", "loss"].to_numpy() == pytest.approx(
        alone.history_["loss"].to_numpy(), nan_ok=True
    )
    assert (path["encoder"] == "none").sum() == 7


@pytest.mark.parametrize(
    "wrong",
    [
        "afine.l2=5",
        "affine.depth=5",
        "affine.l2",
        "affine.l2=-1",
        "affine.l2=none",
        "affine.min_count=2",
        "affine.epochs=x",
        "",
    ],
)
def test_options_of_an_encoder_are_checked(wrong):
    with pytest.raises(
        AttlasError, match=f"by_encoder has '{wrong}'|affine.l2 is|affine.epochs is"
    ) as refusal:
        Dynamics(train=[], by_encoder=(wrong,))
    assert "\n" not in str(refusal.value)


def test_options_of_an_encoder_have_one_form():
    plain = Dynamics(train=[], by_encoder=" lstm.patience=none , lstm.epochs=15,affine.l2=5")
    assert plain.by_encoder == ("affine.l2=5.0", "lstm.epochs=15", "lstm.patience=none")
    assert plain.settings("lstm") == {
        **plain.settings(),
        "epochs": 15,
        "patience": None,
        "record": 1,
    }
    assert plain.settings("none") == plain.settings()
    assert plain.settings()["record"] == 4


def test_names_are_those_that_the_classifier_knows():
    assert set(experiment.TOKENIZERS) == set(ragged.TOKENIZERS)
    own = {"attention", "encoder", "scale", "seed", "tokenize", "source", "progress"}
    defaults = AttentionClassifier().get_params()
    settings = Dynamics(train=[]).settings()
    assert set(settings) == set(defaults) - own
    changed = {name for name in settings if settings[name] != defaults[name]}
    assert changed == {"patience", "record"}  # early stopping; about ten records of training


def test_rare_tokens_may_be_unknown(tmp_path):
    texts = [
        Text(text.id, label=text.label, words=(*text.words, f"once{text.id}"))
        for text in texts_for()
    ]
    done = run(tmp_path / "out", texts, min_count=2)
    assert done.result["unknown"]["train"] > 0.1
    assert done.result["vocabulary"] == 16
    assert len(done.table("dynamics_flow"))


@given(st.floats(1e-6, 1e6))
def test_cells_have_names_of_their_own(scale):
    names = {
        Cell("dot", "none", one, 0).name
        for one in (scale, np.nextafter(scale, np.inf).item(), 2 * scale)
    }
    assert len(names) == 3
    assert all(Path(name).name == name for name in names)


def test_scales_that_are_near_are_cells_of_their_own(tmp_path):
    done = run(tmp_path / "out", scales=(1.0000001, 1.0000002), epochs=1)
    assert [cell["scale"] for cell in done.result["cells"]] == [1.0000001, 1.0000002]


# running


def test_what_was_done_is_remembered_and_another_grid_is_refused(tmp_path, monkeypatch):
    first = run(tmp_path / "out", epochs=2)
    before = table_bytes(tmp_path / "out")
    fits = counted_fits(monkeypatch)
    again = run(tmp_path / "out", epochs=2)
    assert again.result == first.result
    assert not fits
    for change in (
        {"scales": (3.0,)},
        {"dim": 9},
        {"seed": 1},
        {"tokenize": "blanks"},
        {"train": texts_for(61)},
        {"test": texts_for(31, seed=2)},
    ):
        with pytest.raises(StudyError, match="fresh"):
            run(tmp_path / "out", **{"epochs": 2, **change})
    assert table_bytes(tmp_path / "out") == before
    assert not fits
    other = run(tmp_path / "out", epochs=2, scales=(3.0,), fresh=True)
    assert [cell["scale"] for cell in other.result["cells"]] == [3.0]
    assert run(tmp_path / "out", epochs=2, scales=(3.0,), fresh=True).result == other.result
    assert len(fits) == 2


def counted_fits(monkeypatch, stop: int | None = None) -> list[Cell]:
    """Every cell that is trained from now on; interrupted after `stop` of them."""
    fits: list[Cell] = []
    real = grid.fit_cell

    def fit(cell, *arguments):
        if len(fits) == stop:
            raise KeyboardInterrupt
        fits.append(cell)
        return real(cell, *arguments)

    monkeypatch.setattr(grid, "fit_cell", fit)
    return fits


def test_a_grid_that_was_stopped_goes_on_with_what_is_missing(tmp_path, monkeypatch):
    how = {"scales": (1.0, 10.0), "encoders": ("none", "affine"), "epochs": 2}
    whole = run(tmp_path / "whole", **how)
    with monkeypatch.context() as context:
        first = counted_fits(context, stop=3)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "out", **how)
    fits = counted_fits(monkeypatch)
    heard: list[tuple[int, int]] = []
    monkeypatch.setattr(workspace, "progress_bar", lambda *_, **__: Heard(heard))
    assert run(tmp_path / "out", **how).result == whole.result
    assert len(first) == 3
    assert [cell.scale for cell in fits] == [10.0]
    assert table_bytes(tmp_path / "out") == table_bytes(tmp_path / "whole")
    assert heard == [(3, 4), (4, 4)]


class Heard:
    """A progress bar that notes what it is told."""

    def __init__(self, heard: list[tuple[int, int]]) -> None:
        self.heard = heard

    def __enter__(self):
        return lambda done, total: self.heard.append((done, total))

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"dim": 9},
        {"seeds": 1},
        {"train": texts_for(61)},
        {"dev": texts_for(22, seed=1)},
        {"tokenize": "blanks", "min_count": 3},
    ],
    ids=["seed", "dim", "seeds", "train", "dev", "tokens"],
)
def test_an_interrupted_grid_is_not_taken_for_another(tmp_path, monkeypatch, change):
    with monkeypatch.context() as context:
        context.setattr(work, "assembled", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "out", epochs=2, seeds=2)
    how = {"epochs": 2, "seeds": 2, **change}
    with pytest.raises(StudyError, match=r"was made with another .*fresh"):
        run(tmp_path / "out", **how)
    run(tmp_path / "out", fresh=True, **how)
    assert table_bytes(tmp_path / "out") == table_bytes(run(tmp_path / "whole", **how).folder)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_vectors_that_were_changed_are_another_grid(tmp_path, monkeypatch):
    path, rng = tmp_path / "vectors.txt", np.random.default_rng(0)

    def rewrite() -> None:
        path.write_text(
            "".join(
                f"{word} {' '.join(f'{number:.3f}' for number in rng.normal(size=5))}\n"
                for word in (*GOOD, *BAD, *REST)
            )
        )

    how = {"encoders": ("vectors",), "vectors": str(path), "epochs": 1}
    rewrite()
    run(tmp_path / "out", **how)
    rewrite()
    with pytest.raises(StudyError, match="fresh"):
        run(tmp_path / "out", **how)
    with monkeypatch.context() as context:
        context.setattr(work, "assembled", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "begun", scales=(1.0, 10.0), **how)
    entry_of(tmp_path / "begun", 1.0).joinpath(ROW).unlink()
    run(tmp_path / "begun", scales=(1.0, 10.0), **how)  # with the vectors that were written
    assert table_bytes(tmp_path / "begun") == table_bytes(
        run(tmp_path / "whole", scales=(1.0, 10.0), **how).folder
    )
    with monkeypatch.context() as context:
        context.setattr(work, "assembled", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "other", **how)
    rewrite()
    with pytest.raises(StudyError, match=r"another set of vectors"):
        run(tmp_path / "other", **how)
    run(tmp_path / "other", fresh=True, **how)
    assert table_bytes(tmp_path / "other") == table_bytes(run(tmp_path / "last", **how).folder)


ROW = "frame-row.parquet"


def cells_in(folder: Path) -> list[Path]:
    """The rows of cells that are done."""
    return [path for path in folder.glob(f"states/*/{ROW}") if len(path.parent.name) == 64]


def entry_of(folder: Path, scale: float) -> Path:
    """The entry of the cell of a scale in the states of a folder."""
    return next(
        path.parent for path in cells_in(folder) if pd.read_parquet(path)["scale"].item() == scale
    )


# never an old result for new inputs


def refused(out: Path, message: str, **how: object) -> None:
    """A finished folder refuses these inputs and stays as it is."""
    before = table_bytes(out)
    with pytest.raises(StudyError, match=message):
        run(out, **how)
    assert table_bytes(out) == before


def test_words_and_every_other_field_of_a_text_count(tmp_path):
    texts = [replace(text, id=f"t{text.id}") for text in texts_for()]
    first = run(tmp_path / "out", texts, epochs=1).result["vocabulary"]
    last = [(*one.words[:-2], " ".join(one.words[-2:])) for one in texts]
    joined = [replace(one, words=words) for one, words in zip(texts, last, strict=True)]
    assert [one.text for one in joined] == [one.text for one in texts]
    refused(tmp_path / "out", "another training set;", train=joined, epochs=1)
    other = run(tmp_path / "out", joined, epochs=1, fresh=True)
    assert other.result["vocabulary"] == len({word for text in joined for word in text.words})
    assert other.result["vocabulary"] != first
    changes = {"id": "new"}, {"annotations": {"mine": [1]}}, {"annotations": {"rationale": [1]}}
    for change in changes:
        changed = [replace(joined[0], **change), *joined[1:]]
        refused(tmp_path / "out", "another training set;", train=changed, epochs=1)
    swapped = [replace(one, text="", words=one.words[::-1]) for one in texts_for(30, seed=2)]
    refused(tmp_path / "out", "another test set;", train=joined, test=swapped, epochs=1)
    elsewhere = [replace(one, annotations={"where": "row 3"}) for one in joined]
    assert run(tmp_path / "out", elsewhere, epochs=1).result == other.result  # the same content


def test_every_part_of_a_frozen_model_counts(tmp_path):
    how = {"encoders": ("model",), "epochs": 1}
    model = tiny("bert")
    first = run(tmp_path / "out", model=model, **how)
    assert first.manifest["counts"]["truncated"] == 0
    short = replace(tiny("bert"), limit=4)
    refused(tmp_path / "out", r"another model \(max_length\)", model=short, **how)
    left = tiny("bert")
    left.tokenizer.truncation_side = "left"
    refused(tmp_path / "out", r"another model \(tokenizer\)", model=left, **how)
    refused(tmp_path / "out", r"another model \(weights\)", model=tiny("bert", seed=5), **how)
    cut = run(tmp_path / "out", model=short, fresh=True, **how)
    assert cut.manifest["counts"]["truncated"] > 100  # of 111
    assert run(tmp_path / "out", model=short, **how).result == cut.result


@pytest.mark.slow
def test_a_model_folder_that_was_replaced_is_another_model(tmp_path):
    how = {"encoders": ("model", "vectors"), "epochs": 1}
    both = {"model": tmp_path / "m", "vectors": tmp_path / "m"}
    tiny("bert").save(tmp_path / "m")
    run(tmp_path / "out", **both, **how)
    shutil.copytree(tmp_path / "m", tmp_path / "copy")
    copied = dict.fromkeys(both, tmp_path / "copy")
    assert run(tmp_path / "out", **copied, **how).folder == tmp_path / "out"  # by content
    shutil.rmtree(tmp_path / "m")
    tiny("bert", seed=9).save(tmp_path / "m")
    refused(tmp_path / "out", r"another set of vectors, model \(weights\)", **both, **how)
    run(tmp_path / "out", fresh=True, **both, **how)
    run(tmp_path / "whole", model=load(tmp_path / "m"), vectors=load(tmp_path / "m"), **how)
    assert table_bytes(tmp_path / "out") == table_bytes(tmp_path / "whole")


def test_the_words_of_a_vector_file_count(tmp_path):
    words, rng = (*GOOD, *BAD, *REST), np.random.default_rng(0)
    numbers = [" ".join(f"{number:.3f}" for number in rng.normal(size=5)) for _ in words]
    path, how = tmp_path / "vectors.txt", {"encoders": ("vectors",), "epochs": 1}

    def vectors(order: tuple[str, ...]) -> Path:
        path.write_text("\n".join(map(" ".join, zip(order, numbers, strict=True))))
        return path

    run(tmp_path / "out", vectors=vectors(words), **how)
    refused(tmp_path / "out", r"another set of vectors", vectors=vectors(words[::-1]), **how)
    other = run(tmp_path / "out", vectors=path, fresh=True, **how)
    renamed = path.rename(tmp_path / "renamed.txt")
    assert run(tmp_path / "out", vectors=renamed, **how).result == other.result


class OwnVectors:
    """Vectors of a user's own, by which no result can be known again."""

    def of(self, words: list[str]) -> np.ndarray:
        return np.ones((len(words), 3), dtype=np.float32)


def test_vectors_without_a_fingerprint_are_one_clear_error(tmp_path):
    with pytest.raises(StudyError, match=r"OwnVectors .*has no fingerprint"):
        run(tmp_path / "out", encoders=("vectors",), vectors=OwnVectors(), epochs=1)
    assert not (tmp_path / "out").exists()


def test_every_option_counts(tmp_path):
    done = run(tmp_path / "out", epochs=2)
    options = {"epochs": 3, "dropout": 0.4, "l2": 0.02, "vw_penalty": 0.1, "optimizer": "adam"}
    options |= {"learning_rate": 0.2, "lr_decay": 0.01, "batch_size": 10, "patience": 1, "dim": 9}
    options |= {"min_count": 2, "record": 2, "rule": "paper", "tokenize": "blanks", "init": 0.2}
    options |= {
        "by_encoder": "affine.l2=1",
        "scales": 1,
        "encoders": "affine",
        "attention": "additive",
    }
    options |= {"models": "dot+none", "seeds": 2, "seed": 1}
    plain = {
        name
        for name, one in declared(Dynamics).items()
        if isinstance(one, Option) and not isinstance(one, Opening)
    }
    assert plain == {*options}  # an option that is added needs a case here
    for name, value in options.items():
        refused(
            tmp_path / "out",
            f"another .*{name}",
            **{"epochs": 2, name: [value] if name == "scales" else value},
        )
    same = {"epochs": np.int64(2), "dim": np.int64(8), "dropout": np.float64(0.5), "vw_penalty": 0}
    same |= {"seed": np.int64(0), "scales": [10], "workers": 2, "progress": True}
    assert run(tmp_path / "out", **same).result == done.result


def test_a_frozen_model_that_no_encoder_reads_is_not_loaded(tmp_path):
    done = run(tmp_path / "out", epochs=1, model="no/such/model", vectors="no.txt")
    assert run(tmp_path / "out", epochs=1).manifest == done.manifest
    with pytest.raises(AttlasError, match="no/such/model"):
        run(tmp_path / "other", epochs=1, encoders=("model",), model="no/such/model")
    with pytest.raises(AttlasError, match=r"there is no file of vectors no\.txt"):
        run(tmp_path / "other", epochs=1, encoders=("vectors",), vectors="no.txt")


def test_a_frozen_model_is_hashed_once(tmp_path, monkeypatch):
    model, hashed = tiny("bert"), []
    real = attlas.Model.weights_sha256
    monkeypatch.setattr(
        attlas.Model, "weights_sha256", lambda self: (hashed.append(self), real(self))[1]
    )
    run(tmp_path / "out", epochs=1, encoders=("model",), model=model, scales=(1.0, 10.0))
    assert len(hashed) == 1
    run(tmp_path / "vectors", epochs=1, encoders=("vectors",), vectors=model, scales=(1.0, 10.0))
    assert len(hashed) == 2


def test_a_changed_cell_is_trained_again(tmp_path, monkeypatch):
    how = {"scales": (1.0, 10.0, 100.0), "epochs": 2}
    whole = run(tmp_path / "whole", **how)
    with monkeypatch.context() as context:
        context.setattr(work, "assembled", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "out", **how)
    row = entry_of(tmp_path / "out", 1.0) / ROW
    pd.read_parquet(row).assign(accuracy=0.123).to_parquet(row)
    (entry_of(tmp_path / "out", 10.0) / "frame-tokens.parquet").write_bytes(b"")
    words = next((tmp_path / "out").glob("states/*/data.json"))
    words.write_text(words.read_text().replace("up", "pu"))
    fits = counted_fits(monkeypatch)
    assert run(tmp_path / "out", **how).result == whole.result
    assert [cell.scale for cell in fits] == [1.0, 10.0]
    assert table_bytes(tmp_path / "out") == table_bytes(tmp_path / "whole")


def test_a_changed_result_is_refused(tmp_path):
    run(tmp_path / "out", epochs=1)
    path = tmp_path / "out" / "result.json"
    path.write_text(path.read_text().replace("accuracy", "Accuracy", 1))
    with pytest.raises(StudyError, match=r"result\.json has changed"):
        run(tmp_path / "out", epochs=1)
    assert "accuracy" in run(tmp_path / "out", epochs=1, fresh=True).result["cells"][0]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_of_an_earlier_attlas_opens_and_is_not_written_to(tmp_path, fresh):
    done = run(tmp_path / "out", epochs=1)
    path = tmp_path / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in ("attlas", "kind", "files"):
        del manifest[name]
    path.write_text(json.dumps({**manifest, "identity": {"kind": "dynamics", "versions": {}}}))
    before = {one: one.read_bytes() for one in (tmp_path / "out").rglob("*") if one.is_file()}
    opened = Study.open(tmp_path / "out")
    assert opened.manifest["dynamics"] == done.result
    pd.testing.assert_frame_equal(opened.table("dynamics"), done.table("dynamics"))
    with pytest.raises(StudyError, match="made by an earlier Attlas"):
        run(tmp_path / "out", epochs=1, fresh=fresh)
    after = {one: one.read_bytes() for one in (tmp_path / "out").rglob("*") if one.is_file()}
    assert after == before


@pytest.mark.parametrize("fresh", [False, True])
def test_files_of_the_user_are_never_touched(tmp_path, monkeypatch, fresh):
    for name in ("tables/mine.csv", "states/texas.csv", "cells/notes.txt"):
        strange = tmp_path / name.partition("/")[0]
        (strange / name).parent.mkdir(parents=True)
        (strange / name).write_text("precious")
        with pytest.raises(StudyError, match="is not empty"):
            run(strange, epochs=1, fresh=fresh)
        assert [*strange.iterdir()] == [(strange / name).parent]
        assert (strange / name).read_text() == "precious"
    out = tmp_path / "out"
    with monkeypatch.context() as context:
        context.setattr(work, "assembled", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(out, epochs=1)
    names = ("README.md", "tables/mine.csv", "states/mine.txt", "cells/mine.txt")
    mine = [*(out / name for name in names), entry_of(out, 10.0) / "mine.txt"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("precious")
    done = run(out, epochs=1, fresh=fresh)
    assert run(out, epochs=1, fresh=fresh).result == done.result
    assert [path.read_text() for path in mine] == ["precious"] * 5


@pytest.mark.slow
def test_workers_import_nothing_from_the_working_folder(tmp_path, monkeypatch):
    for name in ("json", "queue", "numpy", "torch", "sitecustomize", "attlas"):
        (tmp_path / f"{name}.py").write_text(f"open('ran', 'w').write({name!r})\n1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", f".{os.pathsep}")
    done = run(Path("out"), scales=(1.0, 10.0), epochs=1, workers=2)
    assert not Path("ran").exists()
    monkeypatch.undo()
    run(tmp_path / "alone", scales=(1.0, 10.0), epochs=1)
    assert table_bytes(tmp_path / done.folder) == table_bytes(tmp_path / "alone")


@pytest.mark.slow
def test_tables_do_not_depend_on_how_many_threads_multiply(tmp_path):
    """The process that asks may have many, a worker has one."""
    texts = synthetic(200, class_words=10, neutral_words=280)
    done = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            done.append(
                run(
                    tmp_path / str(threads),
                    texts,
                    texts[:30],
                    texts[:40],
                    encoders=("affine", "lstm"),
                    attention=("dot", "additive"),
                    dim=100,
                    epochs=1,
                    learning_rate=None,
                )
            )
    assert table_bytes(tmp_path / "1") == table_bytes(tmp_path / "2")
    assert done[0].result == done[1].result


def test_numbered_texts_go_through_files(tmp_path):
    rng = np.random.default_rng(0)
    words = ("a", "שלום", "\ud800", '"', "x\ny", "")
    ragged = {
        part: RaggedTexts(rng.integers(0, 7, 9), starts_of(np.array([2, 3, 4])), words)
        for part in grid.PARTS
    }
    codes = {part: rng.integers(0, 3, 3) for part in grid.PARTS}
    rows, states = (
        {name: rng.normal(size=(7, 4)).astype(np.float32) for name in names}
        for names in (("vectors", "model"), grid.PARTS)
    )
    Data(("a", "ü", "c"), ragged, codes, rows, states).write(tmp_path)
    again = Data.read(tmp_path)
    assert again.classes == ("a", "ü", "c")
    for part in grid.PARTS:
        assert again.ragged[part].words == words
        assert again.ragged[part].ids.tolist() == ragged[part].ids.tolist()
        assert again.ragged[part].starts.tolist() == ragged[part].starts.tolist()
        assert again.codes[part].tolist() == codes[part].tolist()
        assert np.array_equal(again.states[part], states[part])
    assert {name: array.tolist() for name, array in again.rows.items()} == {
        name: array.tolist() for name, array in rows.items()
    }


# workers


TWO = {"models": ("dot+none", "dot+affine"), "epochs": 3, "dim": 2}
LONG = ("none.epochs=100000", "none.patience=none")
WILD = ("affine.optimizer=sgd", "affine.learning_rate=1e30", "affine.dropout=0", "affine.epochs=9")


@pytest.mark.slow
def test_what_goes_wrong_in_a_worker_is_said_and_stops_all(tmp_path):
    began = time.monotonic()
    with pytest.raises(AttlasError, match="smaller learning rate"):
        run(tmp_path / "out", **TWO, by_encoder=(*LONG, *WILD), workers=2)
    assert time.monotonic() - began < 120  # not only when the other is done, too
    assert not psutil_workers(os.getpid())


def psutil_workers(pid: int) -> list[psutil.Process]:
    """The workers that a process has started."""
    out = []
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            if "spawn_main" in " ".join(process.cmdline()):
                out.append(process)
    return out


@pytest.mark.slow
def test_with_a_worker_killed_what_was_done_stays(tmp_path, monkeypatch):
    cache = tmp_path / "cache"

    def kill() -> None:  # while the long cell is trained
        while not list(cache.glob(f"[!.]*/{ROW}")):
            time.sleep(0.01)
        for process in psutil_workers(os.getpid()):
            process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(
        StudyError,
        match=r"a worker ended \(exit code -9\) .*dot-none-10.*run the same command again",
    ):
        run(tmp_path / "long", **TWO, by_encoder=LONG, workers=2, cache=cache)
    killer.join()
    fits = counted_fits(monkeypatch)
    run(tmp_path / "out", **TWO, cache=cache)
    assert [cell.encoder for cell in fits] == ["none"]
    run(tmp_path / "alone", **TWO)
    assert table_bytes(tmp_path / "out") == table_bytes(tmp_path / "alone")


def test_a_worker_knows_nothing_but_its_job(tmp_path):
    tokens = [["good", "a"], ["bad", "b"]] * 10
    ragged, codes = to_ragged(tokens, vocabulary_of(tokens)), np.array([1, 0] * 10)
    data = Data(
        ("down", "up"), dict.fromkeys(grid.PARTS, ragged), dict.fromkeys(grid.PARTS, codes), {}, {}
    )
    (tmp_path / "texts").mkdir()
    data.write(tmp_path / "texts")
    settings = Dynamics(train=[], dim=2, epochs=3).settings()
    for cell in (Cell("dot", "none", scale, 0) for scale in (1.0, 10.0)):
        job = json.loads(json.dumps(grid.job_of(cell, settings, detailed=True)))
        found = grid.fit_job(job, "texts", str(tmp_path))
        assert found["row"]["scale"].item() == cell.scale
        assert grid.job_name(job) == cell.name
        for name, frame in grid.fit_cell(cell, data, settings, detailed=True).items():
            pd.testing.assert_frame_equal(found[name], frame)


def test_vectors_of_frozen_encoders_are_mapped_into_memory(tmp_path):
    rows = {"vectors": np.ones((7, 4), dtype=np.float32)}
    ragged = {
        part: RaggedTexts(np.arange(6), starts_of(np.array([2, 4])), tuple("abcdef"))
        for part in grid.PARTS
    }
    Data(("a", "b"), ragged, dict.fromkeys(grid.PARTS, np.arange(2)), rows, rows).write(tmp_path)
    again = Data.read(tmp_path)
    assert all(isinstance(one, np.memmap) for one in (*again.rows.values(), *again.states.values()))
    assert not isinstance(again.ragged["train"].ids, np.memmap)


@pytest.mark.slow
def test_with_workers_the_bar_goes_forward_cell_by_cell(tmp_path, monkeypatch):
    heard: list[tuple[int, int]] = []
    monkeypatch.setattr(workspace, "progress_bar", lambda *_, **__: Heard(heard))
    run(tmp_path / "out", **TWO, workers=2)
    assert heard == [(0, 2), (1, 2), (2, 2)]


def test_processes_are_started_for_long_grids_or_on_request(tmp_path, monkeypatch):
    class StartedError(Exception):
        pass

    def start(*_: object) -> None:
        raise StartedError

    monkeypatch.setattr(workspace, "run_in_processes", start)
    monkeypatch.setattr(workspace, "cores", lambda: 2)
    grid = {"scales": (1.0, 10.0), "epochs": 1}
    run(tmp_path / "short", **grid, workers=None)
    with pytest.raises(StartedError):
        run(tmp_path / "asked", **grid, workers=2)
    monkeypatch.setattr(work, "WORTH_A_PROCESS", 1)
    with pytest.raises(StartedError):
        run(tmp_path / "long", **grid, workers=None)


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_are_refused(tmp_path, workers):
    with pytest.raises(AttlasError, match="workers"):
        run(tmp_path / "out", scales=(1.0, 10.0), workers=workers, epochs=1)


@pytest.mark.slow
def test_killed_among_its_workers_it_resumes_to_the_same_bytes_as_one_alone(
    home, tmp_path, attlas_start: Start
):
    out = tmp_path / "out"

    def start() -> Started:
        return attlas_start(*home.command, "--out", out, "--workers", "2", "--json")

    def there() -> dict[str, int]:
        return {path.parent.name: path.stat().st_mtime_ns for path in cells_in(out)}

    killed, workers = start(), []

    def trained_one() -> bool:
        workers[:] = psutil_workers(killed.pid) if there() else []
        return bool(workers)

    assert kill_when(killed, trained_one)
    assert len(workers) == 2
    assert psutil.wait_procs(workers, timeout=60)[1] == []  # nobody listens any more
    first = there()
    assert 1 <= len(first) <= 6

    process, seen = start(), set()
    while process.poll() is None:
        with suppress(FileNotFoundError):  # at the end they are removed
            seen |= {*there().items()}
        time.sleep(0.005)
    message, error = process.communicate(60)
    assert process.returncode == 0, error
    assert {(name, when) for name, when in seen if name in first} == {
        *first.items()
    }  # what was done is not done again
    assert table_bytes(out) == table_bytes(home.place / "whole")
    shown = json.loads(message)
    assert {key: shown[key] for key in home.done.result} == home.done.result
    assert shown["study"] == str(out)
    assert [line[:13] for line in error.splitlines()] == [
        "Dynamics 1/2:",
        "Dynamics 2/2:",
    ]  # no warnings of workers


def test_interrupted_it_says_how_to_go_on(home, tmp_path, attlas_start: Start):
    process = attlas_start(*home.command, "--out", tmp_path / "out", "--workers", "1")
    deadline = time.monotonic() + 120
    while not cells_in(tmp_path / "out") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    message, error = process.communicate(60)
    assert process.returncode == 130, error
    assert error.splitlines()[-1] == "attlas: interrupted; run the same command again to resume"
    assert not message
    assert Study.open(home.place / "whole").manifest["status"] == "complete"
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["status"] == "running"


# the command line


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """The command line in this process: exit code, output and error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["attlas", "dynamics", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return SimpleNamespace(code=end.value.code or 0, out=printed.out, error=printed.err)

    return call


FEW = ("--dim", 4, "--epochs", 3, "--workers", 1)


@pytest.mark.slow
def test_a_file_of_string_labels_from_start_to_end(command, tmp_path):
    write_csv(tmp_path / "all.csv", 200, header=("review", "stars"))
    done = command(
        "--data",
        "all.csv",
        "--text",
        "review",
        "--label",
        "stars",
        "--scales",
        "1,10",
        "--encoders",
        "none,affine",
        "--attention",
        "dot,additive",
        "--out",
        "out",
        "--json",
        *FEW,
    )
    assert done.code == 0, done.error
    found = json.loads(done.out)
    assert [(cell["attention"], cell["encoder"], cell["scale"]) for cell in found["cells"]] == [
        (attention, encoder, scale)
        for attention in ("dot", "additive")
        for encoder in ("none", "affine")
        for scale in (1, 10)
    ]
    assert found["classes"] == ["down", "up"]
    assert [found["texts"][part] for part in grid.PARTS] == [144, 16, 40]
    assert Path(found["report"]).is_file()
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    again = command(
        "--data",
        "all.csv",
        "--text",
        "review",
        "--label",
        "stars",
        "--scales",
        "1,10",
        "--encoders",
        "none,affine",
        "--attention",
        "dot,additive",
        "--out",
        "out",
        "--no-report",
        *FEW,
    )
    assert again.code == 0, again.error
    assert "folder    out\n" in again.out
    assert "classifiers" not in again.error  # nothing was trained
    other = command(
        "--data",
        "all.csv",
        "--text",
        "review",
        "--label",
        "stars",
        "--out",
        "out",
        "--no-report",
        *FEW,
    )
    assert other.code == 2
    assert "--fresh" in other.error
    fresh = command(
        "--data",
        "all.csv",
        "--text",
        "review",
        "--label",
        "stars",
        "--scales",
        "7",
        "--out",
        "out",
        "--fresh",
        "--json",
        "--no-report",
        *FEW,
    )
    assert fresh.code == 0, fresh.error
    assert [cell["scale"] for cell in json.loads(fresh.out)["cells"]] == [7]
    assert json.loads(fresh.out)["report"] is None


def test_a_corpus_of_three_classes_made_to_order(command):
    done = command(
        "--data",
        "synthetic:texts=240,classes=3,class_words=4,neutral_words=12,neutral=3,ratio=1:2:3",
        "--scales",
        5,
        "--out",
        "out",
        "--json",
        "--no-report",
        "--dim",
        12,
        "--epochs",
        60,
        "--learning-rate",
        0.2,
        "--workers",
        1,
    )
    assert done.code == 0, done.error
    found = json.loads(done.out)
    assert found["classes"] == ["class0", "class1", "class2"]
    assert found["cells"][0]["accuracy"] > 0.9
    assert {name: found["kinds"][name] for name in found["classes"]} == dict.fromkeys(
        found["classes"], 4
    )


def test_mistakes_are_one_line_and_exit_code_two(command, tmp_path, home):
    train, dev, test = home.files
    good = write_csv(tmp_path / "good.csv", 60)
    rows = good.read_text().splitlines()
    (tmp_path / "one.csv").write_text(
        "\n".join([rows[0], *(row.rsplit(",", 1)[0] + ",up" for row in rows[1:])])
    )
    (tmp_path / "ids.csv").write_text(
        "\n".join(
            [rows[0], *(row.rsplit(",", 1)[0] + f",{place}" for place, row in enumerate(rows[1:]))]
        )
    )
    (tmp_path / "three.csv").write_text("\n".join([*rows, "so odd meh,sideways"]))
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "headed.csv").write_text("text,label\n")
    (tmp_path / "two.csv").write_text("\n".join(rows[:3]))
    (tmp_path / "file").write_text("")
    on, parts = ("--data", "good.csv"), ("--dev", dev, "--test", test)
    mistakes = {
        "--data": (),
        "there is no file": ("--data", "nowhere.csv"),
        "holds no texts": ("--data", "empty.csv"),
        "headed.csv": ("--data", "headed.csv"),
        "has the label 'up'|have the label 'up'": ("--data", "one.csv"),
        "as many classes as texts|is it the column of the label": ("--train", "ids.csv", *parts),
        "different texts are needed": ("--data", "two.csv"),
        "no column 'stars'": (*on, "--label", "stars"),
        "no column 'review'": (*on, "--text", "review"),
        "dev has labels.*sideways": ("--train", train, "--dev", "three.csv", "--test", test),
        "test has labels.*sideways": ("--train", train, "--dev", dev, "--test", "three.csv"),
        "scales is '1,0'; it must be .* above 0": (*on, "--scales", "1,0"),
        "scales is '-1'": (*on, "--scales", "-1"),
        "scales is 'nan'": (*on, "--scales", "nan"),
        "scales is 'inf'": (*on, "--scales", "inf"),
        "ten": (*on, "--scales", "1,ten"),
        "scales is ','": (*on, "--scales", ","),
        "models is 'dot'.*additive\\+none": (*on, "--models", "dot"),
        "by_encoder has 'lstm'": (*on, "--by-encoder", "lstm"),
        "encoders is 'none,gru'.*lstm": (*on, "--encoders", "none,gru"),
        "attention is 'dots'.*additive": (*on, "--attention", "dots"),
        "optimizer": (*on, "--optimizer", "rmsprop"),
        "rule": (*on, "--rule", "mine"),
        "tokenize is 'letters'": (*on, "--tokens", "letters"),
        "epochs": (*on, "--epochs", 0),
        "dim": (*on, "--dim", 0),
        "batch.size": (*on, "--batch-size", 0),
        "dropout": (*on, "--dropout", 1),
        "patience": (*on, "--patience", 0),
        "learning.rate": (*on, "--learning-rate", -1),
        "l2": (*on, "--l2", -1),
        "vw.penalty": (*on, "--vw-penalty", -1),
        "seed": (*on, "--seed", -1),
        "seed is -1|seed.*below 0|seed must": ("--train", train, *parts, "--seed", -1),
        "grid is empty|seeds": (*on, "--seeds", 0),
        "workers": (*on, "--workers", 0),
        "min_count": (*on, "--min-count", 999),
        "a smaller learning rate": (
            *on,
            "--scales",
            1,
            "--optimizer",
            "sgd",
            "--learning-rate",
            1e30,
            "--dropout",
            0,
            "--epochs",
            9,
        ),
        "nowhere.txt": (*on, "--encoders", "vectors", "--vectors", "nowhere.txt"),
        "seed|negative": ("--data", "synthetic:texts=50,seed=-1"),
        "'size'": ("--data", "synthetic:size=50"),
        "file is a file": (*on, "--scales", 1, "--out", "file"),
    }
    wrong = []
    for number, (message, arguments) in enumerate(mistakes.items()):
        options = (
            ("--epochs", 2, "--dim", 3)
            if "--dim" not in arguments and "--epochs" not in arguments
            else ()
        )
        with np.errstate(all="ignore"):
            try:
                done = command(
                    *arguments,
                    *options,
                    *(() if "--out" in arguments else ("--out", f"mistake{number}")),
                    *(() if "--workers" in arguments else ("--workers", 1)),
                    "--no-report",
                )
            except Exception as error:
                wrong.append((message, repr(error)))
                continue
        lines = [line for line in done.error.splitlines() if line.startswith("attlas:")]
        if done.code != 2 or len(lines) != 1 or done.out or "Traceback" in done.error:
            wrong.append((message, done))
        elif not pd.Series(lines).str.contains(message, regex=True).all():
            wrong.append((message, lines))
    assert not wrong, "\n".join(map(str, wrong))
