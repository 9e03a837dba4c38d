"""How much of a sentence's dependency tree does attention encode?"""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="tree",
    package=__name__,
    experiments={"Tree": "experiment"},
    verb="probe tree",
    tour={"Tree": {"train": "tour:trees-train", "test": "tour:trees-test"}},
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
