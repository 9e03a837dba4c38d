"""Which semantic relations does attention hold between phrases?"""

import lazy_loader

from attlas.experiments.subject import Subject

SUBJECT = Subject(
    name="relations",
    package=__name__,
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
