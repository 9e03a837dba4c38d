"""Coreference from LitBank, GAP and CoNLL-U; a broken document is one bad row with its line."""

from __future__ import annotations

from importlib import import_module

import pytest
from hypothesis import given, strategies as st

import attlas
from attlas.core.annotations import (
    COREFERENCE,
    Coreference,
    Mention,
    coreference_of,
    dependencies_of,
)
from attlas.corpora import BadRow, read
from attlas.corpora.annotated import documents
from attlas.corpora.layouts.gap import GAP_COLUMNS, gap_rows
from attlas.corpora.layouts.litbank import litbank_rows
from attlas.corpora.layouts.mentions import capitalised, name_head, surface_head, surface_kind
from attlas.support.errors import CorpusError
from attlas.testing import tiny
from tests.builders.files import texts_of, write


def as_conll(*words: str, name: str = "book", part: object = 0) -> str:
    """A document; words are written as form or form/brackets, an empty string ends a sentence."""
    lines = ["\t".join([name, "0", "0", *_cells(word)]) if word else "" for word in words]
    return "\n".join([f"#begin document ({name}); part {part}", *lines, "#end document", ""])


def _cells(word: str) -> list[str]:
    form, _, brackets = word.partition("/")
    return [form, *["_"] * 8, brackets]


BOOK = as_conll(
    *(
        "Mr./(0",
        "Weston/0)",
        "saw",
        "the/(1",
        "tall",
        ",",
        "thin",
        "man",
        "with",
        "her/(3|(2)",
        "dog/3)|1)",
        "./-",
    ),
    *(
        "",
        "“/_",
        "Dogs/(4)",
        "bark",
        "”",
        ",",
        "he/(0)",
        "told",
        "Mr./(5|(0",
        "Weston",
        "'s/0)",
        "wife/5)",
    ),
)
BOOK_MENTIONS = (
    Mention(0, 2, 1, "0", "proper"),  # "Weston" also stands inside a sentence
    Mention(3, 11, 7, "1", "common"),
    Mention(9, 11, 10, "3", "common"),
    Mention(9, 10, 9, "2", "pronoun"),
    Mention(13, 14, 13, "4", "common"),  # large only because it begins a sentence
    Mention(17, 18, 17, "0", "pronoun"),
    Mention(19, 23, 22, "5", "common"),
    Mention(19, 22, 20, "0", "proper"),
)


def test_a_document_of_litbank(tmp_path):
    path = write(tmp_path / "book.conll", BOOK)
    (book,) = texts_of(litbank_rows(path))
    assert book.id == "book"
    assert book.words[:8] == ("Mr.", "Weston", "saw", "the", "tall", ",", "thin", "man")
    assert book.annotations == {
        "where": f"{path}, line 1",
        COREFERENCE: Coreference(BOOK_MENTIONS, (0, 12)),
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\t\n", "\t_\n").replace(
            "\t", "  "
        ),  # an empty cell cannot be written with blanks
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text.rstrip("\n"),
        lambda text: "\n# a comment\n\n" + text.replace("\n\n", "\n# another\n\n\n"),
    ],
    ids=["blanks", "CRLF", "BOM and no last line end", "comments"],
)
@pytest.mark.parametrize("ending", ["conll", "conll.gz"])
def test_the_same_document_from_every_way_to_write_it(tmp_path, ending, change):
    path = write(tmp_path / f"book.{ending}", change(BOOK))
    (book,) = read(path)
    assert documents(path) == [book]
    assert coreference_of(book.annotations) == Coreference(BOOK_MENTIONS, (0, 12))


def test_parts_are_named_if_there_are_several(tmp_path):
    content = "".join(
        as_conll("word", name=name, part=part)
        for name, part in [("a", 0), ("b", 0), ("b", 1), ("b", "002"), ("c", 3), ("d (e)", 0)]
    )
    path = write(
        tmp_path / "parts.conll", content + "#begin document f\nf 0 0 word -\n#end document"
    )
    assert [text.id for text in texts_of(litbank_rows(path))] == [
        *("a", "b, part 0", "b, part 1", "b, part 002", "c", "d (e)", "f")
    ]


BROKEN = {
    "never closed": (
        as_conll("a/(1", "", "b/(2", "c/1)"),
        4,
        "it opens the entity '2', which is never closed",
    ),
    "never opened": (as_conll("a/(1", "b/1)|2)"), 3, "it closes the entity '2', which is not open"),
    "no bracket": (as_conll("a", "b/1"), 3, "its entities end in '1'; write each as"),
    "nothing between bars": (as_conll("a/(1)||(2)"), 2, "its entities end in ''"),
    "too few columns": (
        as_conll("a").replace("\t_", "").replace("\t\n", "\n"),
        2,
        "it has 4 columns; a word has at least 5: document",
    ),
    "an empty word": (as_conll("a", " /(1)"), 3, "its word (column 4) is empty"),
    "no words": (as_conll("", ""), 1, "the document has no words"),
    "no end": (
        as_conll("a").replace("#end document\n", ""),
        1,
        "the document does not end; put '#end document'",
    ),
    "no UTF-8": (as_conll("a", "é"), 3, "it is not valid UTF-8"),
    "no UTF-8 in its name": (as_conll("a", name="é"), 1, "it is not valid UTF-8"),
    "no beginning": ("x\t0\t0\ta\t-\n\nx\t0\t0\tb\t-\n", 1, "it is outside of a document"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_document_is_one_bad_row_and_the_rest_is_read(tmp_path, name):
    content, line, reason = BROKEN[name]
    before, after = as_conll("one/(1)", name="before"), as_conll("two/(1)", name="after")
    path = write(tmp_path / "broken.conll", (before + content + after).encode("latin-1"))
    first, bad, last = read(path).rows()
    assert (first.id, last.id) == ("before", "after")
    assert isinstance(bad, BadRow)
    assert bad.where == f"{path}, line {3 + line}"
    assert reason in bad.reason


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 9), st.sampled_from("012")),
        max_size=8,
        unique=True,
    ),
    st.sets(st.integers(1, 9)),
)
def test_brackets_of_litbank_come_back_as_written(tmp_path_factory, drawn, borders):
    spans = []
    for start, length, chain in drawn:
        stop = min(start + length, 10)
        if not any(
            chain == other and (start < left < stop < right or left < start < right < stop)
            for left, right, other in spans
        ):
            spans.append((start, stop, chain))
    words = []
    for index in range(10):
        closed = [
            f"{chain})" for start, stop, chain in spans if stop == index + 1 and start < index
        ]
        opened = [
            f"({chain}" for start, stop, chain in spans if start == index and stop > index + 1
        ]
        single = [
            f"({chain})" for start, stop, chain in spans if (start, stop) == (index, index + 1)
        ]
        words += [""] * (index in borders) + ["w/" + "|".join(closed + opened + single)]
    (text,) = texts_of(
        litbank_rows(write(tmp_path_factory.mktemp("conll") / "x.conll", as_conll(*words)))
    )
    found = text.annotations[COREFERENCE]
    assert sorted(
        (mention.start, mention.stop, mention.chain) for mention in found.mentions
    ) == sorted(spans)
    assert found.sentences == (0, *sorted(borders))


@pytest.mark.parametrize(
    ("mention", "head"),
    [
        ("the old man with the dog", "man"),
        ("that man", "man"),
        ("of the house", "house"),  # passed over at the very beginning
        ("about twenty men", "men"),
        ("the man who left", "man"),
        ("the man I saw", "man"),
        ("a man ( of sorts )", "man"),
        ("( the man )", "man"),
        ("“ the house ”", "house"),
        ("all of them", "all"),
        ("those in power", "those"),
        ("the near side", "side"),
        ("a tall , thin man , with angles", "man"),
        ("pale , listless , tired children", "children"),
        ("my brother , prompted by Rose", "brother"),
        ("London , the great city", "London"),
        ("Anna and Ben", "Anna"),
        ("old Tom Sawyer and Huck", "Sawyer"),
        ("Mr. and Mrs. Bennet", "Bennet"),
        ("the old and weary man", "man"),
        ("Tom 's", "Tom"),
        ("Tom ’s mother", "mother"),
        ("who", "who"),
        ("of", "of"),
        ("—", "—"),
    ],
)
def test_heads_without_trees(mention, head):
    words = mention.split()
    assert words[surface_head(words)] == head


FORMS = (
    "the",
    "a",
    "tall",
    "man",
    "Tom",
    "'s",
    "of",
    ",",
    "and",
    "who",
    "that",
    "“",
    "(",
    "I",
    "--",
    "Mr.",
)


@given(st.lists(st.sampled_from(FORMS), min_size=1, max_size=8))
def test_a_head_is_a_word_of_its_mention_and_visible_if_one_is(words):
    head = words[surface_head(words)]
    assert head.strip("“(,-") or not any(word.strip("“(,-") for word in words)
    assert head != "'s" or all(
        word in ("'s", *"“(,", "--", "of", "and", "who", "that", "I") for word in words
    )


def test_kinds_without_trees():
    names = capitalised(
        (
            *("Men", "saw", "Ann", "."),
            *("“", "Boys", ",", "see", "Rome", "!", "Go", "”", "--", "Ann"),
        ),
        (0, 4),
    )
    assert names == {"Ann", "Rome"}
    kinds = [
        surface_kind(form, 1, names)
        for form in ("Ann", "Men", "dogs", "She", "THEMSELVES", "who", "Those")
    ]
    assert kinds == ["proper", "common", "common", "pronoun", "pronoun", "pronoun", "pronoun"]
    assert surface_kind("those", 3, names) == "common"  # those who left


TEXT = 'Anna\'s aunt told "Sammy Davis, Jr." that Élise saw her.'
GAP = {
    "ID": "test-1",
    "Text": TEXT,
    "Pronoun": "her",
    "Pronoun-offset": TEXT.index("her."),
    "A": "Anna",
    "A-offset": 0,
    "A-coref": "TRUE",
    "B": "Sammy Davis, Jr.",
    "B-offset": TEXT.index("Sammy"),
    "B-coref": "FALSE",
    "URL": "http://example.org",
}


def as_gap(*rows: dict, columns: tuple[str, ...] = GAP_COLUMNS) -> str:
    return "\n".join(
        ["\t".join(columns), *("\t".join(str(row[name]) for name in columns) for row in rows), ""]
    )


def test_a_row_of_gap(tmp_path):
    path = write(tmp_path / "gap.tsv", as_gap(GAP))
    (text,) = texts_of(gap_rows(path))
    assert text.id == "test-1"
    assert text.words == (
        *("Anna", "'s", "aunt", "told", '"', "Sammy", "Davis", ",", "Jr", ".", '"'),
        *("that", "Élise", "saw", "her", "."),
    )
    assert text.annotations == {
        "where": f"{path}, line 2",
        COREFERENCE: Coreference(
            (
                Mention(0, 1, 0, "0", "proper"),
                Mention(5, 10, 6, "B", "proper"),
                Mention(14, 15, 14, "0", "pronoun"),
            ),
            around=True,
        ),
    }


def test_chains_order_of_columns_and_quotes_of_gap(tmp_path):
    quoted = f'"{TEXT}"'.replace('"Sammy', "«Sammy").replace(
        'Jr."', "Jr.»"
    )  # a cell in quotes keeps them
    moved = {f"{name}-offset": GAP[f"{name}-offset"] + 1 for name in ("Pronoun", "A", "B")}
    rows = [
        GAP | {"ID": "b", "A-coref": "FALSE", "B-coref": "true"},
        GAP | {"ID": "c", "A-coref": "False", "Text": quoted} | moved,
    ]
    content = "\ufeff" + as_gap(*rows, columns=GAP_COLUMNS[::-1]).replace("\n", "\r\n")
    path = write(tmp_path / "gap.tsv.gz", content)
    b, c = read(path)
    assert documents(path) == [b, c]
    assert [mention.chain for mention in coreference_of(b.annotations).mentions] == ["A", "0", "0"]
    assert [mention.chain for mention in coreference_of(c.annotations).mentions] == ["A", "B", "0"]
    assert c.words[:2] == ('"', "Anna")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"A-offset": 1}, "its A is 'Anna' at character 1, but the Text has \"nna'\""),
        ({"Pronoun-offset": 5000}, "its Pronoun is 'her' at character 5000, but the Text has ''"),
        ({"Pronoun": "Her"}, "its Pronoun is 'Her'"),
        ({"B": ""}, "its B is ''"),
        ({"A-offset": "x"}, "its A-offset is 'x', not a number"),
        ({"A-offset": -4}, "its A-offset is '-4', not a number"),
        ({"A-offset": "9" * 5000}, "its A-offset is '99"),
        ({"B-coref": "maybe"}, "its B-coref is 'MAYBE'; give TRUE"),
        ({"URL": "a\tb"}, "it has 12 cells, but the header has 11"),
        ({"Text": TEXT.replace("É", "\udce9")}, "it is not valid UTF-8"),
    ],
)
def test_a_broken_row_of_gap_is_one_bad_row(tmp_path, change, reason):
    content = as_gap(GAP, GAP | {"ID": "bad"} | change, GAP | {"ID": "last"})
    path = write(tmp_path / "gap.tsv", content.encode("utf-8", "surrogateescape"))
    first, bad, last = read(path).rows()
    assert (first.id, last.id) == ("test-1", "last")
    assert isinstance(bad, BadRow)
    assert bad.where == f"{path}, line 3"
    assert reason in bad.reason


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("Ada", "Ada"),
        ("Ada Byron", "Byron"),
        ("Sammy Davis , Jr .", "Davis"),
        ("John Getty III", "Getty"),
        ("Malcolm X", "X"),
        ("Rod ( a god", "Rod"),
        ("Jr", "Jr"),
        (", Ada", "Ada"),
    ],
)
def test_the_head_of_a_name_is_its_last_word(name, head):
    words = name.split()
    assert words[name_head(words)] == head


CONLLU = (
    "1\tShe\tshe\tPRON\t_\t_\t2\tnsubj\t_\tEntity=(1-person)\n"
    "2\tleft\tleave\tVERB\t_\t_\t0\troot\t_\t_\n"
)


def test_documents_of_conllu_of_corpora_and_of_texts(tmp_path):
    path = write(tmp_path / "stories.conllu.gz", CONLLU + "\n" + CONLLU)
    (story,) = documents(str(path))
    assert (story.id, story.words) == ("stories", ("She", "left", "She", "left"))
    assert [mention.head for mention in coreference_of(story.annotations).mentions] == [0, 2]
    assert (
        documents(path)
        == documents([story])
        == documents((story,))
        == documents(read([story]))
        == [story]
    )
    assert [text.words for text in read(path)] == [("She", "left")] * 2  # sentences


def test_a_table_with_gaps_header_is_a_table_if_columns_are_named(tmp_path):
    path = write(tmp_path / "gap.tsv", as_gap(GAP))
    (row,) = read(path)
    (plain,) = read(path, text="Text", label="A-coref", id="ID")
    assert coreference_of(row.annotations) is not None
    assert coreference_of(plain.annotations) is None
    assert (plain.id, plain.text, plain.label) == (row.id, GAP["Text"], str(GAP["A-coref"]))
    (other,) = read(write(tmp_path / "other.tsv", "ID\ttext\tPronoun\n1\tx\tshe\n"))
    assert (other.text, coreference_of(other.annotations)) == ("x", None)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "texts.csv",
            "text\nx",
            r"text '0' of .*texts.csv has no coreference; give CoNLL-U with Entity=",
        ),
        ("texts.tsv", "id\ttext\n7\tx", r"text '7' of .*texts.tsv has no coreference"),
        ("texts", "x", "ends in 'nothing'; a corpus is one of .*conllu, .conll"),
        ("empty.tsv", "", "holds no texts"),
        ("empty.conllu", "\n", "holds no texts"),
        ("empty.conll", "\n", "holds no texts"),
    ],
)
def test_files_without_coreference_are_refused(tmp_path, name, content, message):
    with pytest.raises(CorpusError, match=message):
        documents(write(tmp_path / name, content))


@pytest.mark.parametrize("source", ["embedded:reviews", "no/such.conllu", "", 3, ["a text"], {}])
def test_anything_else_is_refused(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError):
        documents(source)


def test_a_study_reads_documents_with_coreference(tmp_path):
    model = tiny("bert")
    for path in (write(tmp_path / "book.conll", BOOK), write(tmp_path / "gap.tsv", as_gap(GAP))):
        (text,) = read(path)
        done = attlas.study(model, path, "surface", progress=False)
        assert done.table("texts")["content"].tolist() == [text.text]


def test_embedded_sentences_are_read_as_sentences_and_as_documents(tmp_path, monkeypatch):
    (tmp_path / "embedded").mkdir()
    write(tmp_path / "embedded" / "sentences.conllu", f"# newdoc id = d\n{CONLLU}\n{CONLLU}")
    monkeypatch.setattr(import_module("attlas.corpora.sources"), "files", lambda package: tmp_path)
    corpus = read("embedded:sentences")
    assert corpus.name == "embedded:sentences"
    assert [text.words for text in corpus] == [("She", "left")] * 2
    assert all(dependencies_of(text.annotations) is not None for text in corpus)
    (document,) = documents("embedded:sentences")
    assert (document.id, len(coreference_of(document.annotations).mentions)) == ("d", 2)


def test_embedded_sentences_are_no_part_of_all_but_listed():
    assert not any(text.id.startswith("sentences") or text.words for text in read("embedded:all"))
    with pytest.raises(
        CorpusError,
        match="choose acceptability, messages, reviews, sentences",
    ):
        read("embedded:novels")
