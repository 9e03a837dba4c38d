"""One pass: shards, engines, the result folder. Opening a study needs no model library."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
