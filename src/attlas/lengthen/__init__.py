"""A model for long texts from one for short texts."""

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="lengthen",
    package=__name__,
    experiments={"Lengthen": "experiment"},
    verb="lengthen",
)
