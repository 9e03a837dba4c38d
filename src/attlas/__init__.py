"""Attlas: an atlas of attention.

>>> import attlas
>>> "surface" in attlas.MEASURES
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attlas.core.lazy import lazily

if TYPE_CHECKING:
    from attlas.core.text import Text
    from attlas.corpora import read
    from attlas.measures import MEASURES
    from attlas.models import Model, load
    from attlas.studies import Study, study
    from attlas.views.look import attention

__version__ = "0.1.0"
__all__ = ["MEASURES", "Model", "Study", "Text", "attention", "load", "read", "study"]

__getattr__ = lazily(
    __name__,
    {
        "MEASURES": "attlas.measures",
        "Model": "attlas.models",
        "Study": "attlas.studies",
        "Text": "attlas.core.text",
        "attention": "attlas.views.look",
        "load": "attlas.models",
        "read": "attlas.corpora",
        "study": "attlas.studies",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
