"""A worker of a grid: trains the cells that standard input names, one per line of JSON.

`python -P -m attlas.dynamics.worker STATES KEY`: the folder of states, and the key of the entry
with the numbered texts, which its parent has just written or verified. It answers in lines of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def main(folder: Path, key: str) -> None:
    """Train the cells that standard input names, until it ends."""
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed goes to standard error

    def answer(**line: Any) -> None:
        output.write(json.dumps(line) + "\n")

    from attlas.dynamics.grid import Data, fit_job
    from attlas.studies.folder import States
    from attlas.support.errors import AttlasError

    states, data = States(folder), Data.read(folder / key)
    for line in sys.stdin:
        try:
            fit_job(states, json.loads(line), lambda done, _: answer(epoch=done), data)
        except AttlasError as error:
            answer(error=str(error))
        else:
            answer(done=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2])
    except (BrokenPipeError, KeyboardInterrupt):  # the process that started it has ended
        os._exit(1)
