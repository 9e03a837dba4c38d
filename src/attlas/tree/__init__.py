"""How much of a sentence's dependency tree does attention hold?"""

import lazy_loader

from attlas.experiments.subject import Subject

SUBJECT = Subject(
    name="tree",
    package=__name__,
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
