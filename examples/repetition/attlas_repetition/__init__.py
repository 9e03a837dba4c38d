"""Which heads attend to other occurrences of the same token?"""

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="repetition",
    package=__name__,
    experiments={"Repetition": "experiment"},
    verb="repetition",
    measures={
        "repetition": (
            "repeats:Repeats",
            "How much does each head attend to other occurrences of the same token?",
        ),
    },
    section="section",
    tour={"Repetition": {"train": "embedded:reviews"}},
)
