"""Which head finds the antecedent of a mention?"""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="coreference",
    package=__name__,
    experiments={"Coreference": "experiment"},
    verb="probe coreference",
    section="section",
    tour={"Coreference": {"train": "embedded:sentences"}},
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
