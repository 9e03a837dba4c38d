"""Degenerate corpora: every study and experiment analyses them or refuses them in one line.

What is analysed is drawn as well: report, findings and tables in the terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import attlas
from attlas import catalogue
from attlas.core.annotations import DEPENDENCIES, ROOT, Dependencies
from attlas.core.text import Text
from attlas.views.findings import summarize
from attlas.views.terminal import print_table
from tests.attacks.verbs import SMALL
from tests.builders.models import shared
from tests.builders.runs import QUIET, outcome

CORPORA: dict[str, list[str]] = {
    "punctuation": ["... !!! ???", ", . !", "?", "( ) [ ] -- ;"],
    "emoji": ["😀 😀", "👍🏽", "👩‍👩‍👧 🇳🇴"],
    "letter": ["a"],
    "letters": ["a", "b", "c c", "d"],
    "numbers": ["1 2 3", "3.14", "10,000", "0"],
    "special tokens": ["[CLS] [SEP]", "[SEP]", "[PAD] [PAD]", "[MASK]"],
    "one text": ["a cat sat on a mat"],
    "equal texts": ["a cat sat"] * 12,
    "white and marks": ["\u200b\u200b", "\u202e", "\ufeff", "\u0301"],
    "unknown words": ["שלום עולם", "今日は", "हिन्दी"],
    "one good text": ["...", "a cat sat on a mat", "?"],
}


def base() -> attlas.Model:
    return shared("bert", **SMALL)


def classifier() -> attlas.Model:
    return shared("bert", "classify", **SMALL)


@cache
def short() -> attlas.Model:
    """A model that reads one token of a text, or none."""
    return attlas.load((base().network, base().tokenizer), max_length=3)


def labelled(texts: list[str], labels: str = "ab", count: int = 12) -> list[Text]:
    repeated = (texts * count)[: max(count, len(texts))]
    return [Text(str(n), text, labels[n % len(labels)]) for n, text in enumerate(repeated)]


def parsed(texts: list[str]) -> list[Text]:
    """Trees in which every word depends on the first."""
    out = []
    for number, text in enumerate(texts):
        words = tuple(text.split()) or ("x",)
        rest = len(words) - 1
        relations = ("root", *["punct"] * rest)
        tree = Dependencies((ROOT, *[0] * rest), relations, ("PUNCT",) * len(words))
        out.append(Text(str(number), words=words, annotations={DEPENDENCIES: tree}))
    return out


def related(texts: list[str]) -> list[dict[str, object]]:
    """A triple between the first and the last letter of each text."""
    out = []
    for number, text in enumerate((texts * 8)[:8]):
        ends = {"head": [0, 1], "tail": [len(text) - 1, len(text)]}
        triples = [{**ends, "relation": "rs"[number % 2]}] if len(text) > 1 else []
        out.append({"id": str(number), "text": text, "triples": triples})
    return out


def study(texts: list[str]) -> attlas.Study:
    return attlas.study(base(), texts, "all", **QUIET)


def labelled_study(texts: list[str]) -> attlas.Study:
    names = [*catalogue.measures_of("all"), "special_gradient", "head_distance", "importance"]
    return attlas.study(classifier(), labelled(texts, "01", 3), names, **QUIET)


def truncated_study(texts: list[str]) -> attlas.Study:
    return attlas.study(short(), texts, "all", **QUIET)


def explain(texts: list[str]) -> attlas.Study:
    methods = ("saliency", "rollout", "attention_all_scaled", "random")
    how = {"methods": methods, "permutations": 2, "draws": 1}
    return attlas.run(
        attlas.Explain(data=labelled(texts, count=1), model=classifier(), **how), **QUIET
    )


def topology(texts: list[str]) -> attlas.Study:
    parts = {"train": labelled(texts), "dev": labelled(texts, "ba"), "test": labelled(texts)}
    return attlas.run(attlas.Topology(**parts, model=base(), thresholds=(0.1,)), **QUIET)


def finetune(texts: list[str]) -> attlas.Study:
    return attlas.run(attlas.Finetune(texts=labelled(texts), model=base(), head_only=True), **QUIET)


def dynamics(texts: list[str]) -> attlas.Study:
    parts = {"train": labelled(texts), "dev": labelled(texts), "test": labelled(texts)}
    grid = attlas.Dynamics(**parts, scales=(1.0, 10.0), epochs=2, dim=2)
    return attlas.run(grid, workers=1, **QUIET)


def syntax(texts: list[str]) -> attlas.Study:
    trees = parsed(texts)
    return attlas.run(attlas.Syntax(train=trees, test=trees, model=base(), min_cases=1), **QUIET)


def tree(texts: list[str]) -> attlas.Study:
    trees = parsed(texts)
    return attlas.run(attlas.Tree(train=trees, test=trees, model=base()), **QUIET)


def relations(texts: list[str]) -> attlas.Study:
    rows = related(texts)
    return attlas.run(attlas.FitRelations(train=rows, dev=rows, model=base()), **QUIET)


def coreference(texts: list[str]) -> attlas.Study:
    path = Path("documents.conllu")
    lines = ["# newdoc id = d", "# global.Entity = GRP-etype"]
    for text in texts:
        lines.append(f"# text = {text}")
        for number, word in enumerate(text.split() or ["x"], 1):
            lines.append(f"{number}\t{word}\t{word}\tPUNCT\t_\t_\t0\troot\t_\tEntity=(1-x)")
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return attlas.run(attlas.Coreference(train=path, test=path, model=base()), **QUIET)


RUNS: dict[str, Callable[[list[str]], attlas.Study]] = {
    one.__name__: one
    for one in (
        study,
        labelled_study,
        truncated_study,
        explain,
        topology,
        finetune,
        dynamics,
        syntax,
        tree,
        relations,
        coreference,
    )
}
QUICK = (("study", "special tokens"), ("study", "punctuation"), ("truncated_study", "letters"))


def cases() -> list[object]:
    return [
        pytest.param(run, name, marks=[] if (run, name) in QUICK else [pytest.mark.attack])
        for run in RUNS
        for name in CORPORA
    ]


@pytest.mark.parametrize(("run", "name"), cases())
def test_degenerate_texts_are_analysed_or_refused(
    run: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = outcome(lambda: RUNS[run](CORPORA[name]))
    if done is not None:
        assert done.report(tmp_path / "page.html").is_file()
        for table in summarize(done, catalogue.sections()).tables:
            print_table(table)


@pytest.mark.attack
@pytest.mark.parametrize("run", [topology, finetune, dynamics], ids=lambda one: one.__name__)
def test_one_label_is_analysed_or_refused(
    run: Callable[[list[str]], attlas.Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.attacks.test_degenerate.labelled", lambda texts, *_: _one(texts))
    done = outcome(lambda: run(["a cat", "a good film", "the dog sat"] * 4))
    if done is not None:
        done.report(tmp_path / "page.html")


def _one(texts: list[str]) -> list[Text]:
    return [Text(str(n), f"{text} {n}", "only") for n, text in enumerate(texts)]
