"""numba, imported so that it takes no settings from the working folder.

numba reads `.numba_config.yaml` in the working folder when it is imported and whenever it compiles.
That file may have come with somebody's data: it can stop the import, or name a folder of compiled
code to load (`cache_dir`). Environment variables (`NUMBA_CACHE_DIR` and so on) count as usual, and
a numba that somebody else imported before keeps its settings.
"""

from __future__ import annotations

import os
import sys

CONFIG = ".numba_config.yaml"
FIRST = "numba" not in sys.modules
_exists = os.path.exists


def _exists_elsewhere(path: str) -> bool:
    return path != CONFIG and _exists(path)


os.path.exists = _exists_elsewhere  # type: ignore[assignment]
try:
    import numba
finally:
    os.path.exists = _exists

if FIRST:
    numba.core.config._config_fname = os.devnull  # not a regular file: never read

__all__ = ["numba"]
