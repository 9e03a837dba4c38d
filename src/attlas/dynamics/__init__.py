"""Dynamics: how attention comes to be interpretable, in small classifiers trained from scratch."""

import lazy_loader

from attlas.experiments.subject import Subject

SUBJECT = Subject(
    name="dynamics",
    package=__name__,
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
