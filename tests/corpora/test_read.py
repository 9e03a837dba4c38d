"""Every kind of source gives the same texts, lazily; every mistake is one clear line."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attlas.core.text import Text
from attlas.corpora import BadRow, Corpus, embedded, read
from attlas.support.errors import CorpusError
from tests.builders.files import write

ROWS = [
    {"id": "r1", "text": 'She said "no", then\nleft', "label": "neg"},
    {"id": "r2", "text": "naïve 世界 👩‍👩‍👧, ok", "label": "pos"},
    {"id": "r3", "text": "  blanks stay ", "label": "neg"},
]
FLAT = [
    row | {"text": row["text"].replace("\n", " ")} for row in ROWS
]  # for kinds of file that cannot hold a line break
EXPECTED = [Text(row["id"], row["text"], row["label"]) for row in ROWS]


def facts(corpus):
    return [(text.id, text.text, text.label) for text in corpus]


def rows_of(source, **columns):
    """Texts as strings, bad rows as (where, reason)."""
    return [
        row.text if isinstance(row, Text) else (row.where, row.reason)
        for row in read(source, **columns).rows()
    ]


def refuses(message, source, **columns):
    """Reading raises a CorpusError of one line, at the latest at the first row."""
    with pytest.raises(CorpusError, match=re.escape(message)) as caught:
        list(read(source, **columns).rows())
    assert "\n" not in str(caught.value)


FILES = {
    "csv": lambda rows: pd.DataFrame(rows).to_csv(index=False),
    "tsv": lambda rows: "\n".join(
        "\t".join(cells) for cells in [rows[0], *(row.values() for row in rows)]
    ),
    "jsonl": lambda rows: "\n\n".join(
        json.dumps(row, ensure_ascii=number % 2 == 0) for number, row in enumerate(rows)
    ),
    "ndjson": lambda rows: "\r\n".join(map(json.dumps, rows)),
}


@pytest.mark.parametrize("ending", [*FILES, "csv.gz", "tsv.gz", "jsonl.gz", "ndjson.gz", "CSV"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "BOM"])
def test_tables_and_json_lines(tmp_path, ending, mark):
    rows = FLAT if ending.startswith("tsv") else ROWS
    corpus = read(
        write(tmp_path / f"texts.{ending}", mark + FILES[ending.lower().removesuffix(".gz")](rows)),
        label="label",
    )
    assert facts(corpus) == [tuple(row.values()) for row in rows]
    assert facts(corpus) == facts(corpus)  # again and again


def test_parquet_keeps_line_breaks_and_goes_on_past_a_batch(tmp_path):
    many = [
        {"id": f"t{number}", "text": f"text {number}\n", "label": number % 2}
        for number in range(2500)
    ]
    pq.write_table(pa.Table.from_pylist(many), tmp_path / "texts.parquet")
    assert facts(read(tmp_path / "texts.parquet", label="label")) == [
        (row["id"], row["text"], str(row["label"])) for row in many
    ]


@pytest.mark.parametrize("ending", ["txt", "text", "txt.gz"])
def test_a_line_is_a_text(tmp_path, ending):
    path = write(tmp_path / f"texts.{ending}", "\ufeffone\r\n\n  two \nthree世")
    assert facts(read(str(path))) == [
        ("0", "one", None),
        ("1", "  two ", None),
        ("2", "three世", None),
    ]


def test_a_file_of_a_folder_is_a_text(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "c.txt").mkdir()  # named like a text, but none
    for name, content in {
        "b/one.txt": "\ufeffone\nline\n",
        "a.txt": "two",
        "z.txt.gz": "three",
        "notes.md": "no text",
    }.items():
        write(tmp_path / name, content)
    assert facts(read(tmp_path)) == [
        ("a.txt", "two", None),
        ("b/one.txt", "one\nline", None),
        ("z.txt.gz", "three", None),
    ]
    (tmp_path / "empty").mkdir()
    refuses("holds no texts", tmp_path / "empty")


def test_lists_frames_and_data_sets_give_the_same():
    from datasets import Dataset

    expected = facts(EXPECTED)
    frame = pd.DataFrame(ROWS)
    for source in (
        ROWS,
        tuple(ROWS),
        frame,
        frame.astype("string"),
        frame.astype("category"),
        frame.set_index("id", drop=False),
        Dataset.from_list(ROWS),
    ):
        assert facts(read(source, label="label")) == expected
    assert facts(read(EXPECTED)) == expected
    assert facts(read([row["text"] for row in ROWS])) == [
        (str(number), row["text"], None) for number, row in enumerate(ROWS)
    ]
    assert facts(read(Dataset.from_list(ROWS).to_iterable_dataset(), label="label")) == expected
    assert list(read(read(EXPECTED))) == EXPECTED


def test_kinds_may_stand_in_one_list():
    assert facts(read(["one", Text("t", "two", "x"), {"text": "three", "id": 7}, 8.5][:3])) == [
        ("0", "one", None),
        ("t", "two", "x"),
        ("7", "three", None),
    ]
    assert rows_of([Text("t", "two"), 8.5]) == [
        "two",
        ("list, item 1", "it is a float; a corpus is made of strings, Texts or mappings"),
    ]


@pytest.mark.parametrize(
    ("name", "size"), {"acceptability": 200, "messages": 140, "reviews": 120, "all": 460}.items()
)
def test_embedded_corpora_are_whole_and_labelled(name, size):
    texts = list(read(f"embedded:{name}"))
    assert len(texts) == len({text.id for text in texts}) == size
    assert facts(texts) == facts(embedded(name))
    labels = [text.label for text in texts]
    assert all(0.3 < labels.count(label) / size * len(set(labels)) < 1.7 for label in set(labels))
    refuses(
        "no embedded corpus 'novels'; choose acceptability, messages, reviews, sentences",
        "embedded:novels",
    )


def test_columns_are_guessed_or_named(tmp_path):
    path = write(tmp_path / "texts.csv", "n, review ,stars\n1,good,5\n2,bad,1\n")
    assert facts(read(path)) == [("0", "good", None), ("1", "bad", None)]
    assert facts(read(path, text="review", label="stars", id="n")) == [
        ("1", "good", "5"),
        ("2", "bad", "1"),
    ]
    assert facts(read(path, text="stars")) == [("0", "5", None), ("1", "1", None)]
    assert facts(read([{"sentence": "b", "text": "a"}])) == [
        ("0", "a", None)
    ]  # the first of the usual names


@pytest.mark.parametrize(
    ("name", "content"),
    {
        "a.csv.gz": b"text\na cat\n",
        "a.jsonl.gz": b'{"text": "a cat"}\n',
        "a.txt.gz": b"a cat\n",
    }.items(),
)
def test_files_are_read_a_row_at_a_time(tmp_path, name, content):
    path = write(tmp_path / name, content + os.urandom(1 << 20))
    path.write_bytes(path.read_bytes()[:-1000])  # whoever reads to the end finds it broken
    corpus = read(path)
    assert next(iter(corpus)).text == "a cat"
    with pytest.raises(CorpusError, match="truncated or corrupt gzip file"):
        list(corpus.rows())


def test_lists_are_read_an_item_at_a_time():
    taken = []

    class Endless:
        def __iter__(self):
            for number in range(10**9):
                taken.append(number)
                yield Text(str(number), "a cat")

    assert next(iter(read(Endless()))).text == "a cat"
    assert taken == [0]


def test_an_iterator_is_refused():
    refuses("an iterator, which can be read only once; pass a list", iter(["a"]))
    refuses("an iterator", (text for text in "abc"))


def test_what_is_no_corpus_is_refused_with_a_hint(tmp_path):
    refuses(
        "a mapping of train, test is not a corpus; pass one of its values",
        {"train": ["a"], "test": ["b"]},
    )
    refuses("cannot read a corpus from int", 5)
    refuses("cannot read a corpus from Text; pass a list", Text("a", "b"))
    refuses("there is no file", tmp_path / "none.csv")
    refuses("there is no file", "A text, not a path. " * 50)
    refuses("the path is empty", "")
    refuses("ends in '.doc'; a corpus is one of .csv, .tsv, .jsonl", write(tmp_path / "x.doc", "a"))
    refuses("ends in 'nothing'", write(tmp_path / "x", "a"))
    refuses(
        "has no column 'body'; its columns are id, text",
        write(tmp_path / "a.csv", "id,text\n1,a\n"),
        text="body",
    )
    refuses("has no column 'stars'; its columns are text", [{"text": "a"}], label="stars")
    refuses(
        "name the text column with text=... (--text); its columns are a, b",
        write(tmp_path / "b.csv", "a,b\n1,2\n"),
    )
    refuses(
        "more than one column named text; rename them",
        write(tmp_path / "c.csv", "text,text\na,b\n"),
    )
    refuses("cannot be read as Parquet", write(tmp_path / "d.parquet", "not parquet"))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt", "a.csv.gz", "a.jsonl.gz"])
@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"\xef\xbb\xbf"], ids=["nothing", "blank lines", "only a BOM"]
)
def test_an_empty_file_is_an_error(tmp_path, name, content):
    refuses("holds no texts; it is empty", write(tmp_path / name, content))


def test_a_table_of_only_a_header_is_an_error(tmp_path):
    refuses("holds no texts", write(tmp_path / "a.csv", "id,text\n"))
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    refuses("holds no texts", tmp_path / "a.parquet")


def test_bad_bytes_make_one_bad_row(tmp_path):
    path = write(tmp_path / "a.csv", b'text\ngood\nb\xffd\n"two\nlines"\nn\0l\n  \nlast\n')
    assert rows_of(path) == [
        "good",
        (f"{path}, row 2 (line 3)", "the text is not valid UTF-8; convert the file to UTF-8"),
        "two\nlines",
        (f"{path}, row 4 (line 6)", "the text has a NUL byte; remove it"),
        (f"{path}, row 5 (line 7)", "the text is empty"),
        "last",
    ]
    path = write(tmp_path / "a.txt", b"good\n\xe4\nlast")
    assert rows_of(path) == [
        "good",
        (f"{path}, line 2", "the text is not valid UTF-8; convert the file to UTF-8"),
        "last",
    ]
    path = write(tmp_path / "b.csv", b"id,text,label\n\xff,good,x\n2,good,\xff\n3,last,x\n")
    reason = "is not valid UTF-8; convert the file to UTF-8"
    assert rows_of(path, label="label") == [
        (f"{path}, row 1 (line 2)", f"its id {reason}"),
        (f"{path}, row 2 (line 3)", f"its label {reason}"),
        "last",
    ]
    (tmp_path / "folder").mkdir()
    path = write(tmp_path / "folder" / "b.txt", b"\xff")
    write(tmp_path / "folder" / "c.txt", b"last")
    assert rows_of(tmp_path / "folder") == [
        (str(path), "the text is not valid UTF-8; convert the file to UTF-8"),
        "last",
    ]


def test_bad_bytes_in_parquet_make_one_bad_row(tmp_path):
    cells = pa.StringArray.from_buffers(
        3, pa.py_buffer(np.array([0, 4, 5, 9], np.int32)), pa.py_buffer(b"good\xfflast")
    )
    pq.write_table(pa.table({"text": cells}), tmp_path / "a.parquet")
    assert rows_of(tmp_path / "a.parquet") == [
        "good",
        (f"{tmp_path / 'a.parquet'}, row 2", "it is not valid UTF-8; convert the file to UTF-8"),
        "last",
    ]


def test_bad_json_makes_one_bad_row(tmp_path):
    bad = {
        '{"text": ': "it is not JSON (Expecting value",
        "[1]": "it is a JSON list, not an object; each line must be like",
        "null": "not an object",
        '{"text": 5}': "its 'text' is a int, not a string",
        '{"other": 1}': "it has no 'text'",
        '{"text": null}': "it has no 'text'",
        '{"text": "\\ud800"}': "not valid UTF-8",
        '{"text": "\\u0000"}': "NUL byte",
        "[" * 10**5: "it is not JSON",
        "1" * 5000: "it is not JSON",
    }
    path = write(tmp_path / "a.jsonl", "\n".join(['{"text": "good"}', *bad, '{"text": "last"}']))
    found = rows_of(path)
    assert (found[0], found[-1], len(found)) == ("good", "last", len(bad) + 2)
    for number, ((where, reason), part) in enumerate(
        zip(found[1:-1], bad.values(), strict=True), 2
    ):
        assert where == f"{path}, line {number}"
        assert part in reason
        assert "\n" not in reason


def test_rows_of_the_wrong_width_are_bad_rows(tmp_path):
    path = write(tmp_path / "a.csv", "\nid,text\n1,good\n2,a,b\n3\n\n4,last\n")
    reasons = [
        f"it has {cells} cells, but the header has 2; quote cells that contain the delimiter"
        for cells in (3, 1)
    ]
    assert rows_of(path) == [
        "good",
        (f"{path}, row 2 (line 4)", reasons[0]),
        (f"{path}, row 3 (line 5)", reasons[1]),
        "last",
    ]


def test_a_bare_carriage_return_makes_one_bad_row(tmp_path):
    path = write(tmp_path / "a.csv", "id,text\n1,good\n2,a\rb\n3,last\n")
    reason = (
        "it cannot be split into cells (new-line character seen in unquoted field); "
        "quote cells that contain quotes, commas or line breaks, and double their quotes"
    )
    assert rows_of(path) == ["good", (f"{path}, row 2 (line 3)", reason), "last"]
    refuses("line 1: it cannot be split into cells", write(tmp_path / "b.csv", "id,text\r1,a\r"))


def test_missing_labels_are_bad_rows(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\ngood,0\nbad,\nbad," "\nlast,x\n')
    fix = "name another column with label=... (--label), or remove the row"
    bad = f"it has no label in 'label'; {fix}"
    assert rows_of(path, label="label") == [
        "good",
        (f"{path}, row 2 (line 3)", bad),
        (f"{path}, row 3 (line 4)", bad),
        "last",
    ]
    for missing in (None, np.nan, pd.NA, pd.NaT):
        frame = pd.DataFrame(
            {
                "text": ["good", "bad", missing],
                "label": pd.Series(["x", missing, "x"], dtype=object),
            }
        )
        assert rows_of(frame, label="label") == [
            "good",
            ("DataFrame, row 1", bad),
            ("DataFrame, row 2", "it has no 'text'"),
        ]
    assert rows_of([{"text": "good", "label": 0}, {"text": "bad"}], label="label") == [
        "good",
        ("list, item 1", bad),
    ]


def test_cells_that_are_lists_do_no_harm():
    assert facts(
        read(pd.DataFrame({"text": ["a"], "vector": [np.zeros(3)], "list": [[1, 2]]}))
    ) == [("0", "a", None)]


def test_an_id_that_comes_twice_is_a_bad_row(tmp_path):
    path = write(tmp_path / "a.csv", "id,text\nx,one\nx,two\n,three\ny,four\n")
    found = list(read(path).rows())
    assert [getattr(row, "text", None) for row in found] == ["one", None, "three", "four"]
    assert (found[1].id, found[1].where, found[1].reason) == (
        "x",
        f"{path}, row 2 (line 3)",
        "an earlier text has the same id; name another column with id=... (--id)",
    )


def test_iterating_stops_at_the_first_bad_row_with_its_place(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "good"}\n{"text": ""}\n')
    texts = iter(read(path))
    assert next(texts).text == "good"
    with pytest.raises(CorpusError, match=re.escape(f"{path}, line 2: the text is empty")):
        next(texts)


def test_words_are_kept_and_must_be_the_text():
    assert Text("a", words=["The", "cat"]).text == "The cat"
    assert Text("a", words=["The", "cat"]).words == ("The", "cat")
    with pytest.raises(CorpusError, match="has a text that differs from its words"):
        Text("a", "The dog", words=("The", "cat"))
    assert rows_of([Text("a", words=("The", " "))]) == [
        ("list, text 'a'", "one of its words is empty")
    ]


BROKEN = {
    "not gzip": b"not gzip",
    "cut off": gzip.compress(b"text\n" + os.urandom(1 << 16))[:-9000],
    "spoilt": gzip.compress(b"text\na\n")[:12] + b"\xff" * 20,
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_gzip_is_one_clear_error(tmp_path, broken):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(broken)
    refuses(f"{path} is a truncated or corrupt gzip file", path)


def test_quoted_cells_hold_delimiters_quotes_and_line_breaks(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\r\n"a, ""b""\r\nc",x\r\n"d\n\ne",y\r\n')
    assert facts(read(path, label="label")) == [("0", 'a, "b"\r\nc', "x"), ("1", "d\n\ne", "y")]
    path = write(tmp_path / "a.tsv", 'text\tlabel\n"a" is, b\tx\n')
    assert facts(read(path, label="label")) == [("0", '"a" is, b', "x")]
    path = write(tmp_path / "huge.csv", f"text\n{'x' * 300_000}\n")
    assert len(next(iter(read(path))).text) == 300_000


def test_a_file_that_cannot_be_opened_is_one_clear_error(tmp_path):
    path = write(tmp_path / "a.csv", "text\na\n")
    corpus = read(path)
    path.unlink()
    with pytest.raises(CorpusError, match="cannot be read: No such file"):
        list(corpus)


def test_a_bad_row_says_where_and_why():
    assert (
        str(BadRow("a.csv, row 3", "the text is empty").error())
        == "a.csv, row 3: the text is empty"
    )
    assert [row.reason for row in Corpus("mine", lambda: [Text("a", "")]).rows()] == [
        "the text is empty"
    ]


def test_the_hub_without_a_network_is_one_clear_error(tmp_path):
    program = (
        "from attlas.corpora import read\ntry:\n    list(read('hub:no-such/data-set'))\n"
        "except Exception as error:\n    print(type(error).__name__, error)"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert printed.startswith("CorpusError hub:no-such/data-set cannot be fetched (")
    assert "check the name and the network, or download it and give the file" in printed
    assert printed.count("\n") == 1


def test_a_quote_that_is_never_closed_is_said(tmp_path):
    (tmp_path / "open.csv").write_text('text,label\na cat,1\n"a dog,2\nmore,3\n')
    with pytest.raises(CorpusError, match=r"row 2 \(line 3\).*never closed"):
        list(read(tmp_path / "open.csv").rows())


def test_a_tsv_cell_quoted_as_a_whole_is_unwrapped_and_stray_quotes_are_letters(tmp_path):
    texts = ['She said "no".', '"Yes', 'a "b" c', '"']
    pd.DataFrame({"text": texts}).to_csv(tmp_path / "quoted.tsv", sep="\t", index=False)
    assert [text.text for text in read(tmp_path / "quoted.tsv")] == texts
    (tmp_path / "plain.tsv").write_text('text\nShe said "no".\n"Yes\n')
    assert [text.text for text in read(tmp_path / "plain.tsv")] == ['She said "no".', '"Yes']


def test_a_data_frame_with_a_column_twice_is_refused():
    with pytest.raises(CorpusError, match="more than one column named text"):
        list(read(pd.DataFrame([["a", "b"]], columns=["text", "text"])))
