"""A verb and its Python twin are one thing: the laws of verbs, on every verb of the catalogue."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import attlas
from attlas.catalogue import TAKEN, subjects
from attlas.corpora.sources import embedded_file
from attlas.testing import VerbCase, tiny, verb_checks
from attlas.testing.verbs import CommandResult, commands

TEXTS = (
    "a cat sat on a mat",
    "it was a good film",
    "the dog saw it",
    "a very bad film",
    "not a good dog",
)


def folder_of_models(folder: Path) -> None:
    tiny("bert").save(folder / "m")
    tiny("bert", "classify", num_hidden_layers=1).save(folder / "classifier")
    (folder / "a.txt").write_text("\n".join(TEXTS[:2]))
    labelled = [
        {"text": f"{TEXTS[n % 5]} {'very ' * (n % 7)}", "label": "ab"[n % 2]} for n in range(30)
    ]
    (folder / "labelled.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled))

    rows = embedded_file("relations").read_text().splitlines(keepends=True)
    (folder / "triples.jsonl").write_text("".join(rows[:16]))
    (folder / "more.jsonl").write_text("".join(rows[16:24]))


def folder_of_extractor(folder: Path) -> None:
    folder_of_models(folder)
    files = {"train": folder / "triples.jsonl", "dev": folder / "more.jsonl", "model": folder / "m"}
    attlas.run(attlas.FitRelations(**files), folder / "extractor", progress=False)


def folder_of_studies(folder: Path) -> None:
    folder_of_models(folder)
    attlas.study(folder / "m", TEXTS, "entropy", folder / "one", progress=False)
    attlas.study(tiny("bert", seed=1), TEXTS, "entropy", folder / "other", progress=False)


TREES, SEED = "embedded:sentences", {"seed": -1}
KEYS = {
    name: frozenset(keys)
    for name, keys in json.loads((Path(__file__).parent / "keys.json").read_text()).items()
}


def case(
    verb: str, experiment: type[attlas.Experiment], wrong: dict[str, object], **options: object
) -> VerbCase:
    prepare = folder_of_extractor if "extractor" in options else folder_of_models
    prepare = folder_of_studies if "studies" in options else prepare
    return VerbCase(verb, experiment, options, prepare, KEYS[verb], wrong)


CASES = {
    one.verb: one
    for one in (
        case("probe syntax", attlas.Syntax, SEED, train=TREES, model="m", min_cases=10),
        case("probe tree", attlas.Tree, SEED, train=TREES, model="m"),
        case("probe coreference", attlas.Coreference, SEED, train=TREES, model="m"),
        case(
            "explain",
            attlas.Explain,
            {"faithfulness": "burn"},
            data="a.txt",
            model="classifier",
            methods=("saliency", "rollout"),
            draws=1,
        ),
        case("compare", attlas.Compare, {"texts": 2}, studies=["one", "other"]),
        case("lengthen", attlas.Lengthen, {"window": 7}, model="m", length=600, window=16),
        case(
            "topology",
            attlas.Topology,
            SEED,
            train="labelled.jsonl",
            test="labelled.jsonl",
            model="classifier",
            thresholds=(0.1, 0.25),
        ),
        case(
            "finetune",
            attlas.Finetune,
            {"epochs": 0},
            texts="labelled.jsonl",
            model="m",
            head_only=True,
        ),
        case(
            "dynamics",
            attlas.Dynamics,
            SEED,
            train="synthetic:texts=60",
            model="m",
            encoders=("model",),
            epochs=1,
        ),
        case(
            "relations fit",
            attlas.FitRelations,
            SEED,
            train="triples.jsonl",
            dev="more.jsonl",
            model="m",
        ),
        case(
            "relations score",
            attlas.ScoreRelations,
            {},
            extractor="extractor",
            test="more.jsonl",
            model="m",
        ),
    )
}


def test_every_verb_of_the_catalogue_has_a_case() -> None:
    """A verb that was added without a case here fails."""
    verbs = {
        verb: subject.experiment(name)
        for subject in subjects()
        for verb, name in subject.verbs.items()
    }
    assert {verb: one.experiment for verb, one in CASES.items()} == verbs


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{verb}-{law}")
        for verb, one in CASES.items()
        for law, check in verb_checks(one)
    ],
)
def test_laws(check: Callable[[], None]) -> None:
    check()


GROUPS = {verb.split()[0] for verb in [*TAKEN, *CASES] if " " in verb}
OTHERS = ("", *TAKEN, *sorted(GROUPS))


@pytest.fixture(scope="module")
def helps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CommandResult]:
    """The help of all of them, by one process."""
    lines = [[*verb.split(), "--help"] for verb in OTHERS]
    return dict(zip(OTHERS, commands(tmp_path_factory.mktemp("help"), *lines), strict=True))


@pytest.mark.parametrize("verb", OTHERS)
def test_help_of_the_others_is_light_too(verb: str, helps: dict[str, CommandResult]) -> None:
    output = helps[verb]
    assert output.code == 0, output.error
    assert output.out
    assert not output.heavy


def test_no_verb_is_missing(helps: dict[str, CommandResult]) -> None:
    """Every verb of the command line is one of the catalogue or one of its own."""
    listed = helps[""].out.partition("Commands:")[2]
    verbs = {verb.split()[0] for verb in [*TAKEN, *CASES]}
    assert set(re.findall(r"^  ([a-z]+)  ", listed, re.MULTILINE)) == verbs
