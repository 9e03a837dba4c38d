"""The reproduction of the relations paper on made-up data in the layouts of its data sets."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from attlas.corpora.sources import embedded_file
from attlas.models import Model
from attlas.papers.relations import PARTS, PUBLISHED, READERS, reproduce
from attlas.support.errors import AttlasError
from attlas.testing import tiny

NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal")


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every data set that the recipe takes, small."""
    root = tmp_path_factory.mktemp("data")
    rows = [json.loads(line) for line in embedded_file("relations").read_text().splitlines()]
    kept = [
        row
        for row in rows
        if row["triples"][0]["relation"] in sorted({r["triples"][0]["relation"] for r in rows})[:5]
    ]
    write(root / "trex95" / "train.jsonl.gz", kept[:110])
    write(root / "trex95" / "dev.jsonl.gz", kept[110:150])
    names = sorted({triple["relation"] for row in kept for triple in row["triples"]})
    write(
        root / "trex95" / "relations.jsonl.gz",
        ({"relation": name, "title": f"to be {name}"} for name in names),
    )
    write(root / "fewrel" / "train_relations_subset.jsonl.gz", islice(_fewrel(names), 60))
    (root / "fewrel" / "pid2name.json").write_text(
        json.dumps({"P1": ["taught", "was the teacher of"], "P2": ["hired", ""]})
    )
    write(root / "semeval2010_task8" / "train.jsonl.gz", islice(_semeval(), 60))
    write(root / "redocred" / "dev_revised.jsonl.gz", islice(_documents(names), 4))
    return root


def _fewrel(names: list[str]) -> Iterable[dict[str, Any]]:
    for number in range(60):
        one, other = NAMES[number % 8], NAMES[(number + 1 + number // 8) % 8] + "son"
        verb, relation = (("taught", "P1"), ("hired", "P2"))[number % 2]
        tokens = [
            "Later",
            "on",
            one,
            verb,
            "the",
            "young",
            other,
            "in",
            "the",
            "town",
            "of",
            f"Dale{number}",
            ".",
        ]
        yield {
            "relation": relation,
            "tokens": tokens,
            "h": [one, "Q1", [[2]]],
            "t": [other, "Q2", [[6]]],
        }


def _semeval() -> Iterable[dict[str, Any]]:
    for number in range(60):
        one, other = NAMES[number % 8], NAMES[(number + 1 + number // 8) % 8] + "son"
        verb, relation = (("burnt", "Cause-Effect(e1,e2)"), ("left", "Other"))[number % 2]
        yield {
            "id": number,
            "sentence": f"Near river {number} the <e1>{one}</e1> {verb} "
            f"the old <e2>{other}</e2> of the mill.",
            "relation": relation,
        }


def _documents(names: list[str]) -> Iterable[dict[str, Any]]:
    for number in range(4):
        sents = [
            ["Ann", "Hill", "was", "born", "in", "Dover", "."],
            ["She", "works", "for", "Acme", "."],
        ]
        vertices = [
            [
                {"sent_id": 0, "pos": [0, 2], "name": "Ann Hill"},
                {"sent_id": 1, "pos": [0, 1], "name": "She"},
            ],
            [{"sent_id": 0, "pos": [5, 6], "name": "Dover"}],
            [{"sent_id": 1, "pos": [3, 4], "name": "Acme"}],
        ]
        labels = [
            {"h": 0, "t": 1, "r": names[0], "evidence": [0]},
            {"h": 0, "t": 2, "r": names[1], "evidence": [1]},
        ]
        yield {"title": f"Ann {number}", "sents": sents, "vertexSet": vertices, "labels": labels}


@pytest.mark.slow
def test_all_parts_run_and_are_found_again(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def draw(chart: object, path: Path, **options: object) -> Path:
        """Charts are tested with the views: here only that each is exported."""
        drawn.append(path.name)
        path.write_bytes(b"")
        return path

    monkeypatch.setattr("attlas.views.report.charts.export", draw)
    monkeypatch.setattr("attlas.views.report._bytes", lambda content, suffix: b"")
    monkeypatch.setattr("attlas.views.report.write_bytes", lambda path, data: draw(data, path))
    model = tiny("bert")
    messages: list[str] = []
    done = reproduce(
        data_root, tmp_path / "out", model=model, workers=1, progress=False, log=messages.append
    )
    assert set(done.parts) == set(PARTS)
    reproduced = json.loads((tmp_path / "out" / "relations.json").read_text())
    assert reproduced["published"]["f1"] == PUBLISHED["f1"]
    scored = reproduced["ours"]["trex"]["scored"]
    assert set(scored["controls"]) >= {
        "random_model",
        "relation_words",
        "head_tail",
        "distance",
        "part_of_speech",
        "word_embeddings",
        "unseen_phrases",
    }
    assert reproduced["ours"]["redocred"]["exact spans"]["gold"] == 8
    assert reproduced["ours"]["redocred"]["exact spans"]["within"] == 8
    assert (
        "head_tail" not in reproduced["ours"]["fewrel"]["scored"]["controls"]
    )  # there is nothing else to read
    text = done.markdown()
    assert "0.902, 0.863" in text
    assert f"| {READERS['random_model']} |" in text
    assert f"{scored['f1']:.3f}" in text
    assert f"{scored['binary_accuracy']:.3f}" in text
    assert all(path.is_file() for path in done.pictures)
    assert {name.split("-")[0] for name in drawn} == {
        "captions",
        "relation_texts",
        "relations",
        "relations_directions",
        "relations_layers",
        "relations_path",
        "relations_tree",
    }
    assert done.pictures
    messages.clear()
    again = reproduce(
        data_root,
        tmp_path / "out",
        model=model,
        parts=("trex",),
        workers=1,
        progress=False,
        log=messages.append,
    )
    assert messages == ["part trex"]  # nothing was fitted again
    assert again.markdown() == text
    check_other_data(data_root, tmp_path, model)


def check_other_data(data_root: Path, tmp_path: Path, model: Model) -> None:
    """Parts that read a file which has changed since are excluded, and what used them is, too."""
    messages: list[str] = []
    other = tmp_path / "other-data"
    shutil.copytree(data_root, other)
    with gzip.open(other / "trex95" / "dev.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    write(other / "trex95" / "dev.jsonl.gz", rows[:-1])
    options = {"model": model, "workers": 1, "progress": False, "log": messages.append}
    done = reproduce(other, tmp_path / "out", parts=("fewrel",), **options)
    assert set(done.parts) == {"fewrel", "semeval"}
    assert [line.partition(" of an earlier run")[0] for line in messages if "excluded" in line] == [
        "part trex",
        "part published",
        "part redocred",
    ]
    assert set(json.loads((tmp_path / "out" / "relations.json").read_text())["parts"]) == {
        "fewrel",
        "semeval",
    }
    with pytest.raises(AttlasError, match="uses the extractor of part trex; run both"):
        reproduce(other, tmp_path / "out", parts=("redocred",), **options)
    with pytest.raises(AttlasError, match="trex-scored was made with another test set"):
        reproduce(other, tmp_path / "out", parts=("trex",), **options)


def test_a_wrong_part_or_folder_is_said(data_root: Path, tmp_path: Path) -> None:
    with pytest.raises(AttlasError, match="there is no part 'trexx'"):
        reproduce(data_root, tmp_path, parts=("trexx",))
    with pytest.raises(AttlasError, match="data-root"):
        reproduce(tmp_path / "nowhere", tmp_path)
