"""Every verb on fixed inputs gives the numbers that are kept in `tests/golden/*.json`.

A failure names table, column, expected and actual values. After a change that is meant to change
numbers, rewrite them with `python -m tests.golden.record` and read the diff.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.golden import compare
from tests.golden.golden import GOLDEN, SMALLEST, differences, read_golden, summarised
from tests.golden.scenario import SCENARIOS, put_inputs

SHOWN = 40


@pytest.mark.parametrize("name", SCENARIOS)
def test_numbers_are_those_kept(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    put_inputs(tmp_path)
    lines = [*differences(summarised(name, tmp_path), read_golden(name))]
    assert not lines, "\n".join([f"{len(lines)} differences from {name}.json", *lines[:SHOWN]])


def test_every_golden_belongs_to_a_scenario_and_no_choice_is_a_near_tie() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == {*SCENARIOS}
    kept = [about for name in SCENARIOS for about in read_golden(name)["margins"].values()]
    assert len(kept) > 10
    assert min(about["margin"] for about in kept) >= SMALLEST


def scaled(content: dict[str, Any], factor: float) -> None:
    content["commands"]["syntax"]["json"]["overall"] *= factor


def one_row(content: dict[str, Any]) -> None:
    content["commands"]["syntax"]["tables"]["syntax_heads"]["columns"]["accuracy"]["at"][3] += 1e-3


def new_column(content: dict[str, Any]) -> None:
    content["commands"]["syntax"]["tables"]["syntax"]["columns"]["charm"] = {"dtype": "int64"}


def new_table(content: dict[str, Any]) -> None:
    content["commands"]["syntax"]["tables"]["charm"] = {"rows": 0, "columns": {}}


def no_table(content: dict[str, Any]) -> None:
    del content["commands"]["syntax"]["tables"]["syntax"]


def new_key(content: dict[str, Any]) -> None:
    content["commands"]["syntax"]["json"]["charm"] = 1


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "JSON by a thousandth": (
        lambda content: scaled(content, 1.001),
        r"syntax: JSON, key .overall: expected .*, got ",
    ),
    "one row": (one_row, r"syntax: table syntax_heads, column accuracy: rows: expected .*, got "),
    "a column more": (new_column, r"syntax: table syntax, column charm: expected none, got one"),
    "a table more": (new_table, r"syntax: table charm: expected none, got one"),
    "a table less": (no_table, r"syntax: table syntax: expected, got none"),
    "a key more": (new_key, r"syntax: JSON, key .charm: expected none, got one"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_named(case: str) -> None:
    change, message = CHANGES[case]
    kept = read_golden("syntax")
    found = copy.deepcopy(kept)
    assert [*differences(found, kept)] == []
    change(found)
    (line,) = differences(found, kept)
    assert re.match(message, line), line


def test_rounding_is_no_change() -> None:
    kept = read_golden("syntax")
    found = copy.deepcopy(kept)
    scaled(found, 1 + 5e-5)
    assert [*differences(found, kept)] == []


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("x", [0.0, 1.0, np.nan, 4.004], "column x: mean"),
        ("x", [0.0, 1.0, 2.0, 4.0], "column x: nan"),
        ("x", [1.0, 0.0, np.nan, 4.0], "column x: rows"),
        ("n", [1, 2, 3, 5], "column n: rows"),
        ("n", [1.0, 2.0, 3.0, 4.0], "column n: dtype"),
        ("s", ["a", "b", "c", None], "column s: rows"),
    ],
)
def test_a_change_of_a_table_is_named(column: str, values: list[Any], message: str) -> None:
    frame = pd.DataFrame(
        {"x": [0.0, 1.0, np.nan, 4.0], "n": [1, 2, 3, 4], "s": ["a", "b", "c", "d"]}
    )
    expected = compare.summary(frame)
    assert [*compare.table_differences("table", compare.summary(frame), expected)] == []
    (line,) = compare.table_differences(
        "table", compare.summary(frame.assign(**{column: values})), expected
    )
    assert message in line


def test_a_change_between_the_rows_that_are_kept_is_seen() -> None:
    frame = pd.DataFrame({"n": range(100), "x": np.arange(100.0)})
    other = frame.copy()
    other.loc[1, ["n", "x"]] = other.loc[2, ["n", "x"]]
    lines = [*compare.table_differences("table", compare.summary(other), compare.summary(frame))]
    assert ["values" in lines[0], "mean" in lines[1]] == [True, True]
