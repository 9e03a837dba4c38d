"""Peak memory of a study at 1,000 and at 10,000 texts, and of a 512-token text beside all its attention."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import attlas
from benchmarks.table import Row

MEASURES = "surface,entropy,positions,totals"
PEAK = (
    "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
)


def peak(code: str) -> float:
    """Peak resident memory in MB of a fresh process that runs the code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{PEAK}"], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1]) / 1024


def rows() -> list[Row]:
    short = [text.text for text in attlas.read("embedded:acceptability")]
    with tempfile.TemporaryDirectory() as folder:
        peaks = []
        for count in (1_000, 10_000):
            path = Path(folder) / f"{count}.txt"
            path.write_text(
                "\n".join(f"{short[number % len(short)]} {number}" for number in range(count))
            )
            peaks.append(
                peak(
                    f"import attlas; attlas.study(None, {str(path)!r}, {MEASURES!r}, out={str(path.with_suffix(''))!r})"
                )
            )
        path = Path(folder) / "long.txt"
        path.write_text(" ".join(short) * 2)
        study = peak(
            f"import attlas; attlas.study(None, {str(path)!r}, {MEASURES!r}, workers=1, out={str(path.with_suffix(''))!r})"
        )
        held = peak(
            "import torch, attlas; from attlas.testing import stream; model = attlas.load()\n"
            f"layers = stream(model, [open({str(path)!r}).read()])"
        )
    return [
        Row(
            "peak memory, 10,000 texts",
            peaks[1],
            "1,000 texts",
            peaks[0],
            aim="at most 1.1",
            unit="MB",
        ),
        Row(
            "peak memory, a text of 512 tokens",
            study,
            "all its layers held",
            held,
            aim="below 1",
            unit="MB",
        ),
    ]


if __name__ == "__main__":
    for row in rows():
        print(row)
