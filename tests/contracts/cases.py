"""A small instance of every experiment, and another value for each of its fields."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import attlas
from attlas.core.text import Text
from attlas.experiments.run import run
from attlas.measures.entropy import Entropy
from attlas.measures.surface import Surface
from attlas.testing import Case, tiny
from tests.builders.models import shared
from tests.experiments import toy as toy_package
from tests.experiments.toy.experiment import Toy, ToyGrid

TOY = Path(toy_package.__file__).parent
EMPTY = {"text": " ", "label": "a"}  # is quarantined
TEXTS = ("the cat sat on the mat", "the dog saw it", "a very good film", "a film not bad")


def model(seed: int = 0) -> attlas.Model:
    return shared("bert", seed=seed)


def classifier(seed: int = 0) -> attlas.Model:
    return shared("bert", "classify", seed=seed)


@cache
def trees() -> tuple[Text, ...]:
    return tuple(attlas.read("embedded:sentences"))[:14]


@cache
def documents() -> tuple[Text, ...]:
    from attlas.corpora.annotated import documents

    return tuple(documents("embedded:sentences"))[:4]


def rated() -> list[Text]:
    return [Text(str(number), TEXTS[number % 4], "ab"[number % 4 > 1]) for number in range(12)]


@cache
def labelled() -> tuple[Text, ...]:
    words = ("good cat", "bad dog", "good film", "bad mat")
    return tuple(Text(str(n), f"a {words[n % 4]} {'very ' * n}", "ab"[n % 2]) for n in range(30))


def head(seed: int = 0) -> attlas.Model:
    return shared("bert", "classify", seed, num_hidden_layers=1)


def topology(**options: object) -> attlas.Topology:
    parts = {
        "train": list(labelled()[:12]),
        "dev": list(labelled()[12:20]),
        "test": list(labelled()[20:]),
    }
    return attlas.Topology(**{**parts, "model": head(), "thresholds": (0.1,), **options})  # type: ignore[arg-type]


@cache
def triples() -> tuple[Text, ...]:
    """Sentences of one triple each, of two relations."""
    from attlas.relations.candidates import related_texts

    names = ("Ann", "Ben", "Eve", "Tom", "Kim", "Sam", "Lea", "Ida")
    rows = []
    for number, (head, tail) in enumerate(zip(names * 2, names[3:] * 3, strict=False)):
        words, relation = (("taught", "teacher"), ("hired", "boss"))[number % 2]
        triple = {"head": head, "tail": tail, "relation": relation, "relation_words": words}
        rows.append(
            {"text": f"In May {head} {words} {tail} before the old town fell.", "triples": [triple]}
        )
    return tuple(related_texts(rows))


HOME = tempfile.TemporaryDirectory(
    prefix="attlas-"
)  # of an extractor, made when it is first needed


@cache
def extractor() -> str:
    """The folder of a fitted extractor; next to it is `other`, with another name of a relation."""
    place = Path(HOME.name) / "fitted"
    fit = attlas.FitRelations(train=list(triples()[:8]), dev=list(triples()[8:12]), model=model())
    run(fit, place, workers=1, progress=False)
    other = shutil.copytree(place / "files/extractor", Path(HOME.name) / "other") / "extractor.json"
    other.write_text(json.dumps({**json.loads(other.read_text()), "names": {"boss": "employer"}}))
    return str(place)


def toy(**options: object) -> Toy:
    return Toy(**{"texts": list(TEXTS), "model": model(), **options})  # type: ignore[arg-type]


@cache
def reviews() -> tuple[Text, ...]:
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "the", "dog", "it", "was", "very"]
    rows = [" ".join([*words[n % 7 :], ("good", "bad")[n % 2]]) for n in range(40)]
    return tuple(Text(str(n), row, ("up", "down")[n % 2]) for n, row in enumerate(rows))


STUDIED = [str(Path(HOME.name) / name) for name in ("first", "second", "surface")]


@cache
def studied() -> list[str]:
    """The folders of studies of two models, and of one with fewer tables."""
    texts = [f"{TEXTS[n % 4]} {n}" for n in range(10)]
    for folder, seed, measures in zip(
        STUDIED, (0, 1, 0), ("surface,entropy", "surface,entropy", "surface"), strict=True
    ):
        attlas.study(model(seed), texts, measures, folder, workers=1, progress=False)
    return STUDIED[:2]


CASES = {
    "toy": Case(
        toy,
        {
            "texts": [*TEXTS, "one more"],
            "model": model(1),
            "names": str(TOY / "names.txt"),
            "other": model(1),
            "scales": (1, 5),
            "case": "as written",
            "draws": 4,
            "controls": False,
            "seed": 1,
        },
        {"scales": (0,), "case": "upper", "draws": 0, "seed": -1, "max_length": 2},
    ),
    "grid": Case(
        lambda: ToyGrid(texts=list(TEXTS)),
        {"texts": list(TEXTS[1:]), "sizes": (1, 2), "seed": 1},
        {"sizes": (0,), "seed": -1},
    ),
    "syntax": Case(
        lambda: attlas.Syntax(
            train=list(trees()[:9]), test=list(trees()[9:]), model=model(), min_cases=2
        ),
        {
            "train": list(trees()[:8]),
            "test": list(trees()[10:]),
            "model": model(1),
            "min_cases": 3,
            "seed": 1,
        },
        {"min_cases": 0, "seed": -1, "max_length": 2},
    ),
    "tree": Case(
        lambda: attlas.Tree(train=list(trees()[:5]), test=list(trees()[5:8]), model=model()),
        {
            "train": list(trees()[:4]),
            "test": list(trees()[6:8]),
            "model": model(1),
            "vectors": str(TOY / "vectors.txt"),
            "convention": "published",
            "seed": 1,
        },
        {"convention": "theirs", "seed": -1, "max_length": 2},
    ),
    "coreference": Case(
        lambda: attlas.Coreference(
            train=list(documents()[:2]), test=list(documents()[2:]), model=model()
        ),
        {
            "train": list(documents()[:1]),
            "test": list(documents()[3:]),
            "model": model(1),
            "tokens": 64,
            "seed": 1,
        },
        {"tokens": -1, "seed": -1, "max_length": 2},
    ),
    "finetune": Case(  # of the head: only on one thread are the bytes of whole training promised
        lambda: attlas.Finetune(
            texts=rated(), dev=rated()[:6], model=tiny("bert", "classify"), head_only=True
        ),
        {
            "texts": rated()[2:],
            "dev": rated()[:4],
            "model": tiny("bert", "classify", seed=1),
            "epochs": 2,
            "batch_size": 7,
            "learning_rate": 1e-3,
            "patience": 3,
            "hold_out": 0.3,
            "head_only": False,
            "seed": 1,
        },
        {
            "epochs": 0,
            "batch_size": 0,
            "learning_rate": 0,
            "patience": 0,
            "hold_out": 1,
            "seed": -1,
            "max_length": 2,
        },
    ),
    "explain": Case(
        lambda: attlas.Explain(
            data=[*TEXTS, " "],  # the last is quarantined
            model=classifier(),
            methods=("input_x_gradient", "attention_all_scaled", "random"),
            keep=("all",),
            permutations=2,
            bins=(0.5,),
            draws=1,
        ),
        {
            "data": [*TEXTS[1:], " "],
            "model": classifier(1),
            "importance": np.ones((3, 4)),
            "methods": ("input_x_gradient", "attention_all_scaled"),
            "target": 1,
            "of": "logit",
            "position": 1,
            "baseline": "zero",
            "at": "words",
            "tolerance": 0.5,
            "max_evaluations": 100,
            "keep": ("ordinary",),
            "p": 0.8,
            "top": 0.1,
            "permutations": 3,
            "faithfulness": "none",
            "bins": (0.2,),
            "draws": 2,
            "share": 0.3,
            "seed": 1,
        },
        {
            "methods": "magic",
            "of": "size",
            "baseline": "noise",
            "at": "parts",
            "tolerance": 0,
            "max_evaluations": 8,
            "position": 1_000_001,
            "p": 1,
            "top": 0,
            "permutations": 0,
            "faithfulness": "burn",
            "bins": (1,),
            "draws": 0,
            "share": 0,
            "seed": -1,
            "task": "base",
            "max_length": 2,
        },
    ),
    "groups": Case(
        lambda: attlas.Groups(data=[*rated(), EMPTY], model=classifier(), measures=[Surface()]),
        {
            "data": [*rated()[2:], *rated()[:2], EMPTY],
            "model": classifier(1),
            "by": "prediction",
            "measures": [Surface(), Entropy()],
            "long": "error",
            "seed": 1,
        },
        {"long": "cut", "bad": "keep", "task": "tag", "seed": -1, "max_length": 2},
    ),
    "compare": Case(
        lambda: attlas.Compare(
            studies=studied(),
            match=True,
            model_a=model(),
            model_b=model(1),
            texts=8,
        ),
        {
            "studies": [STUDIED[0], STUDIED[2]],
            "seed_study": STUDIED[1],
            "series": True,
            "match": False,
            "model_a": model(2),
            "model_b": model(2),
            "texts": 9,
        },
        {"texts": 3},
    ),
    "lengthen": Case(
        lambda: attlas.Lengthen(model=model(), length=600, window=8),
        {"model": model(1), "length": 700, "window": 16, "skip": 1},
        {"length": 0, "window": 7, "skip": -1},
    ),
    "dynamics": Case(
        lambda: attlas.Dynamics(
            train=list(reviews()[:20]),
            dev=list(reviews()[20:30]),
            test=list(reviews()[30:]),
            model=model(),
            vectors={"cat": [1.0, 2.0], "dog": [2.0, 3.0]},
            models=("dot+vectors", "additive+model"),
            scales=(10,),
            epochs=1,
        ),
        {
            "train": list(reviews()[:19]),
            "dev": list(reviews()[20:29]),
            "test": list(reviews()[31:]),
            "model": model(1),
            "vectors": {"dog": [1.0, 2.0], "cat": [2.0, 3.0]},
            "scales": (1, 10),
            "encoders": ("affine",),
            "attention": ("additive",),
            "models": ("dot+model", "dot+vectors"),
            "seeds": 2,
            "seed": 1,
            "tokenize": "blanks",
            "min_count": 2,
            "epochs": 2,
            "patience": None,
            "dim": 7,
            "dropout": 0.1,
            "l2": 0.2,
            "vw_penalty": 0.1,
            "optimizer": "sgd",
            "learning_rate": 0.5,
            "lr_decay": 0.5,
            "batch_size": 7,
            "init": 0.5,
            "record": 5,
            "rule": "paper",
            "by_encoder": ("model.l2=1",),
        },
        {
            "scales": (0,),
            "encoders": ("gru",),
            "attention": ("dots",),
            "models": ("dot",),
            "seeds": 0,
            "seed": -1,
            "tokenize": "letters",
            "min_count": 0,
            "epochs": 0,
            "patience": 0,
            "dim": 0,
            "dropout": 1,
            "l2": -1,
            "vw_penalty": -1,
            "optimizer": "rmsprop",
            "learning_rate": 0,
            "lr_decay": -1,
            "batch_size": 0,
            "init": -1,
            "record": 0,
            "rule": "mine",
        },
    ),
    "topology": Case(
        topology,
        {
            "train": list(labelled()[:10]),
            "dev": list(labelled()[12:18]),
            "test": list(labelled()[21:]),
            "model": head(1),
            "frozen": head(1),
            "features": ("betti", "templates"),
            "thresholds": (0.2,),
            "controls": False,
            "seed": 1,
        },
        {"thresholds": (0,), "seed": -1, "max_length": 2},
    ),
    "relations fit": Case(
        lambda: attlas.FitRelations(
            train=list(triples()[:8]), dev=list(triples()[8:12]), model=model()
        ),
        {
            "train": list(triples()[:7]),
            "dev": list(triples()[9:]),
            "model": model(1),
            "names": str(TOY / "relations.json"),
            "convention": "published",
            "directions": ("h-t",),
            "parser": "spacy",
            "interpret": True,
            "seed": 1,
        },
        {
            "convention": "loose",
            "directions": ("x-y",),
            "parser": "none",
            "seed": -1,
            "max_length": 2,
        },
    ),
    "relations score": Case(
        lambda: attlas.ScoreRelations(
            extractor=extractor(), test=list(triples()[10:]), model=model()
        ),
        {
            "extractor": str(Path(HOME.name) / "other"),
            "test": list(triples()[11:]),
            "model": model(1),
        },
    ),
}

# how a model is opened is declared alike wherever one is
OPENED = {"dtype": "half", "lens": "values"}
for _name in (
    *("syntax", "tree", "coreference", "topology", "explain", "groups", "compare"),
    *("relations fit", "relations score"),
):
    CASES[_name] = replace(CASES[_name], wrong={**OPENED, **CASES[_name].wrong})
