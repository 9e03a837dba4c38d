"""Tags, sentences and phrases by rules: an example of every rule, and laws for any text."""

from __future__ import annotations

import sys
import time
import unicodedata
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import example, given, strategies as st

from attlas.language import phrases as module
from attlas.language.phrases import head_tag, phrases
from attlas.language.sentences import LONGEST, sentence_spans
from attlas.language.tagging import Word, tag_words, tagged
from attlas.language.words import word_spans
from attlas.support.errors import MeasureError
from tests import strategies

TAGS = frozenset(
    (
        "NOUN",
        "PROPN",
        "PRON",
        "VERB",
        "AUX",
        "ADJ",
        "ADV",
        "ADP",
        "DET",
        "NUM",
        "CCONJ",
        "SCONJ",
        "PART",
        "PUNCT",
        "SYM",
        "INTJ",
        "X",
    )
)


def tags(sentence):
    return " ".join(tag_words(sentence.split()))


def found(text, kind, parser="rules"):
    return [
        text[phrase.start : phrase.stop] for phrase in phrases(text, parser) if phrase.kind == kind
    ]


def sentences(text):
    return [text[start:stop] for start, stop in sentence_spans(text)]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The baker works in Leeds .", "DET NOUN VERB ADP PROPN PUNCT"),
        ("The works of the baker", "DET NOUN ADP DET NOUN"),
        ("She wants to work .", "PRON VERB PART VERB PUNCT"),
        ("They will never work here", "PRON AUX ADV VERB ADV"),
        ("He walked to the station", "PRON VERB ADP DET NOUN"),
        ("I do not know", "PRON AUX PART VERB"),
        ("I did my homework", "PRON VERB PRON NOUN"),
        ("They have eaten ; we have bread", "PRON AUX VERB PUNCT PRON VERB NOUN"),
        ("There is a problem there", "PRON VERB DET NOUN ADV"),
        ("I think that he lies", "PRON VERB SCONJ PRON VERB"),
        ("the house that was sold", "DET NOUN PRON AUX VERB"),
        ("dogs that bark", "NOUN PRON VERB"),
        ("This is what I like", "PRON AUX PRON PRON VERB"),
        ("These old houses", "DET ADJ NOUN"),
        ("both cats and dogs", "CCONJ NOUN CCONJ NOUN"),
        ("as tall as a tree", "ADV ADJ ADP DET NOUN"),
        ("more beautiful and more bread", "ADV ADJ CCONJ ADJ NOUN"),
        ("because of him , because he left", "ADP ADP PRON PUNCT SCONJ PRON VERB"),
        ("the left door", "DET ADJ NOUN"),
        ("after the war", "ADP DET NOUN"),
        ("after he died", "SCONJ PRON VERB"),
        ("without asking", "SCONJ VERB"),
        ("Ann 's dog 's here", "PROPN PART NOUN PART ADV"),
        ("it 's cold", "PRON AUX ADJ"),
        ("the boys ' coats", "DET NOUN PART NOUN"),
        ("the building of bridges", "DET NOUN ADP NOUN"),
        ("they are building a bridge", "PRON AUX VERB DET NOUN"),
        ("the public library and the public", "DET ADJ NOUN CCONJ DET NOUN"),
        ("an early train came early", "DET ADJ NOUN VERB ADV"),
        ("Swedish glass from Spanish Fork", "ADJ NOUN ADP PROPN PROPN"),
        ("pretty good", "ADV ADJ"),
        ("No , there is no time", "INTJ PUNCT PRON VERB DET NOUN"),
        ("the red one and one house", "DET ADJ NOUN CCONJ NUM NOUN"),
        ("Open the door and close it", "VERB DET NOUN CCONJ ADJ PRON"),
        ("5 % of $ 1,200 on the 3rd", "NUM SYM ADP SYM NUM ADP DET ADJ"),
        ("1990 - 1995", "NUM SYM NUM"),
        ("a blorfification was unhappily regrouped", "DET NOUN AUX ADV VERB"),
        ("HE SAW THE OLD HOUSE", "PRON VERB DET ADJ NOUN"),
        ("she saw london in january", "PRON VERB NOUN ADP PROPN"),
        ("My Town opened", "PRON PROPN VERB"),
    ],
)
def test_tags_follow_the_words_and_their_neighbours(sentence, expected):
    assert tags(sentence) == expected


def test_unknown_words_of_other_languages_are_nouns():
    assert set(tag_words(["кошка", "猫", "γάτα"])) == {"NOUN"}


def test_tagged_words_keep_their_characters():
    assert tagged("Go, Ann!") == [
        Word(0, 2, "Go", "VERB"),
        Word(2, 3, ",", "PUNCT"),
        Word(4, 7, "Ann", "PROPN"),
        Word(7, 8, "!", "PUNCT"),
    ]


@given(strategies.texts(80))
def test_every_word_has_one_universal_tag(text):
    words = tagged(text)
    assert [(word.start, word.stop) for word in words] == word_spans(text)
    assert {word.tag for word in words} <= TAGS


def test_tagging_is_fast():
    sentence = (
        "The old company was founded by Ada Smith in 1963 and it now sells red bicycles "
        "to all schools ."
    )
    words = sentence.split()
    start = time.perf_counter()
    for _ in range(1000):
        tag_words(words)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    "expected",
    [
        ["It rained.", "We stayed!", "Why?", "Nobody knows"],
        ["Mr. and Mrs. Hill met Dr. J. R. Wood.", "They left."],
        ["It costs 3.50 in the U.S. market.", "See no. 5 and e.g. The Reef."],
        ["He lives in the U.S.", "The rent is low."],
        ["I said no.", "Then she left."],
        ['"Stop!" he cried.', '"Why?"', "(He knew.)", "She did not."],
        ["Wait... what?", "Yes."],
        ["今日は晴れ。", "明日は雨。"],
        ["Vitamin C.", "It helps."],
    ],
)
def test_sentences_end_at_stops(expected):
    text = ("" if "。" in expected[0] else " ").join(expected)
    assert sentences(text) == expected


def test_sentences_of_small_letters_end_at_stops():
    assert sentences("he came. she left.") == ["he came.", "she left."]


def test_paragraphs_and_bullets_end_sentences_and_single_breaks_do_not():
    assert sentences("A title\n\nThe first\nline ends\n - one\n - two\r\n\r\nlast ") == [
        "A title",
        "The first\nline ends",
        "- one",
        "- two",
        "last",
    ]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("word " * 99 + "; " + "word, " * 99, "word ;"),
        ("word " * 100 + ", " + "word " * 100, "word ,"),
        ("word " * 200, "word word"),
    ],
)
def test_long_sentences_are_cut_at_a_mark_or_a_word(text, first):
    pieces = sentences(text)
    assert pieces[0].endswith(first)
    assert all(len(word_spans(piece)) <= LONGEST for piece in pieces)


@given(st.one_of(strategies.texts(60), st.text("aB.!? \n\"')。-1,;…", max_size=60)))
@example("a. \u0600 b")
@example("\x1c.\x1c")
def test_sentences_cover_what_is_visible_in_order(text):
    spans = sentence_spans(text)
    covered = {place for start, stop in spans for place in range(start, stop)}
    assert all(text[place].isspace() for place in range(len(text)) if place not in covered)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))
    assert all(text[start:stop].strip() == text[start:stop] != "" for start, stop in spans)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The tall Leeds baker slept.", ["tall Leeds baker", "Leeds", "Leeds baker", "baker"]),
        ("a Swedish stone bridge", ["Swedish", "Swedish stone bridge", "stone bridge", "bridge"]),
        ("He met Lord Oakes.", ["He", "Lord Oakes", "Oakes"]),
        (
            "We saw the University of Quill.",
            ["We", "University", "University of Quill", "Quill"],
        ),
        ("They visit Ask og Embla.", ["They", "Ask", "Ask og Embla", "Embla"]),
        ("from Quill, Oakland", ["Quill", "Oakland"]),
        ("on 12 March 1963", ["12 March 1963", "March 1963", "1963"]),
        ("on March 12, 1963", ["March 12, 1963", "1963"]),
        ("in March 1963", ["March 1963", "1963"]),
        ("at the 1912 Leeds Fair", ["1912", "1912 Leeds Fair", "Leeds Fair"]),
        ("about 40 hens", ["40", "40 hens", "hens"]),
        ("She reads The Grey Door.", ["She", "The Grey Door", "Grey Door"]),
        ("The Grey Door is a novel.", ["The Grey Door", "Grey Door", "novel"]),
        ("Ann's brother and the boys' coats", ["Ann", "brother", "boys", "coats"]),
        ("in north-eastern Quill-on-Sea", ["north-eastern Quill-on-Sea", "Quill-on-Sea"]),
        ("J. R. Wood joined the U.S. army", ["J. R. Wood", "U.S", "U.S. army", "army"]),
        ("after World War I, Ann and I", ["World War I", "Ann", "I"]),
        ("It is possible to swim.", []),
        ("It is a fish.", ["It", "fish"]),
        (
            "an iron-clad ship and 10,000 men",
            ["iron-clad ship", "ship", "10,000", "10,000 men", "men"],
        ),
    ],
)
def test_nominal_phrases(text, expected):
    assert sorted(found(text, "nominal")) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She was born in Leeds.", ["was born in", "born", "born in"]),
        ("It is owned by Oakes.", ["is owned by", "owned", "owned by"]),
        ("He slept.", ["slept"]),
        ("He took part in it.", ["took", "took part", "took part in", "part", "part in"]),
        (
            "It was first shown on Monday.",
            ["was first shown on", "first shown", "shown", "shown on"],
        ),
        ("He came out of Leeds.", ["came", "came out", "came out of"]),
        ("Ann is an Oakes.", ["is an"]),
        ("Tea is a type of drink.", ["Tea", "is a", "is a type of", "type", "type of", "drink"]),
        ("Ann is in Leeds.", ["is in"]),
        ("Ann is famous for it.", ["is famous for", "famous for"]),
        (
            "the official language of Oakes",
            ["official language", "official language of", "language", "language of"],
        ),
        ("Ann, mother to Bob", ["mother", "mother to"]),
        ("in Leeds since Monday", []),
    ],
)
def test_relational_phrases(text, expected):
    assert sorted(found(text, "relational")) == sorted(expected)


def test_phrases_name_the_tag_of_their_head():
    text = "Ann was born in the old town on 12 March 1963."
    heads = {
        (text[phrase.start : phrase.stop], phrase.kind): phrase.tag for phrase in phrases(text)
    }
    assert heads["Ann", "nominal"] == "PROPN"
    assert heads["old town", "nominal"] == heads["old town", "relational"] == "NOUN"
    assert heads["was born in", "relational"] == "VERB"
    assert heads["1963", "nominal"] == "NUM"


@pytest.mark.parametrize(
    ("part", "tag"),
    [
        ("old mother of Ann", "NOUN"),
        ("was born in", "VERB"),
        ("is a", "AUX"),
        ("is a kind of", "NOUN"),
        ("operating system", "NOUN"),
        ("took part in", "VERB"),
        ("Ann", "PROPN"),
        ("she", "PRON"),
        ("from", "ADP"),
    ],
)
def test_head_tag_of_any_span(part, tag):
    text = (
        "The old mother of Ann was born in Leeds from which she took part in it; "
        "this is a kind of operating system."
    )
    start = text.index(part)
    assert head_tag(tagged(text), (start, start + len(part))) == tag


def test_head_tag_of_no_word_is_x():
    assert head_tag(tagged("a b"), (1, 2)) == head_tag([], (0, 9)) == "X"


@given(st.one_of(strategies.texts(80), st.text("aB .,'’-_/of The12", max_size=60)))
@example("_a_ _B_")
@example("A.B.")
@example("x's's 's")
@example("Ⓐ Ab")
@example("is a")
@example("It is")
def test_phrases_lie_in_the_text_sorted_and_unique(text):
    made = phrases(text)
    keys = [(phrase.start, phrase.stop, phrase.kind) for phrase in made]
    assert keys == sorted(set(keys))
    for phrase in made:
        string = text[phrase.start : phrase.stop]
        assert 0 <= phrase.start < phrase.stop <= len(text)
        assert string == string.strip()
        assert phrase.kind in ("nominal", "relational")
        assert phrase.tag in TAGS
        if phrase.kind == "nominal":
            assert not any(
                unicodedata.category(end).startswith("P") for end in (string[0], string[-1])
            )


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n", "👩‍👩‍👧 👍🏽", "世界", "…", "'s", "'", "-", "\u0301", "\u0600 "]
)
def test_odd_texts_do_no_harm(text):
    assert isinstance(phrases(text), list)
    assert "".join(sentences(text)).split() == text.split()


@pytest.mark.parametrize(
    "piece",
    [
        "dog ",
        "Dog of ",
        "世界",
        ".",
        ".)",
        "a-",
        "A. ",
        "early ",
        "was not ",
        "1 may ",
        "that ",
        "\n ",
        "red ",
    ],
)
def test_long_lines_take_linear_time(piece):
    text = piece * (20000 // len(piece)) + "x"
    start = time.perf_counter()
    sentence_spans(text)
    phrases(text)
    assert time.perf_counter() - start < 10


def test_an_unknown_parser_names_the_two():
    with pytest.raises(MeasureError, match=r"'guess'.*'rules', 'spacy'"):
        phrases("a", parser="guess")


@pytest.fixture
def fresh_pipeline():
    module._pipeline.cache_clear()
    yield
    module._pipeline.cache_clear()


@pytest.mark.usefixtures("fresh_pipeline")
def test_a_missing_spacy_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(
        MeasureError,
        match=r"spaCy is not installed.*attlas\[spacy\].*en_core_web_sm.*parser='rules'",
    ):
        phrases("a", parser="spacy")


@pytest.mark.usefixtures("fresh_pipeline")
def test_a_missing_model_says_what_to_install(monkeypatch):
    fake = SimpleNamespace(util=SimpleNamespace(is_package=lambda name: False))
    monkeypatch.setitem(sys.modules, "spacy", fake)
    with pytest.raises(MeasureError, match=r"none of .*en_core_web_sm is installed"):
        phrases("a", parser="spacy")


class Document(list):
    """What a pipeline of spaCy gives, of tokens and noun chunks written by hand."""

    def __init__(self, tokens, chunks):
        super().__init__(tokens)
        self.noun_chunks = chunks


def by_hand(text):
    tags = ["DET", "ADJ", "NOUN", "PART", "NOUN", "AUX", "VERB", "SPACE", "ADP", "PROPN", "PUNCT"]
    strings = ["The", "old", "baker", "'s", "son", "was", "born", " ", "in", "Leeds", "."]
    starts = [0, 4, 8, 13, 16, 20, 24, 28, 30, 33, 38]
    tokens = [
        SimpleNamespace(idx=start, text=string, pos_=tag, is_space=tag == "SPACE")
        for start, string, tag in zip(starts, strings, tags, strict=True)
    ]
    return Document(
        tokens,
        [SimpleNamespace(start_char=0, end_char=19), SimpleNamespace(start_char=33, end_char=39)],
    )


@pytest.mark.usefixtures("fresh_pipeline")
def test_spacy_gives_tags_and_noun_chunks(monkeypatch):
    util = SimpleNamespace(is_package=lambda name: name == "en_core_web_sm")
    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(util=util, load=lambda name: by_hand))
    text = "The old baker's son was born  in Leeds."
    assert text[33:38] == "Leeds"
    assert sorted(found(text, "nominal", "spacy")) == [
        "Leeds",
        "baker",
        "old baker",
        "old baker's son",
        "son",
    ]
    assert "was born  in" in found(text, "relational", "spacy")
