"""Which tokens does a prediction depend on? Attributions, attention, and tests of both."""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="explain",
    package=__name__,
    measures={
        "explanations": (
            "measure:Explanations",
            "Which tokens does the model's prediction depend on, and does attention agree?",
        ),
    },
    experiments={"Explain": "experiment"},
    verb="explain",
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
