"""Attlas: an atlas of attention.

>>> import attlas
>>> "surface" in attlas.MEASURES
True
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

from attlas import api as api  # noqa: E402  # gives studies their pages
