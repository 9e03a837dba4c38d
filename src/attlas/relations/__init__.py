"""Which semantic relations does attention encode between phrases?"""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="relations",
    package=__name__,
    experiments={"FitRelations": "experiment", "ScoreRelations": "experiment"},
    verb={"FitRelations": "relations fit", "ScoreRelations": "relations score"},
    tour={"FitRelations": {"train": "embedded:relations"}},
    full={"FitRelations": {"interpret": True}},
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
