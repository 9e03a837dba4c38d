"""Which tokens do answers rest on? Attributions with a guarantee, attention as an explanation, agreement, faithfulness, plausibility."""

import lazy_loader

from attlas.experiments.subject import Subject

SUBJECT = Subject(
    name="explain",
    package=__name__,
    experiments={"Explain": "experiment"},
    verb="explain",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
