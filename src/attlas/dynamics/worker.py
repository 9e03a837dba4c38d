"""A worker of a grid: reads a line for each cell to train, and says in lines how far it is. `python -m attlas.dynamics.worker FOLDER`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    """Train the cells that standard input names, until it ends."""
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed goes to standard error

    def say(**line: Any) -> None:
        said.write(json.dumps(line) + "\n")

    from attlas.core.errors import AttlasError
    from attlas.dynamics.grid import DATA, Data, fit_job

    data = Data.read(folder / DATA)
    for line in sys.stdin:
        try:
            fit_job(folder, json.loads(line), lambda done, _: say(epoch=done), data)
        except AttlasError as error:
            say(error=str(error))
        else:
            say(done=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (BrokenPipeError, KeyboardInterrupt):  # whoever asked has gone
        os._exit(1)
