"""Sentences, documents and models whose heads find what they are built to find."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import attlas
from attlas import Model, Study, Text
from attlas.core.annotations import (
    COREFERENCE,
    DEPENDENCIES,
    ROOT,
    Coreference,
    Dependencies,
    Mention,
)
from attlas.testing import tiny

PLAIN = (
    "the",
    "a",
    "dog",
    "sat",
    "saw",
    "on",
    "mat",
    "and",
    "with",
    "it",
    "was",
    "very",
    "good",
    "film",
)


LOOKS = (
    -1,
    1,
    -2,
    "cat",
)  # what the heads of `rigged` look at: an offset, or a word wherever it stands


RATES = torch.tensor([1.0, 0.5, 0.23, 0.11])


def rigged(looks: Sequence[int | str] = LOOKS) -> Model:
    """A model of one layer whose heads attend to a fixed target: an offset, or a word.

    Positions are points on four circles, which a query turns by its offset; every word has a mark
    of the same size, so that all lie on one sphere.
    """
    model = tiny("bert", num_hidden_layers=1, num_attention_heads=len(looks))
    network = model.network
    own, attention = network.embeddings, network.encoder.layer[0].attention.self
    size = network.config.hidden_size // len(looks)
    turns = torch.arange(network.config.max_position_embeddings, dtype=torch.float)[:, None] * RATES
    points = torch.cat([turns.cos(), turns.sin()], 1)
    with torch.no_grad():
        for table in (
            own.word_embeddings.weight,
            own.position_embeddings.weight,
            own.token_type_embeddings.weight,
        ):
            table.zero_()
        own.position_embeddings.weight[:, :16] = torch.cat([points, -points], 1)
        own.word_embeddings.weight[:, 18:20] = torch.tensor([2.0, -2.0])
        for one in (attention.query, attention.key):
            one.weight.zero_()
            one.bias.zero_()
        for head, look in enumerate(looks):
            query, key = (one.weight[head * size :] for one in (attention.query, attention.key))
            if isinstance(look, str):
                word = own.word_embeddings.weight[model.tokenizer.convert_tokens_to_ids(look)]
                word[16:20] = torch.tensor([2.0, -2.0, 0.0, 0.0])
                key[0, 16], attention.query.bias[head * size] = 10, 10
                continue
            for rate, turn in enumerate(RATES.tolist()):
                cos, sin = math.cos(turn * look), math.sin(turn * look)
                key[rate, rate] = key[4 + rate, 4 + rate] = 5
                query[rate, rate], query[rate, 4 + rate] = 5 * cos, -5 * sin
                query[4 + rate, 4 + rate], query[4 + rate, rate] = 5 * cos, 5 * sin
    return model


def sentence(
    name: object, words: Sequence[str], heads: Sequence[int], relations: Sequence[str]
) -> Text:
    tree = Dependencies(tuple(heads), tuple(relations), ("X",) * len(words))
    return Text(str(name), words=tuple(words), annotations={DEPENDENCIES: tree})


def document(
    name: object, words: str, *mentions: tuple[int, str, str], sentences: Sequence[int] = (0,)
) -> Text:
    """A document whose mentions are single words: place, chain, kind."""
    noted = tuple(Mention(place, place + 1, place, chain, kind) for place, chain, kind in mentions)
    return Text(
        str(name),
        words=tuple(words.split()),
        annotations={COREFERENCE: Coreference(noted, tuple(sentences))},
    )


def chained(name: object, offset: int, words: int = 6) -> Text:
    """A sentence whose inner words hang on the word at an offset, by det."""
    inner = range(2, words - 2)
    heads = [
        place + offset if place in inner else ROOT if place == 0 else 0 for place in range(words)
    ]
    relations = [
        "det" if place in inner else "root" if place == 0 else "punct" for place in range(words)
    ]
    return sentence(
        name, [PLAIN[(int(name) + place) % len(PLAIN)] for place in range(words)], heads, relations
    )


def treebank(count: int, seed: int = 0, words: Sequence[str] = PLAIN) -> list[Text]:
    """Sentences for `rigged`: the head of obj is "cat", of det the word before, else any before."""
    rng, out = np.random.default_rng(seed), []
    for number in range(count):
        size = int(rng.integers(7, 13))
        own = [str(word) for word in rng.choice(words, size)]
        cat = int(rng.integers(size))
        own[cat] = "cat"
        heads, relations = [], []
        for place in range(size):
            kind = int(rng.integers(3))
            if place == cat:
                heads.append(ROOT)
                relations.append("root")
            elif kind == 0 and place:
                heads.append(place - 1)
                relations.append("det")
            elif kind == 1 or not place:
                heads.append(cat)
                relations.append("obj")
            else:
                heads.append(int(rng.integers(place)))
                relations.append("punct" if own[place] == "." else "nmod:of")
        out.append(sentence(f"{seed}-{number}", own, heads, relations))
    return out


def stories(count: int, seed: int = 0) -> list[Text]:
    """Documents of two sentences with mentions of all kinds, each with an antecedent."""
    rng, out = np.random.default_rng(seed), []
    for number in range(count):
        words = [
            "Anna",
            "saw",
            "the",
            "dog",
            "and",
            "Anna",
            ".",
            "it",
            "was",
            "a",
            "dog",
            "with",
            "she",
            ".",
        ]
        extra = [str(word) for word in rng.choice(PLAIN, 3)]
        noted = [
            (0, "a", "proper"),
            (3, "d", "common"),
            (5, "a", "proper"),
            (7, "d", "pronoun"),
            (10, "d", "common"),
            (12, "a", "pronoun"),
        ]
        out.append(
            document(f"{seed}-{number}", " ".join([*words, *extra]), *noted, sentences=(0, 7))
        )
    return out


def as_conllu(texts: Sequence[Text]) -> str:
    """Texts as a CoNLL-U file: trees or chains of words, and mentions as entities."""
    out = []
    for text in texts:
        words = text.words or ()
        tree = text.annotations.get(DEPENDENCIES)
        heads = tree.heads if tree else [place - 1 for place in range(len(words))]
        relations = tree.relations if tree else ["root", *["dep"] * (len(words) - 1)]
        noted = text.annotations.get(COREFERENCE)
        entity = (
            {one.start: f"Entity=({one.chain}-person)" for one in noted.mentions} if noted else {}
        )
        tags = (
            {
                one.head: {"pronoun": "PRON", "proper": "PROPN"}.get(one.kind, "NOUN")
                for one in noted.mentions
            }
            if noted
            else {}
        )
        out += [f"# newdoc id = {text.id}", f"# sent_id = {text.id}"]
        out += [
            f"{place + 1}\t{word}\t_\t{tags.get(place, 'X')}\t_\t_\t{heads[place] + 1}\t"
            f"{relations[place]}\t_\t{entity.get(place, '_')}"
            for place, word in enumerate(words)
        ]
        out.append("")
    return "\n".join(out) + "\n"


def best(answers: dict[Any, list[bool]]) -> tuple[Any, float]:
    """The first of the answers that are right most often."""
    shares = {key: sum(right) / len(right) for key, right in answers.items()}
    first = max(shares, key=lambda key: shares[key])
    return first, shares[first]


PROBED: dict[str, Callable[..., Any]] = {
    "syntax": partial(attlas.Syntax, min_cases=5),
    "tree": attlas.Tree,
    "coreference": attlas.Coreference,
}


def probe(kind: str, model: Any, train: Any, test: Any, out: Path, **options: Any) -> Study:
    """Run an experiment; `workers` and `fresh` say how."""
    how = {name: options.pop(name) for name in ("workers", "fresh") if name in options}
    experiment = PROBED[kind](model=model, train=train, test=test, **options)
    return attlas.run(experiment, out, progress=False, **how)


def plain(value: Any) -> None:
    """Only what JSON knows, and no NaN."""
    if isinstance(value, dict):
        assert all(type(name) is str for name in value)
        for one in value.values():
            plain(one)
    elif isinstance(value, list):
        for one in value:
            plain(one)
    else:
        assert value is None or type(value) in (str, int, float, bool), (type(value), value)
        assert not isinstance(value, float) or math.isfinite(value)


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("it was run again")
