"""Two commits, the same bytes: run every verb with both and compare what they print and write.

    python -m tests.golden.same BASE [NAME ...]

The present tree defines the commands and their inputs; each side runs them with its own `src`.
Tables are compared by their bytes, or by all values where only the file's layout differs; other
results by their bytes; JSON without what differs between runs. Files are known by name, wherever in
the result folder they are: `classifier/` may be `files/classifier/`, a part `parts/NAME/`.
Manifests, reports, logs, locks and caches are excluded. Prints one line per difference; exits with
1 if there are any.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from tests.golden.compare import CACHES, UNNAMED, names_differ, stable
from tests.golden.scenario import ALL, Command

ROOT = Path(__file__).parents[2]
DERIVED = ("report.html", "summary.json", "log.txt")
LEFT_OUT = ("manifest.json", "quarantine.jsonl", ".lock", *DERIVED)


def unpacked(commit: str, folder: Path) -> Path:
    """The `src` of a commit, written to a folder."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True)
    if archive.returncode:
        raise SystemExit(
            f"{commit} is not a commit of this repository: {archive.stderr.decode().strip()}"
        )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as file:
        file.extractall(folder, filter="data")
    return folder / "src"


def run_side(source: Path, folder: Path, names: list[str]) -> None:
    """All commands with one side's code, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "HF_HUB_OFFLINE": "1"}
    environment |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    # both sides compile anew: numba's cached code differs from fresh code in the last bits
    environment["NUMBA_CACHE_DIR"] = str(folder.with_name(f"{folder.name}-compiled"))
    check = "import attlas; print(attlas.__file__)"
    command = [sys.executable, "-P", "-c", check]
    used = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout
    if not Path(used.strip()).is_relative_to(source):
        raise SystemExit(f"{used.strip()} is imported, not the code in {source}")
    command = [sys.executable, "-P", "-m", "tests.golden.scenario", str(folder), *names]
    done = subprocess.run(command, cwd=folder, env=environment)
    if done.returncode:
        raise SystemExit(f"the commands failed with the code in {source}")


def result_files(folder: Path) -> dict[str, Path]:
    """Every result file under a folder by its name, without folders that only sort files."""
    out = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and path.name not in LEFT_OUT and not {*parts} & {*CACHES}:
            out["/".join(part for part in parts if part not in UNNAMED)] = path
    return out


def command_differences(command: Command, base: Path, present: Path) -> Iterator[str]:
    """One line for each result of a command that two working folders do not share."""
    one, other = (
        json.loads((side / f"{command.name}.stdout").read_text()) for side in (base, present)
    )
    yield from _values(f"{command.name}: JSON", stable(one, ()), stable(other, ()))
    if command.out is None:
        return
    ours, theirs = result_files(present / command.out), result_files(base / command.out)
    yield from names_differ(f"{command.name}: file", [*ours], [*theirs])
    for name in theirs:
        if name in ours:
            yield from file_differences(f"{command.name}: file {name}", theirs[name], ours[name])


def file_differences(where: str, base: Path, present: Path) -> Iterator[str]:
    """How a file of the base and one of the present differ; nothing if they hold the same."""
    if base.read_bytes() == present.read_bytes():
        return
    if base.suffix == ".parquet":
        yield from _frames(where, pd.read_parquet(base), pd.read_parquet(present))
    elif base.suffix == ".json":
        yield from _values(
            where, *(stable(json.loads(path.read_text()), ()) for path in (base, present))
        )
    else:
        sizes = f"{base.stat().st_size} in the base, {present.stat().st_size} now"
        yield f"{where}: bytes differ ({sizes})"


def _frames(where: str, base: pd.DataFrame, present: pd.DataFrame) -> Iterator[str]:
    yield from names_differ(f"{where}, column", [*present.columns], [*base.columns])
    if len(base) != len(present):
        yield f"{where}: {len(base)} rows in the base, {len(present)} now"
        return
    shared = [name for name in base.columns if name in present.columns]
    if shared != [name for name in present.columns if name in base.columns]:
        yield f"{where}: the columns are in another order"
    for name in shared:
        one, other = base[name], present[name]
        if one.dtype != other.dtype:
            yield f"{where}, column {name}: {one.dtype} in the base, {other.dtype} now"
            continue
        differ = ~((one == other) | (one.isna() & other.isna()))
        if differ.any():
            row = int(differ.to_numpy().argmax())
            count = f"{int(differ.sum())} of {len(one)} values differ"
            values = f"row {row}: {one[row]!r} in the base, {other[row]!r} now"
            yield f"{where}, column {name}: {count}; {values}"


def _values(where: str, base: Any, present: Any) -> Iterator[str]:
    """Values of JSON that are not equal, by their path."""
    if isinstance(base, dict) and isinstance(present, dict):
        yield from names_differ(f"{where}, key", [*present], [*base])
        for name in base:
            if name in present:
                yield from _values(f"{where}.{name}", base[name], present[name])
    elif isinstance(base, list) and isinstance(present, list) and len(base) == len(present):
        for number, (one, other) in enumerate(zip(base, present, strict=True)):
            yield from _values(f"{where}[{number}]", one, other)
    elif type(base) is not type(present) or (
        base != present and not (base != base and present != present)
    ):
        yield f"{where}: {base!r} in the base, {present!r} now"


def main(commit: str, names: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        sides = {"base": unpacked(commit, folder / "code"), "present": ROOT / "src"}
        for side, source in sides.items():
            print(f"{side}: {commit if side == 'base' else 'the present tree'}", flush=True)
            (folder / side).mkdir()
            run_side(source, folder / side, names)
        lines = [
            line
            for scenario in names
            for command in ALL[scenario]
            for line in command_differences(command, folder / "base", folder / "present")
        ]
    for line in lines:
        print(line)
    print(f"{len(lines)} differences" if lines else f"the same as {commit}: {', '.join(names)}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:] or [*ALL]))
