"""The catalogue: one line per subject; packages that are installed next to Attlas add theirs.

Another package adds a subject by an entry point of the group `attlas.subjects` whose value is the
package that has a `SUBJECT`, and a measure by one of the group `attlas.measures`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from attlas.experiments.subject import API, Subject
from attlas.support.errors import AttlasError

SUBJECTS = (
    "attlas.syntax",
    "attlas.coreference",
    "attlas.relations",
)
GROUP = "attlas.subjects"


@cache
def subjects() -> tuple[Subject, ...]:
    """All subjects: our own, then those of other packages; one that is broken is left out."""
    own = [importlib.import_module(name).SUBJECT for name in SUBJECTS]
    return (*own, *_plug_ins(own))


def _plug_ins(own: list[Subject]) -> Iterator[Subject]:
    names = {subject.name for subject in own}
    verbs = {verb for subject in own for verb in subject.verbs}
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            subject = _loaded(entry)
            taken = {subject.name} & names | set(subject.verbs) & verbs
            if taken:
                raise AttlasError(f"{min(taken)!r} already exists")
        except Exception as error:  # whatever is wrong with it, Attlas goes on without it
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            warnings.warn(f"the plug-in {entry.name} ({entry.value}) is left out: {reason}", stacklevel=3)
            continue
        names.add(subject.name)
        verbs |= set(subject.verbs)
        yield subject


def _loaded(entry: EntryPoint) -> Subject:
    subject = importlib.import_module(entry.value).SUBJECT
    if not isinstance(subject, Subject):
        raise AttlasError(f"SUBJECT is a {type(subject).__name__}, not a Subject")
    if subject.api != API:
        raise AttlasError(f"it was written for api {subject.api}; this Attlas has {API}")
    for name in subject.experiments:
        subject.experiment(name)  # so that a broken one is found before its verb is asked for
    return subject
