"""Explanations: attributions with a guarantee, attention as an explanation, and what can be said of whether they agree, are faithful and plausible."""

import lazy_loader

from attlas.experiments.subject import Subject

SUBJECT = Subject(
    name="explain",
    package=__name__,
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
