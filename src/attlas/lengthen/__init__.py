"""A model for long texts from one for short texts."""

from attlas.experiments.subject import Subject

SUBJECT = Subject(
    name="lengthen",
    package=__name__,
    experiments={"Lengthen": "experiment"},
    verb="lengthen",
)
