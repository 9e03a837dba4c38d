"""Which tokens do answers rest on? Attributions with a guarantee, attention as an explanation, agreement, faithfulness, plausibility."""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="explain",
    package=__name__,
    measures={
        "explanations": (
            "measure:Explanations",
            "Which tokens does the model's answer rest on, and does attention say so too?",
        ),
    },
    experiments={"Explain": "experiment"},
    verb="explain",
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
