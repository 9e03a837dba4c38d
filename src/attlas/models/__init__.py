"""Models in: load, capture, gates; every transformer behind one face."""

from attlas.models.load import load
from attlas.models.model import Model

__all__ = ["Model", "load"]
