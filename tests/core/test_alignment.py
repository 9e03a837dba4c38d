"""Words from tokens: real texts of many scripts, and the promises that hold for any text and
tokenizer."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from attlas.core.alignment import align
from attlas.language.words import given_spans, word_spans
from attlas.models.sources import embedded_folder
from attlas.testing import tiny_tokenizer
from tests import strategies


@cache
def tokenizer(name: str) -> Tokenizer:
    """`bert` is the real uncased vocabulary, `tiny` knows a few words, `bytes` has a token for
    each byte and marks blanks, `pairs` cuts after every second character."""
    if name == "bert":
        bert = Tokenizer.from_file(str(embedded_folder() / "tokenizer.json"))
        bert.no_truncation()
        bert.no_padding()
        return bert
    if name == "tiny":
        return tiny_tokenizer().backend_tokenizer
    if name == "bytes":
        plain = Tokenizer(
            models.BPE(
                {
                    letter: index
                    for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))
                },
                [],
            )
        )
        plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return plain
    pairs = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    pairs.pre_tokenizer = pre_tokenizers.FixedLength(2)
    return pairs


def encoded(text, name, given=None, keep=None):
    """Words and tokens; with `keep`, only the first tokens and the last, as truncation leaves
    them."""
    found = tokenizer(name).encode(text)
    kept = (
        list(range(len(found.tokens)))
        if keep is None
        else [*range(keep - 1), len(found.tokens) - 1]
    )
    tokens, offsets, special = (
        [part[index] for index in kept]
        for part in (
            found.tokens,
            found.offsets,
            [bool(flag) for flag in found.special_tokens_mask],
        )
    )
    spans = word_spans(text) if given is None else given_spans(given)
    return (
        align(text, spans, offsets, special, tokens, given=given is not None),
        spans,
        offsets,
        special,
    )


CASES = {
    "pieces": ("unbelievably tokenized!", ["unbelievably", "tokenized", "!"]),
    "apostrophes": ("it's rock’n’roll 'tis", ["it's", "rock’n’roll", "'", "tis"]),
    "accents": ("naïve café", ["naïve", "café"]),
    "combining accents": (
        "e\u0301tude cafe\u0301 a\u0323b",
        ["e\u0301tude", "cafe\u0301", "a\u0323b"],
    ),
    "Chinese": (
        "iPhone手机3月, 二〇二四",
        ["iPhone", "手", "机", "3", "月", ",", "二", "〇", "二", "四"],
    ),
    "Japanese": ("コーヒーabc カ\u3099", ["コ", "ー", "ヒ", "ー", "abc", "カ\u3099"]),
    "Korean": ("한국어 말", ["한국어", "말"]),
    "Hindi": ("हिन्दी क्\u200dष", ["हिन्दी", "क्\u200dष"]),
    "Arabic": ("شَمْس، قمر", ["شَمْس", "،", "قمر"]),
    "Persian": ("می\u200cخواهم", ["می\u200cخواهم"]),
    "emoji": (
        "ok 👩\u200d👩\u200d👧 ❤\ufe0fno 👍🏽🇩🇪",
        ["ok", "👩\u200d👩\u200d👧", "❤\ufe0f", "no", "👍🏽", "🇩🇪"],
    ),
    "numbers": ("3.14 x_y 2nd", ["3", ".", "14", "x_y", "2nd"]),
    "blanks": (" a\u00a0b\t\u3000c\n", ["a", "b", "c"]),
}


@pytest.mark.parametrize(("text", "words"), CASES.values(), ids=CASES)
def test_words_of_many_scripts_are_what_a_reader_sees(text, words):
    assert [text[start:stop] for start, stop in word_spans(text)] == words
    by_bytes = encoded(text, "bytes")[0]
    assert list(by_bytes.strings) == words
    assert by_bytes.missing == ()


def test_word_pieces_share_their_word_and_marks_stand_alone():
    words, *_ = encoded("Unbelievably good, isn't it", "bert")
    assert words.strings == ("[CLS]", "Unbelievably", "good", ",", "isn't", "it", "[SEP]")
    assert words.of.tolist() == [0, 1, 1, 1, 1, 1, 2, 3, 4, 4, 4, 5, 6]
    assert words.source == (-1, 0, 1, 2, 3, 4, -1)
    assert words.missing == ()
    assert len(words) == 7


def test_characters_that_a_tokenizer_drops_leave_their_word_whole():
    words, *_ = encoded("हिन्दी شَمْس", "bert")
    assert words.strings == ("[CLS]", "हिन्दी", "شَمْس", "[SEP]")
    assert encoded("a \u200b b", "bert")[0].missing == (1,)


def test_given_words_stay_as_given():
    given_words = ("New York", "isn't", "U.S.", "3.14%")
    words, *_ = encoded(" ".join(given_words), "bert", given_words)
    assert words.strings == ("[CLS]", *given_words, "[SEP]")
    assert words.source == (-1, 0, 1, 2, 3, -1)


def test_truncation_leaves_words_missing():
    text = "the cat sat unbelievably long"
    words, *_ = encoded(text, "bert", keep=6)
    assert words.strings == ("[CLS]", "the", "cat", "sat", "unbelievably", "[SEP]")
    assert words.missing == (4,)
    assert encoded(text, "bert", text.split(), keep=3)[0].missing == (1, 2, 3, 4)


def test_byte_tokens_that_share_a_character_share_its_word():
    words, _, offsets, _ = encoded("世 a", "bytes")
    assert offsets[:3] == [(0, 1)] * 3
    assert words.of.tolist() == [0, 0, 0, 1, 1]  # the blank goes to the word that follows
    assert words.strings == ("世", "a")


def test_found_words_under_one_token_become_one_word_and_given_words_do_not():
    text, offsets = "a.b c", [(0, 2), (2, 4), (4, 5)]
    found = align(text, word_spans(text), offsets, [False] * 3, ["a.", "b ", "c"])
    assert found.strings == ("a.", "b", "c")
    assert found.of.tolist() == [0, 1, 2]
    assert found.source == (0, 2, 3)
    chained = align("a b c", word_spans("a b c"), [(0, 3), (2, 5)], [False] * 2, ["a b", "b c"])
    assert (chained.strings, chained.of.tolist(), chained.missing) == (("a b c",), [0, 0], ())
    kept = align(
        "a b c",
        given_spans(["a", "b", "c"]),
        [(0, 3), (3, 5)],
        [False] * 2,
        ["a b", " c"],
        given=True,
    )
    assert (kept.strings, kept.of.tolist(), kept.missing) == (("a", "c"), [0, 1], (1,))


@pytest.mark.parametrize(
    ("offsets", "special", "of"),
    [
        (
            [(0, 1), (1, 2), (2, 3)],
            [0, 0, 0],
            [0, 1, 1],
        ),  # between two words: to the one that follows
        ([(0, 1), (2, 3), (3, 4)], [0, 0, 0], [0, 1, 1]),  # at the end: to the one before
        ([(0, 0), (1, 2), (2, 3)], [1, 0, 0], [0, 1, 1]),  # after a mark: to the one that follows
        ([(0, 1), (1, 2), (0, 0)], [0, 0, 1], [0, 0, 1]),  # before a mark: to the one before
        ([(0, 0), (1, 2), (0, 0)], [1, 0, 1], [0, 1, 2]),  # between marks: a word of its own
        ([(1, 2), (3, 4), (3, 4)], [0, 0, 0], [0, 1, 2]),  # no word at all: each its own
    ],
)
def test_a_token_of_blanks_goes_to_a_word_beside_it(offsets, special, of):
    text = "a b "
    assert (
        align(
            text, word_spans(text), offsets, [bool(flag) for flag in special], ["x", "y", "z"]
        ).of.tolist()
        == of
    )


def test_a_text_without_tokens_has_no_words():
    words = align("", [], [], [], [])
    assert (len(words), words.of.tolist(), words.missing) == (0, [], ())


@settings(max_examples=200)
@given(strategies.texts(), st.sampled_from(["bert", "tiny", "bytes", "pairs"]), st.booleans())
@example("\u0600 x", "bytes", False)
def test_every_token_has_a_word_that_holds_it_and_words_stand_in_text_order(text, name, is_given):
    own = text.split() if is_given else None
    text = " ".join(own) if is_given else text
    words, spans, offsets, special = encoded(text, name, own)
    assert len(words.of) == len(offsets)
    assert sorted(set(words.of.tolist())) == list(range(len(words)))  # every word has a token
    assert np.all(np.diff(words.of) >= 0)
    sources = [source for source in words.source if source >= 0]
    assert sources == sorted(set(sources))
    ranges = [
        (spans[source][0], spans[source][0] + len(string))
        for source, string in zip(words.source, words.strings, strict=True)
        if source >= 0
    ]
    assert words.missing == tuple(
        index
        for index, (start, _) in enumerate(spans)
        if not any(begin <= start < end for begin, end in ranges)
    )
    for token, (start, stop) in enumerate(offsets):
        word = words.of[token]
        if special[token]:
            assert words.of.tolist().count(word) == 1
            assert words.source[word] == -1
        elif text[start:stop].strip():
            begin = spans[words.source[word]][0]
            end = begin + len(words.strings[word])
            seen = [place for place in range(start, stop) if not text[place].isspace()]
            assert text[begin:end] == words.strings[word]
            assert begin <= seen[0] < end
            assert is_given or seen[-1] < end
