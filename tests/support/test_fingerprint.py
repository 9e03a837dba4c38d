"""Fingerprints: every field counts, names do not, and what has no rule is an error."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import attlas
from attlas.catalogue import MEASURES
from attlas.core.text import Text
from attlas.corpora import BadRow, Corpus
from attlas.support.fingerprint import (
    File,
    Fingerprint,
    FingerprintError,
    fingerprint,
    source_digest,
    versions,
)
from attlas.testing import tiny
from tests.builders.changes import CHANGES, changed_texts

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.text("ab:;1", max_size=3)
    | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text("ab", max_size=2) | st.integers(0, 2), inner, max_size=3)
        | st.frozensets(st.integers(0, 3) | st.text("a", max_size=1), max_size=3)
    ),
    max_leaves=6,
)


def canonical(thing: Any) -> Any:
    """A slow twin: equal for two plain things exactly if they are the same content."""
    if isinstance(thing, list | tuple):
        return ("sequence", tuple(map(canonical, thing)))
    if isinstance(thing, dict):
        return (
            "mapping",
            frozenset((canonical(key), canonical(value)) for key, value in thing.items()),
        )
    if isinstance(thing, frozenset):
        return ("set", frozenset(map(canonical, thing)))
    return (type(thing).__name__, float.hex(thing) if isinstance(thing, float) else thing)


@given(PLAIN, PLAIN)
def test_fingerprints_are_equal_exactly_where_content_is(left: Any, right: Any) -> None:
    assert (fingerprint(left) == fingerprint(right)) == (canonical(left) == canonical(right))
    assert fingerprint([left, right]) != fingerprint([[left, right]])


class Color(Enum):
    RED = 1
    BLUE = 1.0 + 1


class Pair(NamedTuple):
    left: int
    right: int


@dataclass(frozen=True)
class Hidden:
    shown: int = 0
    quiet: Any = field(default=0, repr=False, compare=False)


@dataclass(frozen=True)
class Twin:
    shown: int = 0
    quiet: Any = field(default=0, repr=False, compare=False)


KINDS = [
    1,
    1.0,
    True,
    "1",
    b"1",
    1j,
    None,
    [],
    {},
    set(),
    "",
    b"",
    (1,),
    {1},
    {1: 1},
    0.0,
    -0.0,
    float("nan"),
    float("inf"),
    date(2020, 1, 1),
    datetime(2020, 1, 1),
    Decimal("1.0"),
    Decimal("1.00"),
    Color.RED,
    Color.BLUE,
    Pair(1, 2),
    [1, 2],
    range(2),
    Hidden(),
    Hidden(1),
    Hidden(0, 1),
    Twin(),
    np.zeros(2),
    np.zeros(2, dtype=np.float32),
    np.zeros((2, 1)),
    np.zeros((1, 2)),
    np.array(["a", "b"]),
    np.array(["a", "b"], dtype=object),
    pd.Series([1, 2]),
    pd.DataFrame({"a": [1, 2]}),
    pd.DataFrame({"b": [1, 2]}),
    pd.DataFrame({"a": [1.0, 2]}),
    pd.DataFrame({"a": [1, 2]}, index=[1, 0]),
    pd.DataFrame({"a": ["x", None]}),
    pd.DataFrame({"a": ["x", "None"]}),
    len,
    fingerprint,
    Text,
    Hidden,
]


def test_kinds_of_values_differ() -> None:
    prints = [fingerprint(thing) for thing in KINDS]
    assert len(set(prints)) == len(prints)
    assert prints == [fingerprint(thing) for thing in KINDS]
    assert fingerprint(np.int64(1)) == fingerprint(1)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    many = np.arange(5000.0)
    other = many.copy()
    other[2500] += 1e-9
    assert fingerprint(Hidden(quiet=many)) != fingerprint(Hidden(quiet=other))  # repr shows neither
    assert fingerprint(many[::2]) == fingerprint(many[::2].copy())


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (object(), "object has no fingerprint"),
        (lambda: 0, "use a function defined in a module"),
        (functools.partial(len), "partial has no fingerprint"),
        (Path("a"), "depends on what is in a file, not on its name"),
        ({"deep": [object()]}, "object has no fingerprint"),
        (File(Path("nowhere")), "cannot be read: No such file"),
        (np.array([object()], dtype=object), "object has no fingerprint"),
    ],
)
def test_what_has_no_rule_is_an_error(thing: Any, message: str) -> None:
    with pytest.raises(FingerprintError, match=message):
        fingerprint(thing)


def test_an_annotation_without_a_rule_is_named() -> None:
    with pytest.raises(FingerprintError, match=r"annotation 'mine' of text '7'"):
        fingerprint(Text("7", "a", annotations={"mine": object()}))


def test_files_are_known_by_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"1")
    assert fingerprint(File(tmp_path / "a")) == fingerprint(File(tmp_path / "b"))
    (tmp_path / "b").write_bytes(b"2")
    assert fingerprint(File(tmp_path / "a")) != fingerprint(File(tmp_path / "b"))
    before = fingerprint(File(tmp_path))
    (tmp_path / "b").rename(tmp_path / "c")
    assert fingerprint(File(tmp_path)) != before


TEXT = Text(
    "1", words=("a", "cat"), label="x", annotations={"where": "f.csv, row 1", "global": [(0, 1)]}
)


def test_every_field_of_a_text_counts_but_where_it_was_read() -> None:
    prints = {name: fingerprint(text) for name, text in {"": TEXT, **changed_texts(TEXT)}.items()}
    assert len(set(prints.values())) == len(prints) == 9
    moved = replace(TEXT, annotations={**TEXT.annotations, "where": "elsewhere"})
    assert fingerprint(moved) == fingerprint(TEXT)
    rationale = replace(TEXT, annotations={"rationale": [(0, 1)]})
    assert fingerprint(rationale) != fingerprint(replace(TEXT, annotations={"global": [(0, 1)]}))


def test_a_corpus_is_its_rows(tmp_path: Path) -> None:
    rows = [Text("1", "a cat"), BadRow("f.csv, row 2", "empty", "2"), Text("3", "a dog")]

    def of(*rows: Text | BadRow) -> str:
        return fingerprint(Corpus("any", lambda: rows))

    whole = of(*rows)
    assert whole == fingerprint(Corpus("other name", lambda: iter(rows)))
    assert whole == of(rows[0], BadRow("g.csv, row 9", "empty", "2"), rows[2])
    others = [
        of(*rows[:2]),
        of(rows[2], *rows[:2]),
        of(rows[0], rows[2]),
        of(rows[0], BadRow("f", "cut", "2"), rows[2]),
    ]
    assert len({whole, *others}) == 5
    running = Fingerprint()
    for row in rows:
        running.add(row)
    assert str(running) == whole
    (tmp_path / "a.csv").write_text("text\na cat\n")
    (tmp_path / "b.tsv").write_text("text\na cat\n")
    assert fingerprint(attlas.read(tmp_path / "a.csv")) == fingerprint(attlas.read(["a cat"]))


@pytest.mark.parametrize("what", CHANGES)
def test_every_part_of_a_model_counts(what: str) -> None:
    part, change = CHANGES[what]
    model = tiny("bert" if what == "a buffer" else "longformer")
    before, whole = model.identity(), fingerprint(model)
    model = change(model) or model
    after = model.identity()
    assert after[part] != before[part]
    assert fingerprint(model) != whole
    expected = {part} if what != "dtype" else {"dtype", "weights", "buffers"}
    assert {name for name in before if before[name] != after[name]} <= expected


def test_what_a_hook_does_counts_as_far_as_its_code_tells() -> None:
    def ablate(head: int, model: attlas.Model) -> str:
        def zero(module: Any, given: Any, output: Any) -> None:
            output[..., head] = 0

        handle = model.network.encoder.layer[0].register_forward_hook(zero)
        found = fingerprint(model)
        handle.remove()
        return found

    model = tiny("bert")
    plain = fingerprint(model)
    assert len({plain, ablate(0, model), ablate(1, model)}) == 3
    assert ablate(0, model) == ablate(0, tiny("bert"))
    with model.reading(states=True) as read:  # transformers leaves hooks of its own
        read(next(iter(model.batches(model.encode([(0, Text("a", "a cat"))])))))
    assert fingerprint(model) == plain


def test_names_of_models_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny("bert").save(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    first = attlas.load(tmp_path / "a")
    prints = {fingerprint(first), fingerprint(attlas.load(tmp_path / "b"))}
    monkeypatch.chdir(tmp_path / "a")
    prints.add(fingerprint(attlas.load("../b")))
    prints.add(fingerprint(attlas.load((first.network, first.tokenizer))))
    attlas.study(
        first, ["a cat", "the dog sat on it"], progress=False
    )  # what truncated and padded is as before
    prints.add(fingerprint(first))
    assert len(prints) == 1
    assert (
        fingerprint(first.randomized(1))
        == fingerprint(attlas.load("../b").randomized(1))
        not in prints
    )


@pytest.mark.parametrize("name", MEASURES)
def test_every_parameter_of_every_measure_counts(name: str) -> None:
    """Another value for each field of each registered measure."""
    measure: Any = MEASURES[name].default()
    prints = {fingerprint(measure)}
    names = [one.name for one in fields(measure)]
    for one in names:
        changed = object.__new__(type(measure))
        for other in names:
            object.__setattr__(changed, other, getattr(measure, other))
        object.__setattr__(changed, one, ("another", getattr(measure, one)))
        prints.add(fingerprint(changed))
    assert len(prints) == 1 + len(names)


@pytest.mark.costly
def test_code_counts_and_drawing_does_not(tmp_path: Path) -> None:
    """A changed byte counts where something is computed, not in views, papers, cli or testing."""
    package = tmp_path / "attlas"
    shutil.copytree(
        Path(attlas.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    code = "from attlas.support.fingerprint import source_digest; print(source_digest())"

    def digest() -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    before = digest()
    assert before == source_digest()
    for name in (
        "views/charts.py",
        "papers/bert.py",
        "cli/main.py",
        "testing/models.py",
        "__init__.py",
    ):
        with (package / name).open("a") as file:
            file.write("\n")
    (package / "views" / "new.py").write_text("")
    (package / "topology" / "section.py").write_text("")
    assert digest() == before
    for name in (
        "measures/entropy.py",
        "language/stopwords/en.txt",
        "topology/kernels/graphs.py",
        "support/files.py",
        "studies/shard_job.py",
    ):
        with (package / name).open("a") as file:
            file.write("\n")
        now = digest()
        assert now != before, name
        before = now
    assert {"torch", "tokenizers", "scikit-learn", "scipy", "numba"} <= set(versions())


def test_classes_of_other_packages_count_with_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    prints = set()
    for number, name in ((1, "plug_one"), (2, "plug_one"), (2, "plug_two")):
        (tmp_path / f"{name}.py").write_text(f"class Mine:\n    number = {number}\n")
        code = (
            f"import {name}; from attlas.support.fingerprint import fingerprint; "
            f"print(fingerprint({name}.Mine))"
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", code],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"PYTHONPATH": f"{tmp_path}:{Path(attlas.__file__).parents[1]}"},
        )
        assert done.returncode == 0, done.stderr
        prints.add(done.stdout)
    assert len(prints) == 3


def test_a_class_from_a_prompt_is_known_by_its_code() -> None:
    def made(number: int, default: int = 0, attribute: int = 0) -> str:
        body = f"    window = {attribute}\n    def f(self, k={default}):\n        return {number}"
        code = (
            f"class Mine:\n{body}\nfrom attlas.support.fingerprint import fingerprint; "
            "print(fingerprint(Mine))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert made(1) == made(1)
    assert len({made(1), made(2), made(1, default=1), made(1, attribute=1)}) == 4


NOTEBOOK = """
from functools import cache, cached_property, partial, wraps
import numpy as np

FACTOR = {constant}
TABLE = np.arange(5) + {array}

def loud(function):
    @wraps(function)
    def inner(value):
        return function(value) + {wrapper}
    return inner

def helper(value):
    return again(value) * {helper}

def again(value):
    return {deep} if value else helper(value)  # each calls the other

@cache
def remembered(value):
    return value + {remembered}

@loud
def wrapped(value):
    return value + {wrapped}

part = partial(helper, {partial})
network = object()  # has no fingerprint

class Base:
    def base(self, value):
        return [wrapped(one) for one in value]

    def run(self, value):
        return {base}

class Mine(Base):
    @cached_property
    def late(self):
        return {late}

    def run(self, value):
        known = super().run(value) + remembered(value) + part() + Mine.__name__
        return helper(value) * FACTOR + TABLE.sum() + known

def direct(value):
    return Mine().run(value), network

from attlas.support.fingerprint import fingerprint
print(fingerprint(Mine), fingerprint(direct))
"""
CELLS = (
    "constant",
    "array",
    "wrapper",
    "helper",
    "deep",
    "remembered",
    "wrapped",
    "partial",
    "late",
    "base",
)


@pytest.mark.costly
def test_what_a_function_of_a_notebook_calls_counts() -> None:
    """Another cell of the notebook has changed, not the class or the function itself."""

    def prints(changed: str = "") -> tuple[str, ...]:
        code = NOTEBOOK.format(**{cell: int(cell == changed) + 1 for cell in CELLS})
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return tuple(done.stdout.split())

    plain = prints()
    assert prints() == plain
    for changed in CELLS:
        assert not set(prints(changed)) & set(plain), changed


def test_no_identity_is_made_any_other_way() -> None:
    """Nothing is known by its repr, and digests are made in one place."""
    root = Path(attlas.__file__).parent
    for path in root.rglob("*.py"):
        source = path.read_text()
        if path.parent.name != "support":
            assert "hashlib" not in source, path
        assert "default=str)" not in source, path
