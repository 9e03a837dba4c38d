"""Arcs that heads find, against loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

import attlas
from attlas.core.annotations import DEPENDENCIES, ROOT, Dependencies
from attlas.core.text import Text
from attlas.stats.clustered import proportions_of
from attlas.support.errors import MeasureError
from attlas.syntax.arcs import DIRECTIONS, OFFSETS, PUBLISHED_OFFSETS, ArcCounts, arc_targets
from attlas.testing import assert_same, check_measure, stream, tiny
from tests.builders.heads import joined, run
from tests.twins.syntax import most_slowly

# heads that find syntactic heads

VOCABULARY = ("the", "cat", "sitting", "dog", "unknown", "mat", ".", ",", "a", "very", "film")


RELATIONS = ("det", "nsubj", "obj", "nmod:poss", "punct", "nsubj:pass", "poss")


def sentence(id, words, heads, relations):
    tree = Dependencies(tuple(heads), tuple(relations), ("X",) * len(words))
    return Text(id, words=tuple(words), annotations={DEPENDENCIES: tree})


def sentences(seed, count=11, longest=9):
    """Random sentences with any trees; some have a possessor with its 's, some one word only; two
    have no tree."""
    random = np.random.default_rng(seed)
    out = []
    for number in range(count):
        n = 1 if number == 3 else int(random.integers(2, longest))
        words = random.choice(VOCABULARY, n).tolist()
        for place in range(1, n):
            if random.random() < 0.25:
                words[place] = str(random.choice(["'s", "'S", "s'", "’s"]))
        heads = [
            int(random.choice([other for other in range(-1, n) if other != word]))
            for word in range(n)
        ]
        heads[int(random.integers(n))] = ROOT
        relations = ["root" if head == ROOT else str(random.choice(RELATIONS)) for head in heads]
        out.append(sentence(str(number), words, heads, relations))
    return [*out, Text("words", words=("a", "cat")), Text("text", "a cat sat")]


def arcs_slowly(model, batches, convention):
    """Accuracy of every head for every relation in both directions, of every offset, and what was
    counted; words by tokenising each alone."""
    published = convention == "published"
    offsets = PUBLISHED_OFFSETS if published else OFFSETS
    right, by_offset, n, counted = defaultdict(Counter), defaultdict(Counter), Counter(), Counter()
    for layers in batches:
        batch = layers[0].batch
        for place, text in enumerate(batch.texts):
            counted["texts"] += 1
            tree = text.annotations.get(DEPENDENCIES)
            if tree is None:
                counted["without_tree"] += 1
                continue
            pieces = [
                word
                for word, string in enumerate(text.words)
                for _ in model.tokenizer.tokenize(string)
            ]
            begins = int(model.tokenizer.cls_token is not None)
            pieces = pieces[: batch.n_tokens - 2 * begins]
            of = [-1] * begins + pieces + [-1] * begins
            assert len(of) == batch.n_tokens
            seen, size = set(pieces), len(text.words)
            answers = {}
            for layer in layers:
                for head, weights in enumerate(layer.dense().weights[place].double().tolist()):
                    for direction, most in zip(
                        DIRECTIONS, most_slowly(weights, of, max(pieces) + 1), strict=True
                    ):
                        answers[direction, layer.index, head] = most
            for word, (own, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
                if not published and (own == ROOT or relation.split(":")[0] in ("root", "punct")):
                    continue
                if word not in seen or (own != ROOT and own not in seen):
                    counted["unseen"] += 1
                    continue
                counted["words"] += 1
                asking = word
                if published and relation in ("poss", "nmod:poss") and word + 1 in seen:
                    asking += text.words[word + 1].lower() in ("'s", "s'", "’s")
                for kind in ("all", relation):
                    n[kind] += 1
                    for answer, most in answers.items():
                        right[kind][answer] += own != ROOT and most[asking] == own
                    for offset in offsets:
                        target = asking + offset
                        target = (
                            min(max(target, ROOT), size - 1) if published else target
                        )  # ROOT stands before the words
                        by_offset[kind][offset] += (published or own != ROOT) and target == own
    return right, by_offset, n, counted


def compare_arcs(tables, expected, offsets):
    right, by_offset, n, counted = expected
    found = tables["arcs"]
    assert len(found) == len(n) * 24
    for row in found.itertuples():
        assert row.n == n[row.relation]
        hits = right[row.relation][row.direction, row.layer, row.head]
        assert row.accuracy == pytest.approx(hits / row.n), row
    rows = tables["arcs_offsets"]
    assert len(rows) == len(n) * len(offsets)
    for row in rows.itertuples():
        assert row.n == n[row.relation]
        assert row.accuracy == pytest.approx(by_offset[row.relation][row.offset] / row.n), row
    names = ("texts", "words", "unseen", "without_tree")
    assert tables["arcs_counts"].to_dict("records") == [{name: counted[name] for name in names}]


@pytest.mark.parametrize(
    ("family", "convention"),
    [
        ("bert", "sound"),
        ("bert", "published"),
        ("gpt2", "sound"),
        ("longformer", "sound"),
        ("longformer", "published"),
    ],
)
def test_arcs_are_their_twin(family, convention):
    model, measure = tiny(family), ArcCounts(convention=convention)
    texts = sentences(1)
    alone, together = stream(model, texts), joined(model, texts)
    assert len(together) < len(alone)
    tables = run(measure, alone, model)
    expected = arcs_slowly(model, alone, convention)
    assert expected[3]["words"] > 20
    assert expected[3]["unseen"] == 0
    assert expected[3]["without_tree"] == 2
    assert ("punct" in expected[2]) == ("root" in expected[2]) == (convention == "published")
    compare_arcs(tables, expected, measure.offsets)
    check_measure(measure, together, model)
    check_measure(replace(measure, followed=(("det", 1), ("all", 0))), together, model)
    assert_same(run(measure, together, model), tables, 1e-9)
    if convention == "published":
        roots = tables["arcs"][tables["arcs"]["relation"] == "root"]
        assert len(roots) == 24
        assert not roots["accuracy"].any()
        rooted = tables["arcs_offsets"].query("relation == 'root' and offset >= 0")["accuracy"]
        assert not rooted.any(), "only what is clamped to the place before the words is ROOT"


@pytest.mark.parametrize("convention", ["sound", "published"])
@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_words_that_were_cut_off_are_unseen(family, convention):
    whole = tiny(family)
    model = attlas.load((whole.network, whole.tokenizer), max_length=8)
    texts = sentences(2, count=10, longest=12)
    batches = stream(model, texts)
    assert max(layers[0].n_tokens for layers in batches) == 8
    expected = arcs_slowly(model, batches, convention)
    assert expected[3]["unseen"] > 5
    compare_arcs(
        run(ArcCounts(convention=convention), batches, model),
        expected,
        ArcCounts(convention=convention).offsets,
    )
    sums = proportions_of(
        run(ArcCounts(convention=convention), batches, model)["arcs_sums"],
        "relation",
        24,
        len(ArcCounts(convention=convention).offsets),
    )
    assert sums["all"].cases == expected[3]["words"]


def test_arcs_of_a_study_are_those_of_a_fold(tmp_path):
    model, texts, measure = tiny("bert"), sentences(3), ArcCounts()
    done = attlas.study(model, texts, [measure], tmp_path / "study", workers=2)
    assert_same(
        {name: done.table(name) for name in ("arcs", "arcs_offsets", "arcs_sums", "arcs_counts")},
        run(measure, joined(model, texts), model),
    )
    shares = proportions_of(done.table("arcs_sums"), "relation", 24, len(OFFSETS))
    table = done.table("arcs")
    for relation, own in shares.items():
        np.testing.assert_allclose(
            table.loc[table["relation"] == relation, "accuracy"], own.answers
        )
    with_cases = [
        text
        for text in texts
        if DEPENDENCIES in text.annotations
        and any(
            relation not in ("root", "punct")
            for relation in text.annotations[DEPENDENCIES].relations
        )
    ]
    assert shares["all"].texts == len(with_cases)


def test_texts_without_trees_have_empty_tables():
    model = tiny("bert")
    tables = run(ArcCounts(), stream(model, ["a cat", "the dog"]), model)
    assert tables["arcs_counts"].to_dict("records") == [
        {"texts": 2, "words": 0, "unseen": 0, "without_tree": 2}
    ]
    assert len(tables["arcs"]) == len(tables["arcs_offsets"]) == len(tables["arcs_sums"]) == 0
    assert list(tables["arcs"].columns) == [
        "layer",
        "head",
        "relation",
        "direction",
        "accuracy",
        "n",
    ]
    one = sentence("one", ["cat"], [ROOT], ["root"])
    for convention, words in (("sound", 0), ("published", 1)):
        tables = run(ArcCounts(convention=convention), stream(model, [one]), model)
        assert tables["arcs_counts"]["words"].tolist() == [words]
        assert not tables["arcs"]["accuracy"].any()
        assert not tables["arcs_offsets"].query("offset >= 0")["accuracy"].any()
    with pytest.raises(MeasureError, match="convention is 'paper'"):
        ArcCounts(convention="paper")


def test_cases_by_hand():
    words = ("The", "cat", "'s", "mat", "was", "good", ".")
    tree = Dependencies(
        (1, 3, 1, 5, 5, ROOT, 5),
        ("det", "nmod:poss", "case", "nsubj", "cop", "root", "punct"),
        ("X",) * 7,
    )
    everything = np.ones(7, dtype=bool)
    sound = arc_targets(tree, words, everything, "sound", OFFSETS)
    assert sound.asking.tolist() == [0, 1, 2, 3, 4]
    assert sound.right.tolist() == [1, 3, 1, 5, 5]
    assert sound.relations == ("det", "nmod:poss", "case", "nsubj", "cop")
    assert [[OFFSETS[one] for one in np.flatnonzero(row)] for row in sound.offsets] == [
        [1],
        [2],
        [-1],
        [2],
        [1],
    ]
    assert sound.unseen == 0
    published = arc_targets(tree, words, everything, "published", PUBLISHED_OFFSETS)
    assert published.asking.tolist() == [0, 2, 2, 3, 4, 5, 6]  # the possessor by its 's
    assert published.right[[0, 1, 2, 3, 4, 6]].tolist() == [1, 3, 1, 5, 5, 5]
    assert published.right[5] not in range(
        -1, 7
    )  # no answer, and not the answer of a word without one
    assert [
        [PUBLISHED_OFFSETS[one] for one in np.flatnonzero(row)] for row in published.offsets
    ] == [
        [1],
        [1],
        [-1],
        [2],
        [1],
        [],
        [-1],
    ]  # the offset, too, is counted from the 's
    some = everything.copy()
    some[[2, 5]] = False  # dropped: 's and the root
    for convention, asking, unseen in (("sound", [0, 1], 3), ("published", [0, 1], 5)):
        found = arc_targets(tree, words, some, convention, OFFSETS)
        assert found.asking.tolist() == asking
        assert found.unseen == unseen
    last = arc_targets(
        Dependencies((ROOT, 0, 0), ("root", "dep", "dep"), ("",) * 3),
        ("a", "b", "c"),
        np.ones(3, dtype=bool),
        "published",
        PUBLISHED_OFFSETS,
    )
    assert [[PUBLISHED_OFFSETS[one] for one in np.flatnonzero(row)] for row in last.offsets] == [
        [-3, -2, -1],
        [-1],
        [-2],
    ]  # clamped to the sentence, ROOT before it


def test_a_word_that_sees_no_other_word_finds_nothing():
    """The first word of a causal model sees none but itself, and the last is seen by none: no head
    finds anything there."""
    model = tiny("gpt2")
    first = sentence("first", ["the", "cat", "sat"], [1, ROOT, 1], ["det", "root", "punct"])
    last = sentence("last", ["sat", "the", "cat"], [ROOT, 2, 0], ["root", "punct", "obj"])
    tables = run(ArcCounts(), stream(model, [first, last]), model)
    table = tables["arcs"]
    for relation, direction in (("det", "dependent->head"), ("obj", "head->dependent")):
        mine = table[(table["relation"] == relation) & (table["direction"] == direction)]
        assert mine["accuracy"].tolist() == [0.0] * 12, (
            f"{relation} {direction}: found with a weight of 0"
        )
