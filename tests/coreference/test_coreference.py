"""Coreference: baselines, windows and the counts of heads, each against a twin in plain loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from attlas.core.annotations import (
    COREFERENCE,
    DEPENDENCIES,
    ROOT,
    Coreference,
    Mention,
)
from attlas.core.text import Text
from attlas.coreference import baselines as sieve
from attlas.coreference.antecedents import COUNTS, DIRECTIONS, AntecedentCounts
from attlas.coreference.baselines import (
    FEMININE,
    MASCULINE,
    NEUTER,
    PLURAL,
    SINGULAR,
    UNKNOWN,
    features,
)
from attlas.coreference.windows import cut, windows
from attlas.stats.intervals import wilson
from attlas.support.errors import CorpusError, MeasureError
from attlas.testing import check_measure, fold, stream, tiny
from tests import strategies
from tests.builders.coreference import make_document, words_of
from tests.builders.models import shared
from tests.twins import attention as twins
from tests.twins.coreference import (
    antecedents_slowly,
    candidates_slowly,
    choice_slowly,
    preferred_slowly,
    right_slowly,
)

documents = st.builds(
    make_document, strategies.generators, st.integers(1, 24), around=st.booleans()
)


def coreference(text: Text) -> Coreference:
    return text.annotations[COREFERENCE]


# the twins


def accuracy_slowly(batches, n_layers: int, n_heads: int) -> tuple[dict, dict, dict]:
    """Hits and cases by (kind, direction, layer, head) and by (kind, baseline), and the counts."""
    found, controls, counts = {}, {}, dict.fromkeys(COUNTS, 0)
    for layers in batches:
        text, words = layers[0].batch.texts[0], layers[0].batch.words[0]
        counts["texts"] += 1
        if COREFERENCE not in text.annotations:
            counts["texts_without_mentions"] += 1
            continue
        whole = coreference(text)
        noted = replace(
            whole,
            mentions=tuple(
                mention for mention in whole.mentions if mention.head not in words.missing
            ),
        )
        cases = [
            number for number in range(len(noted.mentions)) if antecedents_slowly(noted, number)
        ]
        counts["mentions"] += len(whole.mentions)
        counts["unseen"] += len(whole.mentions) - len(noted.mentions)
        counts["scored"] += len(cases)
        counts["unscored"] += len(noted.mentions) - len(cases)
        matrices = [
            twins.each_head(twins.to_words, layer.dense().weights, [words.of.tolist()])[0]
            for layer in layers
        ]
        for number in cases:
            kinds, here = (
                ("all", noted.mentions[number].kind),
                words.source.index(noted.mentions[number].head),
            )
            for name in sieve.BASELINES:
                hit = right_slowly(noted, number, choice_slowly(name, text.words, noted, number))
                for kind in kinds:
                    controls.setdefault((kind, name), []).append(hit)
            for layer in range(n_layers):
                for head in range(n_heads):
                    matrix = matrices[layer][head]
                    ways = {
                        "to": lambda word: matrix[here][words.source.index(word)],  # noqa: B023
                        "from": lambda word: matrix[words.source.index(word)][here],  # noqa: B023
                    }
                    for direction, weight in ways.items():
                        hit = right_slowly(noted, number, preferred_slowly(noted, number, weight))
                        for kind in kinds:
                            found.setdefault((kind, direction, layer, head), []).append(hit)
    return found, controls, counts


# the baselines


@given(documents)
def test_baselines_are_their_twins(text):
    noted = coreference(text)
    rows = sieve.scored(noted).tolist()
    assert rows == [
        number for number in range(len(noted.mentions)) if antecedents_slowly(noted, number)
    ]
    for name, choose in sieve.BASELINES.items():
        chosen = choose(text.words, noted).tolist()
        assert chosen == [choice_slowly(name, text.words, noted, number) for number in rows], name
        for number, choice in zip(rows, chosen, strict=True):
            assert choice == -1 or choice in candidates_slowly(noted, number)


@given(documents)
def test_only_head_match_and_nested_pronouns_are_left_without_a_choice(text):
    noted = coreference(text)
    assert (sieve.nearest(text.words, noted) >= 0).all()
    kinds = [noted.mentions[row].kind for row in sieve.scored(noted)]
    for kind, choice in zip(kinds, sieve.rules(text.words, noted), strict=True):
        assert choice >= 0 or kind == "pronoun"


def test_head_match_is_right_only_with_the_same_word():
    words = words_of("the King saw a dog ; the old king ran")
    mentions = (
        Mention(0, 2, 1, "k", "common"),
        Mention(3, 5, 4, "d", "common"),
        Mention(6, 9, 8, "k", "common"),
    )
    noted = Coreference(mentions)
    assert sieve.scored(noted).tolist() == [2]
    assert [choose(words, noted).tolist() for choose in sieve.BASELINES.values()] == [[1], [0], [0]]


def test_rules_go_by_string_then_head_then_agreement_then_distance():
    words = words_of("Mary met the king and the old king . The queen saw a king and him")
    mentions = (
        Mention(0, 1, 0, "m", "proper"),
        Mention(2, 4, 3, "k", "common"),
        Mention(5, 8, 7, "o", "common"),
        Mention(9, 11, 10, "m", "common"),  # nothing the same, the old king does not agree: Mary
        Mention(
            12, 14, 13, "k", "common"
        ),  # the same string but for the article, though the old king is nearer
        Mention(15, 16, 15, "k", "pronoun"),  # the nearest that agrees
    )
    noted = Coreference(mentions)
    assert sieve.scored(noted).tolist() == [3, 4, 5]
    assert sieve.rules(words, noted).tolist() == [0, 1, 4]


def test_a_pronoun_is_not_what_it_lies_in():
    words = words_of("Tom lost ; his wife left ; his dog")
    mentions = (
        Mention(0, 1, 0, "t", "proper"),
        Mention(3, 5, 4, "w", "common"),
        Mention(3, 4, 3, "t", "pronoun"),
        Mention(7, 9, 8, "d", "common"),
        Mention(7, 8, 7, "t", "pronoun"),
    )
    noted = Coreference(mentions)
    assert sieve.scored(noted).tolist() == [2, 4]
    assert sieve.rules(words, noted).tolist() == [0, 2]
    assert sieve.nearest(words, noted).tolist() == [0, 1], (
        "wife stands after his, and before the second his"
    )


def test_a_nested_mention_with_the_same_head_is_no_candidate():
    words = words_of("the king of France , he")
    mentions = (
        Mention(0, 4, 1, "k", "common"),
        Mention(0, 2, 1, "k", "common"),
        Mention(5, 6, 5, "k", "pronoun"),
    )
    noted = Coreference(mentions)
    assert sieve.candidates(noted).tolist() == [[False] * 3, [False] * 3, [True, True, False]]
    assert sieve.scored(noted).tolist() == [2], "the inner king has only itself before it"
    assert sieve.nearest(words, noted).tolist() == [0], (
        "the first in order of those that one word heads"
    )


def test_around_looks_both_ways():
    words = words_of("Ann , she , Eve")
    mentions = (
        Mention(0, 1, 0, "a", "proper"),
        Mention(2, 3, 2, "e", "pronoun"),
        Mention(4, 5, 4, "e", "proper"),
    )
    assert sieve.scored(Coreference(mentions)).tolist() == [2]
    noted = Coreference(mentions, around=True)
    assert sieve.scored(noted).tolist() == [1], "a name is not asked for its pronoun"
    assert sieve.nearest(words, noted).tolist() == [0], "of two as near the earlier"


@pytest.mark.parametrize(
    ("phrase", "head", "kind", "expected"),
    [
        ("I", 0, "pronoun", (SINGULAR, UNKNOWN, 1)),
        ("you", 0, "pronoun", (UNKNOWN, UNKNOWN, 2)),
        ("Her", 0, "pronoun", (SINGULAR, FEMININE, 3)),
        ("its", 0, "pronoun", (SINGULAR, NEUTER, 3)),
        ("themselves", 0, "pronoun", (PLURAL, UNKNOWN, 3)),
        ("thingummy", 0, "pronoun", (UNKNOWN, UNKNOWN, 3)),
        ("the US", 1, "proper", (SINGULAR, UNKNOWN, 3)),
        ("Athens", 0, "proper", (UNKNOWN, UNKNOWN, 3)),
        ("Mr. Smith", 1, "proper", (SINGULAR, MASCULINE, 3)),
        ("Mr. Smith 's dog", 3, "common", (SINGULAR, UNKNOWN, 3)),
        ("two women", 1, "common", (PLURAL, FEMININE, 3)),
        ("cats", 0, "common", (PLURAL, UNKNOWN, 3)),
        ("the bus", 1, "common", (SINGULAR, UNKNOWN, 3)),
        ("a coal mine", 2, "common", (SINGULAR, UNKNOWN, 3)),
    ],
)
def test_features(phrase, head, kind, expected):
    words = words_of(phrase)
    assert features(words, Mention(0, len(words), head, "1", kind)) == expected


def test_an_empty_text_has_no_choices():
    for choose in sieve.BASELINES.values():
        assert choose((), Coreference(())).tolist() == []


def test_mentions_need_words_and_must_lie_among_them():
    noted = Coreference((Mention(0, 2, 1, "1", "common"),))
    with pytest.raises(CorpusError, match=r"mentions but no words.*Text\(id, words"):
        sieve.mentions_of(Text("a", "the king", annotations={COREFERENCE: noted}))
    with pytest.raises(CorpusError, match=r"0 to 2 and head 1.*1 words: correct"):
        sieve.mentions_of(Text("a", words=("king",), annotations={COREFERENCE: noted}))
    assert sieve.mentions_of(Text("a", "the king")) is None


# the windows


@pytest.fixture(scope="module")
def bert():
    return shared("bert")


@settings(max_examples=30)
@given(strategies.generators, st.integers(1, 60), st.integers(4, 40), st.booleans())
def test_windows_hold_every_word_and_mention_once(bert, rng, length, tokens, around):
    document = make_document(rng, length, "d", around)
    whole, parts = coreference(document), cut(bert, [document], tokens)
    assert list(windows(bert, [document], tokens)) == parts.texts
    assert [text.id for text in parts.texts] == [
        f"d#{number}" for number in range(len(parts.texts))
    ]
    assert tuple(word for text in parts.texts for word in text.words) == document.words
    starts = np.cumsum([0, *(len(text.words) for text in parts.texts)]).tolist()
    assert set(starts[:-1]) <= set(whole.sentences)
    lengths = [len(encoded) for encoded in bert.encode(list(enumerate(parts.texts)))]
    found, sentences, kept_scored = [], [], 0
    for text, start, size in zip(parts.texts, starts[:-1], lengths, strict=True):
        own, tree = coreference(text), text.annotations[DEPENDENCIES]
        assert size <= tokens or len(own.sentences) == 1, "only a sentence by itself may be longer"
        assert (text.label, text.annotations["where"], own.around) == ("news", "row d", around)
        sentences += [start + begin for begin in own.sentences]
        kept_scored += sum(
            bool(antecedents_slowly(own, number)) for number in range(len(own.mentions))
        )
        for mention in own.mentions:
            moved = replace(
                mention,
                start=mention.start + start,
                stop=mention.stop + start,
                head=mention.head + start,
            )
            found.append(moved)
            assert (
                text.words[mention.start : mention.stop] == document.words[moved.start : moved.stop]
            )
        for word, head in enumerate(tree.heads):
            above = document.annotations[DEPENDENCIES].heads[start + word]
            assert head == (ROOT if above == ROOT else above - start)
            assert tree.relations[word] == f"r{start + word}"
    inside = [
        mention
        for mention in whole.mentions
        if any(start <= mention.start and mention.stop <= stop for start, stop in pairwise(starts))
    ]
    assert found == inside
    assert tuple(sentences) == whole.sentences
    scored = sum(bool(antecedents_slowly(whole, number)) for number in range(len(whole.mentions)))
    assert (parts.documents, parts.mentions, parts.across) == (
        1,
        len(whole.mentions),
        len(whole.mentions) - len(found),
    )
    assert (parts.scored, parts.out_of_reach) == (scored, scored - kept_scored)


def test_as_many_sentences_as_fit(bert):
    words = ("the", "cat", "sat", ".") * 5
    document = Text("d", words=words, annotations={COREFERENCE: Coreference((), (0, 4, 8, 12, 16))})
    assert [len(text.words) for text in windows(bert, [document], 10)] == [8, 8, 4]
    assert [len(text.words) for text in windows(bert, [document], 9)] == [4] * 5
    assert [len(text.words) for text in windows(bert, [document], 3)] == [4] * 5, (
        "longer sentences stand alone"
    )
    assert [text.id for text in windows(bert, [document], None)] == ["d#0"]


def test_no_window_is_longer_than_the_model():
    model = tiny("bert", max_position_embeddings=10)
    document = Text(
        "d",
        words=("cat", "sat") * 9,
        annotations={COREFERENCE: Coreference((), tuple(range(0, 18, 2)))},
    )
    for tokens in (None, 128):
        assert [len(text.words) for text in windows(model, [document], tokens)] == [8, 8, 2]


def test_documents_without_mentions_stay_whole(bert):
    plain, bare = Text("p", "a cat sat . " * 90), Text("w", words=("cat",) * 300)
    parts = cut(bert, [plain, bare])
    assert parts.texts == [plain, bare]
    assert parts.documents == parts.mentions == parts.out_of_reach == 0


def test_mentions_out_of_reach_are_counted(bert):
    words = words_of("the cat sat . he saw it . it sat .")
    mentions = (
        Mention(0, 2, 1, "c", "common"),
        Mention(6, 7, 6, "c", "pronoun"),
        Mention(8, 9, 8, "c", "pronoun"),
    )
    document = Text("d", words=words, annotations={COREFERENCE: Coreference(mentions, (0, 4, 8))})
    assert (cut(bert, [document]).scored, cut(bert, [document]).out_of_reach) == (2, 0)
    assert (cut(bert, [document], 6).scored, cut(bert, [document], 6).out_of_reach) == (2, 2)
    assert cut(bert, [document] * 2, 10).out_of_reach == 2, "it, in a window of its own, twice"


def test_a_window_must_hold_a_word(bert):
    document = Text("d", words=("cat",), annotations={COREFERENCE: Coreference(())})
    with pytest.raises(MeasureError, match="2 special tokens; give tokens of 3 or more"):
        cut(bert, [document], 2)


# the heads


@settings(max_examples=60)
@given(st.one_of(strategies.dense_layers(), strategies.banded_layers()), strategies.generators)
def test_between_words_is_its_twin(drawn, rng):
    layer, weights, _ = drawn
    for text, words in enumerate(layer.batch.words):
        some = rng.permutation(len(words))[: rng.integers(0, len(words) + 1)]
        whole = np.array(
            [
                twins.to_words(head, words.of.tolist())
                for head in weights[text].astype(float).tolist()
            ]
        )
        np.testing.assert_allclose(
            layer.between_words(text, some), whole[:, some][:, :, some], atol=1e-6
        )


def texts_of(seed: int, around: bool = False) -> list[Text]:
    rng = np.random.default_rng(seed)
    texts = [
        make_document(rng, int(length), str(number), around)
        for number, length in enumerate(rng.integers(3, 16, 5))
    ]
    bare = Text("none", "the cat sat on a mat")
    return [texts[0], bare, *texts[1:]]


def check_against_twin(model, texts):
    batches = stream(model, texts)
    tables = AntecedentCounts().result(fold(AntecedentCounts(), batches, model))
    found, controls, counts = accuracy_slowly(batches, model.n_layers, model.n_heads)
    heads = tables["antecedents"]
    assert len(heads) == len(found)
    for row in heads.itertuples():
        hits = found[row.kind, row.direction, row.layer, row.head]
        assert (row.n, row.accuracy) == (len(hits), pytest.approx(np.mean(hits)))
        assert 0 <= row.low <= row.accuracy + 1e-9 <= row.high + 2e-9 <= 1 + 2e-9
    assert len(tables["antecedents_baselines"]) == len(controls)
    for row in tables["antecedents_baselines"].itertuples():
        hits = controls[row.kind, row.baseline]
        assert (row.n, row.accuracy) == (len(hits), pytest.approx(np.mean(hits)))
    assert dict(zip(*tables["antecedents_counts"].to_dict("list").values(), strict=True)) == counts
    assert counts["scored"] > 0
    return counts


@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer"])
@pytest.mark.parametrize("around", [False, True])
def test_heads_are_right_as_often_as_their_twins(family, around):
    check_against_twin(tiny(family), texts_of(3, around))


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_the_measure_keeps_the_contract(family):
    model = tiny(family)
    for followed in ((), (("all", 1), ("proper", 0))):
        measure = AntecedentCounts(followed=followed)
        check_measure(measure, stream(model, texts_of(4)), model)


def test_a_batch_of_several_texts_is_the_texts_one_by_one(bert):
    texts = [make_document(np.random.default_rng(seed), 9, str(seed)) for seed in range(5)]
    texts = [replace(text, words=("cat",) * 9, text="") for text in texts]  # of one length
    encoded = bert.encode(list(enumerate([*texts, Text("none", "cat " * 9)])))
    (batch,) = bert.batches(encoded)
    layers = []
    bert.forward(batch, layers.append)
    together = AntecedentCounts().result(fold(AntecedentCounts(), [layers], bert))
    apart = AntecedentCounts().result(
        fold(AntecedentCounts(), stream(bert, [*texts, Text("none", "cat " * 9)]), bert)
    )
    for name, table in apart.items():
        for column in table.columns:
            assert table[column].tolist() == pytest.approx(together[name][column].tolist()), (
                name,
                column,
            )


def test_words_cut_off_or_dropped_are_counted():
    words = ("cat", "\u200b", "it", "sat", "on", "it", "and", "he", "saw", "it")
    mentions = tuple(Mention(word, word + 1, word, "c", "pronoun") for word in (0, 1, 2, 5, 9))
    text = Text("t", words=words, annotations={COREFERENCE: Coreference(mentions)})
    counts = check_against_twin(tiny("bert", max_position_embeddings=9), [text])
    assert counts == {
        "texts": 1,
        "texts_without_mentions": 0,
        "mentions": 5,
        "scored": 2,
        "unscored": 1,
        "unseen": 2,
    }


def test_texts_without_mentions_give_empty_tables(bert):
    tables = AntecedentCounts().result(
        fold(AntecedentCounts(), stream(bert, ["the cat sat", "a dog"]), bert)
    )
    assert list(tables["antecedents"].columns[:4]) == ["layer", "head", "kind", "direction"]
    assert len(tables["antecedents"]) == len(tables["antecedents_baselines"]) == 0
    assert tables["antecedents_counts"]["n"].tolist() == [2, 2, 0, 0, 0, 0]
    nothing = Text("n", words=("cat",), annotations={COREFERENCE: Coreference(())})
    tables = AntecedentCounts().result(fold(AntecedentCounts(), stream(bert, [nothing]), bert))
    assert tables["antecedents_counts"]["n"].tolist() == [1, 0, 0, 0, 0, 0]


def test_a_head_that_looks_at_the_antecedent_is_right(bert):
    """Attention written by hand: head 0 looks from 'it' to 'cat', and 'dog' looks at 'it'."""
    words = ("cat", "dog", "it")
    mentions = (
        Mention(0, 1, 0, "c", "common"),
        Mention(1, 2, 1, "d", "common"),
        Mention(2, 3, 2, "c", "pronoun"),
    )
    text = Text("t", words=words, annotations={COREFERENCE: Coreference(mentions)})
    (layers,) = stream(bert, [text])
    for layer in layers:
        layer.weights.zero_()
        layer.weights[0, 0, 3, 1] = 1  # it -> cat
        layer.weights[0, 0, 2, 3] = 1  # dog -> it
        layer.weights[0, 1, 1:3, 3] = 0.5  # cat, dog -> it
    table = AntecedentCounts().result(fold(AntecedentCounts(), [layers], bert))["antecedents"]
    row = table.set_index(["layer", "head", "kind", "direction"])
    assert row.loc[(0, 0, "pronoun", "to"), "accuracy"] == 1
    assert row.loc[(0, 0, "pronoun", "from"), "accuracy"] == 0
    assert row.loc[(0, 1, "pronoun", "from"), "accuracy"] == 1, "of equals the earlier word"
    assert row.loc[(0, 2, "pronoun", "from"), "accuracy"] == 0, "no weight, no answer"
    assert row.loc[(0, 0, "all", "to"), ["low", "high"]].tolist() == pytest.approx(
        list(wilson(1.0, 1.0))
    )
    assert set(table["direction"]) == set(DIRECTIONS)
