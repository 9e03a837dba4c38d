"""Probes from file to report: heads chosen and scored against loops; cached, killed and drawn.

Their measures have twins of their own (test_conllu, test_coreference, test_tree_probe). Here a
network is rigged so that what its heads find is known beforehand.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import attlas
from attlas import Model, Study, Text
from attlas.core.annotations import (
    COREFERENCE,
    DEPENDENCIES,
    KINDS,
    ROOT,
    Coreference,
    Dependencies,
    Mention,
)
from attlas.coreference import CoreferenceHeads
from attlas.coreference.section import WHO
from attlas.corpora import split
from attlas.models.vectors import ModelVectors
from attlas.studies.folder import RESULT, Folder
from attlas.studies.shard_job import ShardJob
from attlas.support.errors import AttlasError, CorpusError, MeasureError, StudyError
from attlas.support.fingerprint import fingerprint
from attlas.syntax import SyntaxHeads
from attlas.syntax.arcs import DIRECTIONS, OFFSETS, PUBLISHED_OFFSETS
from attlas.syntax.examples import FAINT, HEADS, best_examples, examples
from attlas.syntax.section import study_lines
from attlas.testing import stream, tiny
from attlas.tree import TreeProbe
from attlas.tree.section import PROBES as PROBE_NAMES
from attlas.tree.work import PROBES
from attlas.views.lines import Lines, lines_svg
from tests.builders.coreference import make_document as made
from tests.builders.pages import SECTIONS, findings, open_page, sections, write_charts
from tests.builders.processes import Output, Start, kill_when
from tests.builders.studies import table_bytes, write_result
from tests.twins.coreference import antecedents_slowly, candidates_slowly

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
    """A model of one layer whose heads look where they are told: at a fixed offset, or at a word.

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


# loops that can be checked by eye


def between_slowly(model: Model, text: Text) -> tuple[list[str], np.ndarray]:
    """The words of a text, special tokens among them, and weights [layer, head, word, word].

    To a word the sum over its tokens, from a word the mean.
    """
    [layers] = stream(model, [text])
    words = layers[0].batch.words[0]
    of = words.of.tolist()
    out = np.zeros((len(layers), layers[0].n_heads, len(words), len(words)))
    for number, layer in enumerate(layers):
        weights = layer.dense().weights[0].numpy()
        for query, mine in enumerate(of):
            for key, theirs in enumerate(of):
                out[number, :, mine, theirs] += weights[:, query, key] / of.count(mine)
    return list(words.strings), out


def own_words(model: Model, text: Text) -> list[int]:
    """Which of all words are the text's own, in order; the tests' words are all seen."""
    [layers] = stream(model, [text])
    source = layers[0].batch.words[0].source
    own = [word for word, place in enumerate(source) if place >= 0]
    assert [source[word] for word in own] == list(range(len(text.words or ())))
    return own


Answers = dict[
    tuple[str, int, int], list[bool]
]  # direction, layer, head: right or wrong, case by case


def arcs_slowly(
    model: Model, texts: Sequence[Text], published: bool = False
) -> dict[str, tuple[Answers, dict[int, list[bool]]]]:
    """relation -> what each head and each offset gets right, over all words in order."""
    out: dict[str, tuple[Answers, dict[int, list[bool]]]] = {}
    for text in texts:
        own = own_words(model, text)
        weights = between_slowly(model, text)[1][:, :, own][:, :, :, own]
        tree = text.annotations[DEPENDENCIES]
        for word, (gold, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            if not published and (gold == ROOT or relation.split(":")[0] in ("root", "punct")):
                continue
            for name in ("all", relation):
                heads, offsets = out.setdefault(name, (defaultdict(list), defaultdict(list)))
                for layer, head in np.ndindex(weights.shape[:2]):
                    square = weights[layer, head].copy()
                    np.fill_diagonal(square, -1)
                    for direction, row in zip(
                        DIRECTIONS, (square[word], square[:, word]), strict=True
                    ):
                        heads[direction, layer, head].append(
                            row.max() > 0 and int(row.argmax()) == gold
                        )
                for offset in PUBLISHED_OFFSETS if published else OFFSETS:
                    there = word + offset
                    if published:
                        there = min(max(there, ROOT), len(own) - 1)
                    offsets[offset].append(there == gold)
    return out


def best(answers: dict[Any, list[bool]]) -> tuple[Any, float]:
    """The first of the answers that are right most often."""
    shares = {key: sum(right) / len(right) for key, right in answers.items()}
    first = max(shares, key=lambda key: shares[key])
    return first, shares[first]


# syntax heads: chosen here, scored there


def test_the_rigged_network_looks_where_it_is_told() -> None:
    words = ["the", "dog", "sat", "on", "a", "mat", "with", "cat", "and", "it", "was", "good"]
    strings, weights = between_slowly(rigged(), Text("0", words=tuple(words)))
    cat = strings.index("cat")
    for place in range(3, len(strings) - 2):
        assert weights[0, :, place].argmax(-1).tolist() == [place - 1, place + 1, place - 2, cat]
        assert weights[0, :, place].max(-1).min() > 0.99


def test_head_and_offset_are_chosen_on_the_fitted_sentences_and_scored_on_the_others() -> None:
    before, after = [chained(n, -1) for n in range(5)], [chained(n, 1) for n in range(5, 12)]
    heads = SyntaxHeads(rigged(), min_cases=5, progress=False).fit(before)
    table = heads.evaluate(after).set_index("relation")
    for relation in ("all", "det"):
        row = table.loc[relation]
        assert (row["layer"], row["head"], row["direction"], row["offset"]) == (
            0,
            0,
            DIRECTIONS[0],
            -1,
        )
        assert (row["accuracy"], row["baseline"], row["n"], row["texts"]) == (0, 0, 14, 7)
        assert (row["chosen_accuracy"], row["chosen_n"]) == (1, 10)
    assert heads.score(after) == 0
    assert heads.score(before) == 1
    fitted = heads.chosen_.copy()
    heads.evaluate(after)
    pd.testing.assert_frame_equal(heads.chosen_, fitted)  # scoring chooses nothing
    other = (
        SyntaxHeads(rigged(), min_cases=5, progress=False)
        .fit(after)
        .evaluate(after)
        .set_index("relation")
    )
    row = other.loc[
        "det"
    ]  # head 1 looks at the next word, and head 0 is looked at by it: the lower head of equals
    assert (row["head"], row["direction"], row["offset"], row["accuracy"]) == (
        0,
        DIRECTIONS[1],
        1,
        1,
    )


def test_as_published_head_and_offset_are_chosen_on_the_sentences_they_are_scored_on() -> None:
    before, after = [chained(n, -1) for n in range(5)], [chained(n, 1) for n in range(5, 12)]
    for heads in (
        SyntaxHeads,
        lambda *given, **options: SyntaxHeads(*given, **options).fit(before),
    ):
        table = heads(rigged(), convention="published", min_cases=5, progress=False).evaluate(after)
        row = table.set_index("relation").loc["det"]
        assert (row["head"], row["direction"], row["offset"]) == (0, DIRECTIONS[1], 1), (
            "the lower head of equals"
        )
        assert (row["accuracy"], row["baseline"]) == (1, 1)
        assert (row["chosen_accuracy"], row["chosen_n"]) == (1, row["n"])
        assert not {"root", "punct"} & set(table["relation"]), (
            "they count among all, and have no row"
        )


def test_a_head_that_finds_a_relation_wherever_it_stands_is_above_every_offset() -> None:
    heads = SyntaxHeads(rigged(), min_cases=10, progress=False).fit(treebank(25, 1))
    table = heads.evaluate(treebank(25, 2)).set_index("relation")
    assert table.loc["obj", ["layer", "head", "direction", "accuracy"]].tolist() == [
        0,
        3,
        DIRECTIONS[0],
        1,
    ]
    assert table.loc["obj", "baseline"] < 0.5
    assert table.loc["obj", "difference_low"] > 0
    assert table.loc["det", ["head", "offset", "baseline", "difference"]].tolist() == [0, -1, 1, 0]
    assert table.loc["nmod:of", "accuracy"] < 0.7


@pytest.mark.parametrize(
    ("family", "convention"), [("bert", "sound"), ("gpt2", "sound"), ("bert", "published")]
)
def test_every_number_of_the_table_is_that_of_loops(family: str, convention: str) -> None:
    model = tiny(family, **({"num_hidden_layers": 2} if family == "bert" else {"n_layer": 2}))
    words = (*PLAIN, "unseeing", "x1", ".")  # some of several tokens
    train, test = treebank(9, 3, words), treebank(7, 4, words)
    published = convention == "published"
    there = arcs_slowly(model, test, published)
    here = there if published else arcs_slowly(model, train)
    least = 15
    heads = SyntaxHeads(model, convention=convention, min_cases=least, progress=False).fit(train)
    table = heads.evaluate(test)
    sizes = {
        name: [len(next(iter(part.get(name, [{0: []}])[0].values()))) for part in (here, there)]
        for name in here
    }
    listed = [name for name, both in sizes.items() if min(both) >= least]
    assert sorted(table["relation"]) == sorted(listed)
    assert len(listed) < len(there)  # some are too few
    assert table["relation"].iloc[0] == "all"
    assert table["n"].iloc[1:].is_monotonic_decreasing
    right = total = 0.0
    for row in table.to_dict("records"):
        name = row["relation"]
        (direction, layer, head), chosen = best(here[name][0])
        answers = there[name][0][row["direction"], row["layer"], row["head"]]
        assert row["chosen_accuracy"] == pytest.approx(chosen)
        mine = here[name][0][row["direction"], row["layer"], row["head"]]
        assert sum(mine) / len(mine) == pytest.approx(chosen)  # one of the best, the first of them
        assert (row["direction"], row["layer"], row["head"]) == (direction, layer, head)
        offset, _ = best(here[name][1])
        assert row["offset"] == offset
        assert row["accuracy"] == pytest.approx(sum(answers) / len(answers))
        assert row["baseline"] == pytest.approx(sum(there[name][1][offset]) / len(answers))
        assert row["difference"] == pytest.approx(row["accuracy"] - row["baseline"])
        assert row["low"] <= row["accuracy"] <= row["high"]
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]
        assert (row["n"], row["chosen_n"]) == (sizes[name][1], sizes[name][0])
        if name != "all":
            right, total = right + sum(answers), total + len(answers)
    assert heads.score(test) == pytest.approx(right / total)


def test_relations_with_too_few_cases_here_or_there_are_not_listed() -> None:
    def one(name: int, *relations: str) -> Text:
        size = len(relations)
        return sentence(name, PLAIN[:size], [ROOT, *range(size - 1)], ["root", *relations[1:]])

    few_here = [one(n, "root", "det", "obj") for n in range(3)] + [one(9, "root", "amod")]
    few_there = [one(n, "root", "det", "amod") for n in range(20, 23)] + [one(29, "root", "obj")]
    heads = SyntaxHeads(rigged(), min_cases=3, progress=False).fit(few_here)
    assert sorted(heads.chosen_["relation"]) == ["all", "det", "obj"]
    assert heads.evaluate(few_there)["relation"].tolist() == ["all", "det"]
    with pytest.raises(CorpusError, match=r"no relation has 100 cases; .*--min-cases"):
        SyntaxHeads(rigged(), progress=False).fit(few_here)


# estimators as scikit-learn has them, and what they refuse


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (SyntaxHeads, {"convention": "published", "min_cases": 3}),
        (CoreferenceHeads, {"tokens": 64}),
        (TreeProbe, {"features": "attention", "epochs": 2}),
    ],
)
def test_probes_are_estimators(kind: Any, own: dict[str, Any], tmp_path: Path) -> None:
    model = tiny("bert", num_hidden_layers=1)
    given = {**own, "cache": tmp_path / "cache", "workers": 1, "progress": False}
    probe = kind(model, **given)
    assert {name: probe.get_params()[name] for name in given} == given
    fitted = probe.fit(treebank(8) if kind is not CoreferenceHeads else stories(8))
    assert fitted is probe
    copied = clone(probe)
    assert {name: copied.get_params()[name] for name in given} == given
    assert not [name for name in vars(copied) if name.endswith("_")]
    assert copied.set_params(workers=2).workers == 2


def test_sentences_without_a_tree_are_named() -> None:
    heads = SyntaxHeads(rigged(), min_cases=1, progress=False)
    with pytest.raises(
        CorpusError, match=r"text 'bare' .*has no dependency tree .*; give a CoNLL-U file"
    ):
        heads.fit([chained(0, 1), Text("bare", "a cat sat"), Text("another", "a dog")])
    with pytest.raises(CorpusError, match=r"text '0' .*has no dependency tree"):
        heads.fit(["a cat sat"])
    tree = chained(0, 1).annotations
    with pytest.raises(CorpusError, match="'wordless'"):
        heads.fit([Text("wordless", "the a dog sat saw on", annotations=tree)])


def test_a_tree_that_does_not_fit_its_words_is_named() -> None:
    with pytest.raises(CorpusError, match="'short'"):
        SyntaxHeads(rigged(), min_cases=1, progress=False).fit(
            [sentence("short", PLAIN[:6], [ROOT, 0], ["root", "det"])]
        )


def test_scoring_before_choosing_is_refused() -> None:
    with pytest.raises(MeasureError, match="must be chosen before they are scored; call fit"):
        SyntaxHeads(rigged(), progress=False).evaluate([chained(0, 1)])
    with pytest.raises(MeasureError, match="must be chosen before they are scored; call fit"):
        CoreferenceHeads(rigged(), progress=False).evaluate(stories(2))
    with pytest.raises(MeasureError, match="convention is 'mine'; it must be sound or published"):
        SyntaxHeads(rigged(), convention="mine", progress=False).fit([chained(0, 1)])


def test_a_cache_holds_the_same_sentences_under_other_names(tmp_path: Path) -> None:
    """The name of a sentence is no part of what is counted."""
    fit = partial(SyntaxHeads(rigged(), min_cases=1, cache=tmp_path, progress=False).fit)
    first = fit([chained(n, 1) for n in range(3)]).chosen_
    again = fit(
        [
            Text(f"other {n}", words=one.words, annotations=one.annotations)
            for n, one in enumerate(chained(n, 1) for n in range(3))
        ]
    ).chosen_
    pd.testing.assert_frame_equal(first, again)


def test_texts_have_one_fingerprint_for_one_content() -> None:
    one, other = treebank(3), treebank(3)
    assert fingerprint(one) == fingerprint(other)
    other[1] = sentence(
        other[1].id,
        other[1].words or (),
        [0] * len(other[1].words or ()),
        ["x"] * len(other[1].words or ()),
    )
    assert len(set(map(fingerprint, (one, other, one[::-1], one[:2], stories(3))))) == 5


# coreference heads


def apart(name: object, back: int) -> Text:
    """ "it" names what stands so many words before it."""
    chains = ["d", "c", "f"]
    chains[3 - back] = "same"
    kinds = ("common", "proper", "common")
    return document(
        name,
        "dog mat film it was very good",
        *zip(range(3), chains, kinds, strict=True),
        (3, "same", "pronoun"),
    )


def test_the_head_of_antecedents_is_chosen_on_some_documents_and_scored_on_others() -> None:
    looks = (-1, 1, -2, 2)
    two, one = [apart(n, 2) for n in range(4)], [apart(n, 1) for n in range(6)]
    heads = CoreferenceHeads(rigged(looks), progress=False).fit(two)
    found = heads.evaluate(two).set_index(["who", "kind"])
    for kind in ("all", "pronoun"):
        assert found.loc[("head", kind), ["layer", "head", "direction", "accuracy"]].tolist() == [
            0,
            2,
            "to",
            1,
        ]
        assert found.loc[
            ("head_back", kind), ["layer", "head", "direction", "accuracy"]
        ].tolist() == [0, 3, "from", 1]
        assert found.loc[("nearest", kind), "accuracy"] == 0
    table = heads.evaluate(one).set_index(["who", "kind"])
    for who, head in (("head", 2), ("head_back", 3)):  # still the ones that were chosen
        assert table.loc[(who, "all"), ["head", "accuracy"]].tolist() == [head, 0]
    assert table.loc[("nearest", "all"), "accuracy"] == 1
    assert (table["n"] == 6).all()
    assert heads.score(one) == 0
    assert heads.score(two) == 1
    other = (
        CoreferenceHeads(rigged(looks), progress=False)
        .fit(one)
        .evaluate(one)
        .set_index(["who", "kind"])
    )
    assert other.loc[("head", "all"), ["head", "accuracy"]].tolist() == [0, 1]
    assert other.loc[("head_back", "all"), ["direction", "accuracy"]].tolist() == ["from", 1]


def test_coreference_is_that_of_loops() -> None:
    model, rng = tiny("bert", num_hidden_layers=2), np.random.default_rng(7)
    parts = [[made(rng, int(rng.integers(8, 20)), f"{part}{n}") for n in range(8)] for part in "ab"]
    counted: list[dict[str, dict[tuple[str, int, int], list[bool]]]] = []
    for part in parts:
        right: dict[str, dict[tuple[str, int, int], list[bool]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for text in part:
            own, noted = own_words(model, text), text.annotations[COREFERENCE]
            weights = between_slowly(model, text)[1][:, :, own][:, :, :, own]
            for number, mention in enumerate(noted.mentions):
                gold = {noted.mentions[other].head for other in antecedents_slowly(noted, number)}
                allowed = sorted(
                    {noted.mentions[other].head for other in candidates_slowly(noted, number)}
                )
                if not gold:
                    continue
                for layer, head in np.ndindex(weights.shape[:2]):
                    square = weights[layer, head]
                    for direction, row in (
                        ("to", square[mention.head]),
                        ("from", square[:, mention.head]),
                    ):
                        chosen = max(allowed, key=lambda word: (row[word], -word))
                        for kind in ("all", mention.kind):
                            right[kind][direction, layer, head].append(chosen in gold)
        counted.append(right)
    here, there = counted
    heads = CoreferenceHeads(model, tokens=None, progress=False).fit(parts[0])
    table = heads.evaluate(parts[1])
    assert set(table["kind"]) == {"all", *KINDS}
    for row in table[table["who"].isin(["head", "head_back", "head_by_kind"])].to_dict("records"):
        way = "from" if row["who"] == "head_back" else "to"
        chosen = here[row["kind"] if row["who"] == "head_by_kind" else "all"]
        wanted, _ = best({key: right for key, right in chosen.items() if key[0] == way})
        assert (row["direction"], row["layer"], row["head"]) == wanted, row["who"]
        answers = there[row["kind"]][wanted]
        assert row["accuracy"] == pytest.approx(sum(answers) / len(answers))
        assert row["n"] == len(answers)
        assert row["low"] <= row["accuracy"] <= row["high"]
    rules = table[table["who"] == "rules"].set_index("kind")["accuracy"]
    mine = table[table["who"] == "head"].set_index("kind")
    np.testing.assert_allclose(mine["difference"], mine["accuracy"] - rules[mine.index])


def test_documents_that_cannot_be_scored_are_refused_clearly() -> None:
    model, alone = (
        rigged(),
        [document(n, "dog mat it", (0, "a", "common"), (2, "b", "pronoun")) for n in range(3)],
    )
    with pytest.raises(
        CorpusError, match=r"text 'bare' .*has no coreference; give CoNLL-U with Entity="
    ):
        CoreferenceHeads(model, progress=False).fit([*stories(2), Text("bare", words=("a", "cat"))])
    with pytest.raises(
        CorpusError, match=r"no mention has an antecedent in its window; .*--tokens"
    ):
        CoreferenceHeads(model, progress=False).fit(alone)
    fitted = CoreferenceHeads(model, progress=False).fit(stories(3))
    with pytest.raises(AttlasError, match="antecedent"):
        fitted.score(alone)


def test_what_cutting_documents_loses_is_counted() -> None:
    texts = stories(3)
    whole = CoreferenceHeads(rigged(), tokens=None, progress=False).fit(texts)
    assert (whole.cut_.documents, whole.cut_.scored, whole.cut_.out_of_reach) == (3, 12, 0)
    parts = CoreferenceHeads(rigged(), tokens=16, progress=False).fit(texts)
    assert len(parts.cut_.texts) == 6  # a window a sentence
    assert (
        parts.cut_.out_of_reach == 6
    )  # "it" and "she" have their antecedents in the other sentence; the second dog has "it"


# pipelines


TEXTS: dict[str, Callable[..., list[Text]]] = {
    "syntax": treebank,
    "tree": treebank,
    "coreference": stories,
}
PROBED: dict[str, Callable[..., Any]] = {
    "syntax": partial(attlas.Syntax, min_cases=5),
    "tree": attlas.Tree,
    "coreference": attlas.Coreference,
}
KINDS_OF_PROBE = pytest.mark.parametrize("kind", PROBED)


def probe(kind: str, model: Any, train: Any, test: Any, out: Path, **options: Any) -> Study:
    """Run an experiment; `workers` and `fresh` say how."""
    how = {name: options.pop(name) for name in ("workers", "fresh") if name in options}
    experiment = PROBED[kind](model=model, train=train, test=test, **options)
    return attlas.run(experiment, out, progress=False, **how)


def probed(kind: str, out: Path, model: Model | None = None, **options: Any) -> Study:
    texts = TEXTS[kind]
    return probe(kind, model or rigged(), texts(30, 1), texts(25, 2), out, **options)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Study]:
    """Every probe once, of one model."""
    folder = tmp_path_factory.mktemp("probes")
    return {kind: probed(kind, folder / kind) for kind in PROBED}


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


@KINDS_OF_PROBE
def test_results_are_plain_and_the_same_from_memory_and_from_disk(
    kind: str, done: dict[str, Study]
) -> None:
    result, folder = done[kind].result, done[kind].folder
    plain(result)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert json.loads((folder / RESULT).read_text()) == result
    assert result["texts"] == {
        "train": 30,
        "test": 25,
        "in_both": 0 if kind != "coreference" else result["texts"]["in_both"],
    }
    manifest = done[kind].manifest
    assert manifest["status"] == "complete"
    assert manifest["counts"]["read"] == manifest["counts"]["analysed"] == 25
    assert {path.stem for path in (folder / "tables").iterdir()} == set(manifest["tables"])


def test_the_result_of_syntax(done: dict[str, Study]) -> None:
    result, study = done["syntax"].result, done["syntax"]
    assert study.tables == [
        "syntax",
        "syntax_published",
        "syntax_heads",
        "syntax_offsets",
        "example_words",
        "example_arcs",
    ]
    assert set(result) >= {"relations", "overall", "words", "counts", "texts"}
    names = [row["relation"] for row in result["relations"]]
    assert set(names) == {"obj", "det", "nmod:of"}  # `all` stands in `overall`
    for row in result["relations"]:
        assert set(row) >= {
            "relation",
            "direction",
            "layer",
            "head",
            "accuracy",
            "baseline",
            "offset",
            "n",
        }
        assert all(type(row[name]) is int for name in ("layer", "head", "offset", "n", "texts"))
        assert row["direction"] in DIRECTIONS
    heads = SyntaxHeads(rigged(), min_cases=5, progress=False).fit(treebank(30, 1))
    table = heads.evaluate(treebank(25, 2))
    assert result["overall"] == table.set_index("relation").loc["all", "accuracy"]
    pd.testing.assert_frame_equal(study.table("syntax")[table.columns], table)
    assert (
        len(study.table("syntax_heads")) == 4 * 8
    )  # relations and all; two directions, four heads
    assert result["words"]["words"] == table.set_index("relation").loc["all", "n"]


def test_the_control_of_syntax_is_the_best_head_of_random_weights(done: dict[str, Study]) -> None:
    control = SyntaxHeads(rigged().randomized(0), min_cases=5, progress=False).fit(treebank(30, 1))
    expected = control.evaluate(treebank(25, 2)).set_index("relation")
    table = done["syntax"].table("syntax").set_index("relation")
    for name in table.index:
        assert table.loc[name, "random_accuracy"] == expected.loc[name, "accuracy"]
    assert table.loc["obj", "random_accuracy"] < 0.8 < table.loc["obj", "accuracy"]
    assert done["syntax"].result["overall_random"] == expected.loc["all", "accuracy"]
    published = SyntaxHeads(rigged(), convention="published", min_cases=5, progress=False).evaluate(
        treebank(25, 2)
    )
    pd.testing.assert_frame_equal(done["syntax"].table("syntax_published"), published)


def test_the_result_of_tree(done: dict[str, Study]) -> None:
    result, study = done["tree"].result, done["tree"]
    assert study.tables == ["tree"]
    assert {
        "attention",
        "attention_words",
        "right_branching",
        "distance_words",
        "random_attention_words",
    } <= set(result["uas"])
    assert list(result["uas"]) == list(PROBES) == study.table("tree")["probe"].tolist()
    train, test = treebank(30, 1), treebank(25, 2)
    for name in ("attention", "right_branching", "random_attention_words"):
        model = rigged()
        probe = TreeProbe(
            model.randomized(0) if name.startswith("random") else model,
            name.removeprefix("random_"),
            vectors=ModelVectors(model),
            progress=False,
        )
        scores = probe.fit(train).evaluate(test)
        assert result["uas"][name] == scores.uas
        assert result["tree_uas"][name] == scores.tree_uas
    right = sum(
        head == place + 1 or (head == ROOT and place + 1 == len(one.words or ()))
        for one in test
        for place, head in enumerate(one.annotations[DEPENDENCIES].heads)
    )
    assert result["uas"]["right_branching"] == pytest.approx(right / result["words"]["scored"])
    assert result["uas"]["attention"] > result["uas"]["random_attention"]
    for row in study.table("tree").to_dict("records"):
        assert row["low"] <= row["uas"] <= row["high"]
        assert row["difference"] == pytest.approx(row["uas"] - result["uas"]["right_branching"])
        assert row["words"] == result["words"]["scored"]


def test_the_result_of_coreference(done: dict[str, Study]) -> None:
    result, study = done["coreference"].result, done["coreference"]
    assert study.tables == ["coreference", "coreference_heads"]
    assert len(result["heads"]) == 4
    for row in result["heads"]:
        assert set(row) >= {"layer", "head", "all", "pronoun", "proper", "common"}
        assert all(type(row[name]) is int for name in ("layer", "head"))
    assert set(result["baselines"]) == {"nearest", "head_match", "rules"}
    table = study.table("coreference").set_index(["who", "kind"])
    assert {name: table.loc[(name, "all"), "accuracy"] for name in result["baselines"]} == result[
        "baselines"
    ]
    assert result["baselines"]["head_match"] == pytest.approx(
        2 / 4
    )  # the second Anna and the second dog
    heads = CoreferenceHeads(rigged(), progress=False).fit(stories(30, 1))
    expected = heads.evaluate(stories(25, 2)).set_index(["who", "kind"])
    for key in expected.index:
        assert table.loc[key, "accuracy"] == expected.loc[key, "accuracy"]
    control = CoreferenceHeads(rigged().randomized(0), progress=False).fit(stories(30, 1))
    assert table.loc[("random", "all"), "accuracy"] == control.score(stories(25, 2))
    first = result["best"][0]
    mine = result["heads"][first["layer"] * 4 + first["head"]]
    assert first["accuracy"] == mine["all"]
    assert result["windows"] == {
        "tokens": 128,
        "documents": 25,
        "mentions": 150,
        "across": 0,
        "scored": 100,
        "out_of_reach": 0,
    }


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("it was run again")


@KINDS_OF_PROBE
def test_a_probe_is_found_again_and_another_is_refused(
    kind: str, done: dict[str, Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = done[kind].folder
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for name in (
        "attlas.experiments.probe.study",
        "attlas.tree.work.read_word_attention",
        "attlas.syntax.work.examples",
        "attlas.experiments.workspace.pass_over",
    ):
        monkeypatch.setattr(name, refuse)
    again = probed(kind, out)
    assert again.result == done[kind].result
    assert again.tables == done[kind].tables
    texts = TEXTS[kind]
    with pytest.raises(StudyError, match=r"was made with another test set;"):
        probe(kind, rigged(), texts(30, 1), texts(25, 3), out)
    with pytest.raises(StudyError, match=r"was made with another seed;"):
        probed(kind, out, seed=1)
    with pytest.raises(StudyError, match=r"was made with another model \(weights, config\);"):
        probed(kind, out, tiny("bert"))
    other = next(name for name in PROBED if name != kind)
    with pytest.raises(StudyError, match=r"holds another kind of result"):
        probed(other, out)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/notes.txt").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(StudyError, match=r"is not empty .* and holds no results of Attlas"):
            probed(kind, tmp_path / "taken", fresh=fresh)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_other_vectors_under_the_same_name_are_another_probe(tmp_path: Path) -> None:
    path, rng = tmp_path / "glove.txt", np.random.default_rng(0)

    def write() -> None:
        path.write_text(
            "".join(
                f"{word} {' '.join(map(str, rng.normal(size=4)))}\n" for word in (*PLAIN, "cat")
            )
        )

    run = partial(
        probe, "tree", rigged(), treebank(8), treebank(6, 2), tmp_path / "out", vectors=path
    )
    write()
    first = run()
    assert first.result["vectors"] == "glove.txt"
    assert run().result == first.result
    write()
    with pytest.raises(StudyError, match="was made with another set of vectors"):
        run()


def test_fresh_throws_another_probe_away(tmp_path: Path) -> None:
    run = partial(probe, "coreference", rigged())
    run(stories(8, 5), stories(6, 6), tmp_path / "out")
    anew = run(stories(8, 7), stories(7, 8), tmp_path / "out", fresh=True)
    alone = run(stories(8, 7), stories(7, 8), tmp_path / "alone")
    assert anew.result == alone.result
    assert anew.manifest["identity"] == alone.manifest["identity"]
    assert table_bytes(anew.folder) == table_bytes(alone.folder)


@KINDS_OF_PROBE
def test_the_same_probe_writes_the_same_bytes(
    kind: str, done: dict[str, Study], tmp_path: Path
) -> None:
    """Whoever runs it, with one worker or two."""
    again = probed(kind, tmp_path / "again", workers=1)
    assert table_bytes(again.folder) == table_bytes(done[kind].folder)
    assert (again.folder / RESULT).read_bytes() == (done[kind].folder / RESULT).read_bytes()


@KINDS_OF_PROBE
def test_one_file_is_cut_in_two(kind: str, tmp_path: Path) -> None:
    texts = TEXTS[kind](20, 3)
    found = probe(kind, rigged(), texts, None, tmp_path / "out", seed=4)
    first, second = split(texts, 0.2, 4)
    assert (found.result["texts"]["train"], found.result["texts"]["test"]) == (16, 4)
    identity = found.manifest["identity"]
    assert (identity["train"], identity["test"]) == (fingerprint(first), fingerprint(second))
    with pytest.raises(
        CorpusError, match=r"two different texts are needed to set some aside, got 1; .*--test"
    ):
        probe(kind, rigged(), texts[:1], None, tmp_path / "one")
    assert not (tmp_path / "one").exists()


@KINDS_OF_PROBE
def test_sentences_longer_than_the_model_are_counted(kind: str, tmp_path: Path) -> None:
    short = rigged()
    model = attlas.load((short.network, short.tokenizer), max_length=9)  # seven words and the marks
    texts = TEXTS[kind]
    found = probe(kind, model, texts(30, 1), texts(25, 2), tmp_path / "out")
    counts = found.result["counts"]
    assert counts["read"] == counts["analysed"]
    if (
        kind == "coreference"
    ):  # both sentences are longer; "Anna" has three tokens, so that the second is cut off
        assert (counts["read"], counts["truncated"]) == (50, 50)
        assert found.result["mentions"]["unseen"] == 25
        assert found.result["windows"]["out_of_reach"] == 50  # "it" and "she"
        return
    lengths = [len(one.words or ()) for one in texts(25, 2)]
    assert counts["truncated"] == sum(length > 7 for length in lengths) > 0
    assert counts["tokens_cut"] == sum(max(0, length - 7) for length in lengths)
    lost = headless = 0
    for one in texts(25, 2):
        tree = one.annotations[DEPENDENCIES]
        for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            if kind == "tree":
                lost, headless = lost + (word >= 7), headless + (word < 7 <= head)
            elif relation not in ("root", "punct"):
                lost += word >= 7 or head >= 7
    assert found.result["words"]["unseen"] == lost > 0
    assert found.result["words"].get("headless", 0) == headless


def test_a_word_without_a_head_may_have_the_name_of_a_relation(tmp_path: Path) -> None:
    """Treebanks name the relation of a root as they like."""
    texts = treebank(30, 1)
    odd = [
        sentence(
            one.id,
            one.words or (),
            one.annotations[DEPENDENCIES].heads,
            [name.replace("root", "obj") for name in one.annotations[DEPENDENCIES].relations],
        )
        for one in texts
    ]
    found = probe("syntax", rigged(), odd, odd, tmp_path / "out", min_cases=5)
    row = next(row for row in found.result["relations"] if row["relation"] == "obj")
    assert (row["head"], row["accuracy"]) == (3, 1)


def test_documents_to_score_on_without_antecedents_are_refused(tmp_path: Path) -> None:
    alone = [document(n, "dog mat it", (0, "a", "common"), (2, "b", "pronoun")) for n in range(3)]
    with pytest.raises(AttlasError, match="antecedent"):
        probe("coreference", rigged(), stories(3), alone, tmp_path / "out")


def test_sentences_to_score_on_without_words_to_score_are_refused(tmp_path: Path) -> None:
    marks = [sentence(n, [".", "!"], [ROOT, 0], ["punct", "punct"]) for n in range(3)]
    with pytest.raises(AttlasError):
        probe("tree", rigged(), treebank(5), marks, tmp_path / "out")


def test_a_difference_seen_in_one_text_alone_is_not_certain() -> None:
    """Its interval is over texts: of one text there is no spread to know it from."""
    one = treebank(1, 2)
    heads = SyntaxHeads(rigged(), min_cases=1, progress=False).fit(treebank(25, 1))
    row = heads.evaluate(one).set_index("relation").loc["obj"]
    assert (row["texts"], row["accuracy"]) == (1, 1)
    assert row["difference"] > 0
    assert not row["difference_low"] > 0


@pytest.mark.slow
def test_a_probe_that_was_killed_goes_on_to_the_same_bytes(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, attlas_start: Start
) -> None:
    data = tmp_path / "bank.conllu"
    data.write_text(as_conllu(treebank(400, 1)))
    out, whole = tmp_path / "broken", tmp_path / "whole"
    command = [
        "probe",
        "syntax",
        "--data",
        data,
        "--model",
        tiny_folder,
        "--out",
        out,
        "--no-report",
        "--workers",
        "1",
    ]

    def halfway() -> bool:
        """The first pass is done, the second has begun."""
        return len(list((out / "states").glob("*/manifest.json"))) >= 2

    assert kill_when(attlas_start(*command), halfway)
    with pytest.raises(StudyError, match="not complete"):
        Study.open(out)
    assert json.loads((out / "manifest.json").read_text())["status"] == "running"
    with pytest.raises(
        StudyError, match=r"holds another kind of result \(syntax, not coreference\)"
    ):
        probe("coreference", tiny_folder, "embedded:sentences", None, out)  # of another kind
    jobs, runs = Counter[str](), []

    def counted(*given: Any) -> ShardJob:
        jobs[runs[-1]] += 1
        return ShardJob(*given)

    monkeypatch.setattr("attlas.studies.run.ShardJob", counted)
    found = {}
    for folder in (out, whole):
        runs.append(folder.name)
        found[folder.name] = probe("syntax", tiny_folder, str(data), None, folder, min_cases=100)
    assert 0 < jobs["broken"] < jobs["whole"]  # what was done is not done again
    assert (out / RESULT).read_bytes() == (whole / RESULT).read_bytes()
    assert table_bytes(out) == table_bytes(whole)
    assert found["broken"].manifest["counts"] == found["whole"].manifest["counts"]
    assert not (out / "states").exists()  # large, and of no more use


# results worked out from studies


def about(model: str = "m", state: str = "0" * 64, **more: Any) -> dict[str, Any]:
    """A manifest as a study's, by hand."""
    shape = {
        "n_layers": 2,
        "n_heads": 2,
        "max_length": 512,
        "class": "BertModel",
        "sha256": state,
        "state_sha256": state,
    }
    counts = {
        "read": 2,
        "analysed": 2,
        "quarantined": 0,
        "truncated": 0,
        "tokens": 9,
        "tokens_cut": 0,
    }
    corpus = {"name": "texts", "fingerprint": "f" * 64, "labels": {}}
    return {
        "model": {"name": model, **shape},
        "corpus": corpus,
        "counts": counts,
        "versions": {"torch": "2", "transformers": "5"},
        "seconds": 1.0,
        **more,
    }


def test_studies_of_one_model_stand_beside_one_another(
    done: dict[str, Study], tmp_path: Path
) -> None:
    study = attlas.study(
        rigged(), ["a cat sat", "the dog"], ["surface", "entropy"], tmp_path / "study"
    )
    both = study.combined_with(done["syntax"], done["coreference"])
    assert both.tables == [*study.tables, *done["syntax"].tables, *done["coreference"].tables]
    for name, owner in (
        ("surface", study),
        ("syntax", done["syntax"]),
        ("coreference", done["coreference"]),
    ):
        assert both.has(name)
        pd.testing.assert_frame_equal(both.table(name), owner.table(name))
    assert both.table("syntax", ["relation"]).columns.tolist() == ["relation"]
    assert both.combined_with(done["tree"]).has("tree")
    assert not study.has("syntax")  # as it was
    with pytest.raises(StudyError, match="no table 'tree'; its tables are texts, surface"):
        both.table("tree")
    stranger = attlas.study(tiny("bert"), ["a cat"], ["surface"], tmp_path / "stranger")
    with pytest.raises(
        StudyError,
        match=r"stranger is of another model .* than .*study .*; a report is of one model",
    ):
        study.combined_with(done["syntax"], stranger)


def test_studies_may_stand_beside_one_another_in_any_order(
    done: dict[str, Study], tmp_path: Path
) -> None:
    study = attlas.study(
        rigged(), ["a cat sat", "the dog"], ["surface", "totals"], tmp_path / "study"
    )
    for number, together in enumerate(
        (study.combined_with(done["syntax"]), done["syntax"].combined_with(study))
    ):
        page = together.report(tmp_path / f"{number}.html").read_text()
        assert re.findall(r'<section id="(\w+)"', page) == ["syntax", "surface", "totals"]
        assert "the dog" in re.sub(r"<[^>]*>", "", page)


def test_topology_may_stand_beside_a_study(tmp_path: Path) -> None:
    scores = {
        "mcc": 0.5,
        "mcc_low": 0.4,
        "mcc_high": 0.6,
        "accuracy": 0.8,
        "accuracy_low": 0.7,
        "accuracy_high": 0.9,
        "n": 20,
    }
    heads = pd.DataFrame({"layer": [0, 0, 1, 1], "head": [0, 1, 0, 1], "train": 0.5, "test": 0.4})
    told = {
        "difference_from_model": None,
        "test_texts_in_train": 0,
        "truncated": {},
        "features": {"left_out": 0},
        "maps": {"pearson": None},
    }
    frames = {
        "topology": pd.DataFrame([{"classifier": "all", **scores}]),
        "topology_heads": heads,
        "topology_grid": heads,
    }
    places = {name: Folder(tmp_path / name, name) for name in ("topology", "first")}
    for place in places.values():
        with place.claim({}):
            pass
    second = write_result(places["topology"], about("topology", topology=told), frames, {})
    first = write_result(places["first"], about("first"), {"own": heads}, {})
    assert findings(second)
    assert findings(first.combined_with(second)) == findings(second)


# the command line


DATA: dict[str, str] = {
    "bank.conllu": as_conllu(treebank(30, 1)),
    "dev.conllu": as_conllu(treebank(25, 2)),
    "stories.conllu": as_conllu(stories(12)),
    "one.conllu": as_conllu(treebank(1)),
    "plain.csv": "text,label\na cat sat,1\nthe dog,0\n",
    "broken.conllu": as_conllu(treebank(2))
    + "# sent_id = bad\n1\tcat\t_\tX\t_\t_\tzero\troot\t_\t_\n",
    "empty.conllu": "",
}
DATA["broken-stories.conllu"] = (
    DATA["stories.conllu"] + "# newdoc id = bad\n1\tcat\t_\tX\t_\t_\tzero\troot\t_\t_\n"
)


def write_files(folder: Path) -> None:
    for name, content in DATA.items():
        (folder / name).write_text(content)
    (folder / "taken").mkdir()
    (folder / "taken/notes.txt").write_text("mine")


@KINDS_OF_PROBE
def test_a_probe_from_the_command_line(
    kind: str, inside: Callable[..., Output], tmp_path: Path, small_folder: Path
) -> None:
    write_files(tmp_path)
    first, second = (
        ("stories.conllu",) * 2 if kind == "coreference" else ("bank.conllu", "dev.conllu")
    )
    command: list[Any] = [
        "probe",
        kind,
        "--train",
        first,
        "--test",
        second,
        "--model",
        small_folder,
        "--out",
        "out",
    ]
    command += ["--min-cases", "5"] if kind == "syntax" else []
    said = inside(*command, "--json")
    assert said.code == 0, said.error
    assert "Traceback" not in said.error
    content = json.loads(said.out)
    assert content["study"] == "out"
    assert (tmp_path / content["report"]).stat().st_size > 500_000
    keys = {
        "syntax": {"relations", "overall"},
        "tree": {"uas"},
        "coreference": {"heads", "baselines"},
    }[kind]
    assert keys <= set(content)
    told = inside(*command)  # found again, in words
    assert told.code == 0, told.error
    assert "nan" not in told.out
    lines = told.out.splitlines()
    table = Study.open(tmp_path / "out").table(kind)
    assert len([line for line in lines if line.strip()]) >= len(table) + 1
    for name in table[{"syntax": "relation", "tree": "probe", "coreference": "who"}[kind]]:
        shown = {**PROBE_NAMES, **WHO}.get(name, name)
        assert any(line.startswith(shown) for line in lines), name
    for line in findings(Study.open(tmp_path / "out")):
        assert f"- {line}" in lines
    assert "folder    out" in lines
    assert lines[-1].startswith("next      attlas report out")
    assert "report    out/report.html" in lines
    other = inside(*command, "--seed", "3")
    assert (other.code, other.out, other.error.count("\n")) == (2, "", 1)
    assert "out was made with another seed;" in other.error
    fresh = inside(*command, "--seed", "3", "--fresh", "--no-report", "--json")
    assert fresh.code == 0, fresh.error
    assert json.loads(fresh.out)["report"] is None


def test_a_probe_of_one_file(
    inside: Callable[..., Output], tmp_path: Path, small_folder: Path
) -> None:
    write_files(tmp_path)
    said = inside(
        "probe",
        "coreference",
        "--data",
        "stories.conllu",
        "--tokens",
        "0",
        "--model",
        small_folder,
        "--out",
        "out",
        "--json",
    )
    assert said.code == 0, said.error
    content = json.loads(said.out)
    assert (content["texts"]["train"], content["texts"]["test"]) == (10, 2)
    assert content["windows"]["tokens"] is None
    cut = inside(
        "probe",
        "syntax",
        "--data",
        "bank.conllu",
        "--max-length",
        "9",
        "--min-cases",
        "2",
        "--model",
        small_folder,
        "--out",
        "cut",
        "--json",
    )
    assert cut.code == 0, cut.error
    assert json.loads(cut.out)["counts"]["truncated"] > 0


MISSING = "Missing option '--train' / '--data'"
WRONG: dict[str, tuple[list[str], str]] = {
    "no data": ([], MISSING),
    "nothing to choose on": (["--test", "bank.conllu"], MISSING),
    "no such file": (["--data", "nowhere.conllu"], "nowhere.conllu"),
    "no such file to score on": (["--train", "good", "--test", "nowhere.conllu"], "nowhere.conllu"),
    "a table": (["--data", "plain.csv"], "plain.csv"),
    "a table to score on": (["--train", "good", "--test", "plain.csv"], "plain.csv"),
    "a broken row": (["--data", "broken"], "line "),
    "an empty file": (["--data", "empty.conllu"], "empty.conllu"),
    "one text": (["--data", "one"], "two different texts are needed"),
    "no such model": (["--data", "good", "--model", "./nowhere"], "there is no folder nowhere"),
    "not a model": (["--data", "good", "--model", "taken"], "has no config.json"),
    "a folder of someone else": (
        ["--data", "good", "--out", "taken"],
        "taken is not empty (it has",
    ),
    "an unknown option": (["--data", "good", "--fast"], "No such option: --fast"),
    "a seed that is no number": (["--data", "good", "--seed", "x"], "Invalid value for '--seed'"),
}


@KINDS_OF_PROBE
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_is_one_clear_line_and_nothing_is_written(
    case: str, kind: str, inside: Callable[..., Output], tmp_path: Path, small_folder: Path
) -> None:
    write_files(tmp_path)
    (tmp_path / "one.conllu").write_text(
        as_conllu((stories if kind == "coreference" else treebank)(1))
    )
    names = (
        {"good": "stories.conllu", "broken": "broken-stories.conllu"}
        if kind == "coreference"
        else {"good": "bank.conllu", "broken": "broken.conllu"}
    )
    names["one"] = "one.conllu"
    given, message = WRONG[case]
    arguments = [names.get(part, part) for part in given]
    arguments += [] if "--model" in arguments else ["--model", str(small_folder)]
    arguments += [] if "--out" in arguments else ["--out", "out"]
    if case == "a broken row":
        message = f"{names['broken']}, line {DATA[names['broken']].count(chr(10))}"
    before = sorted(tmp_path.rglob("*"))
    said = inside("probe", kind, *arguments)
    assert said.code == 2, said.error
    assert message in said.error
    assert said.error.count("\n") == 1, said.error
    assert said.out == ""
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["tree", "--vectors", "nowhere.txt"],
            "there is no file 'nowhere.txt'; give the path of vectors",
        ),
        (["tree", "--convention", "mine"], "convention is 'mine'; it must be sound or published"),
        (["coreference", "--tokens", "2"], "windows of 2 tokens hold no word"),
        (["syntax", "--min-cases", "9999"], "no relation has 9999 cases"),
    ],
)
def test_options_that_cannot_be_are_refused(
    arguments: list[str],
    message: str,
    inside: Callable[..., Output],
    tmp_path: Path,
    small_folder: Path,
) -> None:
    write_files(tmp_path)
    data = "stories.conllu" if arguments[0] == "coreference" else "bank.conllu"
    said = inside("probe", *arguments, "--data", data, "--model", small_folder, "--out", "out")
    assert (said.code, said.out) == (2, "")
    assert message in said.error
    assert "Traceback" not in said.error
    right = inside(
        "probe",
        arguments[0],
        "--data",
        data,
        "--model",
        small_folder,
        "--out",
        "out",
        "--no-report",
        *(["--min-cases", "2"] if arguments[0] == "syntax" else []),
    )
    assert right.code == 0, right.error  # what was refused holds no folder


def test_the_verb_alone_lists_its_probes(inside: Callable[..., Output]) -> None:
    said = inside("probe", "--help")
    assert said.code == 0
    assert all(name in said.out for name in PROBED)
    assert "No such command 'grammar'" in inside("probe", "grammar").error


def test_one_report_of_several_folders(
    inside: Callable[..., Output], done: dict[str, Study], tmp_path: Path
) -> None:
    folders = [done[kind].folder for kind in PROBED]
    said = inside("report", *folders, "--out", "all.html", "--json")
    assert said.code == 0, said.error
    content = json.loads(said.out)
    page = (tmp_path / content["report"]).read_text()
    assert re.findall(r'<section id="(\w+)"', page) == ["syntax", "tree", "coreference"]
    stranger = attlas.study(tiny("bert"), ["a cat"], ["surface"], tmp_path / "stranger")
    for wrong, message in (
        (stranger.folder, "a report is of one model"),
        ("nowhere", "there is no study folder nowhere"),
    ):
        said = inside("report", folders[0], wrong)
        assert (said.code, said.out, said.error.count("\n")) == (2, "", 1)
        assert message in said.error


# examples and lines


def gold_pairs(
    model: attlas.Model, one: Text, relation: str, direction: str
) -> list[tuple[int, int]]:
    """The arcs of a relation as words of the model, as attention runs."""
    tree, own = one.annotations[DEPENDENCIES], own_words(model, one)
    pairs = [
        (own[word], own[up])
        for word, (up, kind) in enumerate(zip(tree.heads, tree.relations, strict=True))
        if kind == relation
    ]
    return [pair if direction == DIRECTIONS[0] else pair[::-1] for pair in pairs]


def test_arcs_of_examples_are_the_attention_between_these_words() -> None:
    model, words = tiny("bert", num_hidden_layers=2), (*PLAIN, "unseeing", "x1")
    texts = [
        *treebank(12, 6, words),
        sentence("long", PLAIN + PLAIN[:5], [ROOT, *[0] * 18], ["root", *["obj"] * 18]),
    ]
    rows = [
        ("obj", 1, 2, DIRECTIONS[0]),
        ("det", 0, 3, DIRECTIONS[1]),
        ("nothing", 0, 0, DIRECTIONS[0]),
    ]
    chosen = pd.DataFrame(rows, columns=["relation", "layer", "head", "direction"])
    tables = examples(model, texts, chosen, sentences=4)
    arcs, strings = tables["example_arcs"], tables["example_words"]
    by_id = {one.id: one for one in texts}
    assert sorted(set(arcs["relation"])) == ["det", "obj"]  # no sentence has the third
    assert arcs.groupby("relation")["example"].nunique().max() <= 4
    assert "long" not in set(arcs["text"])
    for relation, layer, head, direction in rows[:2]:
        means: dict[str, float] = {}
        for one in texts:
            gold = gold_pairs(model, one, relation, direction)
            if gold and 6 <= len(one.words or ()) <= 16:
                square = between_slowly(model, one)[1][layer, head]
                means[one.id] = float(np.mean([square[pair] for pair in gold]))
        best_texts = sorted(means, key=lambda name: -means[name])[:4]
        mine = arcs[arcs["relation"] == relation]
        assert mine["text"].drop_duplicates().tolist() == best_texts
        for name, example in mine.groupby("text"):
            one = by_id[str(name)]
            spelt, weights = between_slowly(model, one)
            weights = weights[layer, head]
            number = example["example"].iloc[0]
            assert (
                strings[strings["example"] == number].sort_values("word")["string"].tolist()
                == spelt
            )
            kept = {(row.query, row.key): row.weight for row in example.itertuples()}
            gold = {
                (row.query, row.key) for row in example.itertuples() if row.gold
            }  # drawn however faint
            assert set(kept) == gold | {
                (int(query), int(key))
                for query, key in zip(*np.nonzero(weights >= FAINT), strict=True)
            }
            for pair, weight in kept.items():
                assert weight == pytest.approx(weights[pair], abs=1e-5)
            assert gold == set(gold_pairs(model, one, relation, direction)) & set(kept)


def test_relations_that_tell_are_those_above_the_offset() -> None:
    rows = [
        ("all", 0.9, 0.8),
        ("a", 0.1, 0.05),
        ("b", 0.3, -0.01),
        ("c", 0.2, 0.1),
        ("d", -0.2, -0.3),
    ]
    rows += [(f"e{n}", 0.01, 0.001) for n in range(12)]
    table = pd.DataFrame(rows, columns=["relation", "difference", "difference_low"])
    assert best_examples(table)["relation"].tolist() == [
        "c",
        "a",
        *(f"e{n}" for n in range(HEADS - 2)),
    ]
    assert best_examples(table, 1)["relation"].tolist() == ["c"]


def test_examples_of_no_relation_are_empty_tables() -> None:
    tables = examples(
        rigged(),
        treebank(3),
        best_examples(pd.DataFrame(columns=["relation", "difference", "difference_low"])),
    )
    assert {name: len(table) for name, table in tables.items()} == {
        "example_words": 0,
        "example_arcs": 0,
    }


HOSTILE = (
    "<script>alert(1)</script>",
    "&amp;",
    "\"'",
    "👩‍👩‍👧",
    "\u200b",
    "</svg>",
    "שלום",
    "w" * 40,
    "]]>",
)


def test_words_of_a_picture_with_lines_are_escaped() -> None:
    rng = np.random.default_rng(0)
    weights = rng.random((len(HOSTILE),) * 2) * 0.2
    weights[0, 1], weights[2, 3] = (
        0.001,
        0.015,
    )  # too faint to draw, but for the first, which is sought
    drawn = Lines("<b>title</b> & more", HOSTILE, weights, ((0, 1), (4, 5)))
    picture = ElementTree.fromstring(lines_svg(drawn))
    spelt = [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert spelt[0] == "<b>title</b> & more"
    assert spelt[1:] == [word for word in HOSTILE for _ in range(2)]
    assert {node.tag.rpartition("}")[2] for node in picture.iter()} == {
        "svg",
        "rect",
        "g",
        "text",
        "line",
    }
    lines = list(picture.iter("{http://www.w3.org/2000/svg}line"))
    assert len(lines) == int((weights >= 0.02).sum()) + 1
    assert len({node.get("stroke") for node in lines}) == 2
    assert "sought" in "".join(ElementTree.fromstring(lines_svg(drawn, "sought")).itertext())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A probe of sentences whose words are out to break a page."""
    words = (*PLAIN, *HOSTILE[:4], "</script><img src=x onerror=alert(1)>", "$&", "{{x}}")
    out = tmp_path_factory.mktemp("hostile") / "syntax"
    return probe(
        "syntax", rigged(), treebank(40, 1, words), treebank(40, 2, words), out, min_cases=5
    )


def test_the_report_draws_lines_between_words(hostile: Study, tmp_path: Path, browser: Any) -> None:
    drawn = study_lines(hostile)
    assert len(drawn) == 3
    assert all(one.title.startswith("obj, L0H3, dependent → head: ") for one in drawn)
    page, wrong = open_page(browser, hostile.report(tmp_path / "report.html"))
    page.wait_for_function("document.querySelectorAll('.chart svg.marks').length == 1")
    select = page.locator("#syntax [data-choose=example]")
    assert select.locator("option").all_inner_texts() == [
        re.sub(r"\s+", " ", one.title).strip() for one in drawn
    ]
    for number, one in enumerate(drawn):
        select.select_option(str(number))
        texts = page.locator("#syntax svg.lines text")
        spelt = [word if len(word) <= 28 else word[:27] + "…" for word in one.words]
        assert texts.evaluate_all("all => all.map(node => node.textContent)") == [
            word for word in spelt for _ in range(2)
        ]
        lines = page.locator("#syntax svg.lines line")
        assert lines.count() == int((one.weights >= 0.02).sum())
        assert page.locator("#syntax svg.lines line.gold").count() == len(one.gold) > 0
        query = one.gold[0][0]
        texts.nth(2 * query).hover()  # on the left: what it attends to
        said = page.locator("#syntax .says").inner_text()
        assert "attends to cat 1.00" in said
        left = page.locator("#syntax svg.lines line:not(.off)")
        assert left.count() == int((one.weights[query] >= 0.02).sum())
        ends = left.evaluate_all("all => all.map(node => node.getAttribute('y1'))")
        assert len(set(ends)) == 1
        cat = one.words.index("cat")
        texts.nth(2 * cat + 1).hover()  # on the right: who attends to it
        assert page.locator("#syntax svg.lines line:not(.off)").count() == int(
            (one.weights[:, cat] >= 0.02).sum()
        )
        assert "is attended to by" in page.locator("#syntax .says").inner_text()
        page.mouse.move(0, 0)
        assert page.locator("#syntax svg.lines line.off").count() == 0
    assert wrong == []
    page.context.close()


def test_lines_of_the_report_are_written_as_pictures(hostile: Study, tmp_path: Path) -> None:
    for kind, signature in (("svg", b"<svg"), ("png", b"\x89PNG")):
        paths = write_charts(hostile, tmp_path / kind, kind)
        assert len(paths) == 1 + 3
        assert all(path.read_bytes().startswith(signature) for path in paths)


def test_a_looked_at_text_has_lines_that_follow_layer_and_head(
    tmp_path: Path, browser: Any
) -> None:
    seen = attlas.attention(tiny("bert"), "the cat <b>sat</b> on it & was good")
    page, wrong = open_page(browser, seen.write(tmp_path / "look.html"))
    assert page.locator("#lines svg").count() == 0
    page.locator("#between summary").click()
    page.wait_for_selector("#lines svg")
    for layer, head in ((None, None), (1, None), (2, 3), (0, 0)):
        page.select_option("#layer", "-1" if layer is None else str(layer))
        page.select_option("#head", "-1" if head is None else str(head))
        weights = seen.weights[slice(None) if layer is None else [layer]]
        weights = weights[:, slice(None) if head is None else [head]].mean((0, 1)).numpy()
        shown = page.locator("#lines line").evaluate_all(
            "all => all.map(node => [node.getAttribute('y1'), node.getAttribute('y2'), "
            "node.getAttribute('stroke-opacity')])"
        )
        drawn = {
            (round((float(y1) - 15) / 22), round((float(y2) - 15) / 22)): float(value)
            for y1, y2, value in shown
        }
        for query, key in np.ndindex(weights.shape):
            if abs(weights[query, key] - 0.02) > 1e-3:
                assert ((query, key) in drawn) == (weights[query, key] > 0.02)
            if (query, key) in drawn:
                assert drawn[query, key] == pytest.approx(weights[query, key], abs=1e-3)
    spelt = page.locator("#lines text").evaluate_all("all => all.map(node => node.textContent)")
    assert spelt == [token for token in seen.tokens for _ in range(2)]
    page.locator("#lines text").nth(2).hover()
    assert "attends to" in page.locator("#lines .says").inner_text()
    assert wrong == []
    page.context.close()


def test_a_long_text_has_no_lines(tmp_path: Path, browser: Any) -> None:
    for words, hidden in ((58, False), (59, True)):
        seen = attlas.attention(tiny("bert", num_hidden_layers=1), " ".join(["cat"] * words))
        page, wrong = open_page(browser, seen.write(tmp_path / "look.html"))
        assert page.locator("#between").is_hidden() == hidden, words
        assert wrong == []
        page.context.close()


# reports of little


def test_reports_of_studies_with_little_in_them(tmp_path: Path, browser: Any) -> None:
    """One head; no relation above its offset; one kind of mention; with a map of heads."""
    one, flat = rigged((-1,)), [chained(n, -1) for n in range(12)]
    pairs = [
        document(n, "dog it was good", (0, "d", "common"), (1, "d", "pronoun")) for n in range(6)
    ]
    syntax = probe("syntax", one, flat, flat, tmp_path / "syntax", min_cases=5)
    assert not len(best_examples(syntax.table("syntax")))
    assert study_lines(syntax) == ()
    coreference = probe("coreference", one, pairs, pairs, tmp_path / "coreference")
    assert coreference.result["heads"][0]["proper"] is None
    assert coreference.result["heads"][0]["pronoun"] == 1
    tree = probe("tree", one, flat, flat, tmp_path / "tree")
    study = attlas.study(
        one,
        ["a cat sat", "the dog"],
        ["surface", "entropy", "head_distance", "special_gradient"],
        tmp_path / "study",
    )
    together = study.combined_with(syntax, tree, coreference)
    told = findings(together)
    assert any(
        line.startswith("For 0 of 1 relations, one head is significantly better than the")
        for line in told
    )
    assert not any("nan" in line for line in told)
    page, wrong = open_page(browser, together.report(tmp_path / "all.html"))
    charts = sum(
        figure.chart is not None
        for _, part in sections(together)
        for figure in part.figures(together)
    )
    page.wait_for_function(f"document.querySelectorAll('.chart svg.marks').length == {charts}")
    assert "could not be drawn" not in page.locator("body").inner_text()
    assert page.locator("[data-lines]").count() == 0
    assert wrong == []
    page.context.close()


def test_heads_on_the_map_are_named_by_what_they_find(
    done: dict[str, Study], tmp_path: Path
) -> None:
    study = attlas.study(
        rigged(),
        ["a cat sat on it", "the dog saw a cat"],
        ["surface", "entropy", "head_distance"],
        tmp_path / "study",
    )
    together = study.combined_with(*done.values())
    map_figure = SECTIONS["head_distance"].figures(together)[0]
    spec = json.dumps(map_figure.chart.to_dict()) if map_figure.chart is not None else ""
    assert '"behaviour": "obj"' in spec
    assert '"behaviour": "obj"' not in json.dumps(
        SECTIONS["head_distance"].figures(study)[0].chart.to_dict()
    )  # type: ignore[union-attr]
    told = findings(together)
    table = done["syntax"].table("syntax").set_index("relation")
    assert any(
        f"L0H3 for obj 1.00 (offset {table.loc['obj', 'baseline']:.2f}" in line for line in told
    )
    for begins in (
        "Attention-only probe, UAS: ",
        "Probe of attention and words, UAS: ",
        "The best single head over all relations is",
    ):
        assert any(line.startswith(begins) for line in told), begins
    best_head = done["coreference"].result["best"][0]
    assert any(
        line.startswith(f"L{best_head['layer']}H{best_head['head']} finds the antecedent: ")
        for line in told
    )
    assert not any("nan" in line for line in told)


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
    inside: Callable[..., Output],
    tmp_path: Path,
    small_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.builders.pages import drawn_before

    write_paper(tmp_path / "data")
    monkeypatch.setattr("attlas.papers.bert.SEGMENTS", 40)
    monkeypatch.setattr("attlas.papers.bert.RANDOM_SEGMENTS", 10)
    command = ["reproduce", "bert", "--data-root", "data", "--model", small_folder, "--out", "out"]
    said = inside(*command)
    assert said.code == 0, said.error
    out = tmp_path / "out"
    table = (out / "bert.md").read_text()
    assert table.strip() in said.out
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
        assert f"out/{name}" in said.out
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
