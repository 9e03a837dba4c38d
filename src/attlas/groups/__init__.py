"""Do heads behave differently on different groups of texts?"""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="groups",
    package=__name__,
    experiments={"Groups": "experiment"},
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
