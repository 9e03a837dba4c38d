"""Fine-tuning: a classifier from a pretrained model and labelled texts."""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="finetune",
    package=__name__,
    experiments={"Finetune": "experiment"},
    verb="finetune",
    section="section",
    tour={"Finetune": {"texts": "tour:train", "dev": "tour:dev", "head_only": True}},
    full={"Finetune": {"head_only": False}},
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
