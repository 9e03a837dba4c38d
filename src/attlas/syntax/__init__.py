"""Which head finds which dependency relation?"""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="syntax",
    package=__name__,
    experiments={"Syntax": "experiment"},
    verb="probe syntax",
    section="section",
    tour={"Syntax": {"train": "tour:trees-train", "test": "tour:trees-test", "min_cases": 10}},
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
