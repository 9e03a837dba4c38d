"""Every measure and experiment says what it computes and whom it follows; a result cites them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from attlas.catalogue import MEASURES, SUBJECTS, methods_of, subjects
from attlas.cli.entry import app
from attlas.studies.opened import Study
from attlas.views.methods import Method, bibliography, citation, methods_text
from tests.builders.studies import FOLDERS, OLD

EXPERIMENTS = {
    name: subject.experiment(name)
    for subject in subjects()
    if subject.package in SUBJECTS
    for name in subject.experiments
}
OF_NO_PAPER = {
    "compare",
    "position_bias",
    "finetune",
    "examples",
    "targets",
    "groups",
}  # of our own, or common practice


@pytest.mark.parametrize("thing", [*map(MEASURES.get, MEASURES), *EXPERIMENTS.values()])
def test_every_measure_and_experiment_has_a_clause_and_known_papers(thing: Any) -> None:
    assert re.fullmatch(r"[^A-Z].{30,}[^.?\s]", thing.clause)
    assert set(thing.references) <= set(bibliography())
    assert bool(thing.references) != (thing.name in OF_NO_PAPER)


def test_every_paper_is_cited_and_has_its_facts() -> None:
    things = [*map(MEASURES.get, MEASURES), *EXPERIMENTS.values()]
    cited = {key for thing in things for key in thing.references}
    assert set(bibliography()) - cited == {"benjamini1995", "benjamini2005"}
    for key, entry in bibliography().items():
        for field in ("author", "title", "year"):
            assert re.search(rf"^  {field} = \{{.+\}},?$", entry, re.MULTILINE), key
        assert re.search(r"^  (booktitle|journal|howpublished) = \{.+\},$", entry, re.MULTILINE)
        assert entry.count("{") == entry.count("}")
        assert re.fullmatch(r"[A-Z]\w+.* \d{4}", citation(key))
        assert key.endswith(citation(key)[-4:])


@pytest.mark.parametrize("name", FOLDERS)
def test_results_of_every_experiment_have_methods(name: str) -> None:
    study = Study.open(OLD / name)
    text = study.methods()
    paragraph, *entries = text.split("\n\n")
    keys = re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE)
    assert len(entries) == len(keys) == len(set(keys))
    for key in keys:
        assert citation(key) in paragraph
    assert study.manifest["corpus"]["name"] in paragraph
    assert "Attlas 0.1.0" in paragraph
    assert "random seed 0" in paragraph


def manifest(**more: Any) -> dict[str, Any]:
    model = {"name": "bert", "class": "BertModel", "task": "mlm", "n_layers": 2, "n_heads": 4}
    return {
        "kind": "study",
        "model": model,
        "corpus": {"name": "reviews.csv"},
        "measures": {"entropy": "Entropy()"},
        "counts": {"read": 1205, "analysed": 1200, "tokens": 9, "truncated": 1, "quarantined": 5},
        "tables": {"entropy": {}},
        "versions": {"attlas": "1", "torch": "2", "transformers": "3", "numpy": "4"},
        "seed": 7,
        **more,
    }


def test_a_paragraph_says_what_was_done() -> None:
    text = methods_text(manifest(), methods_of(manifest()))
    paragraph = text.partition("\n")[0]
    assert paragraph.startswith(
        "We analysed the attention of bert (BertModel, masked language model, 2 layers × 4 heads). "
        "The corpus is reviews.csv: 1,200 of 1,205 texts were analysed (9 tokens), 1 was truncated "
        "and 5 were excluded. The measure is (1) entropy: the mean entropy in nats"
    )
    assert paragraph.endswith("Computed with Attlas 1, transformers 3 and torch 2; random seed 7.")


def test_a_measure_of_another_package_is_named() -> None:
    theirs = manifest(measures={"mine": "Mine(k=3)"}, tables={})
    assert methods_of(theirs) == [Method("mine", "the measure Mine(k=3)")]
    text = methods_text(theirs, methods_of(theirs))
    assert "mine: the measure Mine(k=3)." in text
    assert "@" not in text


def test_the_command_prints_methods(capsys: pytest.CaptureFixture[str]) -> None:
    app(["report", str(OLD / "syntax"), "--methods"], standalone_mode=False)
    assert capsys.readouterr().out == Study.open(OLD / "syntax").methods()
