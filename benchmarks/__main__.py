"""`make bench`: one table of ours and the reference, both timed in this run."""

from __future__ import annotations

import importlib
import os
import sys
import time

import torch

BENCHMARKS = (
    "study",
    "memory",
    "topology",
    "long",
    "explain",
    "heads",
    "relations",
    "dynamics",
    "browser",
    "server",
)

if __name__ == "__main__":
    began = time.perf_counter()
    print(f"{os.cpu_count()} cores, torch {torch.__version__}; best of several rounds")
    for name in sys.argv[1:] or BENCHMARKS:
        for row in importlib.import_module(f"benchmarks.{name}").rows():
            print(row, flush=True)
    print(f"{time.perf_counter() - began:.0f} s in total")
