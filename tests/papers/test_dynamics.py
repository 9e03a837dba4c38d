"""The reproduction of Sun and Lu (2020) on made-up texts in the layouts of its data sets."""

from __future__ import annotations

import gzip
import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attlas.corpora.synthetic import synthetic
from attlas.papers import dynamics
from attlas.papers.dynamics import (
    MODELS,
    PARTS,
    PUBLISHED,
    accuracy_blocks,
    own_words,
    reproduce,
    texts_of,
)
from attlas.studies import Study
from attlas.support.errors import AttlasError

RUN = [
    name for name in PARTS if name not in ("news1", "imdb")
]  # which go the same way as the other two
GROUPS = (
    "rec.motorcycles",
    "rec.sport.baseball",
    "rec.sport.hockey",
    "sci.med",
    "talk.politics.guns",
)


def packed(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data sets, each of a few texts."""
    folder = tmp_path_factory.mktemp("data")
    for name, count, seed in (("train", 80, 1), ("dev", 30, 2)):
        texts = synthetic(count, class_words=5, neutral_words=30, neutral=4, seed=seed)
        packed(
            folder / "sst" / f"{name}_binary.tsv.gz",
            [f"{int(text.label == 'positive')}\t{text.text}" for text in texts],
        )
    texts = synthetic(80, class_words=5, neutral_words=30, neutral=4, seed=3)
    rows = [
        {
            "id": str(number),
            "label": int(text.label == "positive"),
            "text": f"{text.text}<br />{'long ' * (400 * (number == 0))}",
        }
        for number, text in enumerate(texts)
    ]
    packed(folder / "imdb" / "train_full.jsonl.gz", [json.dumps(row) for row in rows])
    texts = synthetic(150, classes=5, class_words=5, neutral_words=30, neutral=6, seed=4)
    posts = [
        {
            "id": str(number),
            "group": GROUPS[int(str(text.label)[-1])],
            "body": f"A B writes:\n> quoted words\n{text.text}\n--\nsigned",
        }
        for number, text in enumerate(texts)
    ]
    packed(folder / "newsgroups5" / "train.jsonl.gz", [json.dumps(post) for post in posts])
    draw = np.random.default_rng(0)
    words = [
        f"{letter}{number}"
        for letter, count in (("p", 5), ("g", 5), ("n", 30))
        for number in range(count)
    ]
    packed(
        folder / "glove50" / "glove.6B.50d.top20k.txt.gz",
        [f"{word} {' '.join(f'{value:.3f}' for value in draw.normal(size=4))}" for word in words],
    )
    return folder


@pytest.mark.slow
def test_every_part_is_run_and_all_cells_stand_beside_the_published(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for settings in (dynamics.TRAINED, dynamics.LARGE):
        monkeypatch.setitem(settings, "epochs", 2)
        monkeypatch.setitem(settings, "by_encoder", {"lstm": {"epochs": 1}})
    monkeypatch.setattr(
        dynamics, "synthetic", partial(synthetic, 60, class_words=5, neutral_words=30, neutral=4)
    )
    monkeypatch.setattr(
        dynamics, "write_charts", lambda *given: []
    )  # the views have tests of their own
    monkeypatch.setattr(Study, "report", lambda study, path: path)
    messages: list[str] = []
    done = reproduce(
        root, tmp_path, parts=RUN, seeds=1, workers=1, progress=False, log=messages.append
    )
    text = done.markdown()
    assert [line for line in messages if line.startswith("part ")] == [
        f"part {name}" for name in RUN
    ]
    for name in ("sst", "news2"):
        cells = done.to_dict()["ours"][name]["cells"]
        assert len(cells) == 28
        known = {
            (cell["attention"], cell["encoder"], cell["scale"]): cell["published"] for cell in cells
        }
        assert known == dynamics.published_of(name)
        grid = Study.open(tmp_path / "parts" / name)
        assert "published" not in grid.table("dynamics_summary")
        compared = dynamics.with_published(grid, known)
        assert compared.table("dynamics_summary")["published"].tolist() == [*known.values()]
        assert compared.study_with_table("dynamics").manifest == grid.manifest
        for known in PUBLISHED[name].values():
            assert all(f"({one:.1f})" in text for one in known)
    assert text.count("Mean absolute difference from published") == 3  # of each, and of both
    assert "points over 40 cells" in text
    assert done.to_dict()["ours"]["news2"]["classes"] == [
        "rec.motorcycles",
        "sci.med",
        "talk.politics.guns",
    ]
    assert all(
        done.to_dict()["ours"][f"flow-{scale}"]["difference"] < 1e-8 for scale in (1, 10, 100)
    )
    assert [path.name for path in done.pictures if path.name.endswith("scores.png")] == [
        f"{one}-scores.png"
        for one in (
            "sst-dot-none-10",
            "sst-dot-none-100",
            "sst-additive-none-10",
            "news2-dot-none-10",
        )
    ]
    assert all(path.is_file() for path in done.pictures)
    again = reproduce(root, tmp_path, parts=["sst"], seeds=1, workers=1, progress=False)
    assert again.markdown() == text
    check_differences(root, tmp_path)


def check_differences(root: Path, folder: Path) -> None:
    """Cells of other data, or of other seeds, are not compared with what was published."""
    messages: list[str] = []
    other = folder.with_name("other-data")
    shutil.copytree(root, other)
    packed(other / "sst" / "dev_binary.tsv.gz", ["1\tp0 n0", "0\tg0 n1"])
    options = {"parts": ["differences"], "workers": 1, "progress": False, "log": messages.append}
    done = reproduce(other, folder, seeds=1, **options)
    assert "points over 20 cells" in done.markdown()  # of news2 alone
    assert {"news2", "synthetic"} <= done.parts.keys()
    assert not {"sst", "flow", "penalty", "frozen"} & done.parts.keys()
    for name in ("sst", "flow", "penalty", "frozen"):
        why = "it was made from other data (sst/dev_binary.tsv)"
        assert f"part {name} of an earlier run is excluded: {why}; run it again" in messages
    assert not list(folder.glob("sst-*.png"))
    done = reproduce(other, folder, seeds=2, **options)
    assert set(done.parts) == {"differences"}
    assert done.markdown() == ""


def test_texts_are_cut_as_the_paper_cuts_them(root: Path) -> None:
    learnt, kept, scored = texts_of(root, "sst")
    assert (len(learnt), len(kept), len(scored)) == (72, 8, 30)
    assert learnt[0].words is not None
    found = [len(part) for part in texts_of(root, "imdb")]
    assert sum(found) == 79  # the long one is left out
    assert found[2] == round(79 * 4363 / 25879)
    posts = texts_of(root, "news1")
    assert {text.label for part in posts for text in part} == {
        "rec.sport.baseball",
        "rec.sport.hockey",
    }
    assert not any(
        "quoted" in text.text or "signed" in text.text for part in posts for text in part
    )


def test_a_post_is_left_with_its_own_words() -> None:
    body = "In article <1@x> a@b writes:\n> a\n: b\nAB> c\n\nMine: stays > here\n-- \nname"
    assert own_words(body).split() == ["Mine:", "stays", ">", "here"]


def test_the_difference_is_of_scales_of_ten_and_more() -> None:
    rows = [
        {
            "attention": attention,
            "encoder": encoder,
            "scale": scale,
            "accuracy": (known[place] + (1 if scale >= 10 else 50)) / 100,
            "accuracy_sd": float("nan"),
            "majority": 0.5,
        }
        for scale, known in PUBLISHED["sst"].items()
        for place, (attention, encoder) in enumerate(MODELS)
    ]
    *_, line = accuracy_blocks("sst", pd.DataFrame(rows))
    assert "1.00 points over 20 cells (largest 1.0)" in line


def test_a_part_that_is_not_there_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(AttlasError, match="there is no part 'tables'"):
        reproduce(root, tmp_path, parts=["tables"])
