"""The reproduction of Clark et al. 2019 and of what followed it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attlas import Text
from attlas.core.annotations import (
    COREFERENCE,
    ROOT,
)
from tests.builders.probes import (
    PLAIN,
    as_conllu,
    plain,
    refuse,
    rigged,
    sentence,
    stories,
    treebank,
)
from tests.builders.processes import CommandOutput

# the paper


def litbank(count: int) -> str:
    """Novels of one sentence each."""
    marks = {0: "(1)", 2: "(2", 3: "2)", 5: "(1)"}
    lines = []
    for number in range(count):
        words = f"Anna saw the dog and she was good{number}".split()
        lines.append(f"#begin document (book{number}); part 0")
        for position, word in enumerate(words):
            mark = marks.get(position, "_")
            row = [f"book{number}", "0", str(position), word, *["_"] * 8, mark]
            lines.append("\t".join(row))
        lines += ["", "#end document"]
    return "\n".join(lines) + "\n"


def gap(part: str, count: int) -> str:
    """Pronouns of GAP, of which every other one is that of the first name."""
    columns = [
        "ID",
        "Text",
        "Pronoun",
        "Pronoun-offset",
        "A",
        "A-offset",
        "A-coref",
        "B",
        "B-offset",
        "B-coref",
        "URL",
    ]
    rows = [columns]
    for number in range(count):
        text = f"Anna saw Mary and she was good {part} {number}"
        first = number % 2 == 0
        a = ["Anna", "0", str(first).upper()]
        b = ["Mary", str(text.index("Mary")), str(not first).upper()]
        pronoun = ["she", str(text.index("she"))]
        rows.append([f"{part}-{number}", text, *pronoun, *a, *b, "http://example.org"])
    return "\n".join("\t".join(row) for row in rows) + "\n"


def write_paper(root: Path) -> None:
    """Treebanks, LitBank, GAP and GloVe in their real formats, as small as can be."""
    bank = [
        sentence(
            n,
            ["the", "cat", "saw", "a", "dog", "on", "the", "mat", "."],
            [1, 2, ROOT, 4, 2, 7, 7, 2, 2],
            ["det", "nsubj", "root", "det", "obj", "case", "det", "obl", "punct"],
        )
        for n in range(36)
    ]
    rng = np.random.default_rng(0)
    files = {}
    for part, shift in (("train", 0), ("dev", 7)):
        files[f"ud_ewt/en_ewt-ud-{part}.conllu"] = as_conllu(bank + treebank(30, shift))
        both = [
            Text(
                one.id,
                words=one.words,
                annotations={
                    **one.annotations,
                    COREFERENCE: stories(1)[0].annotations[COREFERENCE],
                },
            )
            for one in [
                sentence(
                    f"d{n}",
                    stories(1, shift + n)[0].words or (),
                    [ROOT, *[0] * 16],
                    ["root", *["dep"] * 16],
                )
                for n in range(6)
            ]
        ]
        files[f"ud_gum/en_gum-ud-{part}.conllu"] = as_conllu(bank + both)
    files["litbank/coref_shared.conll"] = litbank(5)
    for part in ("development", "validation"):
        files[f"gap/gap-{part}.tsv"] = gap(part, 6)
    files["glove50/glove.6B.50d.top20k.txt"] = "".join(
        f"{word} {' '.join(f'{value:.3f}' for value in rng.normal(size=50))}\n"
        for word in (*PLAIN, "cat", ".")
    )
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


@pytest.mark.slow
def test_reproduce_bert(
    inside: Callable[..., CommandOutput],
    tmp_path: Path,
    small_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.builders.pages import drawn_before

    write_paper(tmp_path / "data")
    monkeypatch.setattr("attlas.papers.bert.SEGMENTS", 40)
    monkeypatch.setattr("attlas.papers.bert.RANDOM_SEGMENTS", 10)
    command = ["reproduce", "bert", "--data-root", "data", "--model", small_folder, "--out", "out"]
    output = inside(*command)
    assert output.code == 0, output.error
    out = tmp_path / "out"
    table = (out / "bert.md").read_text()
    assert table.strip() in output.out
    assert "nan" not in table
    for line in (
        "### Table 1: relations, UD English-EWT",
        "### Table 1: relations, UD English-GUM",
        "### Table 3: probes",
        "### Table 2: antecedents, GUM",
        "### Table 2: antecedents, LitBank",
        "### Table 2: antecedents, GAP",
        "### Figures 2 to 4 and 6:",
    ):
        assert line in table, line
    for row in (
        r"\| \**det\** \| L0.H\d \| .* \| det \| 94.3 \| 51.7 \|",
        r"\| rules \| .* \| 69, 70, 77, 60 \|",
        r"\| nearest mention \| .* \| 27, 29, 29, 19 \|",
        r"\| attention and words \| 77 \| ",
        r"\| the next word \| 26 \| ",
        r"\| distances and words \| 58 \| ",
        r"Mean of heads by layer, `special_gradient`",
    ):
        assert re.search(row, table), row
    pictures = {path.name for path in out.glob("*.png")}
    assert pictures >= {
        "table1-ud_ewt.png",
        "table1-ud_gum.png",
        "table2-ud_gum.png",
        "table2-litbank.png",
        "table2-gap.png",
        "table3.png",
        "figure2-surface.png",
        "figure3-gradient.png",
        "figure4-entropy.png",
        "figure6-map.png",
    }
    for name in pictures:
        assert (out / name).read_bytes().startswith(b"\x89PNG")
        assert f"out/{name}" in output.out
    for name in (
        "attlas.experiments.probe.study",
        "attlas.tree.work.read_word_attention",
        "attlas.studies.run.ShardJob",
    ):
        monkeypatch.setattr(name, refuse)
    monkeypatch.setattr("attlas.views.charts.export", drawn_before(out))
    again = inside(*command, "--json")
    assert again.code == 0, again.error
    assert {path.name for path in out.glob("*.png")} == pictures
    assert (out / "bert.md").read_text() == table
    content = json.loads(again.out)
    assert content == json.loads((out / "bert.json").read_text())
    plain(content)
    assert set(content["ours"]) == {
        "syntax ud_ewt",
        "syntax ud_gum",
        "coreference ud_gum",
        "coreference litbank",
        "coreference gap",
        "tree own",
        "tree glove",
        "tree published",
        "figures",
    }
    some = inside(*command, "--parts", "tree", "--json")
    assert json.loads(some.out) == content, "the parts of earlier runs stay"
    for wrong, message in (
        (
            ["--parts", "table9"],
            "there is no part 'table9'; they are figures, syntax, coreference, tree",
        ),
        (["--data-root", "nowhere"], "there is no folder nowhere"),
    ):
        refused = inside(*command, *wrong)
        assert (refused.code, refused.out, refused.error.count("\n")) == (2, "", 1)
        assert message in refused.error


def test_segments_of_the_paper_are_no_longer_than_it_says(tmp_path: Path) -> None:
    from attlas.papers.bert import _Run
    from attlas.papers.parts import Reproduction

    write_paper(tmp_path)
    path = tmp_path / "ud_ewt/en_ewt-ud-train.conllu"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("# newdoc")]
    path.write_text("\n".join(["# newdoc id = long", *lines]) + "\n")  # all in one document
    model = rigged()
    segments = _Run(root=tmp_path, reproduction=Reproduction("", (), {}), model=model).segments()
    lengths = [
        len(encoded) + encoded.truncated_by for encoded in model.encode(list(enumerate(segments)))
    ]
    assert len(lengths) > 3
    assert max(lengths) <= 128
    assert sum(len(one.words or ()) for one in segments) == sum(
        line[:1].isdigit() for line in lines
    )
