"""The shape of attention graphs: Betti numbers, bars, directed invariants, and classifiers built on them."""

import lazy_loader

from attlas.experiments.subject import Subject

SUBJECT = Subject(
    name="topology",
    package=__name__,
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
