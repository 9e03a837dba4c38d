"""Every field of every input counts: a change of any gives another identity. Nothing is run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attlas
from attlas.catalogue import subjects
from attlas.core.annotations import COREFERENCE, Coreference, Mention
from attlas.core.text import Text
from attlas.experiments.experiment import Experiment
from attlas.measures.entropy import Entropy
from attlas.relations.candidates import related_texts
from attlas.relations.extractor import RelationExtractor
from attlas.studies.folder import Folder
from attlas.support.errors import AttlasError
from attlas.support.fingerprint import fingerprint
from attlas.support.options import TEXTS, Given, Opening, declared
from attlas.testing import tiny
from tests.builders.changes import CHANGES, changed_texts
from tests.builders.models import shared
from tests.contracts import cases as contracts

# what says how a thing is run or opened, not what it is made from
HOW = {
    "out",
    "engine",
    "workers",
    "fresh",
    "progress",
    "log",
    "keep_states",
    "cache",
    "text",
    "label",
    "long",
    "bad",
    "options",
    "allow_pickle",
    "global_tokens",
    "device",
    "dtype",
    "lens",
}


ALIKE = {"model_a": "model_b"}  # inputs that are treated alike, so that one of them is changed


class Known(Exception):  # noqa: N818
    """The identity of a result, before anything is run."""


@pytest.fixture(scope="module")
def made() -> None:
    """What inputs are made of: an extractor, and studies to compare."""
    contracts.extractor()
    contracts.studied()


@pytest.fixture
def identity(
    made: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Mapping[str, str]]:
    """The identity that a call would have."""

    @contextmanager
    def claim(
        self: Folder, identity: Mapping[str, str], *_: object, **__: object
    ) -> Iterator[None]:
        raise Known(identity)
        yield

    monkeypatch.setattr(Folder, "claim", claim)

    def of(function: Callable[..., object], **inputs: Any) -> Mapping[str, str]:
        with pytest.raises(Known) as known:
            function(**inputs, progress=False)
        found: Mapping[str, str] = known.value.args[0]
        assert "source" in found
        assert all(len(value) == 64 for value in found.values())
        return found

    return of


@cache
def labelled() -> tuple[Text, ...]:
    words = [
        "the",
        "cat",
        "sat",
        "on",
        "a",
        "mat",
        "and",
        "the",
        "dog",
        "saw",
        "it",
        "was",
        "very",
        "good",
    ]
    rows = [" ".join(np.random.default_rng(number).choice(words, 8)) for number in range(40)]
    return tuple(Text(str(number), row, str(number % 2)) for number, row in enumerate(rows))


@cache
def trees() -> tuple[Text, ...]:
    return tuple(attlas.read("embedded:sentences"))[:12]


@cache
def triples() -> tuple[Text, ...]:
    return tuple(related_texts("embedded:relations"))[:24]


@cache
def chains() -> tuple[Text, ...]:
    words = ("the", "cat", "saw", "a", "dog", "and", "it", "sat", "on", "the", "mat")
    mentions = (Mention(0, 2, 1, "a", "common"), Mention(6, 7, 6, "a", "pronoun"))
    return tuple(
        Text(str(n), words=words, annotations={COREFERENCE: Coreference(mentions)})
        for n in range(4)
    )


def bert() -> attlas.Model:
    return shared("bert")


def classifier() -> attlas.Model:
    return shared("bert", "classify")


@dataclass(frozen=True)
class Case:
    """A function with its inputs, and another valid value for each of its options."""

    function: Callable[..., Any]
    inputs: Callable[[], dict[str, Any]]
    changes: Mapping[str, Any]
    texts: Sequence[str]
    models: Sequence[str] = ("model",)
    more: Sequence[str] = ()  # options that go to something behind it
    without: Sequence[str] = ()  # options that these inputs do not have

    @property
    def kind(self) -> type[Experiment] | None:
        """The experiment behind the function; a study has none."""
        return getattr(self.function, "kind", None)

    def options(self) -> set[str]:
        left_out = {*HOW, *self.without, *ALIKE.values()}
        return {*inspect.signature(self.function).parameters, *self.more} - left_out


def runs(kind: type[Experiment]) -> Callable[..., object]:
    """An experiment as a function of its inputs and options."""

    def function(**values: Any) -> object:
        return attlas.run(
            kind(**{name: values.pop(name) for name in declared(kind) if name in values}),
            "x",
            **values,
        )

    names = [name for name, about in declared(kind).items() if not isinstance(about, Opening)]
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.kind = kind  # type: ignore[attr-defined]
    return function


CASES = {
    "study": Case(
        attlas.study,
        lambda: {"model": bert(), "texts": list(labelled()), "measures": "surface"},
        {"measures": ["entropy"], "seed": 1, "by": "label", "until": 0.1},
        ["texts"],
    ),
    "explain": Case(
        runs(attlas.Explain),
        lambda: {
            "model": classifier(),
            "data": list(labelled()),
            "methods": ["integrated_gradients", "attention_last"],
        },
        {
            "methods": ["integrated_gradients", "rollout"],
            "importance": np.ones((3, 4)),
            "target": 1,
            "of": "logit",
            "baseline": "zero",
            "at": "words",
            "tolerance": 0.5,
            "max_evaluations": 100,
            "keep": ["all"],
            "p": 0.8,
            "top": 0.1,
            "permutations": 3,
            "faithfulness": ["mask"],
            "bins": [0.5],
            "draws": 2,
            "share": 0.3,
            "seed": 1,
        },
        ["data"],
        without=["position"],  # the place of a prediction: language models only
    ),
    "lengthen": Case(
        runs(attlas.Lengthen),
        lambda: {"model": bert(), "length": 600, "window": 8},
        {"length": 700, "window": 16, "skip": 1},
        [],
    ),
    "syntax": Case(
        runs(attlas.Syntax),
        lambda: {"model": bert(), "train": list(trees()[:8]), "test": list(trees()[8:])},
        {"min_cases": 7, "seed": 1},
        ["train", "test"],
    ),
    "tree": Case(
        runs(attlas.Tree),
        lambda: {"model": bert(), "train": list(trees()[:8]), "test": list(trees()[8:])},
        {"vectors": "vectors.txt", "convention": "published", "seed": 1},
        ["train", "test"],
    ),
    "coreference": Case(
        runs(attlas.Coreference),
        lambda: {"model": bert(), "train": list(chains()[:2]), "test": list(chains()[2:])},
        {"tokens": 64, "seed": 1},
        ["train", "test"],
    ),
    "relations": Case(
        runs(attlas.FitRelations),
        lambda: {"model": bert(), "train": list(triples()[:16]), "dev": list(triples()[16:])},
        {
            "names": "names.json",
            "convention": "published",
            "directions": ["h-t"],
            "parser": "spacy",
            "interpret": True,
            "seed": 1,
        },
        ["train", "dev"],
        more=[
            name
            for name in declared(attlas.FitRelations)
            if name not in ("max_length", "allow_pickle", "device", "dtype", "lens")
        ],
    ),
    "topology": Case(
        runs(attlas.Topology),
        lambda: {
            "model": classifier(),
            "train": list(labelled()[:20]),
            "dev": list(labelled()[20:30]),
            "test": list(labelled()[30:]),
            "frozen": bert(),
        },
        {"features": ["templates"], "thresholds": (0.1, 0.2), "controls": False, "seed": 1},
        ["train", "dev", "test"],
        ["model", "frozen"],
    ),
    "dynamics": Case(
        runs(attlas.Dynamics),
        lambda: {
            "train": list(labelled()[:20]),
            "dev": list(labelled()[20:30]),
            "test": list(labelled()[30:]),
            "encoders": ["none", "vectors", "model"],
            "vectors": {"cat": [1.0, 2.0], "dog": [2.0, 3.0]},
            "model": bert(),
        },
        {
            "scales": [1.0],
            "encoders": ["none"],
            "attention": ["additive"],
            "models": ["dot+none"],
            "seeds": 2,
            "seed": 1,
            "vectors": {"dog": [1.0, 2.0], "cat": [2.0, 3.0]},
            "tokenize": "blanks",
            "by_encoder": ["none.epochs=3"],
            "dim": 7,
            "dropout": 0.1,
            "l2": 0.2,
            "vw_penalty": 0.1,
            "optimizer": "sgd",
            "learning_rate": 0.5,
            "lr_decay": 0.5,
            "epochs": 3,
            "batch_size": 7,
            "patience": 2,
            "init": 0.5,
            "min_count": 2,
            "record": 5,
            "rule": "paper",
        },
        ["train", "dev", "test"],
    ),
    "finetune": Case(
        runs(attlas.Finetune),
        lambda: {
            "texts": list(labelled()[:30]),
            "dev": list(labelled()[30:]),
            "model": classifier(),
            "hold_out": 0.2,
        },
        {
            "epochs": 2,
            "batch_size": 7,
            "learning_rate": 1e-3,
            "patience": 3,
            "max_length": 12,
            "hold_out": 0.3,
            "head_only": True,
            "seed": 1,
        },
        ["texts", "dev"],
    ),
    "groups": Case(
        runs(attlas.Groups),
        lambda: {"data": list(labelled()), "model": classifier()},
        {"by": "prediction", "measures": [Entropy()], "long": "error", "seed": 1},
        ["data"],
    ),
    "compare": Case(
        runs(attlas.Compare),
        lambda: {
            "studies": contracts.studied(),
            "match": True,
            "model_a": contracts.model(),
            "model_b": contracts.model(1),
            "texts": 8,
        },
        {
            "studies": [contracts.STUDIED[2], contracts.STUDIED[1]],
            "seed_study": contracts.STUDIED[1],
            "series": True,
            "match": False,
            "texts": 9,
        },
        [],
        ["model_a"],
    ),
    "score": Case(
        runs(attlas.ScoreRelations),
        lambda: {
            "extractor": contracts.extractor(),
            "test": list(contracts.triples()[10:]),
            "model": contracts.model(),
        },
        {"extractor": str(Path(contracts.HOME.name) / "other")},
        ["test"],
    ),
}


def test_every_input_of_every_experiment_is_changed() -> None:
    """An experiment, or an input of one, that was added without a case here fails."""
    cases = {case.kind: case for case in CASES.values() if case.kind is not None}
    kinds = (subject.experiment(name) for subject in subjects() for name in subject.experiments)
    assert set(cases) == set(kinds)
    for kind, case in cases.items():
        inputs = {name: one for name, one in declared(kind).items() if isinstance(one, Given)}
        changed = {*case.texts, *case.models, *(ALIKE[one] for one in case.models if one in ALIKE)}
        assert {name for name, one in inputs.items() if one.of == TEXTS} <= {*case.texts}
        assert set(inputs) <= changed | set(case.changes), kind


@pytest.mark.parametrize("verb", CASES)
def test_every_option_counts(verb: str, identity: Callable[..., Mapping[str, str]]) -> None:
    case = CASES[verb]
    Path("vectors.txt").write_text("cat 1 2\ndog 3 5\n")
    Path("names.json").write_text('{"P31": "instance of"}')
    inputs = case.inputs()
    before = identity(case.function, **inputs)
    undeclared = case.options() - {*case.changes, *case.texts, *case.models}
    assert not undeclared, "an option without a case here"
    for name, value in case.changes.items():
        assert identity(case.function, **{**inputs, name: value}) != before, name


@pytest.mark.parametrize("verb", CASES)
def test_every_field_of_every_text_counts(
    verb: str, identity: Callable[..., Mapping[str, str]]
) -> None:
    case = CASES[verb]
    inputs = case.inputs()
    before = identity(case.function, **inputs)
    for name in case.texts:
        given = inputs[name]
        for what, text in changed_texts(given[-1]).items():
            try:
                after = identity(case.function, **{**inputs, name: [*given[:-1], text]})
            except AttlasError:
                continue  # a text that cannot be used is refused, which is no stale result
            assert after != before, f"{name}: {what}"
        assert identity(case.function, **{**inputs, name: [*given[1:], given[0]]}) != before, (
            f"{name}: order"
        )
        moved = [
            replace(one, annotations={**one.annotations, "where": "elsewhere"}) for one in given
        ]
        assert identity(case.function, **{**inputs, name: moved}) == before, (
            f"{name}: where it was read"
        )


@pytest.mark.parametrize("verb", CASES)
def test_every_part_of_every_model_counts(
    verb: str, identity: Callable[..., Mapping[str, str]]
) -> None:
    case = CASES[verb]
    inputs = case.inputs()
    before = identity(case.function, **inputs)
    for name in case.models:
        task = "classify" if inputs[name] is classifier() else "base"
        for what, (_, change) in CHANGES.items():
            if what in ("global tokens", "a buffer", "dtype") or (
                what == "the task" and task == "classify"
            ):
                continue  # of Longformers; tested of models by themselves
            model = tiny("bert", task)
            assert identity(case.function, **{**inputs, name: model}) == before, (
                "the same model, made again"
            )
            model = change(model) or model
            try:
                after = identity(case.function, **{**inputs, name: model})
            except AttlasError:
                continue  # a model that is not that of a study is refused, which is no stale result
            assert after != before, f"{name}: {what}"


def test_every_part_of_an_extractor_counts(
    tmp_path: Path, identity: Callable[..., Mapping[str, str]]
) -> None:
    """What `relations score` reads: both files of an extractor, and the texts."""
    fitted = RelationExtractor(bert(), progress=False).fit(list(triples()[:16]))
    about = {
        "controls": [],
        "vocabulary": {},
        "held_out": [],
        "names": {"a": "b"},
        "seed": 0,
        "classes": [],
        "learnt": [],
        "tuned": [],
    }
    fitted.save(tmp_path / "a", {}, about)
    fitted.save(tmp_path / "b", {}, {**about, "names": {"a": "c"}})
    inputs = {"test": list(triples()[16:]), "model": bert()}
    score = runs(attlas.ScoreRelations)
    before = identity(score, extractor=tmp_path / "a", **inputs)
    assert identity(score, extractor=tmp_path / "b", **inputs) != before
    assert (
        identity(score, extractor=tmp_path / "a", **{**inputs, "test": list(triples()[15:])})
        != before
    )


def test_the_same_content_has_the_same_identity_whatever_it_is_called(
    tmp_path: Path, identity: Callable[..., Mapping[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "text,label\n" + "".join(f"{one.text},{one.label}\n" for one in labelled())
    (tmp_path / "a.csv").write_text(rows)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.csv").write_text(rows)
    bert().save(tmp_path / "m")
    bert().save(tmp_path / "deep" / "n")
    found = [
        identity(
            attlas.study,
            model=tmp_path / "m",
            texts=tmp_path / "a.csv",
            measures="entropy",
            label="label",
        )
    ]
    monkeypatch.chdir(tmp_path / "deep")
    for model in (
        "n",
        "../m",
        attlas.load("n"),
        (attlas.load("n").network, attlas.load("n").tokenizer),
    ):
        found.append(
            identity(attlas.study, model=model, texts="b.csv", measures=["entropy"], label="label")
        )
    found.append(
        identity(
            attlas.study,
            model="n",
            texts=attlas.read("../a.csv", label="label"),
            measures=["entropy"],
        )
    )
    assert all(one == found[0] for one in found)
    assert fingerprint(found[0])
