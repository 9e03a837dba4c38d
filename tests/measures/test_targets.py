"""Attention to words that a user names: against a slow twin, with both controls."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import attlas
from attlas.catalogue import MEASURES, measures_of
from attlas.core.annotations import Coreference, Mention
from attlas.core.states import TypeSample
from attlas.core.text import Text
from attlas.measures.targets import FACTOR, MATCHED, Targets, annotated_spans, matches
from attlas.support.errors import MeasureError
from attlas.testing import check_measure, fold, stream, tiny
from tests.builders.measures import FAMILIES, seen
from tests.twins import attention as attention_twins, measures as measures_twins

QUIET = {"progress": False, "workers": 1}


def word_masses(matrix, words):
    """What each word of a text gets from a row, on average: all of its tokens."""
    n = len(matrix)
    out = [0.0] * len(words.strings)
    for token, word in enumerate(words.of):
        out[word] += sum(row[token] for row in matrix) / n
    return out


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("named", [("a", "film"), ("the",), ("very", "mat", "sat")])
def test_targets_are_their_twin(family, named):
    model, batches, raw = seen(family)
    measure = Targets(words=" ".join(named))
    tables = measure.result(fold(measure, batches, model))
    table = tables["targets"].set_index(["layer", "head"])
    for layer in range(3):
        for head in range(4):
            texts = []
            for one, layers in zip(raw, batches, strict=True):
                words = layers[0].batch.words[0]
                strings = [
                    string if source >= 0 else ""
                    for string, source in zip(words.strings, words.source, strict=True)
                ]
                even = attention_twins.uniform(one.visible[layer].tolist())
                given_ = word_masses(one.weights[layer, head].tolist(), words)
                texts.append((given_, word_masses(even, words), strings))
            columns, matched = measures_twins.targets(
                texts, lambda word: word in named, str.isalnum, MATCHED, FACTOR
            )
            row = table.loc[(layer, head)]
            assert list(columns) == list(table.columns)
            for name, value in columns.items():
                assert row[name] == pytest.approx(value, rel=2e-5, abs=1e-7), name
    words = tables["targets_words"].set_index("string")
    assert words["matched"].to_dict() == matched
    assert words["occurrences"].is_monotonic_decreasing


@pytest.mark.parametrize("family", ["bert", "longformer"])
@pytest.mark.parametrize(
    "measure",
    [
        Targets(words="a", types=10),
        Targets(pattern="[a-z]a.*"),
        Targets(spans="rationale"),
    ],
    ids=["words", "pattern", "spans"],
)
def test_every_kind_of_target_keeps_the_contract(family, measure):
    model = tiny(family)
    texts = [
        Text(str(n), "a cat sat on a mat and saw the dog", annotations={"rationale": ((2, 9),)})
        for n in range(2)
    ] + [Text("3", "it was a very bad film")]
    check_measure(measure, stream(model, texts), model)


def test_what_is_a_target():
    def marked(measure, text):
        batch = stream(tiny("bert"), [text])[0][0].batch
        return sorted(measure._marks(batch).targets.elements())

    text = Text(
        "0",
        "The cat's good film, unable and Undoable",
        annotations={"rationale": ((4, 9), (16, 17)), "own": [(0, 3)], "wrong": 3},
    )
    assert marked(Targets(words="THE film ,"), text) == [",", "film", "the"]
    assert marked(Targets(words="cat’s"), text) == ["cat's"]  # however it is written
    assert marked(Targets(pattern="un.*able"), text) == ["unable", "undoable"]
    assert marked(Targets(pattern="un"), text) == []  # a whole word
    assert marked(Targets(spans="rationale"), text) == ["cat's", "film"]
    assert marked(Targets(spans="own"), text) == ["the"]
    assert marked(Targets(spans="absent"), text) == []
    assert marked(Targets(), Text("1", "not a cat and never a dog")) == ["never", "not"]
    with pytest.raises(MeasureError, match="annotation 'wrong' of text '0' is not a list of spans"):
        marked(Targets(spans="wrong"), text)


def test_mentions_and_phrases_are_spans():
    words = ("Ann", "saw", "her", "cat")
    chains = Coreference((Mention(0, 1, 0, "a", "proper"), Mention(2, 4, 3, "c", "common")))
    text = Text("0", words=words, annotations={"coreference": chains})
    assert [text.text[start:stop] for start, stop in annotated_spans(text, "coreference")] == [
        "Ann",
        "her cat",
    ]
    related = next(iter(attlas.read("embedded:relations")))
    phrases = {related.text[start:stop] for start, stop in annotated_spans(related, "relations")}
    triple = related.annotations["relations"].triples[0]
    assert related.text[slice(*triple.head)] in phrases


def test_a_pattern_that_never_ends_is_an_error():
    began = time.monotonic()
    with pytest.raises(MeasureError, match="takes more than 1 s for the word 'aaaa"):
        matches("(a|aa)+[bc]", "a" * 60)
    assert time.monotonic() - began < 20
    assert not matches("a+", "a" * 101)  # too long a word
    for measure, reason in {
        "targets(pattern='(a')": "which is not a regular expression",
        f"targets(pattern='{'a' * 201}')": "longer than 200 characters",
        "targets(words=a,pattern=b)": "targets has words and pattern; give one of them",
        "targets(types=1)": "types is 1",
    }.items():
        with pytest.raises(MeasureError, match=reason):
            measures_of(measure)


def test_values_in_quotes_are_as_written():
    assert measures_of(["surface", "targets(words=not)"])[1] == Targets(words="not")
    assert measures_of(r"targets(pattern='(un|in)\w{2,3}', types=20), surface") == [
        Targets(pattern=r"(un|in)\w{2,3}", types=20),
        MEASURES["surface"](),
    ]
    assert measures_of("targets(words=don't not)") == [Targets(words="don't not")]
    assert measures_of('targets(words="2020")') == [Targets(words="2020")]
    assert measures_of("targets(words='tis so)") == [Targets(words="'tis so")]
    assert "targets" not in [measure.name for measure in measures_of("all")]


STRINGS = st.lists(st.text("abcdef", min_size=1, max_size=2), max_size=30)


@given(st.lists(STRINGS, min_size=1, max_size=6), st.integers(1, 5), st.frozensets(st.just("a")))
@settings(max_examples=100)
def test_a_sample_of_types_does_not_depend_on_how_texts_are_divided(parts, size, always):
    def sampled(strings):
        sample = TypeSample(1, size=size, always=always)
        for string in strings:  # one by one, the worst that can happen to it
            sample.add([string], np.ones((1, 1)))
        return sample

    whole = sampled([string for part in parts for string in part])
    for order in (parts, parts[::-1]):
        merged = TypeSample(1, size=size, always=always)
        for part in order:
            merged = merged.merge(merged.restored(sampled(part).arrays()))
        assert merged.table()[0] == whole.table()[0]
        assert np.array_equal(merged.table()[1], whole.table()[1])
    names, totals = whole.table()
    every = [string for part in parts for string in part]
    assert {name: float(total) for name, total in zip(names, totals[:, 0], strict=True)} == {
        name: every.count(name) for name in names
    }
    assert len(set(names) - always) == min(size, len(set(every) - always))


def test_a_text_without_a_target_does_not_count():
    texts = ["a cat sat on the mat", "the dog saw it", "a cat"]
    model = tiny("bert")
    counted = attlas.study(model, texts, "targets(words=cat)", **QUIET)
    assert counted.manifest["counts"]["without_target"] == 1
    with_one = attlas.study(model, [texts[0], texts[2]], "targets(words=cat)", **QUIET)
    for column in ("target", "target_uniform", "target_error"):
        np.testing.assert_allclose(
            counted.table("targets")[column], with_one.table("targets")[column], rtol=1e-9
        )
    nothing = attlas.study(model, texts, "targets(words=horse)", **QUIET)
    assert nothing.table("targets")["target"].isna().all()
    assert nothing.table("targets_words").empty
