"""Every section of the catalogue keeps the laws of sections, on small results of every kind."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from attlas import catalogue
from attlas.studies.opened import Study
from attlas.support.errors import AttlasError
from attlas.support.subject import Subject
from attlas.testing import check_drawing_is_light, section_checks
from attlas.testing.sections import imported_to_draw
from attlas.views.findings import facts, findings, opening, origin
from attlas.views.report import render, report_title
from attlas.views.section import Figure, Section, shown
from tests.builders.pages import SECTIONS
from tests.builders.studies import OLD, measured, studies, study_with

LAWS = [name for name, _ in section_checks(next(iter(SECTIONS.values())), None)]  # type: ignore[arg-type]
COSTLY = [
    pytest.param(law, marks=pytest.mark.attack) if law.startswith("each_") else law for law in LAWS
]


@pytest.mark.parametrize("law", COSTLY)
@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_keeps_the_laws(name: str, law: str) -> None:
    check: Callable[[], None] = dict(section_checks(SECTIONS[name], study_with(SECTIONS[name])))[
        law
    ]
    check()


DRAWING = {
    f"{subject.package}.{subject.section}": subject.sections().values()
    for subject in catalogue.subjects()
    if subject.section
}


@cache
def drawn() -> dict[str, list[str]]:
    """What all of them imported to draw, one after the other in one process."""
    most = {
        module: max(
            studies(), key=lambda one: sum(all(map(one.has, section.needs)) for section in wanted)
        )
        for module, wanted in DRAWING.items()
    }
    return imported_to_draw(most)


@pytest.mark.parametrize("module", DRAWING)
def test_sections_are_drawn_without_a_model_library(module: str) -> None:
    assert drawn()[module] == []


def test_the_law_catches_a_section_that_imports_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "heavy_section.py").write_text(
        "import scipy\nfrom attlas.syntax.section import SECTIONS\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AssertionError, match="heavy_section imports scipy to draw"):
        check_drawing_is_light("heavy_section", Study.open(OLD / "syntax"))


def test_the_order_of_page_and_findings() -> None:
    """Probes are first on the page, measures of all heads last; findings by their strength."""
    order = list(SECTIONS)
    assert order[:3] == ["syntax", "tree", "coreference"]
    assert order.index("dynamics") < order.index("head_distance") < order.index("special_gradient")
    assert (
        order.index("special_gradient")
        < order.index("explanations")
        < order.index("topology")
        < order.index("surface")
    )
    assert order[-4:] == ["betti", "digraph", "barcode", "templates"]
    together = Study(measured().folder, measured().manifest, studies()[1:])
    assert [name for name, _ in shown(together, SECTIONS)] == order
    ranks = [one.rank for one in findings(together, SECTIONS)]
    assert ranks == sorted(ranks)
    sections = [one.section for one in opening(findings(together, SECTIONS))]
    assert len(set(sections)) == len(sections) <= 5


def test_facts_are_those_of_the_first_study() -> None:
    dynamics = Study.open(OLD / "dynamics")
    assert dict(facts(dynamics, SECTIONS))["model"].startswith("8 classifiers")
    beside = Study(measured().folder, measured().manifest, (dynamics,))
    names = [name for name, _ in facts(beside, SECTIONS)]
    assert names == ["model", "corpus", "texts", "truncated", "excluded", "explained", "time"]


def test_a_page_of_several_results_names_the_origin_of_each() -> None:
    """A model and a corpus stand over the findings and the section that are of them."""
    main, syntax = measured(), Study.open(OLD / "syntax")
    names = [origin(one.manifest) for one in (main, syntax)]
    assert names[0] != names[1]
    page = render(Study(main.folder, main.manifest, (syntax,)), SECTIONS)
    assert f"<h1>{report_title(names)}</h1>" in page
    for name in names:
        assert f'<p class="origin">{name}</p>' in page  # over a section
    begin = page.index('<section id="syntax"')
    over = page[begin : page.index(f'<p class="origin">{names[1]}</p>', begin)]
    assert over.count("<h2") == 1  # its heading, and nothing else
    assert not re.search("<(p|li|figure)[ >]", over)
    assert 'class="origin"' not in render(main, SECTIONS)


def test_a_study_of_classifiers_claims_no_model(tmp_path: Path) -> None:
    old = Study.open(OLD / "dynamics")
    new = Study(old.folder, {**old.manifest, "model": None, "subject": "attention classifiers"})
    assert origin(new.manifest) == origin(old.manifest)
    assert facts(new, SECTIONS) == facts(old, SECTIONS)


def test_only_pages_with_heads_say_how_heads_are_named(tmp_path: Path) -> None:
    note = "L2H7 is head 7 of layer 2"
    assert note not in Study.open(OLD / "dynamics").report(tmp_path / "dynamics.html").read_text()
    assert note in Study.open(OLD / "syntax").report(tmp_path / "syntax.html").read_text()


def own_section(title: str = "Own") -> Section:
    return Section(
        title=title,
        question="What?",
        needs=("syntax",),
        about="Of one's own.",
        figures=lambda study: [Figure("One.")],
    )


def test_the_laws_catch_a_section_that_words_break() -> None:
    def figures(study: Study) -> list[Figure]:
        assert not study.table("syntax")["relation"].str.contains("<").any()
        return [Figure("One.")]

    laws = dict(section_checks(replace(own_section(), figures=figures), Study.open(OLD / "syntax")))
    laws["one_label"]()  # there is no label in its table
    with pytest.raises(AssertionError):
        laws["hostile_words"]()


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], dict[str, Section]]:
    """The catalogue with the section of one more subject."""

    def add(found: object) -> dict[str, Section]:
        other = Subject(name="other", package="other_package", section="section")

        def sections(self: Subject) -> dict[str, Section]:
            if self is other:
                if isinstance(found, Exception):
                    raise found
                return {str(name): one for name, one in dict(found).items()}  # type: ignore[call-overload]
            return real(self)

        real = Subject.sections
        monkeypatch.setattr(Subject, "sections", sections)
        monkeypatch.setattr(catalogue, "subjects", lambda: (*subjects, other))
        catalogue.sections.cache_clear()
        return catalogue.sections()

    subjects = catalogue.subjects()
    yield add
    catalogue.sections.cache_clear()


def test_a_plug_in_brings_its_sections(plug_in: Callable[[object], dict[str, Section]]) -> None:
    found = plug_in({"own": own_section()})
    assert list(found).index("own") > list(found).index("dynamics_path")
    assert set(found) == {*SECTIONS, "own"}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (AttlasError("it is broken"), "it is broken"),
        ({"syntax": own_section()}, "'syntax' already exists"),
    ],
)
def test_a_broken_plug_in_breaks_no_report(
    plug_in: Callable[[object], dict[str, Section]], broken: object, reason: str
) -> None:
    with pytest.warns(UserWarning, match=f"plug-in other .*left out: .*{reason}"):
        found = plug_in(broken)
    assert found == SECTIONS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert catalogue.sections() == SECTIONS  # said once
