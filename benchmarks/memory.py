"""Peak memory of studies of 1,000 and 10,000 texts, and of a text of 512 tokens."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import attlas
from benchmarks.table import Row

MEASURES = "surface,entropy,positions,totals"
PEAK = (
    "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
)


def peak(code: str) -> float:
    """Peak resident memory in MB of a fresh process that runs the code."""
    command = [sys.executable, "-c", f"{code}\n{PEAK}"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(process.stdout.split()[-1]) / 1024


def study_peak(path: Path, **options: Any) -> float:
    """Peak memory of a study of a file."""
    options |= {"out": str(path.with_suffix(""))}
    return peak(f"import attlas; attlas.study(None, {str(path)!r}, {MEASURES!r}, **{options!r})")


def rows() -> list[Row]:
    short = [text.text for text in attlas.read("embedded:acceptability")]
    with tempfile.TemporaryDirectory() as folder:
        peaks = []
        for count in (1_000, 10_000):
            path = Path(folder) / f"{count}.txt"
            path.write_text(
                "\n".join(f"{short[number % len(short)]} {number}" for number in range(count))
            )
            peaks.append(study_peak(path))
        path = Path(folder) / "long.txt"
        path.write_text(" ".join(short) * 2)
        study = study_peak(path, workers=1)
        held = peak(
            "import torch, attlas; from attlas.testing import stream; model = attlas.load()\n"
            f"layers = stream(model, [open({str(path)!r}).read()])"
        )
    return [
        Row("peak memory, 10,000 texts", peaks[1], "1,000 texts", peaks[0], "at most 1.1", "MB"),
        Row("peak memory, a text of 512 tokens", study, "all layers held", held, "below 1", "MB"),
    ]


if __name__ == "__main__":
    for row in rows():
        print(row)
