"""Odd and hostile files: a hint or a bound, in one line, and never more memory than a few texts."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attlas
from attlas.corpora import rows
from attlas.corpora.corpus import BadRow
from attlas.corpora.read import check_first_row
from attlas.support.errors import AttlasError, CorpusError
from attlas.testing import tiny

HINTS: dict[str, tuple[str, bytes, str]] = {
    "semicolons": (
        "a.csv",
        b"text;label\na cat, yes;1\n",
        r"the header looks separated by ';' \('text;label'\); save",
    ),
    "tabs": (
        "a.csv",
        b"text\tlabel\na cat\t1\n",
        r"the header looks separated by tabs .*; rename it to \.tsv",
    ),
    "bars": ("a.csv", b"text|label\na cat|1\n", r"the header looks separated by '\|'"),
    "commas": (
        "a.tsv",
        b"text,label\na cat,1\n",
        r"the header looks separated by ',' .*; rename it to \.csv",
    ),
    "UTF-16": (
        "a.csv",
        "text,label\na cat,1\n".encode("utf-16"),
        "is in UTF-16; convert it to UTF-8",
    ),
    "UTF-16, big": (
        "a.txt",
        b"\xfe\xff" + "a cat".encode("utf-16-be"),
        "is in UTF-16; convert it to UTF-8",
    ),
    "UTF-16, unmarked": (
        "a.jsonl",
        '{"text": "a"}'.encode("utf-16-le"),
        "is in UTF-16; convert it to UTF-8",
    ),
    "UTF-32": ("a.txt", "a cat".encode("utf-32"), "is in UTF-32; convert it to UTF-8"),
    "Latin-1": (
        "a.csv",
        "texte,étiquette\nchat,1\n".encode("latin-1"),
        "looks like Latin-1 .*: convert it to UTF-8",
    ),
    "packed": (
        "a.csv.gz",
        gzip.compress(b"text;label\na;1\n"),
        "the header looks separated by ';'",
    ),
    "empty": ("a.csv", b"", "holds no texts; it is empty"),
}


@pytest.mark.parametrize(("name", "content", "message"), HINTS.values(), ids=HINTS)
def test_a_file_that_looks_like_something_else_is_refused_with_a_hint(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=message) as refusal:
        check_first_row(attlas.read(tmp_path / name))
    assert "\n" not in str(refusal.value)


def test_what_looks_odd_but_is_not_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbftext,a;b\nna\xc3\xafve,1\n")
    (tmp_path / "b.txt").write_bytes(b"a\n\0\0\0\0b\n")
    assert [one.text for one in attlas.read(tmp_path / "a.csv")] == ["naïve"]
    assert [type(one).__name__ for one in attlas.read(tmp_path / "b.txt").rows()] == [
        "Text",
        "BadRow",
    ]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Bounds that small files reach."""
    monkeypatch.setattr(rows, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(rows, "MOST_CHUNK", 1 << 22)
    limit = rows.csv.field_size_limit(1 << 20)
    yield 1 << 20
    rows.csv.field_size_limit(limit)


def packed_line(path: Path, size: int) -> None:
    """A small file with one line of so many bytes."""
    with gzip.open(path, "wb") as file:
        for _ in range(size >> 16):
            file.write(b"a" * (1 << 16))


def peak(read: Callable[[], object]) -> int:
    """The most memory that Python held while something was read."""
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.gz", "a.csv.gz", "a.conllu.gz"])
def test_a_line_without_end_is_refused_not_read(small: int, name: str, tmp_path: Path) -> None:
    packed_line(tmp_path / name, 20 * small)
    assert (tmp_path / name).stat().st_size < small / 10

    def read() -> None:
        with pytest.raises(
            CorpusError, match="line 1: it is longer than 1 MiB; split it into texts"
        ):
            list(attlas.read(tmp_path / name).rows())

    assert peak(read) < 8 * small


def test_a_quote_that_never_closes_is_refused_before_the_end(small: int, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,label\n"a cat,1\n' + "a dog,2\n" * (10 * small // 8))

    def read() -> None:
        with pytest.raises(CorpusError, match="a quote is never closed, or a cell is larger than"):
            list(attlas.read(tmp_path / "a.csv").rows())

    assert peak(read) < 12 * small


def test_a_folder_that_vanishes_while_it_is_listed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the folders of processes in /proc do."""

    def vanished(folder: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(folder))

    monkeypatch.setattr(os, "scandir", vanished)
    with pytest.raises(CorpusError, match="cannot be read: No such file or directory"):
        list(attlas.read(tmp_path))


def test_a_file_in_a_folder_is_bounded_too(small: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a cat")
    packed_line(tmp_path / "b.txt.gz", 20 * small)
    first, second = attlas.read(tmp_path).rows()
    assert isinstance(first, attlas.Text)
    assert isinstance(second, BadRow)
    assert "larger than 1 MiB" in second.reason


@pytest.mark.parametrize("keeps_type", [False, True], ids=["strings", "dictionary"])
def test_a_text_that_repeats_in_parquet_is_not_unpacked_at_once(
    keeps_type: bool, tmp_path: Path
) -> None:
    """A megabyte repeated in 2,000 rows is a file of kilobytes, and two gigabytes of rows."""
    path, places = tmp_path / "a.parquet", pa.array([0] * 2000, pa.int32())
    table = pa.table({"text": pa.DictionaryArray.from_arrays(places, ["a" * (1 << 20)])})
    pq.write_table(table, path, compression="zstd", store_schema=keeps_type)
    del table
    assert path.stat().st_size < 1 << 16
    before = pa.total_allocated_bytes()
    most = count = 0
    for row in attlas.read(path).rows():
        count += isinstance(row, attlas.Text) or row.reason.startswith("an earlier")
        most = max(most, pa.total_allocated_bytes() - before)
    assert count == 2000
    assert most < 64 << 20


@pytest.mark.parametrize("kind", ["one text", "many values"])
def test_parquet_that_unpacks_to_too_much_is_refused_by_its_metadata(
    small: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_VALUES", 1000)
    content = {
        "one text": {"text": ["a" * (5 * small)]},
        "many values": {"text": ["a"], "more": [[1] * 2000]},
    }
    pq.write_table(pa.table(content[kind]), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(
        CorpusError,
        match=r"column '[\w.]+' of row group 0 decompresses to [\d,]+ bytes in [\d,]+ values",
    ):
        list(attlas.read(tmp_path / "a.parquet").rows())


def test_parquet_is_read_as_before(tmp_path: Path) -> None:
    """Repeated strings, missing ones, lists and numbers come out as they went in."""
    content = {
        "text": ["a cat", None, "a cat", "a dog"],
        "label": [1, 2, None, 4],
        "list": [["x", "y"], None, [], ["x"]],
        "large": pa.array(["x", None, "x", "y"], pa.large_string()),
        "time": pa.array([0, 1, 2, 3], pa.timestamp("s")),
        "bytes": [b"a", b"", None, b"a"],
    }
    table = pa.table(content)
    pq.write_table(table, tmp_path / "a.parquet")
    assert [row for _, row in rows.parquet_rows(tmp_path / "a.parquet")] == table.to_pylist()


def written(path: Path, count: int, kind: str) -> Path:
    content = {
        "columns": lambda: (
            ",".join(["text", *(f"c{n}" for n in range(count))]) + "\na cat" + ",1" * count + "\n"
        ),
        "blank lines": lambda: "text\n" + "\n" * count + "a cat\n",
        "one field": lambda: json.dumps({"text": "a" * count}),
        "brackets": lambda: '{"text": "a cat", "more": ' + "[" * count + "]" * count + "}",
        "open brackets": lambda: "[" * count,
        "braces": lambda: '{"a":' * count,
        "quotes": lambda: "text\n" + '"a""b",' * count + "\n",
        "digits": lambda: '{"text": "a", "label": ' + "9" * count + "}",
    }[kind]
    path = path / ("a.csv" if kind in ("columns", "blank lines", "quotes") else "a.jsonl")
    path.write_text(content())
    return path


KINDS = [
    "columns",
    "blank lines",
    "one field",
    "brackets",
    "open brackets",
    "braces",
    "quotes",
    "digits",
]


@pytest.mark.parametrize("kind", KINDS)
def test_odd_files_are_read_in_linear_time(kind: str, tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        path = written(tmp_path, count, kind)
        began = time.process_time()
        assert len(list(attlas.read(path).rows())) == 1
        return time.process_time() - began

    seconds(10)
    assert seconds(10_000) < 40 * max(seconds(1_000), 0.002)


def test_very_many_columns_are_named_in_one_short_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        ",".join(f"c{n}" for n in range(10_000)) + "\n" + "1," * 9_999 + "1\n"
    )
    with pytest.raises(CorpusError, match=r"its columns are c0, .* and 9,980 more$") as refusal:
        check_first_row(attlas.read(tmp_path / "a.csv"))
    assert len(str(refusal.value)) < 500


LIMITED = r"""
import re, sys, time
from pathlib import Path
import attlas
from attlas.support.errors import AttlasError, CorpusError
from attlas.corpora.read import read
began = time.process_time()
try:
    print(sum(1 for _ in read(sys.argv[1]).rows()), "rows")
except CorpusError as error:
    print(error)
seconds = round(time.process_time() - began, 1)
# not ru_maxrss: after fork and exec that begins with the memory of the process that forked
peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) >> 10
print(peak, seconds)
"""


@pytest.mark.attack
@pytest.mark.parametrize(
    ("kind", "count"), [(kind, 10_000_000 if kind == "one field" else 1_000_000) for kind in KINDS]
)
def test_the_full_sizes_take_bounded_time_and_memory(kind: str, count: int, tmp_path: Path) -> None:
    count = 10_000 if kind == "columns" else count
    path = written(tmp_path, count, kind)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    megabytes, seconds = map(float, done.stdout.splitlines()[-1].split())
    assert megabytes < 1000, done.stdout
    assert seconds < 10, done.stdout


@pytest.mark.attack
@pytest.mark.parametrize("kind", ["gzip", "quote", "parquet"])
def test_bombs_of_gigabytes_take_bounded_time_and_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / {"gzip": "a.txt.gz", "quote": "a.csv", "parquet": "a.parquet"}[kind]
    if kind == "gzip":
        packed_line(path, 1 << 32)
    elif kind == "quote":
        with path.open("w") as file:
            file.write('text\n"')
            file.writelines("a dog,2\n" * 1000 for _ in range(25_000))
    else:
        long = pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), ["a" * (20 << 20)])
        pq.write_table(pa.table({"text": long}), path, compression="zstd", store_schema=False)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    megabytes, seconds = map(float, done.stdout.splitlines()[-1].split())
    assert megabytes < 1000, done.stdout
    assert seconds < 10, done.stdout


# rows without a label


def labelled_rows(count: int) -> list[dict[str, object]]:
    return [
        {"id": str(n), "text": f"a {'good' if n % 2 else 'bad'} film {n}", "label": "ab"[n % 2]}
        for n in range(count)
    ]


def test_rows_without_a_label_are_quarantined_by_an_experiment_and_counted(tmp_path: Path) -> None:
    rows = labelled_rows(30)
    rows[3]["label"], rows[8]["label"], rows[9]["text"] = None, " ", ""
    tuning = attlas.Finetune(texts=rows, model=tiny("bert", "classify"), head_only=True)
    done = attlas.run(tuning, tmp_path / "out", progress=False, workers=1)
    counts = done.manifest["counts"]
    assert (counts["read"], counts["analysed"], counts["quarantined"]) == (30, 27, 3)
    assert done.result["quarantined"] == 3
    found = [json.loads(line) for line in done.quarantine.read_text().splitlines()]
    assert [(row["input"], row["place"], row["id"]) for row in found] == [
        ("texts", 3, "3"),
        ("texts", 8, "8"),
        ("texts", 9, "9"),
    ]
    assert found[0]["reason"].startswith("it has no label in 'label'")
    assert "empty" in found[2]["reason"]
    good = [row for number, row in enumerate(rows) if number not in (3, 8, 9)]
    alone = attlas.run(
        attlas.Finetune(texts=good, model=tiny("bert", "classify"), head_only=True),
        tmp_path / "good",
        progress=False,
        workers=1,
    )
    assert alone.result["scores"] == done.result["scores"]
    assert "quarantined" not in alone.result
    again = attlas.run(tuning, tmp_path / "out", progress=False, workers=1)
    assert again.manifest == done.manifest
    rows[3]["id"] = "other"
    with pytest.raises(AttlasError):  # its quarantine would be another
        attlas.run(
            attlas.Finetune(texts=rows, model=tiny("bert", "classify"), head_only=True),
            tmp_path / "out",
            progress=False,
        )


@pytest.mark.parametrize("kind", [attlas.Topology, attlas.Dynamics], ids=lambda kind: kind.__name__)
def test_the_others_read_the_same_way(kind: type[attlas.Experiment]) -> None:
    from attlas.experiments.run import open_texts

    rows = labelled_rows(6)
    rows[2]["label"] = None
    parts = dict.fromkeys(("train", "dev", "test"), rows)
    opened, excluded = open_texts(kind(**parts))
    assert [len(opened[name]) for name in parts] == [5, 5, 5]
    assert [(name, place) for name, place, _ in excluded] == [
        (name, 2) for name in ("train", "dev", "test")
    ]


def test_if_no_row_has_a_label_that_is_said() -> None:
    rows = [{"text": "a cat", "label": None}, {"text": "a dog", "label": ""}]
    with pytest.raises(
        CorpusError, match=r"^no row can be used: list, item 0: it has no label in 'label'"
    ):
        attlas.corpora.read_labelled(rows)


@pytest.mark.parametrize("count", [300, 10_000])
@pytest.mark.parametrize("kind", ["Finetune", "Topology", "Dynamics"])
def test_labels_that_are_all_different_ask_for_the_column(
    kind: str, count: int, tmp_path: Path
) -> None:
    rows = [{"text": f"a cat {n}", "title": f"title {n}"} for n in range(count)]
    names = {"Finetune": ("texts",), "Topology": ("train", "test"), "Dynamics": ("train",)}[kind]
    experiment = getattr(attlas, kind)(**dict.fromkeys(names, rows), label="title")
    with pytest.raises(
        CorpusError,
        match=rf"'title' has {count:,} different labels.* in {count:,} texts, "
        "such as 'title 0'; is it",
    ):
        attlas.run(experiment, tmp_path / "out", progress=False)


def test_few_texts_of_several_labels_are_not_taken_for_a_mistake() -> None:
    from attlas.corpora.splits import check_label_column

    check_label_column([attlas.Text(str(n), f"text {n}", str(n)) for n in range(10)], "label")
    check_label_column(
        [attlas.Text(str(n), f"text {n}", str(n % 500)) for n in range(1000)], "label"
    )
