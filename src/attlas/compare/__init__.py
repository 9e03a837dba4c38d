"""How do the heads of two models differ, or those of one model on two corpora?"""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="compare",
    package=__name__,
    experiments={"Compare": "experiment"},
    verb="compare",
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
