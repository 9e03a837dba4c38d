"""The files of English words: well-formed, nothing twice, and every section has a reader."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attlas import language
from attlas.corpora.layouts.mentions import surface_kind
from attlas.language.lists import word_list, word_sections
from attlas.language.tagging import tag_words

PACKAGE = Path(language.__file__).parent
NAMES = sorted(path.stem for path in (PACKAGE / "english").glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_no_word_stands_twice_in_a_section(name: str) -> None:
    for section, words in word_sections(name).items():
        assert len(words) == len(set(words)), section
    assert word_list(name) == set().union(*word_sections(name).values())


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_headings_comments_and_words(name: str) -> None:
    lines = (PACKAGE / "english" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    headings = [line for line in lines if line.startswith("[")]
    assert lines[0].startswith("# ")
    assert all(re.fullmatch(r"\[[A-Za-z_ -]+\]", line) for line in headings)
    assert len(headings) == len(set(headings)) == len(word_sections(name).keys() - {""})
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("name", ["pronouns", "determiners", "function_words", "endings"])
def test_each_word_has_one_section(name: str) -> None:
    assert sum(map(len, word_sections(name).values())) == len(word_list(name))


def test_every_file_has_a_reader() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.parent.rglob("*.py"))
    for name in NAMES:
        assert re.search(rf'word_(list|sections)\(\s*"{name}"', source), name


def test_an_unknown_section_is_an_error() -> None:
    with pytest.raises(KeyError):
        word_list("determiners", "nouns")


def test_a_pronoun_of_the_tagger_is_one_of_mentions_and_agreement() -> None:
    demonstratives = word_list("pronouns", "demonstrative singular", "demonstrative plural")
    for word in word_list("pronouns") - demonstratives - {"one"}:
        assert surface_kind(word, 1, ()) == surface_kind(word, 2, ()) == "pronoun", word
    for word in demonstratives:
        assert (surface_kind(word, 1, ()), surface_kind(word, 2, ())) == ("pronoun", "common"), word
    tagged_otherwise = {word for word in word_list("pronouns") if tag_words([word]) != ["PRON"]}
    assert tagged_otherwise == {"one", "both"}  # which a rule decides
