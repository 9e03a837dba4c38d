"""Files of the user: whatever folder Attlas is pointed at, nothing that it did not write is lost.

A folder without a manifest of ours that holds anything but `.lock` is refused in one line that
names what is there. In a folder of ours, files that the user added survive a rerun and `fresh`.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import attlas
from attlas.catalogue import subjects
from attlas.core.text import Text
from attlas.dynamics import AttentionClassifier
from attlas.models.vectors import ModelVectors
from attlas.papers.parts import Recipe, Reproduction, run_reproduction
from attlas.relations import RelationExtractor
from attlas.studies.folder import (
    ENTRY,
    FILES,
    LOG,
    MANIFEST,
    PARTS,
    QUARANTINE,
    REPORT,
    RESULT,
    STATES,
    TABLES,
)
from attlas.support.errors import AttlasError
from attlas.topology import TopologyClassifier
from attlas.tree import TreeProbe
from tests.builders.runs import (
    QUIET,
    Files,
    Interrupted,
    command_line,
    files_in,
    model,
    outcome,
    reviews,
    write_files,
)

Command = Callable[[Path, bool], object]  # out, fresh

TEXTS = ["a cat sat on the mat", "the dog was not very good"]
OTHER_TEXTS = ["it was a bad film", "you saw the cat"]


# the commands, each on the least input that it accepts


@cache
def trees() -> list[Text]:
    return list(attlas.read("embedded:sentences"))[:6]


@cache
def triples() -> list[dict[str, Any]]:
    draw, out = np.random.default_rng(0), []
    for number in range(14):
        head, tail = draw.permutation(["Ann", "Ben", "Eve", "Tom", "Kim", "Sam"])[:2].tolist()
        words, relation = (("taught", "teacher"), ("hired", "boss"))[number % 2]
        one = {"head": head, "tail": tail, "relation": relation, "relation_words": words}
        out.append({"id": str(number), "text": f"{head} {words} {tail} .", "triples": [one]})
    return out


def run_study(out: Path, fresh: bool) -> object:
    return attlas.study(model(), TEXTS, "entropy", out, fresh=fresh, **QUIET)


def run_explain(out: Path, fresh: bool) -> object:
    explain = attlas.Explain(data=TEXTS, model=model("classify"), methods="attention_last")
    return attlas.run(explain, out, fresh=fresh, **QUIET)


def run_explain_scaled(out: Path, fresh: bool) -> object:
    methods = ["attention_last", "attention_last_scaled"]
    explain = attlas.Explain(data=TEXTS, model=model("classify"), methods=methods)
    return attlas.run(explain, out, fresh=fresh, **QUIET)


def run_syntax(out: Path, fresh: bool) -> object:
    syntax = attlas.Syntax(model=model(), train=trees(), test=trees(), min_cases=1)
    return attlas.run(syntax, out, fresh=fresh, **QUIET)


def run_tree(out: Path, fresh: bool) -> object:
    tree = attlas.Tree(model=model(), train=trees()[:3], test=trees()[:3])
    return attlas.run(tree, out, fresh=fresh, **QUIET)


def run_coreference(out: Path, fresh: bool) -> object:
    documents = "embedded:sentences"
    coreference = attlas.Coreference(model=model(), train=documents, test=documents)
    return attlas.run(coreference, out, fresh=fresh, **QUIET)


def run_fit_relations(out: Path, fresh: bool) -> object:
    fit = attlas.FitRelations(train=triples()[:8], dev=triples()[8:], model=model())
    return attlas.run(fit, out, fresh=fresh, **QUIET)


def topology(train: Any) -> attlas.Topology:
    parts = {"train": train, "dev": reviews(8, 1), "test": reviews(8, 2)}
    return attlas.Topology(**parts, model=model(), controls=False, thresholds=(0.1,))


def run_topology(out: Path, fresh: bool) -> object:
    return attlas.run(topology(reviews(12)), out, fresh=fresh, **QUIET)


def run_grid(out: Path, fresh: bool) -> object:
    return classifiers(20, out, fresh)


def classifiers(count: int, out: Path, fresh: bool) -> object:
    parts = {"train": reviews(count), "dev": reviews(8, 1), "test": reviews(8, 2)}
    grid = attlas.Dynamics(**parts, scales=(10.0,), epochs=1, dim=2)
    return attlas.run(grid, out, workers=1, fresh=fresh, **QUIET)


def run_finetune(out: Path, fresh: bool) -> object:
    tuning = attlas.Finetune(texts=reviews(40), model=model("classify"), head_only=True)
    return attlas.run(tuning, out, fresh=fresh, **QUIET)


def run_groups(out: Path, fresh: bool) -> object:
    return attlas.study(model(), reviews(12), "entropy", out, by="label", fresh=fresh, **QUIET)


def run_compare(out: Path, fresh: bool) -> object:
    studies = [attlas.study(model(), TEXTS[:count], "entropy", **QUIET) for count in (3, 4)]
    return attlas.run(attlas.Compare(studies=studies), out, fresh=fresh, **QUIET)


def run_until(out: Path, fresh: bool) -> object:
    return attlas.study(model(), TEXTS, "surface", out, until=0.5, fresh=fresh, **QUIET)


class OnePart(Recipe):
    """A reproduction of one part."""

    name = "paper"

    def one(self) -> None:
        self.part.lines.append("one line")


def run_reproduce(out: Path, fresh: bool) -> object:
    done = Reproduction("m", ("one",), {}, out)
    return run_reproduction(
        OnePart(root=Path("data"), reproduction=done, options={"fresh": fresh}), ["one"]
    )


def save_model(out: Path, fresh: bool) -> object:
    return model().save(out)


def save_topology_classifier(out: Path, fresh: bool) -> object:
    features = np.random.default_rng(0).random((12, 3))
    return TopologyClassifier(C=(1.0,), max_iter=(5,)).fit(features, [0, 1] * 6).save(out)


def save_attention_classifier(out: Path, fresh: bool) -> object:
    texts, labels = ["a good cat", "a bad cat"] * 8, ["a", "b"] * 8
    return AttentionClassifier(epochs=1, dim=2).fit(texts, labels).save(out)


def save_tree_probe(out: Path, fresh: bool) -> object:
    probe = TreeProbe(model(), "attention", vectors=ModelVectors(model()), **QUIET)
    return probe.fit(trees()).save(out)


def save_extractor(out: Path, fresh: bool) -> object:
    extractor = RelationExtractor(model(), negatives=2, grid=(1.0,), workers=1, **QUIET)
    return extractor.fit(triples()[:8], triples()[8:]).save(out)


COMMANDS: dict[str, Command] = {
    "study": run_study,
    "explain": run_explain,
    "explain_scaled": run_explain_scaled,
    "syntax": run_syntax,
    "tree": run_tree,
    "coreference": run_coreference,
    "fit_relations": run_fit_relations,
    "topology": run_topology,
    "dynamics": run_grid,
    "finetune": run_finetune,
    "groups": run_groups,
    "compare": run_compare,
    "until": run_until,
    "reproduce": run_reproduce,
    "Model.save": save_model,
    "TopologyClassifier.save": save_topology_classifier,
    "AttentionClassifier.save": save_attention_classifier,
    "TreeProbe.save": save_tree_probe,
    "RelationExtractor.save": save_extractor,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder, for the command line, and an extractor with its controls."""
    place = tmp_path_factory.mktemp("home")
    model().save(place / "model")
    run_fit_relations(place / "extractor", False)
    (place / "texts.txt").write_text("\n".join(TEXTS))
    return place


@pytest.fixture
def command(home: Path) -> Callable[[str], Command]:
    """A command by name; these need files of their own."""

    def run_score(out: Path, fresh: bool) -> object:
        test = triples()[4:]
        score = attlas.ScoreRelations(extractor=home / "extractor", test=test, model=model())
        return attlas.run(score, out, fresh=fresh, **QUIET)

    def run_study_line(out: Path, fresh: bool) -> object:
        common = ("--data", home / "texts.txt", "--model", home / "model", "--measures", "entropy")
        return command_line("study", *common, "--out", out, *["--fresh"] * fresh)

    def run_lengthen_line(out: Path, fresh: bool) -> object:
        common = ("--model", home / "model", "--length", "1024", "--window", "8")
        return command_line("lengthen", *common, "--out", out, *["--fresh"] * fresh)

    own = {
        "score_relations": run_score,
        "attlas study": run_study_line,
        "attlas lengthen": run_lengthen_line,
    }
    return lambda name: {**COMMANDS, **own}[name]


# folders without a manifest of ours


WEB_APP = json.dumps({"status": "x", "identity": {}, "name": "my web app"}).encode()
FOREIGN = "foreign manifest"


def files_of(entry: str) -> Files:
    """What the user has in the folder: one file, or a project with a manifest of its own."""
    if entry == FOREIGN:
        names = ("tables/data.csv", "passes/data.csv", "cells/data.csv", "features/data.csv")
        return {"manifest.json": WEB_APP, **dict.fromkeys(names, b"years of work\n")}
    return {entry: b'{"mine": "years of work"}\n'}


def lost(folder: Path, files: Files) -> list[str]:
    """The user's files that are gone or changed."""
    present = files_in(folder)
    return [name for name, content in files.items() if present.get(name) != content]


# command -> what the user has in the folder
FOREIGN_FOLDERS: dict[str, tuple[str, ...]] = {
    "study": (
        "tables/mine.csv",
        "tables/entropy.parquet",
        "tables.tmp/x",
        "states/texas.csv",
        "states/000000/x",
        "states/x.tmp/y",
        "quarantine.jsonl",
        "quarantine.jsonl.tmp",
        "manifest.json",
        "manifest.json.tmp",
        "importance/x",
        "report.html",
        "report.html.tmp",
        "result.json",
        "result.json.tmp",
        "summary.json",
        "log.txt",
        "passes/x",
        "cells/x",
        "cells/data/data.json",
        "features/x",
        "classifier/x",
        "files/x",
        "parts/x/y",
        "scored/x",
        "checkpoints/x",
        "held_out.jsonl",
        "finetune.json",
        "finetune.json.tmp",
        "model.tmp/x",
        "config.json",
        "extractor.json",
        "identity.json",
        "entry.json",
        "data.json",
        "README.md",
        FOREIGN,
    ),
    "explain": ("tables/mine.csv", FOREIGN),
    "explain_scaled": ("importance/tables/mine.csv",),
    "syntax": ("tables/mine.csv", "passes/x", FOREIGN),
    "tree": ("tables/mine.csv",),
    "coreference": ("tables/mine.csv",),
    "fit_relations": ("tables/mine.csv",),
    "score_relations": ("tables/mine.csv",),
    "topology": ("tables/mine.csv", FOREIGN),
    "dynamics": ("tables/mine.csv", "tables.tmp/x", "manifest.json.tmp", "cells/x", FOREIGN),
    "finetune": (
        "finetune.json",
        "finetune.json.tmp",
        "checkpoints/x",
        "held_out.jsonl",
        "config.json",
        "model.tmp/x",
        FOREIGN,
    ),
    "groups": ("tables/mine.csv", "states/texas.csv", "quarantine.jsonl", FOREIGN),
    "compare": ("tables/mine.csv", "states/texas.csv", FOREIGN),
    "until": ("tables/mine.csv", FOREIGN),
    "reproduce": ("paper.md", "paper.json", "paper.md.tmp"),
    "Model.save": ("config.json", "model.tmp/x"),
    "TopologyClassifier.save": ("classifier.json",),
    "AttentionClassifier.save": ("classifier.json", "classifier.json.tmp"),
    "TreeProbe.save": ("probe.json",),
    "RelationExtractor.save": ("extractor.json",),
    "attlas study": ("report.html", "report.html.tmp"),
    "attlas lengthen": ("config.json", "model.tmp/x"),
}
EITHER = pytest.mark.parametrize("fresh", [False, True], ids=["resume", "fresh"])


def cases() -> Iterator[tuple[str, str, bool]]:
    """Every command with all that a user may have, with and without fresh if it has that option."""
    for name, entries in FOREIGN_FOLDERS.items():
        either = (False,) if name.endswith("save") else (False, True)
        yield from itertools.product([name], entries, either)


@pytest.mark.parametrize(("name", "entry", "fresh"), cases())
def test_a_folder_of_the_user_is_refused_by_name_and_left_alone(
    command: Callable[[str], Command], name: str, entry: str, fresh: bool, tmp_path: Path
) -> None:
    folder, files = tmp_path / "mine", files_of(entry)
    write_files(folder, files)
    with pytest.raises(AttlasError) as refusal:
        command(name)(folder, fresh)
    message = str(refusal.value).strip()
    assert "\n" not in message
    names = {path.split("/")[0] for path in files}
    assert any(f"/{one}" in message or f" {one}" in message for one in names), message
    assert "fresh" not in message  # which would not help
    left = files_in(folder)
    left.pop(".lock", None)
    assert left == files


def every_case() -> list[tuple[str, str, bool]]:
    """Every command with every name that any of them uses; those above are left out."""
    names = dict.fromkeys(itertools.chain.from_iterable(FOREIGN_FOLDERS.values()))
    done = set(cases())
    return [
        (command, name, fresh)
        for command in FOREIGN_FOLDERS
        for name in names
        for fresh in ((False,) if command.endswith("save") else (False, True))
        if (command, name, fresh) not in done
    ]


@pytest.mark.attack
@pytest.mark.parametrize(("name", "entry", "fresh"), every_case())
def test_no_command_touches_any_file_of_the_user(
    command: Callable[[str], Command], name: str, entry: str, fresh: bool, tmp_path: Path
) -> None:
    """A saved model or classifier may stand next to other files; everything else is refused."""
    folder, files = tmp_path / "mine", files_of(entry)
    write_files(folder, files)
    done = outcome(lambda: command(name)(folder, fresh) or True)
    assert done is None or name.endswith("save")
    assert lost(folder, files) == []


def test_every_verb_is_among_the_commands() -> None:
    """A verb or a name in result folders that was added without a case here fails."""
    known = {
        "explain": "explain",
        "topology": "topology",
        "finetune": "finetune",
        "lengthen": "attlas lengthen",
        "compare": "compare",
        "probe syntax": "syntax",
        "probe tree": "tree",
        "probe coreference": "coreference",
        "relations fit": "fit_relations",
        "relations score": "score_relations",
        "dynamics": "dynamics",
    }
    verbs = {verb for subject in subjects() for verb in subject.verbs}
    assert verbs == set(known)
    without_verb = {one.name for one in subjects() if one.experiments and not one.verbs}
    assert without_verb == {"groups"}
    assert without_verb <= set(FOREIGN_FOLDERS)
    assert set(known.values()) <= set(FOREIGN_FOLDERS)
    used = (MANIFEST, TABLES, STATES, PARTS, QUARANTINE, RESULT, FILES, REPORT, ENTRY, LOG)
    assert set(used) <= {entry.split("/")[0] for entry in FOREIGN_FOLDERS["study"]}


def test_files_in_a_cache_folder_stay(tmp_path: Path) -> None:
    files = dict.fromkeys(("notes.txt", "entry.json", "tables/mine.csv", "manifest.json"), b"mine")
    write_files(tmp_path / "cache", files)
    grid = attlas.Dynamics(
        train=reviews(20), dev=reviews(8, 1), test=reviews(8, 2), scales=(10.0,), epochs=1, dim=2
    )
    attlas.run(grid, tmp_path / "out", cache=tmp_path / "cache", workers=1, **QUIET)
    assert lost(tmp_path / "cache", files) == []


@EITHER
@pytest.mark.parametrize("name", ["study", "dynamics", "finetune"])
def test_an_empty_folder_or_a_lock_alone_is_accepted(
    command: Callable[[str], Command], name: str, fresh: bool, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    write_files(tmp_path / "locked", {".lock": b""})
    for folder in (tmp_path / "empty", tmp_path / "locked"):
        command(name)(folder, fresh)
        assert len(files_in(folder)) > 2


SAVED = [name for name in COMMANDS if name.endswith(".save")]


@pytest.mark.parametrize("name", SAVED)
def test_what_was_saved_may_be_saved_again(
    command: Callable[[str], Command], name: str, tmp_path: Path
) -> None:
    command(name)(tmp_path / "saved", False)
    first = files_in(tmp_path / "saved")
    command(name)(tmp_path / "saved", False)
    assert files_in(tmp_path / "saved") == first


# folders of ours to which the user has added files


ADDED = (
    "README.md",
    "tables/my_notes.xlsx",
    "tables/mine/data.csv",
    "states/note.txt",
    "states/000007/note.txt",
    "importance/note.txt",
    "checkpoints/mine.bin",
    "passes/note.txt",
    "cells/note.txt",
    "features/note.txt",
    "classifier/note.txt",
    "files/note.txt",
    "parts/mine/note.txt",
    "held_out.jsonl",
    "model.tmp/note.txt",
    "tables.tmp/note.txt",
    "manifest.json.tmp",
    "quarantine.jsonl.tmp",
    "finetune.json.tmp",
    "config.json.tmp",
    "result.json.tmp",
)


def other_study(out: Path) -> object:
    done = attlas.study(model(), OTHER_TEXTS, "entropy", out, fresh=True, **QUIET)
    truth = attlas.study(model(), OTHER_TEXTS, "entropy", **QUIET)
    pd.testing.assert_frame_equal(done.table("entropy"), truth.table("entropy"))
    return done


def other_syntax(out: Path) -> object:
    syntax = attlas.Syntax(model=model(), train=trees(), test=trees()[:5], min_cases=1)
    return attlas.run(syntax, out, fresh=True, **QUIET)


def other_topology(out: Path) -> object:
    return attlas.run(topology(reviews(14)), out, fresh=True, **QUIET)


def other_grid(out: Path) -> object:
    return classifiers(24, out, fresh=True)


def other_finetune(out: Path) -> object:
    tuning = attlas.Finetune(texts=reviews(44), model=model("classify"), head_only=True)
    return attlas.run(tuning, out, fresh=True, **QUIET)


OTHER_INPUTS: dict[str, Callable[[Path], object]] = {
    "study": other_study,
    "syntax": other_syntax,
    "topology": other_topology,
    "dynamics": other_grid,
    "finetune": other_finetune,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Path], Path]:
    """A copy of a finished folder of a command, made once."""
    root = tmp_path_factory.mktemp("finished")

    def copied(name: str, to: Path) -> Path:
        if not (root / name).exists():
            COMMANDS[name](root / name, False)
        return Path(shutil.copytree(root / name, to))

    return copied


@pytest.mark.parametrize("name", OTHER_INPUTS)
def test_files_added_to_a_finished_folder_survive_the_same_command(
    finished: Callable[[str, Path], Path], name: str, tmp_path: Path
) -> None:
    folder, added = finished(name, tmp_path / "ours"), dict.fromkeys(ADDED, b"mine")
    write_files(folder, added)
    COMMANDS[name](folder, False)
    assert lost(folder, added) == []


@pytest.mark.parametrize("name", OTHER_INPUTS)
def test_files_added_to_a_finished_folder_survive_fresh_with_other_inputs(
    finished: Callable[[str, Path], Path], name: str, tmp_path: Path
) -> None:
    folder, added = finished(name, tmp_path / "ours"), dict.fromkeys(ADDED, b"mine")
    write_files(folder, added)
    OTHER_INPUTS[name](folder)
    assert lost(folder, added) == []


@pytest.mark.parametrize(
    "entry",
    [
        "tables/my_notes.xlsx",
        "tables.tmp/note.txt",
        "states/note.txt",
        "states/x.tmp/note.txt",
        "manifest.json.tmp",
        "quarantine.jsonl",
        "quarantine.jsonl.tmp",
        "README.md",
        "importance/note.txt",
        "files/note.txt",
    ],
)
def test_files_added_to_an_interrupted_study_survive(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> object:
        return attlas.study(model(), TEXTS, [Interrupted()], tmp_path / "ours", **QUIET)

    with pytest.raises(KeyboardInterrupt):
        run()
    write_files(tmp_path / "ours", {entry: b"mine"})
    monkeypatch.setattr(Interrupted, "now", False)
    with suppress(AttlasError):
        run()
    assert lost(tmp_path / "ours", {entry: b"mine"}) == []


@pytest.mark.parametrize("verb", ["report", "study"])
def test_a_page_of_the_user_is_not_overwritten_by_the_report(
    home: Path, verb: str, tmp_path: Path
) -> None:
    folder, page = tmp_path / "ours", {"report.html": b"<!doctype html><title>My thesis</title>"}
    common = ("--data", home / "texts.txt", "--model", home / "model", "--measures", "entropy")
    command_line("study", *common, "--out", folder, "--no-report")
    write_files(folder, page)
    again = {"report": ("report", folder), "study": ("study", *common, "--out", folder)}
    with suppress(AttlasError):
        command_line(*again[verb])
    assert lost(folder, page) == []


def test_our_own_report_is_written_again(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    common = ("--data", home / "texts.txt", "--model", home / "model", "--measures", "entropy")
    command_line("study", *common, "--out", folder)
    first = (folder / "report.html").read_bytes()
    command_line("report", folder)
    assert (folder / "report.html").read_bytes() == first
