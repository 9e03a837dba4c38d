"""Attlas: an atlas of attention.

>>> import attlas
>>> "surface" in attlas.MEASURES
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attlas.core.text import Text
    from attlas.corpora import read
    from attlas.measures import MEASURES
    from attlas.models import Model, load
    from attlas.studies import Study, study
    from attlas.views.look import attention

__version__ = "0.1.0"
__all__ = ["MEASURES", "Model", "Study", "Text", "attention", "load", "read", "study"]

_WHERE = {
    "MEASURES": "attlas.measures",
    "Model": "attlas.models",
    "Study": "attlas.studies",
    "Text": "attlas.core.text",
    "attention": "attlas.views.look",
    "load": "attlas.models",
    "read": "attlas.corpora",
    "study": "attlas.studies",
}


def __getattr__(name: str) -> Any:
    """Names are imported when first used, so that `import attlas` and `attlas --help` are quick."""
    if name not in _WHERE:
        raise AttributeError(f"module 'attlas' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
