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
    tour={
        "Explain": {
            "data": "tour:test",
            "model": "part:finetune",
            "methods": ("integrated_gradients", "attention_last", "rollout"),
            "tolerance": 0.05,
            "keep": ("all", "keywords"),
            "bins": (0.2,),
            "draws": 1,
            "permutations": 30,
        }
    },
    full={
        "Explain": {
            "data": "embedded:messages",
            "methods": ("all",),
            "tolerance": 0.01,
            "keep": ("all", "ordinary", "keywords"),
            "bins": (0.01, 0.05, 0.1, 0.2, 0.5),
            "draws": 5,
            "permutations": 100,
        }
    },
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
