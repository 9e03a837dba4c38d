"""The catalogue: one line per subject; packages that are installed next to Attlas add theirs.

Another package adds a subject by an entry point of the group `attlas.subjects` whose value is the
package that has a `SUBJECT`, and a measure by one of the group `attlas.measures`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from attlas.core.registry import Registry
from attlas.measures.parse import parse_measures
from attlas.support.errors import AttlasError, MeasureError
from attlas.support.options import declared
from attlas.support.subject import API, Subject

if TYPE_CHECKING:
    from attlas.core.measure import Measure
    from attlas.views.methods import Method
    from attlas.views.section import Section

    MEASURES: Registry[type[Measure[Any]]]

SUBJECTS = (
    "attlas.measures",
    "attlas.explain",
    "attlas.topology",
    "attlas.syntax",
    "attlas.tree",
    "attlas.coreference",
    "attlas.relations",
    "attlas.dynamics",
    "attlas.finetune",
    "attlas.lengthen",
    "attlas.groups",
    "attlas.compare",
)
TAKEN = (
    "study",
    "look",
    "report",
    "serve",
    "tour",
    "measures",
    "reproduce",
    "relations extract",
)  # verbs
GROUP, MEASURE_GROUP = "attlas.subjects", "attlas.measures"


@cache
def subjects() -> tuple[Subject, ...]:
    """All subjects: our own, then those of other packages; one that is broken is left out."""
    own = [importlib.import_module(name).SUBJECT for name in SUBJECTS]
    return (*own, *_plug_ins(own))


def has_plug_ins() -> bool:
    """Whether packages next to Attlas add subjects or measures, whose code is their own."""
    own = all(one.package.startswith("attlas.") for one in subjects())
    return not own or bool(entry_points(group=MEASURE_GROUP))


@cache
def measures() -> Registry[type[Measure[Any]]]:
    """All measures by name: those of the subjects, then single ones of other packages."""
    found: Registry[type[Measure[Any]]] = Registry("measure", MeasureError)
    for subject in subjects():
        for name, (path, question) in subject.measures.items():
            found.register(name, f"{subject.package}.{path}", question)
    for entry in sorted(entry_points(group=MEASURE_GROUP), key=lambda one: one.name):
        if entry.name in found:
            error = AttlasError(f"{entry.name!r} already exists")
            _left_out(f"the plug-in {entry.name} ({entry.value})", error)
        else:
            found.register(entry.name, entry.value, f"a measure of {entry.module.split('.')[0]}")
    return found


def __getattr__(name: str) -> Any:
    if name == "MEASURES":  # public, and made when it is first asked for
        return measures()
    raise AttributeError(name)


def measures_of(
    wanted: str | Measure[Any] | Iterable[str | Measure[Any]] = "all",
) -> list[Measure[Any]]:
    """Measures from names, measures or both; see `parse_measures`."""
    return parse_measures(wanted, measures())


def methods_of(manifest: Mapping[str, Any]) -> list[Method]:
    """What the measures of a study, or the experiment of a result, compute."""
    from attlas.views.methods import Method

    kinds = {
        one.name: one
        for subject in subjects()
        for one in map(subject.experiment, subject.experiments)
    }
    registry = measures()

    def method(name: str, parameters: str) -> Method:
        if name not in registry and name not in kinds:
            return Method(name, f"the measure {parameters}")
        found: Any = kinds[name] if name in kinds else registry[name]
        question = "" if name in kinds else registry.question(name)
        return Method(name, found.clause or question.rstrip("?"), found.references)

    return [method(*item) for item in manifest.get("measures", {}).items()]


@cache
def sections() -> dict[str, Section]:
    """All sections of a report by name, in its order; broken ones are left out."""
    out: dict[str, Section] = {}
    for subject in subjects():
        try:
            found = {name: _section(one) for name, one in subject.sections().items()}
            if taken := set(found) & set(out):
                raise AttlasError(f"the section {min(taken)!r} already exists")
        except Exception as error:
            if subject.package.partition(".")[0] == "attlas":
                raise
            _left_out(f"the section of the plug-in {subject.name} ({subject.package})", error)
            continue
        out |= found
    return dict(sorted(out.items(), key=lambda item: item[1].order))


def _section(found: Any) -> Section:
    from attlas.views.section import Section

    if not isinstance(found, Section):
        raise AttlasError(f"a section is a {type(found).__name__}, not a Section")
    return found


def _left_out(what: str, error: Exception) -> None:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    warnings.warn(f"{what} is left out: {reason}", stacklevel=4)


def _plug_ins(own: list[Subject]) -> Iterator[Subject]:
    names = {subject.name for subject in own}
    verbs = {*TAKEN, *(verb for subject in own for verb in subject.verbs)}
    verbs |= {verb.split()[0] for verb in verbs}  # groups
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            subject = _loaded(entry)
            taken = {subject.name} & names | set(subject.verbs) & verbs
            if taken:
                raise AttlasError(f"{min(taken)!r} already exists")
        except Exception as error:  # whatever is wrong with it, Attlas continues without it
            _left_out(f"the plug-in {entry.name} ({entry.value})", error)
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
    for name in {*subject.experiments, *subject.verbs.values()}:
        declared(subject.experiment(name))  # a broken one is found before its verb is asked for
    return subject
