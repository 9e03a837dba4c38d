"""Models in: load, lengthen, capture, gates; every transformer behind one face."""

from attlas.models.lengthen import lengthen
from attlas.models.load import load
from attlas.models.model import Model

__all__ = ["Model", "lengthen", "load"]
