"""Human rationales are read as spans, and explanations are scored against them.

Against slow twins and sklearn, with a control that is chance.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import permutations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from sklearn.metrics import auc, precision_recall_curve

from attlas.core.annotations import RATIONALE
from attlas.core.text import Text
from attlas.corpora import labelled, read
from attlas.corpora.layouts.base import marked_spans
from attlas.explain.plausibility import (
    METRICS,
    Plausibility,
    auprc,
    iou_f1,
    plausibility,
    rationale_words,
    scores_of,
    token_f1,
)
from attlas.language.words import given_spans
from attlas.support.errors import CorpusError, MeasureError
from tests.builders.files import write_rows
from tests.twins.explain import iou_f1_slowly, token_f1_slowly

PAIRS = {
    "id": "f1",
    "text": "A fine\nfilm , truly  fine .",
    "evidences": [[[1, 3]], [[5, 6], [2, 3]]],
    "label": 1,
}
RELEASED = {
    "annotation_id": "f2",
    "text": "Dull and slow .",
    "classification": "NEG",
    "evidences": [
        [{"docid": "f2", "start_token": 2, "end_token": 3, "text": "slow"}],
        [{"start_token": 0, "end_token": 1}],
    ],
}
POST = {
    "post_id": "p1",
    "post_tokens": ["you", "are", "a", "walnut"],
    "rationales": [[0, 0, 1, 1], [1, 0, 0, 1], [0, 0, 1, 1]],
    "label": "rude",
}
OFFICIAL = {
    "post_id": "p2",
    "annotators": [
        {"label": label, "annotator_id": number}
        for number, label in enumerate(["rude", "kind", "rude"])
    ],
    "rationales": [[1, 0], [0, 0]],
    "post_tokens": ["old", "walnut"],
}
NORMAL = {"post_id": "p3", "post_tokens": ["good", "morning"], "rationales": [], "label": "normal"}


def facts(text):
    """id, label, words, and the characters that the rationale marks."""
    spans = text.annotations.get(RATIONALE)
    return (
        text.id,
        text.label,
        text.words,
        None if spans is None else [text.text[start:stop] for start, stop in spans],
    )


ERASER = [
    ("f1", "1", ("A", "fine", "film", ",", "truly", "fine", "."), ["fine film", "fine"]),
    ("f2", None, ("Dull", "and", "slow", "."), ["Dull", "slow"]),
]
POSTS = [
    ("p1", "rude", ("you", "are", "a", "walnut"), ["a walnut"]),
    ("p2", "rude", ("old", "walnut"), ["old"]),
    ("p3", "normal", ("good", "morning"), []),
]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "ndjson"])
def test_both_forms_of_both_data_sets(tmp_path, ending):
    corpus = read(write_rows(tmp_path / f"films.{ending}", [PAIRS, RELEASED]))
    assert [facts(text) for text in corpus] == ERASER == [facts(text) for text in corpus]
    assert [
        facts(text)
        for text in read(write_rows(tmp_path / f"posts.{ending}", [POST, OFFICIAL, NORMAL]))
    ] == POSTS
    assert [facts(text) for text in read([OFFICIAL, NORMAL])] == POSTS[1:]


def test_frames_and_parquet_are_known_too(tmp_path):
    posts = [POST, NORMAL]
    pq.write_table(pa.Table.from_pylist(posts), tmp_path / "posts.parquet")
    expected = [POSTS[0], POSTS[2]]
    for source in (
        posts,
        pd.DataFrame(posts),
        pd.read_parquet(tmp_path / "posts.parquet"),
        tmp_path / "posts.parquet",
    ):
        assert [facts(text) for text in read(source)] == expected
    pq.write_table(pa.Table.from_pylist([PAIRS]), tmp_path / "films.parquet")
    for source in (tmp_path / "films.parquet", pd.read_parquet(tmp_path / "films.parquet")):
        assert [facts(text) for text in read(source)] == ERASER[:1]


def test_columns_can_be_named():
    row = PAIRS | {"stars": 5, "number": 7, "title": "Fine film"}
    assert facts(next(iter(read([row], text="text", label="stars", id="number")))) == (
        "7",
        "5",
        *ERASER[0][2:],
    )
    assert facts(next(iter(read([row], text="title")))) == (
        "f1",
        None,
        None,
        None,
    )  # a row like any other
    assert facts(next(iter(read([RELEASED], label="classification")))) == (
        "f2",
        "NEG",
        *ERASER[1][2:],
    )
    assert facts(next(iter(read([POST | {"text": "Walnut!"}], text="text")))) == (
        "0",
        None,
        None,
        None,
    )
    assert [text.label for text in labelled([OFFICIAL, POST])] == [
        "rude",
        "rude",
    ]  # asks for the column `label`
    with pytest.raises(CorpusError, match="has no column 'stars'"):
        list(read([PAIRS], label="stars"))
    with pytest.raises(CorpusError, match="has no column 'label'"):
        list(read([RELEASED], label="label"))


def test_a_column_of_strings_is_something_else(tmp_path):
    (tmp_path / "a.csv").write_text("text,evidences,rationale\na cat,none,because\n")
    assert facts(next(iter(read(tmp_path / "a.csv")))) == ("0", None, None, None)


BAD_FILMS = [
    (
        {"evidences": [[[1, 9]]]},
        "has the span [1, 9), but the text has 7 tokens; a span must be 0 <= start < stop <= 7",
    ),
    ({"evidences": [[[6, 8]]]}, "has the span [6, 8)"),
    ({"evidences": [[[-1, 2]]]}, "has the span [-1, 2)"),
    ({"evidences": [[[3, 3]]]}, "has the span [3, 3)"),
    ({"evidences": [[[4, 2]]]}, "has the span [4, 2)"),
    ({"evidences": [[[1, 2.0]]]}, "has [1, 2.0] instead of a [start, stop] of tokens"),
    ({"evidences": [[[True, 2]]]}, "has [True, 2]"),
    ({"evidences": [[1, 2]]}, "has 1 instead"),
    ({"evidences": [{"start_token": 1, "end_token": 2}]}, "its 'evidences' is a dict, not a list"),
    ({"evidences": [[{"start_token": 1}]]}, "has [1, None] instead"),
    (
        {"evidences": [[{"start_token": 1, "end_token": 2, "text": "film"}]]},
        "have 'film' at tokens [1, 2), but the text has 'fine'; count tokens as text.split() does",
    ),
    (
        {"evidences": [[{"start_token": n, "end_token": n + 1, "docid": n}] for n in range(2)]},
        "are of 2 documents; give each document its own row",
    ),
    ({"evidences": "fine"}, "its 'evidences' is a str, not a list"),
    ({"evidences": None}, "it has no 'evidences'"),
    ({"text": 5}, "its 'text' is a int, not a string"),
    ({"text": None}, "it has no 'text'"),
    ({"text": " ", "evidences": []}, "the text is empty"),
]
BAD_POSTS = [
    (
        {"rationales": [[0, 1], [0, 0, 0, 1]]},
        "item 0 of its 'rationales' has 2 marks, but the post has 4 words; give one mark per word",
    ),
    (
        {"rationales": [[0, 0, 0, 2]]},
        "item 0 of its 'rationales' is [0, 0, 0, 2]; each mark must be 0 or 1",
    ),
    ({"rationales": [[0, 0, 0, "1"]]}, "each mark must be 0 or 1"),
    ({"rationales": [0, 0, 0, 1]}, "its 'rationales' is a int, not a list"),
    ({"rationales": None}, "it has no 'rationales'"),
    (
        {"post_tokens": ["you", "", "a", "walnut"]},
        "item 1 of its 'post_tokens' is ''; each must be a word",
    ),
    ({"post_tokens": ["you", None, "a", "walnut"]}, "item 1 of its 'post_tokens' is None"),
    ({"post_tokens": "you walnut"}, "its 'post_tokens' is a str, not a list"),
    ({"post_tokens": [], "rationales": []}, "the text is empty"),
    (
        {"label": None, "annotators": [{"label": label} for label in "abc"]},
        "no label has the majority of its annotators (they gave a, b, c); "
        "remove the row, or label it",
    ),
    (
        {"label": None, "annotators": [{"label": label} for label in "ab"]},
        "no label has the majority",
    ),
    ({"label": None, "annotators": []}, "(they gave none)"),
    ({"label": None, "annotators": [{"label": "a"}, {}]}, "one of its 'annotators' has no 'label'"),
    ({"label": None, "annotators": "a"}, "its 'annotators' is a str, not a list"),
]


@pytest.mark.parametrize(
    ("good", "bad"), [(PAIRS, BAD_FILMS), (POST, BAD_POSTS)], ids=["films", "posts"]
)
def test_a_bad_row_in_the_middle_is_one_bad_row(tmp_path, good, bad):
    key = "id" if good is PAIRS else "post_id"
    changed = [good | change | {key: f"bad{number}"} for number, (change, _) in enumerate(bad)]
    path = write_rows(tmp_path / "rows.jsonl.gz", [good, "{", *changed, good | {key: "last"}])
    first, no_json, *middle, last = read(path).rows()
    assert (facts(first)[2:], facts(last)) == (facts(last)[2:], ("last", *facts(first)[1:]))
    assert no_json.where == f"{path}, line 2"
    for number, (row, (_, reason)) in enumerate(zip(middle, bad, strict=True)):
        assert (row.where, row.id) == (f"{path}, line {number + 3}", f"bad{number}")
        assert reason in row.reason
        assert "\n" not in row.reason


def test_the_first_row_may_be_bad_too():
    undecided = OFFICIAL | {"annotators": [{"label": label} for label in "abc"]}
    for columns in ({}, {"label": "label"}):
        bad, good = read([undecided, OFFICIAL | {"post_id": "p4"}], **columns).rows()
        assert "no label has the majority" in bad.reason
        assert good.label == "rude"


def test_any_row_may_bring_character_spans(tmp_path):
    bad = [[[0, 6]], [[-1, 2]], [[2, 2]], [[3, 1]], [[1]], ["cat"], [["a", "b"]]]
    rows = [
        {"text": "A  cat's nap", "rationale": [[3, 8], [0, 1]]},
        {"text": "a dog", "rationale": []},
        {"text": "a cow", "rationale": "it moos"},
        {"text": "a hen"},
        *({"text": "a cat", "rationale": spans} for spans in bad),
        {"body": 1, "text": "last", "rationale": [[0, 4]]},
    ]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    found = list(read(path).rows())
    assert [facts(text)[3] for text in [*found[:4], found[-1]]] == [
        ["cat's", "A"],
        [],
        None,
        None,
        ["last"],
    ]
    for number, row in enumerate(found[4:-1], 5):
        assert row.where == f"{path}, line {number}"
        assert "characters" in row.reason
    assert [row.text for row in found[:2]] == ["A  cat's nap", "a dog"]
    assert all(row.words is None and row.label is None for row in found[:2])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.sampled_from([0.5, float("nan"), "", "a", " b "]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["start_token", "end_token", "docid", "text", "label"]), inner
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from([PAIRS, RELEASED, POST, OFFICIAL]), st.data(), st.booleans())
def test_whatever_stands_in_a_field_spoils_only_its_row(good, data, as_frame):
    broken = good | {
        name: data.draw(JSON, name)
        for name in data.draw(st.sets(st.sampled_from(sorted(good))), "fields")
    }
    rows = [
        good | {"id": "first", "post_id": "first"},
        broken,
        good | {"id": "last", "post_id": "last"},
    ]
    if as_frame:
        rows = pd.DataFrame(
            [{name: nested_arrays(value) for name, value in row.items()} for row in rows]
        )
    first, _, last = read(rows).rows()
    assert facts(first)[2:] == facts(last)[2:] == facts(next(iter(read([good]))))[2:]


def nested_arrays(value):
    """Lists as arrays of arrays, as frames that were read from Parquet hold them."""
    if not isinstance(value, list):
        return value
    out = np.empty(len(value), dtype=object)
    out[:] = [nested_arrays(item) for item in value]
    return out


WORDS = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=6
)
SOLID = WORDS.filter(lambda word: word.split() == [word])


def marks_of(words):
    return st.tuples(
        st.just(words), st.lists(st.booleans(), min_size=len(words), max_size=len(words))
    )


def cut_at(words, spans):
    """Words and their marks again, from nothing but the text and the spans."""
    starts = [start for start, _ in given_spans(words)]
    return [any(start <= at < stop for start, stop in spans) for at in starts]


@given(st.lists(SOLID, min_size=1, max_size=8).flatmap(marks_of))
def test_spans_are_exactly_the_marked_words_of_films(words_and_marks):
    words, marked = words_and_marks
    evidences = [[[index, index + 1]] for index in np.flatnonzero(marked).tolist()][::-1]
    (text,) = read([{"text": "\n ".join(words), "evidences": evidences}])
    spans = text.annotations[RATIONALE]
    assert text.words == tuple(words)
    assert [word for start, stop in spans for word in text.text[start:stop].split(" ")] == [
        word for word, mark in zip(words, marked, strict=True) if mark
    ]
    assert rationale_words(spans, given_spans(words)).tolist() == marked == cut_at(words, spans)


@given(st.lists(WORDS.filter(str.strip), min_size=1, max_size=8).flatmap(marks_of))
def test_spans_are_exactly_the_marked_words_of_posts(words_and_marks):
    words, marked = words_and_marks
    (text,) = read(
        [{"post_tokens": words, "rationales": [[int(mark) for mark in marked]], "post_id": 1}]
    )
    spans = text.annotations[RATIONALE]
    assert spans == marked_spans(words, marked)
    for start, stop in spans:
        first, last = (
            cut_at(words, [(0, start)]).count(True),
            cut_at(words, [(0, stop)]).count(True),
        )
        assert text.text[start:stop] == " ".join(words[first:last])
    assert rationale_words(spans, given_spans(words)).tolist() == marked == cut_at(words, spans)


def test_at_least_half_of_those_who_explained():
    for votes, marked in {
        (0, 1): True,
        (1, 0, 0): False,
        (1, 1, 0): True,
        (0,): False,
        (1,): True,
        (1, 0, 0, 1): True,
    }.items():
        (text,) = read([{"post_tokens": ["walnut"], "rationales": [[vote] for vote in votes]}])
        assert bool(text.annotations[RATIONALE]) == marked


def test_words_that_overlap_a_span_are_marked():
    words = [(0, 3), (4, 4), (4, 8), (9, 12), (2, 5)]
    assert rationale_words([(3, 5), (9, 9)], words).tolist() == [False, False, True, False, True]
    assert rationale_words([], words).tolist() == [False] * 5
    assert rationale_words([(0, 3)], []).tolist() == []


# explanations against rationales


@st.composite
def explained(draw):
    """Scores with ties and marks of a text that can be scored."""
    n = draw(st.integers(2, 40))
    scores = draw(st.lists(st.integers(-4, 4) | st.floats(-1, 1), min_size=n, max_size=n))
    marked = draw(
        st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda marks: 0 < sum(marks) < n)
    )
    return scores, marked


@given(explained(), st.none() | st.floats(0.01, 1), st.sampled_from([0.1, 1 / 3, 0.5, 2 / 3, 1.0]))
def test_the_same_as_slowly(text, share, threshold):
    scores, marked = text
    assert token_f1(scores, marked, share) == pytest.approx(token_f1_slowly(scores, marked, share))
    assert iou_f1(scores, marked, share, threshold) == pytest.approx(
        iou_f1_slowly(scores, marked, share, threshold)
    )
    precision, recall, _ = precision_recall_curve(marked, scores)
    assert auprc(scores, marked) == pytest.approx(auc(recall, precision))
    values, _ = scores_of(scores, marked, share=share, threshold=threshold, draws=1)
    alone = (
        token_f1(scores, marked, share).f1,
        auprc(scores, marked),
        iou_f1(scores, marked, share, threshold).f1,
    )
    assert values.tolist() == list(alone)
    if share is None:
        found = token_f1(scores, marked)
        assert found.precision == found.recall == found.f1


def test_long_texts_are_the_same_as_slowly():
    rng = np.random.default_rng(0)
    scores, marked = rng.normal(size=4096), np.repeat(rng.random(512) < 0.1, 8)
    scores[marked] += 2
    precision, recall, _ = precision_recall_curve(marked, scores)
    assert auprc(scores, marked) == pytest.approx(auc(recall, precision), abs=1e-12)
    assert iou_f1(scores, marked, 0.1) == pytest.approx(iou_f1_slowly(scores, marked, 0.1, 0.5))
    assert auprc(scores.astype(np.float32), marked.astype(int)) == pytest.approx(
        auc(recall, precision), abs=1e-4
    )


def test_ties_go_to_the_earlier_word_and_a_perfect_explanation_is_perfect():
    assert token_f1([0, 0, 0, 0], [1, 0, 0, 0]).f1 == 1
    assert token_f1([0, 0, 0, 0], [0, 0, 0, 1]).f1 == 0
    assert (
        auprc([0, 0, 0, 0], [1, 0, 0, 0])
        == auprc([0, 0, 0, 0], [0, 0, 0, 1])
        == pytest.approx(0.625)
    )
    marked = [False, True, True, False, False, True]
    assert scores_of(marked, marked)[0].tolist() == [1, 1, 1]
    assert token_f1([3, 2, 1, 0], [1, 1, 0, 0], share=0.01) == (1, 0.5, 2 / 3)  # one word at least


def test_a_low_threshold_can_hit_a_human_run_twice_as_in_eraser():
    found = iou_f1([1, 1, 0, 1, 1], [1, 1, 1, 1, 0], share=0.8, threshold=0.2)
    assert (found.precision, found.recall) == (1, 2)
    one_for_two = iou_f1([1, 1, 1, 0], [1, 0, 1, 0], share=0.75, threshold=0.3)  # a hit counts once
    assert (one_for_two.precision, one_for_two.recall) == (1, 0.5)


def test_the_control_is_chance():
    n, k, draws = 60, 12, 20_000
    marked = np.isin(np.arange(n), np.random.default_rng(1).choice(n, k, replace=False))
    _, control = scores_of(np.zeros(n), marked, draws=draws)
    error = stats.hypergeom(n, k, k).std() / k / np.sqrt(draws)
    assert abs(control[0] - k / n) < 4 * error
    _, control = scores_of(
        np.zeros(n), marked, share=0.1, draws=draws
    )  # 6 chosen: f1 = 2 hits / (6 + 12)
    hits = stats.hypergeom(n, k, 6)
    assert abs(control[0] - hits.mean() / 9) < 4 * hits.std() / 9 / np.sqrt(draws)


def test_the_control_is_the_mean_over_all_orderings():
    marked = [False, True, True, False, False, True]
    every = np.array([scores_of(order, marked, draws=1)[0] for order in permutations(range(6))])
    _, control = scores_of([0] * 6, marked, draws=20_000)
    assert np.all(np.abs(control - every.mean(0)) < 4 * every.std(0) / np.sqrt(20_000))


@pytest.mark.costly
def test_the_control_follows_from_the_marks_and_the_seed_alone():
    rng = np.random.default_rng(2)
    marked = rng.random(50) < 0.2
    one, other = (scores_of(rng.normal(size=50), marked)[1].tolist() for _ in range(2))
    assert one == other != scores_of(np.zeros(50), marked, seed=1)[1].tolist()
    program = (
        "import numpy as np; from attlas.explain.plausibility import scores_of;"
        f"print(scores_of(np.zeros(50), {marked.tolist()})[1].tolist())"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(output.stdout) == one


def test_means_and_intervals_over_texts():
    rng = np.random.default_rng(3)
    scores = [rng.normal(size=n) for n in (5, 30, 12, 9, 1, 0)]
    marked = [np.arange(len(one)) % 4 == 1 for one in scores]
    marked[3][:] = True
    found = plausibility(scores, marked, draws=50)
    each = [
        scores_of(one, truth, draws=50) for one, truth in zip(scores[:3], marked[:3], strict=True)
    ]
    assert (found.texts, found.left_out) == (3, 3)
    frame = found.to_frame()
    assert list(frame.columns) == ["metric", "value", "random", "low", "high", "texts"]
    assert tuple(frame["metric"]) == METRICS
    for at, row in enumerate(frame.itertuples()):
        values = np.array([value[at] for value, _ in each])
        assert row.value == pytest.approx(values.mean())
        assert row.random == pytest.approx(np.mean([control[at] for _, control in each]))
        if values.std():
            assert (row.low, row.high) == pytest.approx(
                stats.t.interval(0.95, 2, values.mean(), stats.sem(values)), nan_ok=True
            )
        assert row.texts == 3
    assert found.auprc.low < found.auprc.value < found.auprc.high
    assert "3 texts, 3 excluded" in repr(found)
    assert repr(found).count("random") == 3
    assert "auprc" in found._repr_html_()
    assert found == plausibility(
        np.array(scores, dtype=object), np.array(marked, dtype=object), draws=50
    )


def test_one_text_has_no_interval():
    found = plausibility(np.array([3.0, 2.0, 1.0]), np.array([True, False, False]))
    assert isinstance(found, Plausibility)
    assert (found.token_f1.value, found.texts, found.left_out) == (1, 1, 0)
    assert found == plausibility([3, 2, 1], [1, 0, 0]) == plausibility([[3, 2, 1]], [[1, 0, 0]])
    assert found.to_frame()[["low", "high"]].isna().all(None)
    assert "nan" not in (repr(found) + found._repr_html_()).lower()


def test_what_cannot_be_scored():
    for marked in ([False, False], [True, True], []):
        values, controls = scores_of([1.0, 2.0][: len(marked)], marked)
        assert np.isnan([values, controls]).all()
        for call in (token_f1, auprc, iou_f1, plausibility):
            with pytest.raises(MeasureError, match=r"word is marked|at least one text"):
                call([1.0, 2.0][: len(marked)], marked)
    with pytest.raises(MeasureError, match="none of the 2 texts"):
        plausibility([[1, 2], [3]], [[0, 0], [1]])


WRONG = {
    "scores of shape (2,) do not fit marks of shape (3,); give one score and one mark": (
        [1, 2],
        [0, 1, 0],
        {},
    ),
    "the score of word 1 is not a finite number": ([1, np.nan, 2], [0, 1, 0], {}),
    "marks must be true or false": ([1, 2, 3], [0, 2, 0], {}),
    "the scores of a text must be numbers": (["a", "b"], [0, 1], {}),
    "text 1: the score of word 0 is not": ([[1, 2], [np.inf, 1]], [[0, 1], [0, 1]], {}),
    "there are scores for 1 texts and rationales for 2": ([[1, 2]], [[0, 1], [0, 1]], {}),
    "there are scores for 0 texts": ([], [], {}),
    "share is 0; it must be above 0 and at most 1": ([1, 2], [0, 1], {"share": 0}),
    "share is 9.35": ([1, 2], [0, 1], {"share": 9.35}),
    "threshold is 0; it must be": ([1, 2], [0, 1], {"threshold": 0}),
    "draws is 0 and seed is 0; draws must be at least 1": ([1, 2], [0, 1], {"draws": 0}),
    "draws must be at least 1 and seed at least 0": ([1, 2], [0, 1], {"seed": -1}),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_input_is_one_clear_line(message):
    scores, marked, options = WRONG[message]
    with pytest.raises(MeasureError, match=re.escape(message)) as caught:
        plausibility(scores, marked, **options)
    assert "\n" not in str(caught.value)


@settings(max_examples=20)
@given(explained(), st.integers(0, 2**31))
def test_scores_stay_between_0_and_1(text, seed):
    for part in scores_of(*text, seed=seed):
        assert np.all((part >= 0) & (part <= 1))


def test_a_text_to_its_marked_words():
    (text,) = read([PAIRS])
    assert isinstance(text, Text)
    marked = rationale_words(text.annotations[RATIONALE], given_spans(text.words))
    assert marked.tolist() == [False, True, True, False, False, True, False]
    assert plausibility(marked, marked).iou_f1.value == 1
