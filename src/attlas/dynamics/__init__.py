"""How do the attention and polarity scores of words evolve during training?"""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="dynamics",
    package=__name__,
    experiments={"Dynamics": "experiment"},
    verb="dynamics",
    tour={
        "Dynamics": {
            "train": "synthetic:texts=600",
            "models": ("dot+none", "additive+none"),
            "scales": (1, 10),
            "epochs": 6,
        }
    },
    full={
        "Dynamics": {
            "train": "synthetic:texts=1200",
            "models": ("dot+none", "dot+lstm", "additive+none"),
            "scales": (1, 10, 100),
            "epochs": 12,
        }
    },
    section="section",
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
