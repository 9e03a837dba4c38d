"""Rewrite all or some goldens: only after a change that is meant to change numbers; read the diff.

python -m tests.golden.record [NAME ...]
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path

from tests.golden.golden import SMALLEST, summarised, write_golden
from tests.golden.scenario import SCENARIOS, put_inputs


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in names:
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            put_inputs(Path(folder))
            content = summarised(name, Path(folder))
        near = {
            choice: about
            for choice, about in content["margins"].items()
            if about["margin"] < SMALLEST
        }
        if near:
            raise SystemExit(
                f"{name}: choices that are near ties: {near}; choose another seed in make_inputs"
            )
        write_golden(name, content)
        print(f"{name}: {time.process_time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [*SCENARIOS])
