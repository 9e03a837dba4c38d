"""Masks: which tokens of real sentences take part, and that each kind is part of the one before,
for any text and tokenizer."""

from __future__ import annotations

import unicodedata
from functools import cache
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from attlas.core.batch import Batch
from attlas.core.masks import KINDS, TokenMask
from attlas.core.text import Text
from attlas.language.lists import languages, stopwords
from attlas.support.errors import MeasureError
from attlas.testing import tiny, tiny_tokenizer
from tests import strategies
from tests.twins.core import of_content_slowly


@cache
def tokenizer(name: str) -> Tokenizer:
    """`tiny` splits unknown words into letters; `bytes` has a token for each byte, `merged` joins
    a few as byte-level vocabularies do; `pairs` cuts after every second character."""
    if name == "tiny":
        return tiny_tokenizer().backend_tokenizer
    if name == "pairs":
        pairs = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
        pairs.pre_tokenizer = pre_tokenizers.FixedLength(2)
        return pairs
    merges = [
        ("â", "Ģ"),
        ("âĢ", "Ļ"),
        ("Ġ", "âĢ"),
        ("Ġ", "t"),
        ("h", "e"),
        ("Ġt", "he"),
        ("Ġ", "Ġ"),
    ]
    merges = merges if name == "merged" else []
    pieces = [
        *sorted(pre_tokenizers.ByteLevel.alphabet()),
        *(left + right for left, right in merges),
    ]
    by_bytes = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, merges))
    by_bytes.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return by_bytes


def encoded(text: str | tuple[str, ...], name: str) -> Batch:
    """One text, or one of given words, as a batch."""
    given = Text("a", text) if isinstance(text, str) else Text("a", words=text)
    found = tokenizer(name).encode(given.text)
    n = len(found.tokens)
    none = torch.zeros(1, n, dtype=torch.bool)
    return Batch(
        (given,),
        (0,),
        torch.zeros(1, n, dtype=torch.long),
        (tuple(found.tokens),),
        np.array(found.offsets, dtype=np.int64).reshape(1, n, 2),
        np.array(found.special_tokens_mask, dtype=bool).reshape(1, n),
        none,
        none,
        (0,),
    )


def kept(keep: str | TokenMask, batch: Batch) -> list[str]:
    """What a reader sees of the tokens that take part in the only text."""
    (mask,) = TokenMask.of(keep).mask(batch).tolist()
    (text,) = batch.texts
    return [
        text.text[start:stop].strip() or token
        for (start, stop), token, inside in zip(
            batch.offsets[0].tolist(), batch.tokens[0], mask, strict=True
        )
        if inside
    ]


@pytest.fixture(scope="module")
def bert(minilm):
    """Texts, or given words, in the real uncased vocabulary."""

    def encode(text: str | tuple[str, ...]) -> Batch:
        made = Text("a", text) if isinstance(text, str) else Text("a", words=text)
        (batch,) = minilm.batches(minilm.encode([(0, made)]))
        return batch

    return encode


def test_each_kind_on_a_real_sentence(bert):
    batch = bert("The 2 dogs don’t like training, “really”!")
    assert kept("all", batch)[0] == "[CLS]"
    assert kept("all", batch)[-1] == "[SEP]"
    assert kept("ordinary", batch) == [
        "The",
        "2",
        "dogs",
        "don",
        "’",
        "t",
        "like",
        "training",
        ",",
        "“",
        "really",
        "”",
        "!",
    ]
    assert kept("words", batch) == ["The", "2", "dogs", "don", "t", "like", "training", "really"]
    assert kept("keywords", batch) == ["dogs", "like", "training", "really"]


def test_a_batch_has_a_row_for_each_text_on_its_device(minilm):
    texts = [(0, Text("a", "The cat sat!")), (1, Text("b", "Dogs and 3 ."))]
    (batch,) = minilm.batches(minilm.encode(texts))
    mask = TokenMask().mask(batch)
    assert mask.dtype == torch.bool
    assert mask.device == batch.ids.device
    assert mask.tolist() == [
        [False, False, True, True, False, False],
        [False, True, False, False, False, False],
    ]
    assert TokenMask("all").mask(batch).all()
    assert TokenMask("ordinary").mask(batch).tolist() == (~batch.special).tolist()


def test_a_mask_is_worked_out_once_and_never_for_another(bert):
    batch = bert("The cat sat on the mat.")
    first = TokenMask().mask(batch)
    assert TokenMask().mask(batch) is first
    assert kept(TokenMask(words=("cat",)), batch) == ["sat", "mat"]
    assert kept(TokenMask(languages=()), batch) == ["The", "cat", "sat", "on", "the", "mat"]
    assert kept("keywords", batch) == ["cat", "sat", "mat"]
    assert batch.special[0].tolist() == [True] + [False] * 7 + [True]


def test_pieces_go_with_their_whole_word():
    assert kept("keywords", encoded("saw barking don't sat", "tiny")) == [
        "saw",
        "b",
        "a",
        "r",
        "k",
        "ing",
        "sat",
    ]
    assert kept("keywords", encoded("themes", "tiny")) == [
        "the",
        "m",
        "e",
        "s",
    ]  # "the" begins it and is no word here


@pytest.mark.parametrize(
    "word", ["the", "The", "THE", "tHe", "don't", "DON’T", "Donʼt", "IT’S", "won't", "Cannot"]
)
def test_stop_words_in_any_case_and_with_any_apostrophe(word, bert):
    assert kept("keywords", bert(f"{word} cat")) == ["cat"]


def test_what_an_apostrophe_joins_is_judged_by_itself(bert):
    assert kept("keywords", bert("The film's end, the films' end")) == [
        "film",
        "end",
        "films",
        "end",
    ]
    french, italian = TokenMask(languages=("fr",)), TokenMask(languages=("it",))
    assert kept(french, bert("L’art: c'est qu’il n'a pas d'accord aujourd'hui")) == [
        "art",
        "accord",
    ]
    assert kept(french, bert("c'est ce qu’il n'a pas")) == []
    assert kept(italian, bert("dell'arte, c'è un'opera")) == ["arte", "opera"]
    assert kept("keywords", bert("rock'n'roll O'Brien")) == ["rock", "n", "roll", "O", "Brien"]
    assert kept(french, encoded("l'ile", "bytes")) == [
        "i",
        "l",
        "e",
    ]  # only the l beside the apostrophe is the article
    assert kept("keywords", encoded("isa's", "bytes")) == [
        "i",
        "s",
        "a",
    ]  # "is" is not what the apostrophe joins


def test_letters_and_digits(bert):
    batch = bert("B2 C3PO 3rd ½ ² Ⅳ x_y 42")
    assert kept("keywords", batch) == ["B", "C", "PO", "x", "y"]
    assert kept("words", batch) == ["B", "2", "C", "3", "PO", "3rd", "½", "²", "Ⅳ", "x", "y", "42"]


def test_a_token_with_a_digit_or_a_mark_is_no_keyword():
    assert kept("keywords", encoded("B2 ab a.", "pairs")) == ["a", "b"]  # of B2, " a", "b ", "a."
    assert kept("words", encoded("B2 ab a.", "pairs")) == ["B2", "a", "b", "a."]


@pytest.mark.parametrize("name", ["bytes", "merged", "pairs"])
def test_accents_composed_or_not_are_letters(name):
    batch = encoded("naïve cafe\u0301 Ærø", name)
    visible = [batch.texts[0].text[start:stop].strip() for start, stop in batch.offsets[0].tolist()]
    assert kept("keywords", batch) == kept("words", batch) == [piece for piece in visible if piece]
    assert {"ï", "\u0301", "Æ", "ø"} <= set("".join(visible))
    assert (
        kept(TokenMask(languages=("it",)), encoded("e\u0300 cosi\u0300", name)) == []
    )  # è and così are stop words


def test_other_scripts_are_letters(bert):
    assert kept("keywords", bert("世界, 한국")) == ["世", "界", *kept("words", bert("한국"))]
    for text in ("हिन्दी", "می\u200cخواهم", "شَمْس", "Привет", "カ\u3099"):
        for name in ("bytes", "merged", "pairs"):
            batch = encoded(text, name)
            assert kept("keywords", batch) == kept("ordinary", batch), text
    assert kept("keywords", encoded("Wort\u00adteil", "pairs")) == [
        "Wo",
        "rt",
        "\u00adt",
        "ei",
        "l",
    ]


DEBRIS = [
    "’",
    "“”",
    "—",
    " – ",
    "…",
    "€",
    "❤\ufe0f",
    "👩\u200d👩\u200d👧",
    "👍🏽",
    "🇩🇪",
    "\u00a0",
    "  \n",
    "\u200b",
    "\ufeff",
    "•",
    "_",
    "°",
    "\u00ad",
]


@pytest.mark.parametrize("name", ["bytes", "merged", "pairs", "tiny"])
@pytest.mark.parametrize("debris", DEBRIS)
def test_bytes_of_marks_blanks_and_emoji_are_no_letters(debris, name):
    """Byte-level vocabularies write them with letters such as â and Ġ."""
    batch = encoded(debris, name)
    assert kept("words", batch) == []
    assert kept("keywords", batch) == []


@pytest.mark.parametrize("name", ["bytes", "merged"])
def test_marks_beside_words_in_bytes(name):
    batch = encoded("cats ’— the  dog’s", name)
    assert "".join(kept("keywords", batch)) == "catsdog"
    assert "".join(kept("words", batch)) == "catsthedogs"


def test_a_keycap_is_a_number_and_no_keyword():
    batch = encoded("3\ufe0f\u20e3", "bytes")
    assert kept("words", batch) == kept("ordinary", batch)
    assert kept("keywords", batch) == []


def test_languages_and_words_of_ones_own(bert):
    batch = bert("the und et chat Film film’s")
    assert kept("keywords", batch) == ["und", "et", "chat", "Film", "film"]
    assert kept(TokenMask(languages=("de",)), batch) == ["the", "et", "chat", "Film", "film"]
    assert kept(TokenMask(languages=("en", "de", "fr")), batch) == ["chat", "Film", "film"]
    assert kept(TokenMask(languages=("fr", "de", "en"), words=("FILM",)), batch) == ["chat"]
    assert kept(TokenMask(languages=()), batch) == ["the", "und", "et", "chat", "Film", "film", "s"]
    assert kept(TokenMask(words=("cha",)), batch) == ["und", "et", "chat", "Film", "film"]
    assert kept(
        TokenMask(words=("DÉJÀ", "don’t"), languages=()), bert("de\u0301ja\u0300 don't vu")
    ) == ["vu"]
    assert kept(TokenMask(languages=("de",)), bert("Außer AUSSER dass daß")) == []


def test_given_words_are_the_words(bert):
    assert kept("keywords", bert(("dogs", "do", "n't", "see", "him", "'s"))) == ["dogs", "see"]
    assert kept("keywords", bert(("New", "in_the", "ca", "n't"))) == ["New", "in", "the", "ca"]
    together = bert(("the", "the cat", "of"))
    assert kept("keywords", together) == ["the", "cat"]
    assert kept(TokenMask(words=("the cat",)), together) == []


def test_the_words_of_a_batch_of_words(bert):
    batch = bert("The training doesn't stop!").by_word(0)
    assert kept("keywords", batch) == ["training", "stop"]
    assert kept("words", batch) == ["The", "training", "doesn't", "stop"]


def test_keep_is_a_plain_value():
    assert TokenMask.of("words") == TokenMask("words")
    own = TokenMask(words=("cat",))
    assert TokenMask.of(own) is own
    assert TokenMask(languages=["en", "de"], words=["x"]) == TokenMask(
        languages=("en", "de"), words=("x",)
    )  # type: ignore[arg-type]
    assert TokenMask(languages="de", words="film") == TokenMask(languages=("de",), words=("film",))  # type: ignore[arg-type]
    assert repr(TokenMask()) == "TokenMask(kind='keywords', languages=('en',), words=())"
    assert (
        len({TokenMask(), TokenMask("keywords"), TokenMask("words"), TokenMask(languages=()), own})
        == 4
    )


@pytest.mark.parametrize("kind", ["", "keyword", "All", None, 3])
def test_an_unknown_kind_names_the_kinds(kind):
    with pytest.raises(
        MeasureError, match="the kinds are all, ordinary, words, keywords"
    ) as raised:
        TokenMask.of(kind)
    assert repr(kind) in str(raised.value)


@pytest.mark.parametrize("language", ["xx", "", "EN", "../en", "en.txt"])
def test_an_unknown_language_names_the_known(language):
    for ask in (stopwords, lambda language: TokenMask(languages=("en", language))):
        with pytest.raises(MeasureError, match="the languages are de, en, es, fr, it") as raised:
            ask(language)
        assert repr(language) in str(raised.value)
        assert "\n" not in str(raised.value)


def test_lists_are_clean():
    assert languages() == ("de", "en", "es", "fr", "it")
    for language in languages():
        content = (files("attlas.language") / "stopwords" / f"{language}.txt").read_text(
            encoding="utf-8"
        )
        assert content.endswith("\n")
        words = [line for line in content.splitlines() if not line.startswith("#")]
        assert 120 <= len(words) <= 250
        assert len(words) == len(set(words)) == len(stopwords(language))
        for word in words:
            assert word == unicodedata.normalize("NFC", word.casefold())
            assert word == word.lower()
            assert word.replace("'", "").isalpha(), (language, word)


def test_lists_hold_what_a_reader_expects_and_nothing_else():
    expected = {
        "en": "the a and of not very also i you he she it is was don't it's can't who with 's",
        "de": "der die das und nicht sehr auch ich ist war mit dass ausser für",
        "fr": "le la les et ne pas très aussi je est était avec l' qu' à être",
        "es": "el la los y no muy también yo es era con está más",
        "it": "il lo gli e non molto anche io è era con dell' più",
    }
    content = "cat film good bad haus katze gut maison chat bon casa gato bueno gatto buono war don"
    assert set(expected) == set(languages())
    for language, words in expected.items():
        assert set(words.split()) <= stopwords(language)
        assert not (set(content.split()) - {"war" if language == "de" else ""}) & stopwords(
            language
        )


names = st.sampled_from(["tiny", "bytes", "merged", "pairs"])


@settings(max_examples=300)
@given(
    text=strategies.texts(),
    name=names,
    spoken=st.lists(st.sampled_from(["en", "fr", "it"]), max_size=2),
)
@example(text="❤\ufe0f e\u0301 ’", name="bytes", spoken=["en"])
@example(text="", name="tiny", spoken=[])
def test_each_kind_is_part_of_the_one_before(text, name, spoken):
    batch = encoded(text, name)
    masks = [TokenMask(kind, tuple(spoken)).mask(batch) for kind in KINDS]
    for wide, narrow in pairwise(masks):
        assert narrow.shape == batch.ids.shape
        assert not (narrow & ~wide).any()
    assert masks[0].all()
    more = TokenMask("keywords", (*spoken, "de"), ("café",)).mask(batch)
    assert not (more & ~masks[-1]).any()  # more stop words, fewer tokens
    if not {"'", "’", "ʼ"} & set(text):
        stops = frozenset().union(*map(stopwords, spoken))
        assert masks[-1][0].tolist() == of_content_slowly(batch, stops)


@settings(max_examples=60)
@given(rng=strategies.generators, n_texts=st.integers(0, 3), n=st.integers(1, 9))
def test_kinds_on_batches_of_several_texts(rng, n_texts, n):
    batch = strategies.make_batch(rng, n_texts, n)
    for kind in KINDS:
        keep = TokenMask(kind)
        mask = keep.mask(batch)
        assert mask.shape == (n_texts, n)
        singly = [keep.mask(batch[text : text + 1])[0].tolist() for text in range(n_texts)]
        assert mask.tolist() == singly
    assert TokenMask("words").mask(batch).tolist() == [
        [token in ("ab", "cd") for token in row] for row in batch.tokens
    ]


def test_models_without_special_tokens():
    model = tiny("gpt2")
    (batch,) = model.batches(model.encode([(0, Text("a", "The cat and a dog sat."))]))
    assert kept("all", batch) == kept("ordinary", batch)
    assert kept("keywords", batch) == ["cat", "dog", "sat"]
