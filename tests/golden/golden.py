"""A scenario run and summarised, to be kept as a golden or compared with one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tests.golden import compare
from tests.golden.scenario import SCENARIOS, run_scenario

GOLDEN = Path(__file__).parent
# a choice that is closer to its runner-up, and not tied with it, could differ on another CPU
SMALLEST = 1e-3

Tables = Mapping[str, pd.DataFrame]


def summarised(name: str, folder: Path) -> dict[str, Any]:
    """Run the commands of a scenario: what they printed, their tables, margins of choices."""
    printed, out, frames = run_scenario(name, folder), {}, {}
    for command in SCENARIOS[name]:
        files = {} if command.out is None else compare.table_files(folder / command.out)
        tables = {table: pd.read_parquet(path) for table, path in files.items()}
        frames |= tables
        out[command.name] = {
            "json": compare.printed_json(printed[command.name], command.name),
            "tables": {
                table: compare.summary(frame, compare.by_type(command.name))
                for table, frame in tables.items()
            },
        }
    return {"commands": out, "margins": margins(frames)}


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """One line for each number, column, table or key that is not as expected."""
    yield from compare.names_differ("command", [*found["commands"]], [*expected["commands"]])
    for name, theirs in expected["commands"].items():
        ours = found["commands"].get(name)
        if ours is None:
            continue
        yield from compare.json_differences(f"{name}: JSON", ours["json"], theirs["json"])
        yield from compare.names_differ(f"{name}: table", [*ours["tables"]], [*theirs["tables"]])
        for table, about in theirs["tables"].items():
            if table in ours["tables"]:
                yield from compare.table_differences(
                    f"{name}: table {table}", ours["tables"][table], about
                )
    yield from compare.json_differences("margins", found["margins"], expected["margins"])


def margins(tables: Tables) -> dict[str, dict[str, float]]:
    """How far the best of each choice is ahead of the next, and how many tie with the best.

    Scores of choices are shares of whole cases, so that a tie is exact and broken by order.
    """
    scores: dict[str, list[float]] = {}
    if "syntax_heads" in tables:
        heads = tables["syntax_heads"]
        for relation in tables["syntax_published"]["relation"]:
            scores[f"head of {relation}"] = heads.loc[
                heads["relation"] == relation, "accuracy"
            ].tolist()
    if "coreference_heads" in tables:
        scores["head of coreference"] = tables["coreference_heads"]["all"].tolist()
    if "topology_grid" in tables:
        scores["settings of topology"] = tables["topology_grid"]["mcc"].tolist()
        heads = tables["topology_heads"]["train"].sort_values(ascending=False)
        scores["best head of topology"] = heads.tolist()
        scores["third best head of topology"] = heads.tolist()[2:]
    if "relations" in tables:
        readers = tables["relations"].set_index("reader")["f1"]
        known = readers.drop(
            ["attention", *(name for name in compare.UNSTABLE["relations_fit"] if name in readers)]
        )
        scores["best control of relations"] = known.tolist()
    return {name: _margin(values) for name, values in scores.items()}


def _margin(scores: list[float]) -> dict[str, float]:
    best = max(scores)
    worse = [score for score in scores if score < best]
    return {"margin": round(best - max(worse), 6) if worse else 1.0, "tied": scores.count(best) - 1}


def file_of(name: str) -> Path:
    return GOLDEN / f"{name}.json"


def read_golden(name: str) -> dict[str, Any]:
    return json.loads(file_of(name).read_text(encoding="utf-8"))


def write_golden(name: str, content: Mapping[str, Any]) -> None:
    """One line for each column and each short value, so that a diff shows what moved."""
    file_of(name).write_text(_lines(content) + "\n", encoding="utf-8")


def _lines(value: Any, indent: str = "") -> str:
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not isinstance(value, Mapping) or "dtype" in value or len(flat) < 100:
        return flat
    inner = ",\n".join(
        f"{indent} {json.dumps(name)}: {_lines(one, indent + ' ')}" for name, one in value.items()
    )
    return f"{{\n{inner}\n{indent}}}"
