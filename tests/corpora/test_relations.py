"""Every phrase of a triple is the characters it names, or the triple is lost, or the row bad."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from attlas.core.annotations import RATIONALE, RELATIONS, Relations, Triple, relations_of
from attlas.corpora import BadRow, embedded, labelled, read
from attlas.corpora.layouts.docred import docred
from attlas.corpora.relation_names import relation_names
from attlas.language.locate import closest, located
from attlas.language.words import given_spans
from attlas.support.errors import CorpusError
from tests.builders.files import write_rows
from tests.twins.corpora import located_slowly

TAUGHT = {
    "id": "t1",
    "text": "Ida taught Ole, and Ole taught Una.",
    "triples": [
        {"head": "Ida", "tail": "Ole", "relation_words": "taught", "relation": "teacher"},
        {
            "head": [20, 23],
            "tail": "Una",
            "relation_words": [24, 30],
            "relation": "teacher",
            "sure": True,
        },
        {"head": "Ida", "tail": "Una", "relation_words": None, "relation": "elder"},
        {"head": "Una", "tail": "Ida", "relation": "younger"},
    ],
    "relation": "teacher",
    "source": "a field that nobody knows",
}
BAKER = {
    "relation": "P7",
    "name": "what a baker bakes",
    "tokens": ["Old", "Ida", "bakes", " ", "rye", "bread", "and", "\n", "bread", "rolls", "."],
    "h": ["ida the baker", "Q1", [[0, 1]]],
    "t": ["bread", "Q2", [[8, 9], [4, 5], [8]]],
}
CAUSE = {
    "id": 17,
    "sentence": "A <e1>storm</e1> broke the <e2>garden fence</e2>.",
    "relation": "Cause-Effect(e1,e2)",
    "comment": "",
}
TOWN = {
    "title": "Elm",
    "sents": [
        ["Elm", "is", "a", "town", "."],
        ["\xa0"],
        ["Ida", "Roe", "left", "Elm", "for", "New", "Elm", "."],
    ],
    "vertexSet": [
        [
            {"name": "Elm", "type": "LOC", "sent_id": 0, "pos": [0, 1]},
            {"sent_id": 2, "pos": [3, 4]},
        ],
        [{"name": "Ida Roe", "sent_id": 2, "pos": [0, 2]}],
        [{"name": "New Elm", "sent_id": 2, "pos": [5, 7]}],
        [{"name": "town", "sent_id": 0, "pos": [3, 4]}],
        [{"name": "Elm", "sent_id": 2, "pos": [6, 7]}],
    ],
    "labels": [
        {"h": 1, "t": 0, "r": "home", "evidence": [2]},
        {"h": 0, "t": 3, "r": "is"},
        {"h": 3, "t": 2, "r": "like"},
        {"h": 2, "t": 4, "r": "named"},
    ],
}
GOOD = {"trex": TAUGHT, "fewrel": BAKER, "semeval": CAUSE, "docred": TOWN}
CONTENT = {
    "trex": "Ida taught Ole, and Ole taught Una.",
    "fewrel": ("Old", "Ida", "bakes", "rye", "bread", "and", "bread", "rolls", "."),
    "semeval": "A storm broke the garden fence.",
    "docred": (
        "Elm",
        "is",
        "a",
        "town",
        ".",
        "Ida",
        "Roe",
        "left",
        "Elm",
        "for",
        "New",
        "Elm",
        ".",
    ),
}
PHRASES = {
    "trex": [
        ("Ida", "Ole", "taught", "teacher"),
        ("Ole", "Una", "taught", "teacher"),
        ("Ida", "Una", None, "elder"),
        ("Una", "Ida", None, "younger"),
    ],
    "fewrel": [("Old Ida", "rye bread", None, "P7")],
    "semeval": [("storm", "garden fence", None, "Cause-Effect(e1,e2)")],
    "docred": [
        ("Ida Roe", "Elm", None, "home"),
        ("Elm", "town", None, "is"),
        ("town", "New Elm", None, "like"),
    ],
}
every_kind = pytest.mark.parametrize("kind", GOOD)


def phrases(text):
    """The strings of head, tail and words of each triple, and its relation."""
    return [
        (
            *(
                span and text.text[slice(*span)]
                for span in (triple.head, triple.tail, triple.words)
            ),
            triple.relation,
        )
        for triple in text.annotations[RELATIONS].triples
    ]


def lost_of(text):
    return dict(text.annotations[RELATIONS].lost)


def is_read(text, kind):
    return (text.words or text.text, phrases(text)) == (CONTENT[kind], PHRASES[kind])


@every_kind
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "ndjson"])
def test_every_kind_of_row_from_a_file(tmp_path, kind, ending):
    path = write_rows(tmp_path / f"rows.{ending}", [GOOD[kind], GOOD[kind] | {"id": "second"}])
    corpus = read(path)
    for _ in range(2):  # again and again
        first, second = corpus
        assert (first.id, second.id) == (str(GOOD[kind].get("id", 0)), "second")
        assert is_read(first, kind)
        assert is_read(second, kind)
        assert (first.label, first.annotations["where"]) == (None, f"{path}, line 1")
        assert relations_of(first.annotations) == relations_of(second.annotations)


@every_kind
def test_every_kind_of_row_from_lists_frames_and_parquet(tmp_path, kind):
    row = dict(GOOD[kind])
    if kind == "trex":  # a column holds strings or pairs
        row["triples"] = [
            triple for triple in row["triples"] if not isinstance(triple["head"], list)
        ]
    expected = [phrase for phrase in PHRASES[kind] if phrase[:2] != ("Ole", "Una")]
    sources = [[row], (row,), pd.DataFrame([row])]
    if kind != "fewrel":  # nor does it hold strings and lists
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / "rows.parquet")
        sources += [tmp_path / "rows.parquet", pd.read_parquet(tmp_path / "rows.parquet")]
    for source in sources:
        (text,) = read(source)
        assert (text.words or text.text) == CONTENT[kind]
        assert phrases(text) == expected


def test_pairs_from_parquet(tmp_path):
    row = {
        "text": "Ida met Ole.",
        "triples": [{"head": [0, 3], "tail": [8, 11], "relation": "met"}],
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "rows.parquet")
    for source in (tmp_path / "rows.parquet", pd.read_parquet(tmp_path / "rows.parquet")):
        (text,) = read(source)
        assert phrases(text) == [("Ida", "Ole", None, "met")]


def test_labels_ids_and_text_columns():
    for kind in ("trex", "fewrel", "semeval"):
        row = GOOD[kind] | {"number": 7, "title": "A title"}
        (text,) = read([row], label="relation", id="number")
        assert (text.id, text.label) == ("7", GOOD[kind]["relation"])
        assert labelled([row], label="relation")[0].label == GOOD[kind]["relation"]
        (plain,) = read([row], text="title")  # a row like any other
        assert (plain.text, plain.words, RELATIONS in plain.annotations) == ("A title", None, False)
        with pytest.raises(CorpusError, match="has no column 'stars'"):
            list(read([row], label="stars"))
    (text,) = read([TOWN], id="title")
    assert (text.id, is_read(text, "docred")) == ("Elm", True)
    assert is_read(next(iter(read([CAUSE], text="sentence"))), "semeval")
    first, second = read([TAUGHT, TAUGHT | {"id": "t2", "relation": None}], label="relation").rows()
    assert (first.label, second.reason.partition(";")[0]) == (
        "teacher",
        "it has no label in 'relation'",
    )


def test_columns_of_strings_are_something_else(tmp_path):
    (tmp_path / "a.csv").write_text(
        "text,triples,tokens,h,t,vertexSet,sents\na cat,none,a,b,c,d,e\n"
    )
    (text,) = read(tmp_path / "a.csv")
    assert (text.text, set(text.annotations)) == ("a cat", {"where"})
    (text,) = read([{"sentence": "no tags", "relation": "none"}])
    assert (text.text, set(text.annotations)) == ("no tags", {"where"})
    (text,) = read([{"sentence": "<e1>a</e1> <e2>cat</e2>"}])  # without a relation
    assert set(text.annotations) == {"where"}


def test_a_table_of_tagged_sentences(tmp_path):
    (tmp_path / "a.csv").write_text(
        "sentence,relation\nthe <e2>end</e2> of a <e1>day</e1>,Part(e2;e1)\n"
    )
    (text,) = read(tmp_path / "a.csv")
    assert (text.text, phrases(text)) == ("the end of a day", [("day", "end", None, "Part(e2;e1)")])


def test_rationales_and_relations_stand_side_by_side():
    film = {"text": "a fine film", "evidences": [[[1, 2]]], "triples": []}
    (text,) = read([film])
    assert (RATIONALE in text.annotations, RELATIONS in text.annotations) == (True, False)


def test_a_document():
    (text,) = read([TOWN])
    relations = relations_of(text.annotations)
    assert [text.text[start : start + 3] for start in relations.sentences] == [
        "Elm",
        "Ida",
    ]  # the blank one is none
    assert [[text.text[slice(*span)] for span in mentions] for mentions in relations.entities] == [
        *(["Elm", "Elm"], ["Ida Roe"], ["New Elm"], ["town"], ["Elm"])
    ]
    assert relations.facts == ((1, 0, "home"), (0, 3, "is"), (3, 2, "like"), (2, 4, "named"))
    assert relations.lost == (("overlap", 1),)  # "Elm" stands inside "New Elm"
    assert relations.triples[0].tail == relations.entities[0][1]  # of the same sentence
    assert relations.triples[1].head == relations.entities[0][0]


def test_a_document_without_labels_has_no_facts():
    for row in (
        TOWN | {"labels": None},
        {key: value for key, value in TOWN.items() if key != "labels"},
    ):
        (text,) = read([row])
        relations = relations_of(text.annotations)
        assert (relations.triples, relations.facts, len(relations.entities), relations.lost) == (
            (),
            (),
            5,
            (),
        )


def test_a_fact_twice_and_two_facts_of_the_same_words():
    again = [*TOWN["labels"][:2], TOWN["labels"][0], {"h": 5, "t": 0, "r": "home"}]
    (text,) = read(
        [TOWN | {"labels": again, "vertexSet": [*TOWN["vertexSet"], TOWN["vertexSet"][1]]}]
    )
    relations = relations_of(text.annotations)
    assert relations.facts == ((1, 0, "home"), (0, 3, "is"), (5, 0, "home"))
    assert phrases(text) == PHRASES["docred"][:2]
    assert relations.lost == (("repeated", 2),)


LOST = {
    "not in the text": [
        {"head": "Ada"},
        {"tail": "una"},
        {"relation_words": "teaches"},
        {"tail": [33, 36]},
        {"head": [-1, 3]},
        {"head": [99, 101]},
    ],
    "empty": [
        {"head": ""},
        {"tail": "  "},
        {"relation_words": ""},
        {"tail": [4, 4]},
        {"head": [3, 1]},
        {"relation_words": [3, 4]},
    ],
    "overlap": [
        {"tail": "Ida taught"},
        {"tail": "Ida"},
        {"tail": [11, 14], "relation_words": "Ole,"},
        {"head": [0, 4], "tail": [3, 6]},
        {"relation_words": [0, 35]},
    ],
    "repeated": [
        {},
        {"head": [0, 3]},
        {"head": (0, 3), "tail": (11, 14), "relation_words": (4, 10)},
    ],
}


@pytest.mark.parametrize("reason", LOST)
def test_what_cannot_be_used_is_counted_and_the_rest_is_kept(reason):
    first, last = (
        {"head": "Ida", "tail": "Ole", "relation_words": "taught", "relation": "teacher"},
        TAUGHT["triples"][1],
    )
    changed = [first | change for change in LOST[reason]]
    (text,) = read([TAUGHT | {"triples": [first, *changed, last]}])
    assert phrases(text) == PHRASES["trex"][:2]
    assert lost_of(text) == {reason: len(changed)}


def test_several_reasons_and_no_triples():
    triples = [
        {"relation": "r", "head": head, "tail": "Ole"}
        for head in ("", "Eve", "Ole, and Ole", "Ida", "Ida", "")
    ]
    (text,) = read([TAUGHT | {"triples": triples}])
    assert text.annotations[RELATIONS] == Relations(
        (Triple((0, 3), (11, 14), "r"),),
        lost=(("empty", 2), ("not in the text", 1), ("overlap", 1), ("repeated", 1)),
    )
    other = [triples[3] | {"relation": "s"}, triples[3], triples[3] | {"relation_words": "taught"}]
    (text,) = read([TAUGHT | {"triples": other}])
    assert (len(phrases(text)), lost_of(text)) == (
        3,
        {},
    )  # another relation, or other words, is another triple
    (text,) = read([TAUGHT | {"triples": []}])
    assert text.annotations[RELATIONS] == Relations(())


def test_tags_around_nothing_and_mentions_that_overlap_are_lost():
    (text,) = read([CAUSE | {"sentence": "A <e1></e1>storm broke a <e2>fence</e2>."}])
    assert (text.text, phrases(text), lost_of(text)) == ("A storm broke a fence.", [], {"empty": 1})
    (text,) = read([BAKER | {"t": ["", "", [[0], [1]]]}])
    assert (phrases(text), lost_of(text)) == ([], {"overlap": 1})


ONE = {"head": "Ida", "tail": "Ole", "relation": "teacher"}
BAD = {
    "trex": [
        ({"triples": None}, "it has no 'triples'"),
        ({"triples": "none"}, "its 'triples' is a str, not a list"),
        ({"triples": {"head": "Ida"}}, "its 'triples' is a dict, not a list"),
        ({"triples": [ONE, "Ida"]}, "item 1 of its 'triples': it is a str, not a mapping"),
        ({"triples": [ONE | {"head": None}]}, "item 0 of its 'triples': it has no 'head'"),
        (
            {"triples": [{"head": "Ida", "relation": "r"}]},
            "item 0 of its 'triples': it has no 'tail'",
        ),
        (
            {"triples": [{"head": "Ida", "tail": "Ole"}]},
            "item 0 of its 'triples': it has no 'relation'",
        ),
        ({"triples": [ONE | {"relation": 31}]}, "its 'relation' is a int, not a string"),
        ({"triples": [ONE | {"relation": " "}]}, "its 'relation' is empty"),
        (
            {"triples": [ONE | {"relation": "\udce9"}]},
            "its 'relation' is not valid UTF-8; convert the file to UTF-8",
        ),
        (
            {"triples": [ONE | {"tail": 5}]},
            "its 'tail' is 5; it must be a string, or a span [start, stop] of characters",
        ),
        ({"triples": [ONE | {"tail": [1, 2, 3]}]}, "its 'tail' is [1, 2, 3]"),
        ({"triples": [ONE | {"tail": [1, 2.0]}]}, "its 'tail' is [1, 2.0]"),
        ({"triples": [ONE | {"tail": [False, True]}]}, "its 'tail' is [False, True]"),
        ({"triples": [ONE | {"relation_words": {"a": 1}}]}, "its 'relation_words' is {'a': 1}"),
        ({"text": None}, "it has no 'text'"),
        ({"text": ["Ida"]}, "its 'text' is a list, not a string"),
        ({"text": " ", "triples": []}, "the text is empty"),
    ],
    "fewrel": [
        ({"tokens": None}, "it has no 'tokens'"),
        ({"tokens": "Ida bakes"}, "its 'tokens' is a str, not a list"),
        ({"tokens": ["Ida", 5]}, "token 1 of its 'tokens' is 5, not a string"),
        (
            {"tokens": [], "h": ["", "", [[0]]]},
            "its 'h': it has the positions [0], but the text has 0 tokens",
        ),
        ({"h": None}, "it has no 'h'"),
        ({"t": "bread"}, "its 't' is a str, not a list"),
        (
            {"t": ["bread", "Q2"]},
            "its 't' is ['bread', 'Q2']; it must be [name, id, [[token positions], ...]]",
        ),
        ({"t": ["bread", "Q2", []]}, "it must be [name, id, [[token positions], ...]]"),
        ({"t": ["bread", "Q2", [4, 5]]}, "its 't' is a int, not a list"),
        (
            {"t": ["bread", "Q2", [[4], []]]},
            "its 't': it has [] instead of token positions",
        ),
        ({"t": ["bread", "Q2", [[4, "5"]]]}, "instead of token positions"),
        (
            {"t": ["bread", "Q2", [[4], [4, 6]]]},
            "it has the positions [4, 6], which are not consecutive",
        ),
        ({"t": ["bread", "Q2", [[4, 6, 6]]]}, "which are not consecutive"),
        (
            {"t": ["bread", "Q2", [[10, 11]]]},
            "it has the positions [10, 11], but the text has 11 tokens",
        ),
        ({"t": ["bread", "Q2", [[-1]]]}, "it has the positions [-1]"),
        (
            {"t": ["bread", "Q2", [[3]]]},
            "its 't': its tokens [3, 4) are blank; a mention must have words",
        ),
        ({"relation": None}, "it has no 'relation'"),
        ({"relation": ["P7"]}, "its 'relation' is a list, not a string"),
    ],
    "semeval": [
        (
            {"sentence": "A storm broke."},
            "its 'sentence' has the tags none; "
            "it must have one <e1>...</e1> and one <e2>...</e2>, not nested",
        ),
        ({"sentence": "A <e1>storm</e1> broke."}, "has the tags <e1> </e1>;"),
        (
            {"sentence": "<e1>a</e1> <e2>b</e2> <e2>c</e2>"},
            "has the tags <e1> </e1> <e2> </e2> <e2> </e2>;",
        ),
        ({"sentence": "<e1>a <e2>b</e2></e1>"}, "has the tags <e1> <e2> </e2> </e1>;"),
        ({"sentence": "<e1>a <e2>b</e1> c</e2>"}, "has the tags <e1> <e2> </e1> </e2>;"),
        ({"sentence": "</e1>a<e1> <e2>b</e2>"}, "has the tags </e1> <e1> <e2> </e2>;"),
        ({"sentence": None}, "it has no 'sentence'"),
        ({"sentence": 5}, "its 'sentence' is a int, not a string"),
        ({"relation": None}, "it has no 'relation'"),
        ({"relation": 5}, "its 'relation' is a int, not a string"),
        ({"relation": ""}, "its 'relation' is empty"),
    ],
    "docred": [
        ({"sents": None}, "it has no 'sents'"),
        ({"sents": ["Elm is a town"]}, "its 'sents' is a str, not a list"),
        ({"sents": [["Elm"], [None]]}, "token 1 of its 'sents' is None, not a string"),
        ({"sents": [], "vertexSet": [], "labels": []}, "the text is empty"),
        ({"vertexSet": None}, "it has no 'vertexSet'"),
        ({"vertexSet": [5]}, "entity 0 of its 'vertexSet': its 'mentions' is a int, not a list"),
        ({"vertexSet": [[]]}, "entity 0 of its 'vertexSet': it has no mentions"),
        (
            {"vertexSet": [["Elm"]]},
            "entity 0 of its 'vertexSet': mention 0: it is a str, not a mapping",
        ),
        (
            {"vertexSet": [[{"pos": [0, 1]}]]},
            "mention 0: its 'sent_id' is None, but there are 3 sentences, numbered from 0",
        ),
        ({"vertexSet": [[{"pos": [0, 1], "sent_id": 3}]]}, "its 'sent_id' is 3"),
        ({"vertexSet": [[{"pos": [0, 1], "sent_id": -1}]]}, "its 'sent_id' is -1"),
        (
            {"vertexSet": [[{"sent_id": 0}]]},
            "its 'pos' has None instead of a [start, stop] of tokens",
        ),
        (
            {"vertexSet": [[{"pos": [4, 6], "sent_id": 0}]]},
            "its 'pos' has the span [4, 6), but the sentence has 5 tokens",
        ),
        ({"vertexSet": [[{"pos": [1, 1], "sent_id": 0}]]}, "its 'pos' has the span [1, 1)"),
        ({"vertexSet": [[{"pos": [0, 1], "sent_id": 1}]]}, "its tokens [5, 6) are blank"),
        ({"labels": "none"}, "its 'labels' is a str, not a list"),
        ({"labels": [5]}, "item 0 of its 'labels': it is a int, not a mapping"),
        (
            {"labels": [{"h": 0, "t": 5, "r": "r"}]},
            "item 0 of its 'labels': its 't' is 5, but there are 5 entities, numbered from 0",
        ),
        ({"labels": [{"h": -1, "t": 0, "r": "r"}]}, "its 'h' is -1"),
        ({"labels": [{"h": True, "t": 0, "r": "r"}]}, "its 'h' is True"),
        ({"labels": [{"t": 0, "r": "r"}]}, "its 'h' is None"),
        ({"labels": [{"h": 0, "t": 1}]}, "item 0 of its 'labels': it has no 'r'"),
    ],
}


@every_kind
def test_a_bad_row_in_the_middle_is_one_bad_row(tmp_path, kind):
    good = GOOD[kind]
    changed = [
        good | change | {"id": f"bad{number}"} for number, (change, _) in enumerate(BAD[kind])
    ]
    path = write_rows(tmp_path / "rows.jsonl.gz", [good, "{", *changed, good | {"id": "last"}])
    first, no_json, *middle, last = read(path).rows()
    assert is_read(first, kind)
    assert is_read(last, kind)
    assert no_json.where == f"{path}, line 2"
    for number, (row, (_, reason)) in enumerate(zip(middle, BAD[kind], strict=True)):
        assert isinstance(row, BadRow)
        assert (row.where, row.id) == (f"{path}, line {number + 3}", f"bad{number}")
        assert reason in row.reason
        assert "\n" not in row.reason


@every_kind
def test_the_first_row_may_be_bad_too(kind):
    broken = GOOD[kind] | {"docred": {"labels": 5}, "trex": {"triples": None}}.get(
        kind, {"relation": 5}
    )
    bad, good = read([broken | {"id": "bad"}, GOOD[kind]]).rows()
    assert isinstance(bad, BadRow)
    assert is_read(good, kind)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 12)
    | st.sampled_from([0.5, float("nan"), "", "Ida", "<e1>", 10**30]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["head", "tail", "relation", "pos", "sent_id", "h", "t", "r"]), inner
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from(sorted(GOOD)), st.data(), st.booleans())
def test_whatever_stands_in_a_field_spoils_only_its_row(kind, data, as_frame):
    good = GOOD[kind]
    broken = good | {
        name: data.draw(JSON, name)
        for name in data.draw(st.sets(st.sampled_from(sorted(good))), "fields")
    }
    rows = [good | {"id": "first"}, broken | {"id": "middle"}, good | {"id": "last"}]
    if as_frame:
        rows = pd.DataFrame(
            [{name: nested_arrays(value) for name, value in row.items()} for row in rows]
        )
    first, _, last = read(rows).rows()
    assert is_read(first, kind)
    assert is_read(last, kind)


def nested_arrays(value):
    """Lists as arrays of arrays, as frames that were read from Parquet hold them."""
    if isinstance(value, dict):
        return {key: nested_arrays(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    out = np.empty(len(value), dtype=object)
    out[:] = [nested_arrays(item) for item in value]
    return out


# where phrases stand


@pytest.mark.parametrize(
    ("text", "parts", "found"),
    [
        ("Art met Bo. Arthur met Bo.", ("Art", "Bo"), ["Art", "Bo"]),
        ("Arthur met Bo", ("Art", "Bo"), ["Art", "Bo"]),  # only inside a word
        ("a bb a", ("a", "a"), ["a", "a"]),
        ("banana", ("ana", "b"), ["ana", "b"]),
        ("x_y x y", ("x", "y"), ["x", "y"]),
        ("東京は日本の首都", ("東京", "日本", "首都"), ["東京", "日本", "首都"]),
        ("Tom's wife, Ann", ("Ann", "Tom", "'s wife"), ["Ann", "Tom", "'s wife"]),
    ],
)
def test_phrases_are_found(text, parts, found):
    spans = located(text, *parts)
    assert [text[slice(*span)] for span in spans if span] == found
    assert spans == located_slowly(text, *parts)


def test_the_smallest_extent_wins_then_the_earliest():
    assert located("a far b a b a", "a", "b") == ((8, 9), (6, 7), None)
    assert located("b a w b a w b", "a", "b", "w") == ((2, 3), (0, 1), (4, 5))
    assert located("a . w b w . a", "a", "b", "w") == ((0, 1), (6, 7), (4, 5))
    assert located("Art hart art", "art", "Art") == (
        (9, 12),
        (0, 3),
        None,
    )  # not the nearer one inside "hart"
    assert located("de\u0301 d", "de", "d") == (
        (0, 2),
        (4, 5),
        None,
    )  # the mark makes it a longer word; there is no other


def test_many_occurrences_are_no_burden():
    text = "a b c " * 20_000 + "end"
    assert located(text, "end", "a", "b") == (
        (120_000, 120_003),
        (119_994, 119_995),
        (119_996, 119_997),
    )
    assert located("a" * 20_000, "a", "aa", "aaa") == ((0, 1), (1, 3), (3, 6))


TEXTS = st.text("ab_é1 .", max_size=14)


@st.composite
def parts_of(draw, text):
    """A piece of the text, any string, or any pair of numbers."""
    start, stop = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    other = st.text("ab_é1 .", max_size=2) | st.tuples(st.integers(-1, 15), st.integers(-1, 15))
    return draw(st.sampled_from([text[start : start + 2], text[start:stop], (start, stop)]) | other)


@given(st.data(), TEXTS, st.booleans())
def test_located_is_its_slow_twin_and_side_by_side(data, text, with_words):
    parts = [data.draw(parts_of(text)) for _ in range(3 if with_words else 2)]
    found = located(text, *parts)
    assert found == located_slowly(text, *parts)
    if not isinstance(found, str):
        spans = [span for span in found if span is not None]
        for part, span in zip(parts, spans, strict=True):
            assert part in (span, text[slice(*span)])
        assert all(left[1] <= right[0] for left, right in pairwise(sorted(spans)))


SPANS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 4)).map(lambda one: (one[0], sum(one))), max_size=5
)


@given(SPANS, SPANS, st.sets(st.integers(1, 20), max_size=4))
def test_closest_is_its_slow_twin(heads, tails, borders):
    sentences = (0, *sorted(borders))
    best = None
    for head, tail in product(heads, tails):
        gap = max(head[0] - tail[1], tail[0] - head[1])
        if gap < 0:
            continue
        apart = any((head[0] < border) != (tail[0] < border) for border in borders)
        rank = apart, gap, min(head, tail), (head, tail)
        best = rank if best is None or rank < best else best
    assert closest(heads, tails, sentences) == (None if best is None else best[-1])


@given(
    st.lists(
        st.lists(st.sampled_from(["a", "bb", " ", "\xa0", "ccc"]), max_size=4),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_mentions_of_documents_are_their_tokens(sentences, data):
    mentions = [
        {"sent_id": number, "pos": [start, stop]}
        for number, tokens in enumerate(sentences)
        for start in range(len(tokens))
        for stop in range(start + 1, len(tokens) + 1)
        if any(token.strip() for token in tokens[start:stop])
    ]
    chosen = data.draw(st.lists(st.sampled_from(mentions), max_size=5)) if mentions else []
    words, relations = docred({"sents": sentences, "vertexSet": [[mention] for mention in chosen]})
    text = " ".join(words)
    assert words == tuple(token for tokens in sentences for token in tokens if token.strip())
    for mention, (span,) in zip(chosen, relations.entities, strict=True):
        tokens = sentences[mention["sent_id"]][slice(*mention["pos"])]
        assert text[slice(*span)] == " ".join(token for token in tokens if token.strip())
        assert {span[0], span[1]} <= {end for one in given_spans(words) for end in one}
    solid = [[token for token in tokens if token.strip()] for tokens in sentences]
    assert [text[start:].split(" ")[0] for start in relations.sentences] == [
        tokens[0] for tokens in solid if tokens
    ]


# what relations are called


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_names_of_relations(tmp_path, ending):
    expected = {"P1": "made by", "P2": "near"}
    lines = [
        {"relation": key, "title": name, "description": "..."} for key, name in expected.items()
    ]
    assert relation_names(write_rows(tmp_path / f"a.jsonl{ending}", lines)) == expected
    assert relation_names(str(write_rows(tmp_path / f"b.json{ending}", [expected]))) == expected
    described = {key: [name, "a description"] for key, name in expected.items()}
    assert relation_names(write_rows(tmp_path / f"c.json{ending}", [described])) == expected


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "a.csv",
            "relation,title",
            "ends in '.csv'; names of relations are .jsonl with 'relation' and 'title', "
            "or .json from id to name",
        ),
        ("a", "", "ends in 'nothing'"),
        (
            "a.jsonl",
            '{"relation": "P1", "title": "near"}\n{"relation": "P2"}',
            "a.jsonl, line 2: it has no 'title'",
        ),
        ("a.jsonl", '{"relation": 1, "title": "near"}', "its 'relation' is a int, not a string"),
        ("a.jsonl", "[1]", "line 1: it is a JSON list, not an object"),
        ("a.jsonl", "{", "line 1: it is not JSON"),
        ("a.jsonl", "\n", "names no relations; it is empty"),
        ("a.json", "{}", "names no relations; it is empty"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "[" * 100_000, "is not JSON"),
        ("a.json", '["P1"]', "is a JSON list; it must map relations to their names"),
        ("a.json", '{"P1": {"name": "near"}}', "its 'P1' is a dict, not a string"),
        ("a.json", '{"P1": []}', "its 'P1' is a list, not a string"),
        ("a.json", '{"P1": null}', "it has no 'P1'"),
        ("a.json", '{"P1": ["", "near"]}', "its 'P1' is empty"),
    ],
)
def test_anything_else_has_no_names(tmp_path, name, content, reason):
    with pytest.raises(CorpusError) as error:
        relation_names(write_rows(tmp_path / name, [content]))
    assert reason in str(error.value)
    assert str(tmp_path / name) in str(error.value)


def test_a_missing_or_broken_file_has_no_names(tmp_path):
    with pytest.raises(CorpusError, match="cannot be read"):
        relation_names(tmp_path / "no.json")
    (tmp_path / "a.json.gz").write_bytes(b"{}")
    with pytest.raises(CorpusError, match="truncated or corrupt gzip file"):
        relation_names(tmp_path / "a.json.gz")


# our own


def test_embedded_relations():
    texts = list(read("embedded:relations"))
    assert [text.id for text in texts] == [f"rel-{number:03}" for number in range(320)]
    assert [text.text for text in texts] == [text.text for text in embedded("relations")]
    assert len({text.text for text in texts}) == 320
    assert set(Counter(text.label for text in texts).values()) == {32}
    triples = [triple for text in texts for triple in text.annotations[RELATIONS].triples]
    assert (len(triples), len({text.label for text in texts})) == (341, 10)
    assert all(text.annotations[RELATIONS].lost == () for text in texts)
    assert all(text.annotations[RELATIONS].triples[0].relation == text.label for text in texts)
    assert max(len(text.text.split()) for text in texts) <= 25
    assert 0.45 < sum(triple.head < triple.tail for triple in triples) / len(triples) < 0.55
    message = {(phrase[3], phrase[2]) for text in texts for phrase in phrases(text)}
    assert min(Counter(relation for relation, _ in message).values()) >= 10
    assert None not in {words for _, words in message}


def test_embedded_relations_are_no_part_of_all_but_listed():
    assert not any(RELATIONS in text.annotations for text in read("embedded:all"))
    with pytest.raises(CorpusError, match="reviews, sentences, relations or all"):
        read("embedded:novels")
    assert next(iter(read("embedded:relations", id="text"))).id != "rel-000"
