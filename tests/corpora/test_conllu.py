"""CoNLL-U: trees and brackets are read back; a broken sentence is one bad row with its line."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest
from hypothesis import given, strategies as st

from attlas.core.annotations import (
    COREFERENCE,
    DEPENDENCIES,
    ROOT,
    Coreference,
    Dependencies,
    Mention,
    coreference_of,
    dependencies_of,
)
from attlas.core.text import Text
from attlas.corpora import BadRow, read
from attlas.corpora.layouts.conllu import (
    Marks,
    bracketed,
    conllu_documents,
    conllu_rows,
    kind_of,
    mention_head,
    word_on_cycle,
)
from attlas.support.errors import CorpusError
from tests.builders.files import texts_of, write
from tests.twins.corpora import head_slowly

GOOD = "1\tIt\tit\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\tworks\twork\tVERB\t_\t_\t0\troot\t_\t_\n"

SAMPLE = """\
# a comment about the file

# newdoc id = first
# sent_id = s1
# text = Vámonos al mar de 10 000 islas.
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\tEntity=(1-person)
# a comment between words
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\tEntity=(2-place-new|SpaceAfter=No
5\tmar\tmar\tNOUN\t_\t_\t1\tobl:arg\t_\t_
5.1\tvamos\tir\tVERB\t_\t_\t_\t_\t1:conj\t_
6\tde\tde\tADP\t_\t_\t8\tcase\t_\t_
7\t10 000\t10000\tNUM\t_\t_\t8\tnummod\t_\tBridge=2<3|Entity=(3-place
8\tislas\tisla\tNOUN\t_\t_\t5\tnmod\t_\tEntity=3)2)
9\t.\t.\t_\t_\t_\t1\tpunct\t_\t_

1\tAna\tAna\tPROPN\t_\t_\t0\troot\t_\tEntity=(1-person-giv(4-person-new)
2\ty\ty\tCCONJ\t_\t_\t3\tcc\t_\t_
3\tEva\tEva\tPROPN\t_\t_\t0\troot\t_\tEntity=(5-person-new)1)

# sent_id = s3
# newdoc id = second
1\tEse\tese\tDET\t_\t_\t0\troot\t_\tEntity=(1-person)
"""

SEA = Dependencies(
    (ROOT, 0, 4, 4, 0, 7, 7, 4, 0),
    ("root", "obj", "case", "det", "obl:arg", "case", "nummod", "nmod", "punct"),
    ("VERB", "PRON", "ADP", "DET", "NOUN", "ADP", "NUM", "NOUN", ""),
)


def row(
    id_: object,
    form: str = "w",
    head: object = 0,
    relation: str = "dep",
    tag: str = "X",
    misc: str = "_",
) -> str:
    return f"{id_}\t{form}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t{misc}\n"


def test_a_sentence_is_a_text_with_its_tree(tmp_path):
    path = write(tmp_path / "sea.conllu", SAMPLE)
    sea, sisters, that = texts_of(conllu_rows(path))
    assert sea.words == ("Vamos", "nos", "a", "el", "mar", "de", "10 000", "islas", ".")
    assert sea.text == "Vamos nos a el mar de 10 000 islas ."
    assert sea.annotations == {"where": f"{path}, line 7", DEPENDENCIES: SEA}
    assert (sea.id, sisters.id, that.id) == (
        "s1",
        "1",
        "s3",
    )  # without sent_id its number in the file
    assert dependencies_of(sisters.annotations) == Dependencies(
        (ROOT, 2, ROOT), ("root", "cc", "root"), ("PROPN", "CCONJ", "PROPN")
    )
    assert sisters.annotations["where"] == f"{path}, line 20"


def test_a_document_is_a_text_with_its_mentions(tmp_path):
    first, second = texts_of(conllu_documents(write(tmp_path / "sea.conllu", SAMPLE)))
    assert (first.id, second.id) == ("first", "second")
    assert first.words[7:] == ("islas", ".", "Ana", "y", "Eva")
    tree = dependencies_of(first.annotations)
    assert tree.heads == (*SEA.heads, ROOT, 11, ROOT)
    assert len(tree.relations) == len(tree.tags) == 12
    assert coreference_of(first.annotations) == Coreference(
        (
            Mention(1, 2, 1, "1", "pronoun"),
            Mention(3, 8, 4, "2", "common"),
            Mention(6, 8, 7, "3", "common"),
            Mention(9, 12, 9, "1", "proper"),  # two roots: the first
            Mention(9, 10, 9, "4", "proper"),
            Mention(11, 12, 11, "5", "proper"),
        ),
        (0, 9),
    )
    assert coreference_of(second.annotations) == Coreference(
        (Mention(0, 1, 0, "1", "pronoun"),), (0,)
    )


@pytest.mark.parametrize("ending", ["conllu", "conllu.gz", "CONLLU"])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n\n", "\n\n \n\n") + "\n\n# the end\n",
    ],
    ids=["plain", "CRLF", "BOM", "no last line end", "more empty lines"],
)
def test_the_same_sentences_from_every_way_to_write_them(tmp_path, ending, change):
    corpus = read(write(tmp_path / f"sea.{ending}", change(SAMPLE)))
    plain = texts_of(conllu_rows(write(tmp_path / "plain.conllu", SAMPLE)))
    for _ in range(2):  # again and again
        assert [(text.id, text.words, dependencies_of(text.annotations)) for text in corpus] == [
            (text.id, text.words, dependencies_of(text.annotations)) for text in plain
        ]


def test_documents_without_names(tmp_path):
    path = write(
        tmp_path / "a.b.conllu.gz", f"{GOOD}\n{GOOD}\n# newdoc\n{GOOD}\n# newdoc id = c\n\n{GOOD}"
    )
    assert [(text.id, len(text.words)) for text in texts_of(conllu_documents(path))] == [
        ("a.b", 4),
        ("0", 2),
        ("c", 2),
    ]


BROKEN = {
    "blanks for tabs": (
        "1 It it PRON _ _ 0 root _ _\n",
        1,
        "10 columns separated by blanks, not tabs",
    ),
    "too few columns": (
        "1\tIt\tit\tPRON\t_\t_\t0\troot\t_\n",
        1,
        "it has 9 columns; a word has 10, separated by tabs: ID, FORM",
    ),
    "too many columns": (row(1).replace("\n", "\t\n"), 1, "it has 11 columns"),
    "not a table at all": ("nonsense\n", 1, "it has 1 columns"),
    "a short multi-word token": ("1-2\tal\n" + row(1) + row(2), 1, "it has 2 columns"),
    "an ID left out": (
        row(1) + row(3),
        2,
        "its ID is 3, but words must be consecutive: 2 comes next",
    ),
    "an ID from 0": (row(0), 1, "its ID is 0, but words must be consecutive: 1 comes next"),
    "no empty line between sentences": (
        row(1) + row(1),
        2,
        "2 comes next; put an empty line before each sentence",
    ),
    "no ID": (row("x"), 1, "its ID is 'x'; write 3 for a word"),
    "an empty ID": (row(""), 1, "its ID is ''"),
    "an endless ID": (row("9" * 5000), 1, "its ID is '99"),
    "a range that begins later": (
        row(1) + row("3-4") + row(2),
        2,
        "its ID is 3-4, but a range here must begin at the next word, 2",
    ),
    "a range that began earlier": (
        row(1) + row("1-2") + row(2),
        2,
        "its ID is 1-2, but a range here must begin at the next word, 2",
    ),
    "a range backwards": (row("1-0") + row(1), 1, "its ID is '1-0'"),
    "a range that ends before it begins": (
        row(1) + row(2) + row("3-2") + row(3),
        3,
        "its ID is 3-2",
    ),
    "ranges that overlap": (
        row("1-2") + row(1) + row("2-3") + row(2) + row(3),
        3,
        "must begin at the next word, 3",
    ),
    "a range past the end": (
        row(1) + row("2-3") + row(2),
        2,
        "its range ends at word 3, but the sentence has 2 words",
    ),
    "an empty node elsewhere": (
        row(1) + row("2.1"),
        2,
        "its ID is 2.1, but the next empty node here is 1.1",
    ),
    "empty nodes that do not count": (row("0.2") + row(1), 1, "the next empty node here is 0.1"),
    "no number as head": (row(1, head="two"), 1, "its HEAD is 'two', not a number"),
    "an empty node as head": (row(1, head="1.1"), 1, "its HEAD is '1.1', not a number"),
    "a head past the end": (
        row(1) + row(2, head=3),
        2,
        "its HEAD is 3, but the sentence has words 1 to 2",
    ),
    "a head before the beginning": (
        row(1, head=-1),
        1,
        "its HEAD is -1, but the sentence has words 1 to 1",
    ),
    "an endless head": (row(1, head="9" * 5000), 1, "its HEAD is '99"),
    "its own head": (row(1) + row(2, head=2), 2, "its HEAD is 2, the word itself"),
    "no head": (row(1, head="_"), 1, "it has no HEAD"),
    "an empty head": (row(1, head=""), 1, "it has no HEAD"),
    "no form": (row(1) + row(2, form=""), 2, "its FORM is empty"),
    "a blank form": (row(1, form=" \u00a0"), 1, "its FORM is empty"),
    "no relation": (row(1, relation="_"), 1, "it has no DEPREL"),
    "an empty relation": (row(1, relation=""), 1, "it has no DEPREL"),
    "a cycle": (
        row(1) + row(2, "b", 3) + row(3, "c", 4) + row(4, "d", 3),
        3,
        "the heads of 'c' (word 3) lead back to it",
    ),
    "no words": ("# sent_id = none\n# text = none\n", 1, "the sentence has no words"),
    "only a multi-word token": (
        row("1-2"),
        1,
        "its range ends at word 2, but the sentence has 0 words",
    ),
    "only an empty node": (row("0.1"), 1, "the sentence has no words"),
    "no UTF-8": (row(1) + "2\té\t_\tX\t_\t_\t0\tdep\t_\t_\n", 2, "it is not valid UTF-8"),
    "no UTF-8 in a comment": ("# text = é\n" + row(1), 1, "it is not valid UTF-8"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_sentence_is_one_bad_row_and_the_rest_is_read(tmp_path, name):
    content, line, reason = BROKEN[name]
    before = f"# newdoc id = a\n{GOOD}\n# newdoc id = b\n{GOOD}\n"
    after = f"\n{GOOD}\n# newdoc id = c\n{GOOD}"
    data = (before + content + after).encode("latin-1" if name.startswith("no UTF-8") else "utf-8")
    path = write(tmp_path / "broken.conllu", data)
    where = f"{path}, line {before.count(chr(10)) + line}"

    rows = [row for _, row in conllu_rows(path)]
    assert [type(one) for one in rows] == [Text, Text, BadRow, Text, Text]
    assert [text.words for text in rows if isinstance(text, Text)] == [("It", "works")] * 4
    assert rows[2].where == where
    assert reason in rows[2].reason

    documents = [row for _, row in conllu_documents(path)]
    assert [type(one) for one in documents] == [Text, BadRow, Text]
    assert (documents[1].where, documents[1].reason, documents[1].id) == (
        where,
        rows[2].reason,
        "b",
    )

    with pytest.raises(CorpusError, match="line"):
        list(read(path))
    assert [type(one) for one in read(path).rows()] == [Text, Text, BadRow, Text, Text]


def test_a_broken_sentence_that_begins_a_document_begins_it_all_the_same(tmp_path):
    path = write(
        tmp_path / "broken.conllu",
        f"{GOOD}\n# newdoc id = b\n{row(2)}\n{GOOD}\n# newdoc id = c\n{GOOD}",
    )
    assert [row.id for _, row in conllu_documents(path)] == ["broken", "b", "c"]


BROKEN_BRACKETS = {
    "never closed": (
        ["(1-x", "(2-x", "2)"],
        1,
        "it opens the entity '1', which is never closed; close it with 1)",
    ),
    "one of two never closed": (["_", "(1-x", "(1-x", "1)"], 2, "it opens the entity '1'"),
    "never opened": (["(1-x", "1)", "1)"], 3, "it closes the entity '1', which is not open"),
    "closed before it is opened": (["1)(1-x", "_"], 1, "it closes the entity '1'"),
    "another part closed": (["(1[1/2]-x", "1[2/2])"], 2, "it closes the entity '1[2/2]'"),
    "no bracket": (
        ["_", "1-x"],
        2,
        "its entities end in '1-x'; write each as (ID-..., ID) or (ID-...)",
    ),
    "something after a bracket": (["(1-x)2"], 1, "its entities end in '2'"),
    "no name": (["()"], 1, "its entities end in '()'"),
    "nothing before the first dash": (["(-x)"], 1, "its entities end in '(-x)'"),
    "nothing at all": ([""], 1, "its entities end in ''"),
    "only a closing bracket": (["(1-x", "1))"], 2, "its entities end in ')'"),
}


@pytest.mark.parametrize("name", BROKEN_BRACKETS)
def test_a_broken_bracket_is_a_bad_document_but_no_bad_sentence(tmp_path, name):
    brackets, line, reason = BROKEN_BRACKETS[name]
    words = "".join(
        row(number, misc="_" if one == "_" else f"X=(|Entity={one}|Y=)")
        for number, one in enumerate(brackets, 1)
    )
    path = write(
        tmp_path / "broken.conllu",
        f"# newdoc id = a\n{GOOD}\n# newdoc id = b\n{words}\n# newdoc id = c\n{GOOD}",
    )
    a, bad, c = (row for _, row in conllu_documents(path))
    assert (a.id, bad.id, c.id) == ("a", "b", "c")
    assert bad.where == f"{path}, line {5 + line}"
    assert reason in bad.reason
    assert len(texts_of(conllu_rows(path))) == 3


def test_entities_whose_id_is_not_their_first_part_are_refused(tmp_path):
    content = f"# newdoc id = a\n# global.Entity = %s\n{GOOD}"
    for layout in ("GRP-etype-infstat", "eid-etype-head-other", "GRP"):
        texts_of(conllu_documents(write(tmp_path / "good.conllu", content % layout)))
    path = write(tmp_path / "old.conllu", content % "entity-GRP-infstat")
    ((_, bad),) = conllu_documents(path)
    assert bad.where == f"{path}, line 2"
    assert "the first part must be the entity's id, GRP or eid" in bad.reason


def test_parts_empty_nodes_and_multi_word_tokens_in_brackets(tmp_path):
    words = (
        row("0.1", misc="Entity=(9-x)")  # a mention without words
        + row("1-2", misc="Entity=(8-x)")
        + row(1, misc="Entity=(7[1/2]-x)")
        + row(2, head=1, misc="Entity=(6-x")
        + row("2.1", misc="Entity=6)(5-x")
        + row(3, head=1, misc="Entity=(7[2/2]-x")
        + row(4, head=3, misc="Entity=7[2/2])5)(4-x")
        + row("4.1", misc="Entity=4)")
    )
    (text,) = texts_of(conllu_documents(write(tmp_path / "parts.conllu", words)))
    found = [
        (mention.start, mention.stop, mention.chain)
        for mention in coreference_of(text.annotations).mentions
    ]
    assert sorted(found) == [
        (0, 1, "7"),
        (0, 2, "8"),
        (1, 2, "6"),
        (2, 4, "5"),
        (2, 4, "7"),
        (3, 4, "4"),
    ]


def test_a_mention_may_cross_another_and_hold_one_of_its_own_chain():
    marks = ["(1-x(2-y", "(1-x)", "1)", "2)"]
    assert bracketed(Marks(line, line, line + 1, one) for line, one in enumerate(marks)) == [
        (0, 4, "2"),
        (0, 3, "1"),
        (1, 2, "1"),
    ]


def test_kinds():
    assert [kind_of(tag, 1) for tag in ("PRON", "PROPN", "DET", "NOUN", "")] == [
        "pronoun",
        "proper",
        "pronoun",
        "common",
        "common",
    ]
    assert [kind_of(tag, 2) for tag in ("PRON", "PROPN", "DET")] == ["pronoun", "proper", "common"]


def test_sentences_are_read_lazily(tmp_path):
    path = write(tmp_path / "many.conllu", (GOOD + "\n") * 4_000 + row(2))
    tracemalloc.start()
    try:
        rows = conllu_rows(path)
        for _ in range(4_000):
            next(rows)
        assert tracemalloc.get_traced_memory()[1] < 150_000 < path.stat().st_size
    finally:
        tracemalloc.stop()
    assert isinstance(next(rows)[1], BadRow)


def test_ids_that_come_twice_and_empty_files_are_said(tmp_path):
    twice = f"# sent_id = a\n{GOOD}\n# sent_id = a\n{GOOD}"
    _, second = read(write(tmp_path / "twice.conllu", twice)).rows()
    assert second.where.endswith("twice.conllu, line 6")
    assert "an earlier text has the same id" in second.reason
    for content in ("", "# only a comment\n\n# and another\n"):
        with pytest.raises(CorpusError, match="holds no texts"):
            list(read(write(tmp_path / "empty.conllu", content)))
    path = tmp_path / "cut.conllu.gz"
    path.write_bytes(gzip.compress(SAMPLE.encode())[:-20])
    with pytest.raises(CorpusError, match="truncated or corrupt gzip file"):
        list(read(path))


FORMS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), min_size=1, max_size=6
).filter(str.strip)


@st.composite
def forests(draw: st.DrawFn, most: int = 9) -> tuple[int, ...]:
    """Heads [word] of trees: each word hangs on a word that was drawn before it, or is a root."""
    order = draw(st.permutations(range(draw(st.integers(1, most)))))
    heads = [ROOT] * len(order)
    for place, word in enumerate(order):
        heads[word] = draw(st.sampled_from([ROOT, *order[:place]]))
    return tuple(heads)


@st.composite
def sentences(draw: st.DrawFn) -> tuple[tuple[str, ...], Dependencies]:
    heads = draw(forests())
    some = {"min_size": len(heads), "max_size": len(heads)}
    relations = st.sampled_from(["root", "nsubj:pass", "obl:tmod", "dep"])
    tags = st.sampled_from(["", "PRON", "PROPN", "DET", "NOUN"])
    forms = tuple(draw(st.lists(FORMS, **some)))
    return forms, Dependencies(
        heads, tuple(draw(st.lists(relations, **some))), tuple(draw(st.lists(tags, **some)))
    )


def as_lines(words: tuple[str, ...], tree: Dependencies, misc: list[str], extras: set[int]) -> str:
    """A sentence as CoNLL-U; words in `extras` have a multi-word token before and a node after."""
    lines = []
    for index, word in enumerate(words):
        if index in extras:
            lines.append(row(f"{index + 1}-{index + 1}", "whole", "_", "_", "_"))
        lines.append(
            row(
                index + 1,
                word,
                tree.heads[index] + 1,
                tree.relations[index],
                tree.tags[index] or "_",
                misc[index],
            )
        )
        if index in extras:
            lines.append(row(f"{index + 1}.1", "_", "_", "_", "_"))
    return "".join(lines)


@given(
    st.lists(sentences(), min_size=1, max_size=4),
    st.sets(st.integers(0, 8)),
    st.sampled_from(["\n", "\r\n"]),
)
def test_sentences_come_back_as_written(tmp_path_factory, parts, extras, end):
    content = "\n".join(as_lines(words, tree, ["_"] * len(words), extras) for words, tree in parts)
    path = write(tmp_path_factory.mktemp("conllu") / "x.conllu", content.replace("\n", end))
    assert [
        (text.words, dependencies_of(text.annotations)) for text in texts_of(conllu_rows(path))
    ] == parts


@st.composite
def documents(draw: st.DrawFn):
    """Sentences, and (start, stop, chain) of mentions; two of one chain never cross."""
    parts = draw(st.lists(sentences(), min_size=1, max_size=3))
    size = sum(len(words) for words, _ in parts)
    spans: list[tuple[int, int, str]] = []
    for _ in range(draw(st.integers(0, 8))):
        start = draw(st.integers(0, size - 1))
        stop, chain = draw(st.integers(start + 1, size)), draw(st.sampled_from(["1", "2", "e3"]))
        crosses = any(
            other == chain and (start < left < stop < right or left < start < right < stop)
            for left, right, other in spans
        )
        if not crosses:
            spans.append((start, stop, chain))
    return parts, spans


def brackets_at(word: int, spans: list[tuple[int, int, str]]) -> str:
    """The MISC of a word: what it closes, what it opens, and single words."""
    closed = [f"{chain})" for start, stop, chain in spans if stop == word + 1 and start < word]
    opened = [
        f"({chain}-x-new" for start, stop, chain in spans if start == word and stop > word + 1
    ]
    single = [f"({chain}-x-y)" for start, stop, chain in spans if (start, stop) == (word, word + 1)]
    return "Entity=" + "".join(closed + opened + single) if closed + opened + single else "_"


@given(documents())
def test_documents_come_back_as_written(tmp_path_factory, document):
    parts, spans = document
    lines, shifted, starts, first = [], [], [], 0
    for words, tree in parts:
        starts.append(first)
        lines.append(
            as_lines(
                words,
                tree,
                [brackets_at(first + index, spans) for index in range(len(words))],
                set(),
            )
        )
        shifted += [head if head == ROOT else head + first for head in tree.heads]
        first += len(words)
    path = write(
        tmp_path_factory.mktemp("conllu") / "x.conllu", "# newdoc id = d\n" + "\n".join(lines)
    )
    (text,) = texts_of(conllu_documents(path))
    tree = dependencies_of(text.annotations)
    found = text.annotations[COREFERENCE]
    assert text.words == tuple(word for words, _ in parts for word in words)
    assert tree.heads == tuple(shifted)
    assert found.sentences == tuple(starts)
    assert sorted(
        (mention.start, mention.stop, mention.chain) for mention in found.mentions
    ) == sorted(spans)
    order = [(mention.start, -mention.stop) for mention in found.mentions]
    assert order == sorted(order)
    for mention in found.mentions:
        assert mention.head == head_slowly(mention.start, mention.stop, shifted)
        assert mention.kind == kind_of(tree.tags[mention.head], mention.stop - mention.start)


@given(forests(14), st.data())
def test_heads_of_mentions_agree_with_the_slow_twin(heads, data):
    start = data.draw(st.integers(0, len(heads) - 1))
    stop = data.draw(st.integers(start + 1, len(heads)))
    assert mention_head(start, stop, heads) == head_slowly(start, stop, heads)


@given(
    st.integers(1, 8).flatmap(
        lambda size: st.lists(st.integers(-1, size - 1), min_size=size, max_size=size)
    )
)
def test_a_cycle_is_found_if_there_is_one(heads):
    def above(word):
        """The words above a word, as long as they are new; the last may be on a cycle."""
        way = []
        while heads[word] != ROOT and heads[word] not in way:
            word = heads[word]
            way.append(word)
        return way

    cyclic = [word for word in range(len(heads)) if word in above(word)]
    found = word_on_cycle(heads)
    assert found in cyclic if cyclic else found is None
