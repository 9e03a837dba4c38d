"""What a command printed and wrote, as numbers to keep, and how they differ from those kept.

Paths, seconds, versions and digests are excluded. Strings and integers must be equal; floats may
differ by a relative 1e-4, or by 1e-4 of the root mean square of their column. Of step counts of
solvers, what fine-tuning learned and what is UNSTABLE, only the type is compared.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

TOLERANCE = 1e-4
OF_RANKS = (" spearman", " reliability")  # columns: near ties change places with the rounding
VOLATILE = (
    "attlas",
    "digest",
    "files",
    "fingerprint",
    "identity",
    "seconds",
    "sha256",
    "state_sha256",
    "versions",
)
PATHS = (
    "base",
    "classifier",
    "extractor",
    "folder",
    "out",
    "report",
    "source",
    "study",
)  # left out where they are strings
BY_TYPE = (
    "evaluations",
    "evaluations_total",
    "steps",
)  # step counts: keys of JSON and columns of tables
# What another CPU changes by more than rounding, by command: keys, columns and readers; only their
# type is compared. `make same` compares them byte for byte.
_READERS = ("word_embeddings", "f1_word_embeddings")  # a reader with near ties between relations
UNSTABLE: dict[str, tuple[str, ...]] = {
    # learned by many small steps
    "finetune": ("history", "scores", "accuracy_interval", "loss", "mcc", "accuracy"),
    "finetune_head": ("history", "scores", "accuracy_interval", "mcc", "accuracy"),
    "study": ("gap",),  # of integrated gradients: what is left when two sums are subtracted
    "explain": ("gap",),
    "relations_fit": (
        *_READERS,
        "penalties",
        "f1_alone_random",
    ),  # of other readers: chosen among near ties
    "relations_score": _READERS,
}
UNNAMED = ("tables", "parts", "files")  # folders that are not part of a table's name
CACHES = ("features", "passes", "states", "cells", "checkpoints")  # folders whose names are digests
ROWS = 7
LEAST = 1e-3  # scale of a number of JSON at least: differences of probabilities hold about 1e-7
_DIGEST = re.compile(r"[0-9a-f]{16,64}")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?|-?\.\d+")

Summary = dict[str, Any]


def stable(value: Any, unstable: Collection[str] = BY_TYPE) -> Any:
    """JSON without what differs between runs or machines; types for values under `unstable` keys.

    >>> stable({"mcc": 0.5, "seconds": 3.2, "fit": {"steps": 12}, "texts": "0123456789abcdef"})
    {'mcc': 0.5, 'fit': {'steps': 'int'}}
    """
    if isinstance(value, Mapping):
        return {
            name: kind(one) if name in unstable else stable(one, unstable)
            for name, one in value.items()
            if not (
                name in VOLATILE
                or _is_local(one)
                or (name in PATHS and isinstance(one, str | None))
            )
        }
    return [stable(one, unstable) for one in value] if isinstance(value, list) else value


def _is_local(value: Any) -> bool:
    """A digest or an absolute path."""
    return isinstance(value, str) and (value.startswith("/") or bool(_DIGEST.fullmatch(value)))


def kind(value: Any) -> Any:
    """The type of a value; of a mapping by key, of a list by its first item."""
    if isinstance(value, Mapping):
        return {name: kind(one) for name, one in value.items()}
    if isinstance(value, list):
        return [kind(value[0])] if value else []
    return type(value).__name__


def printed_json(printed: str, command: str) -> Any:
    return stable(json.loads(printed), by_type(command))


def by_type(command: str) -> set[str]:
    """Keys and columns of a command that are known by type alone."""
    return {*BY_TYPE, *UNSTABLE.get(command, ())}


def table_files(folder: Path) -> dict[str, Path]:
    """Every table under a result folder by name, those of parts as PART/NAME; without caches."""
    out = {}
    for path in sorted(folder.rglob("tables/*.parquet")):
        parts = path.relative_to(folder).with_suffix("").parts
        if not {*parts} & {*CACHES}:
            out["/".join(part for part in parts if part not in UNNAMED)] = path
    return out


def summary(frame: pd.DataFrame, unstable: Collection[str] = BY_TYPE) -> Summary:
    """A table in brief: a digest of integers and strings, moments of floats, a few rows.

    Of unstable columns only the type is kept; rows of an unstable reader are excluded.
    """
    if "reader" in frame:
        frame = frame[~frame["reader"].isin([*unstable])]
    rows = np.unique(np.linspace(0, max(0, len(frame) - 1), ROWS).round().astype(int))[: len(frame)]
    return {
        "rows": len(frame),
        "columns": {
            str(name): _column(frame[name], rows, str(name) in unstable) for name in frame.columns
        },
    }


def _column(values: pd.Series[Any], rows: Any, unstable: bool) -> Summary:
    out: Summary = {"dtype": str(values.dtype)}
    if unstable:
        return out
    if values.dtype.kind == "f":
        numbers = values.to_numpy(np.float64)
        known = numbers[~np.isnan(numbers)]
        out |= {"nan": len(numbers) - len(known)}
        if len(known):
            out |= {"mean": _short(known.mean()), "rms": _short(np.sqrt((known**2).mean()))}
        return out | {"at": [_short(value) for value in numbers[rows]]}
    plain = values.astype(object).where(values.notna(), None).tolist()
    digest = hashlib.sha256(json.dumps(plain, ensure_ascii=False).encode()).hexdigest()
    return out | {"sha256": digest, "at": [plain[row] for row in rows]}


def _short(value: float) -> float | str | None:
    """Nine digits, as strict JSON has them."""
    if math.isnan(value):
        return None
    return float(f"{value:.9g}") if math.isfinite(value) else str(float(value))


def table_differences(where: str, found: Summary, expected: Summary) -> Iterator[str]:
    """One line for each way in which a table is not the one expected."""
    if found["rows"] != expected["rows"]:
        yield f"{where}: rows: expected {expected['rows']}, got {found['rows']}"
    ours, theirs = found["columns"], expected["columns"]
    yield from names_differ(f"{where}, column", [*ours], [*theirs])
    if [name for name in ours if name in theirs] != [name for name in theirs if name in ours]:
        yield f"{where}: order of columns: expected {[*theirs]}, got {[*ours]}"
    for name in theirs:
        if name in ours:
            yield from _column_differences(f"{where}, column {name}", ours[name], theirs[name])


def _column_differences(where: str, found: Summary, expected: Summary) -> Iterator[str]:
    scale = expected.get("rms") or 0.0
    numbers = () if where.endswith(OF_RANKS) else ("mean", "rms", "at")
    for name in ("dtype", "nan", *numbers):
        one, other = found.get(name), expected.get(name)
        if not (close(one, other, scale) if name in ("mean", "rms", "at") else one == other):
            yield f"{where}: {'rows' if name == 'at' else name}: expected {other}, got {one}"
            return
    if found.get("sha256") != expected.get("sha256"):
        digests = f"expected sha256 {expected.get('sha256')}, got {found.get('sha256')}"
        yield f"{where}: values: {digests}; the {ROWS} rows kept are equal"


def close(found: Any, expected: Any, scale: float = 0.0) -> bool:
    """Equal, floats within the tolerance; `scale` is the root mean square of their column.

    >>> close(1.00005, 1.0), close(1.001, 1.0), close(0.00005, 0.0, scale=1.0), close(1, 1.0)
    (True, False, True, False)
    """
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(close(*pair, scale) for pair in zip(found, expected, strict=True))
        )
    if isinstance(expected, float) and isinstance(found, float):
        return abs(found - expected) <= TOLERANCE * max(abs(expected), scale)
    return type(found) is type(expected) and found == expected


def names_differ(where: str, found: list[str], expected: list[str]) -> Iterator[str]:
    """One line for each name that only one side has."""
    for name in expected:
        if name not in found:
            yield f"{where} {name}: expected, got none"
    for name in found:
        if name not in expected:
            yield f"{where} {name}: expected none, got one"


def json_differences(where: str, found: Any, expected: Any) -> Iterator[str]:
    """One line per value that differs; numbers in sentences may differ by one in the last digit."""
    scales: dict[str, list[float]] = defaultdict(list)
    for path, value in _leaves("", expected):
        if isinstance(value, float):
            scales[_pattern(path)].append(value)
    rms = {
        path: math.sqrt(sum(value**2 for value in values) / len(values))
        for path, values in scales.items()
    }
    ours, theirs = dict(_leaves("", found)), dict(_leaves("", expected))
    yield from names_differ(f"{where}, key", [*ours], [*theirs])
    for path, value in theirs.items():
        if path in ours:
            equal = (
                _sentence(ours[path], value)
                if path.startswith((".findings", ".warnings")) and isinstance(value, str)
                else close(ours[path], value, max(LEAST, rms.get(_pattern(path), 0.0)))
            )
            if not equal:
                yield f"{where}, key {path}: expected {value!r}, got {ours[path]!r}"


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, one in value.items():
            yield from _leaves(f"{path}.{name}", one)
    elif isinstance(value, list) and value:
        for number, one in enumerate(value):
            yield from _leaves(f"{path}[{number}]", one)
    else:
        yield path, value


def _pattern(path: str) -> str:
    """A path with every place in a list alike."""
    return re.sub(r"\[\d+\]", "[]", path)


def _sentence(found: Any, expected: Any) -> bool:
    """Two sentences are the same but for rounding of their numbers.

    >>> _sentence("0.74 of 1,204", "0.73 of 1,204"), _sentence("0.74 of 1,204", "0.71 of 1,204")
    (True, False)
    """
    if not (isinstance(found, str) and isinstance(expected, str)) or _NUMBER.sub(
        "#", found
    ) != _NUMBER.sub("#", expected):
        return bool(found == expected)
    for one, other in zip(_NUMBER.findall(found), _NUMBER.findall(expected), strict=True):
        digits = len(other.partition(".")[2])
        if abs(float(one.replace(",", "")) - float(other.replace(",", ""))) > (
            1.01 * 10**-digits if digits else 0
        ):
            return False
    return True
