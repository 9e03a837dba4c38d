"""Models in: load, lengthen, capture, gates; every transformer behind one face."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
