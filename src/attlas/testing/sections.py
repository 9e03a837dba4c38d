"""The laws that every section of a report keeps, each a check with a name of its own."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from html.parser import HTMLParser
from itertools import chain
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from attlas.stats.verdicts import ENOUGH
from attlas.studies.opened import Study
from attlas.support.errors import StudyError
from attlas.testing.controls import check_control
from attlas.testing.pictures import (
    check_colour_follows_kind,
    check_columns_have_labels,
    check_pictures_say_what_they_show,
    section_figures,
)
from attlas.views.card_parts import VERDICTS, HeadCards, card_of
from attlas.views.cards import HeadCard, KnownHeads, head_card
from attlas.views.claims import MOST_FINDINGS, judged_claims
from attlas.views.findings import beyond_chance, section_findings
from attlas.views.head_rows import HeadRow
from attlas.views.numbers import written
from attlas.views.report import SCRIPTS, render
from attlas.views.section import Figure, Section
from attlas.views.shades import CONTROLS
from attlas.views.terminal import print_table

HEAVY = ("torch", "transformers", "scipy", "sklearn", "numba")  # not imported to draw
HOSTILE = "<attlas-hostile onload='x'>&amp;\"'</script></p>{{ 7 }}\u2028\u202e if"
CODES = ("", "all", "(any)")  # values that sections know by name
KEYS = ("layer", "head", "other_layer", "other_head", "n")  # numbers that name or count
FREE = (  # columns of words that come from a user's texts and labels
    "text",
    "content",
    "begins",
    "string",
    "token",
    "label",
    "predicted",
    "target",
    "left",
    "right",
    "relation",
    "name",
    "left_name",
    "right_name",
)
Change = Callable[[str, pd.DataFrame], pd.DataFrame]


class Lazy(Mapping[str, pd.DataFrame]):
    """Tables by name, each made when it is first asked for."""

    def __init__(self, names: Collection[str], make: Callable[[str], pd.DataFrame]) -> None:
        self._names, self._make = tuple(names), cache(make)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> pd.DataFrame:
        self.asked.add(name)
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


@dataclass(frozen=True)
class Frames:
    """Tables in memory, as sections take them; `manifests` has that of each table."""

    frames: Lazy
    manifest: Mapping[str, Any]
    manifests: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, study: Study) -> Frames:
        """All tables of a study, and of those next to it."""
        manifests = {name: study.study_with_table(name).manifest for name in study.tables}
        return cls(Lazy(study.tables, study.table), study.manifest, manifests)

    def changed(self, change: Change) -> Frames:
        """The same with every table changed."""
        return replace(self, frames=Lazy(self.frames, lambda name: change(name, self.frames[name])))

    def with_one_changed(self, one: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Frames:
        """The same with one table changed."""
        return self.changed(lambda name, frame: change(frame) if name == one else frame)

    @property
    def n_layers(self) -> int:
        return int(self.manifest["model"]["n_layers"])

    @property
    def n_heads(self) -> int:
        return int(self.manifest["model"]["n_heads"])

    def has(self, name: str) -> bool:
        return name in self.frames

    def study_with_table(self, name: str) -> Frames:
        return replace(self, manifest=self.manifests[name])

    def table(
        self, name: str, columns: list[str] | None = None, text: str | None = None
    ) -> pd.DataFrame:
        frame = self.frames[name]
        frame = frame if text is None else frame[frame["text"] == text].reset_index(drop=True)
        return frame if columns is None else frame[columns]

    def sample(self, count: int) -> list[tuple[int, dict[str, Any]]]:
        rows = self.frames["texts"].to_dict("records")
        step = max(1, len(rows) // count)
        return [(0, dict(row)) for row in rows[::step][:count]]

    def first(self, count: int) -> list[tuple[int, dict[str, Any]]]:
        return [(0, dict(row)) for row in self.frames["texts"][:count].to_dict("records")]

    def tokens(self, name: str, group: int, text: str) -> pd.DataFrame:
        return self.table(name, text=text)


def section_checks(section: Section, study: Study) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each law with its name, to be run one by one; the study has the tables of the section."""
    laws = (
        check_it_says_what_it_is,
        check_it_draws_its_tables,
        check_every_control_is_there,
        check_findings_go_beyond_their_controls,
        check_cards_of_heads,
        check_pictures_of_heads,
        check_columns_have_labels,
        check_colour_follows_kind,
        check_pictures_say_what_they_show,
        check_empty_tables,
        check_tables_without_a_number,
        check_each_table_without_a_row,
        check_each_table_without_a_number,
        check_each_column_without_a_number,
        check_one_text,
        check_one_head,
        check_one_label,
        check_hostile_words,
        check_unknown_words,
    )
    for law in laws:
        yield law.__name__.removeprefix("check_"), partial(law, section, study)


def check_it_says_what_it_is(section: Section, study: Study) -> None:
    """It has a title, a question, prose and the tables that it needs."""
    assert section.title
    assert not section.title.endswith("."), section.title
    assert section.question.endswith("?"), section.question
    assert section.about.endswith((".", "?")), section.about
    assert section.needs
    missing = [name for name in section.needs if not study.has(name)]
    assert not missing, f"the study has no table {', '.join(missing)}"


def check_it_draws_its_tables(section: Section, study: Study) -> None:
    """Real tables have a figure, every figure a caption and a name for its file."""
    figures = section_figures(section, study)
    assert figures
    assert all(figure.caption.endswith((".", "?")) and figure.name for figure in figures)
    assert _drawn_tables(section, study)


def check_every_control_is_there(section: Section, study: Study) -> None:
    """Law 19: the control of every score is finite wherever the score is."""
    for table in section.needs:
        frame = study.table(table)
        noted = study.study_with_table(table).manifest.get("controls", [])
        pairs = [(score, control) for name, score, control in noted if name == table]
        pairs += [
            (str(column), f"{column}{end}")
            for column in frame.columns
            for end in CONTROLS
            if f"{column}{end}" in frame
        ]
        for score, control in pairs:
            check_control(frame, score, control)


def check_findings_go_beyond_their_controls(section: Section, study: Study) -> None:
    """No finding equals its control; a signal has a corrected interval that excludes zero."""
    claims, least = section.claims(study), section.smallest_effect
    assert not claims or least > 0, "no smallest effect of interest is declared"
    why = f"The smallest difference of interest is {least:g}"
    assert not least or why in section.about, f"it does not say why: {why}, ..."
    found = section_findings(study, "one", section)
    assert len(beyond_chance(found)) <= MOST_FINDINGS
    for one in found:
        judged = one.judged
        known = (claim.comparison for claim in claims)
        assert judged.comparisons == sum(one.choices for one in known if one.has_interval)
        if one.verdict != "nothing beyond chance":
            assert judged.comparison.difference != 0, one.sentence
            assert judged.comparison.is_on_wanted_side, one.sentence
        if one.verdict == "signal":
            assert judged.low > 0 or judged.high < 0, one.sentence
            assert abs(judged.comparison.difference) >= least, one.sentence
            assert one.claim.texts >= ENOUGH, one.sentence


def check_cards_of_heads(section: Section, study: Study) -> None:
    """Rows of a head have finite numbers, a control or none, and the verdicts of the section.

    What a section claims about a head is on its card; a head that does not exist is refused.
    """
    if not study.manifest.get("model"):
        return
    judged = judged_claims(section.claims(study), section.smallest_effect)
    about = {one.claim.head for one in judged} - {None}
    known = KnownHeads.of(study, {"one": section})
    content = HeadCards(known).content
    for layer, head in known.heads:
        card = known.card((layer, head))
        _check_card(card)
        own = [one for one in judged if one.claim.head == (layer, head)]
        rows = [row for row in chain(*card.rows.values()) if row.verdict is not None]
        assert [row.verdict for row in rows] == [one.verdict for one in own], card.name
        assert [row.value for row in rows] == [one.claim.value for one in own], card.name
        assert all(one.sentence.startswith(card.name) for one in own), card.name
        assert sorted(map(_row_key, chain(*card.rows.values()))) == sorted(
            _entry_key(row) for row in card_of(content, (layer, head))
        ), card.name
        about.discard((layer, head))
    assert not about, f"claims about heads that do not exist: {about}"
    for layer, head in ((study.n_layers, 0), (0, study.n_heads), (-1, 0)):
        try:
            head_card(study, {"one": section}, layer, head)
        except StudyError:
            continue
        raise AssertionError(f"there is a card of L{layer}H{head}")


def _row_key(row: HeadRow) -> tuple[str, ...]:
    """A row as it is written."""
    return _written(row.section, row.label, row.value, row.control, row.control_name, row.verdict)


def _entry_key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The same from the compact data of a page."""
    verdict = next(name for name, letter in VERDICTS.items() if letter == row["verdict"])
    control = row["control"], row.get("control_name", "")
    return _written(row["section"], row["label"], row["value"], *control, verdict)


def _written(
    section: str, label: str, value: float, control: float | None, name: str, verdict: str | None
) -> tuple[str, ...]:
    largest = max(abs(value), abs(control or 0))
    known = "" if control is None else written(control, largest)
    return section, label, written(value, largest), known, name, verdict or ""


def check_pictures_of_heads(section: Section, study: Study) -> None:
    """Small pictures have numbers for the heads of the model, a control, and a label for each x."""
    if not study.manifest.get("model"):
        return
    for one in section.profiles(study):
        layers, heads, *along = one.values.shape
        assert (layers, heads) == (study.n_layers, study.n_heads), one.title
        assert not np.isinf(one.values).any(), one.title
        assert not np.isinf(one.controls).any(), one.title
        assert one.title.strip(), one
        assert one.x or one.unit, one.title
        assert one.control_name, one.title
        has_control = np.isfinite(one.controls) | ~np.isfinite(one.values)
        assert one.kind == "plain" or has_control.all(), one.title
        assert (one.shades >= 0).all() if one.picture == "tile" else True, one.title
        if one.picture in ("bars", "rows", "line"):
            assert along == [len(one.labels)], one.title
            assert all(label.strip() for label in one.labels), one.labels
        else:
            assert len(along) == {"tile": 2, "ranks": 0}[one.picture], one.title


def _check_card(card: HeadCard) -> None:
    """Every number of a card is finite, and has a control or is said to be plain."""
    json.dumps(card.to_dict(), allow_nan=False)
    for row in chain(*card.rows.values()):
        assert row.label.strip(), row
        assert row.section, row
        assert (row.control is None) <= (row.kind == "plain"), row
        assert (row.control is None) == (not row.control_name), row
        assert (row.low is None) == (row.high is None), row
        assert row.verdict is None or row.control is not None, row
    scores = [round(one.score, 3) for one in card.examples]
    assert scores == sorted(scores), card.examples


def check_empty_tables(section: Section, study: Study) -> None:
    """Law 21: tables without a row."""
    _draw(section, Frames.of(study).changed(lambda name, frame: frame[:0]))


def check_tables_without_a_number(section: Section, study: Study) -> None:
    """Law 21: tables in which every number that was measured is missing."""
    _draw(section, Frames.of(study).changed(lambda name, frame: _unknown(frame)))


def check_each_table_without_a_row(section: Section, study: Study) -> None:
    """Law 21: one table without a row among others that have theirs."""
    tables, names = _asked(section, study)
    for alone in names:
        _draw_alone(section, tables.with_one_changed(alone, lambda frame: frame[:0]))


def check_each_table_without_a_number(section: Section, study: Study) -> None:
    """Law 21: one table without a number among others that have theirs."""
    tables, names = _asked(section, study)
    for alone in names:
        _draw_alone(section, tables.with_one_changed(alone, _unknown))


def check_each_column_without_a_number(section: Section, study: Study) -> None:
    """Law 21: one column without a number among others that have theirs."""
    tables, names = _asked(section, study)
    for alone in names:
        for column in tables.frames[alone].select_dtypes("floating").columns.difference(KEYS):
            without = partial(_unknown, columns=[column])
            _draw_alone(section, tables.with_one_changed(alone, without))


def _unknown(frame: pd.DataFrame, columns: Collection[str] | None = None) -> pd.DataFrame:
    """A table in which the numbers of some columns, or of all, are missing."""
    out = frame.copy()
    out[frame.select_dtypes("floating").columns if columns is None else list(columns)] = math.nan
    return out


def _asked(section: Section, study: Study) -> tuple[Frames, list[str]]:
    """The tables of a study, and the names of those that a section draws."""
    tables = Frames.of(study)
    _draw_alone(section, tables)
    return tables, sorted(tables.frames.asked)


def check_one_text(section: Section, study: Study) -> None:
    """Law 21: one text."""
    tables = Frames.of(study)
    ids = tables.frames["texts"]["text"] if tables.has("texts") else pd.Series(dtype=str)

    def first(name: str, frame: pd.DataFrame) -> pd.DataFrame:
        if "text" not in frame or frame.empty:
            return frame
        known = len(ids) and (frame["text"] == ids.iloc[0]).any()
        one = (ids if known else frame["text"]).iloc[0]
        return frame[frame["text"] == one].reset_index(drop=True)

    _draw_changed(section, study, first)


def check_one_head(section: Section, study: Study) -> None:
    """Law 21: one layer with one head."""
    tables = Frames.of(study)

    def alone(name: str, frame: pd.DataFrame) -> pd.DataFrame:
        for column in ("layer", "head", "other_layer", "other_head"):
            if column in frame and pd.api.types.is_numeric_dtype(frame[column]) and len(frame):
                frame = frame[frame[column] == frame[column].min()]
        return frame.reset_index(drop=True)

    small = {"n_layers": 1, "n_heads": 1}
    model = tables.manifest.get("model")  # none of a result of several models
    manifest = {**tables.manifest, "model": {**model, **small} if model else None}
    _draw(section, replace(tables.changed(alone), manifest=manifest))


def check_one_label(section: Section, study: Study) -> None:
    """Law 21: one label, and one answer of the model."""

    def alike(name: str, frame: pd.DataFrame) -> pd.DataFrame:
        if "label" in frame and frame["label"].dtype == object:
            frame = frame.assign(label="only")
        if "predicted" in frame and frame["predicted"].dtype == object and len(frame):
            answers = [one for one in dict.fromkeys(frame["predicted"]) if one not in CODES]
            frame = frame[frame["predicted"].isin([*CODES, *answers[:1]])]
        return frame.reset_index(drop=True)

    _draw_changed(section, study, alike)


def check_hostile_words(section: Section, study: Study) -> None:
    """Law 21: words, names and labels that are out to break a page."""
    _draw_changed(section, study, lambda name, frame: _hostile(frame, FREE))


def check_unknown_words(section: Section, study: Study) -> None:
    """Law 21: no value of any column of words is one that the section knows."""
    _draw_changed(section, study, lambda name, frame: _hostile(frame, frame.columns, ()))


def _hostile(
    frame: pd.DataFrame, columns: Collection[str], codes: Collection[str] = CODES
) -> pd.DataFrame:
    def broken(value: Any) -> Any:
        return value + HOSTILE if isinstance(value, str) and value not in codes else value

    words = [
        name
        for name in columns
        if name in frame and any(isinstance(one, str) for one in frame[name])
    ]
    out = frame.copy()
    for name in words:
        out[name] = frame[name].map(broken)
    return out


def _draw_changed(section: Section, study: Study, change: Change) -> None:
    """Draw a section with every table changed.

    If the change leaves the tables that it draws as they are, `check_it_draws_its_tables` drew it.
    """
    tables = Frames.of(study)
    changed = tables.changed(change)
    names = _drawn_tables(section, study)
    if any(not changed.frames[name].equals(tables.frames[name]) for name in names):
        _draw(section, changed)


@cache
def _drawn_tables(section: Section, study: Study) -> frozenset[str]:
    """Draw a section as it is: the names of the tables that it reads."""
    tables = Frames.of(study)
    _draw(section, tables)
    return frozenset(tables.frames.asked)


def _draw(section: Section, tables: Frames) -> None:
    """Draw all that a section has, and its page, and check that they are whole."""
    figures = _draw_alone(section, tables)
    for table in section.terminal(tables):
        print_table(table)
    tags = _Tags()
    tags.feed("".join(card._repr_html_() for card in _cards(section, tables)))
    tags.feed(render(tables, {"one": replace(section, figures=lambda _: figures)}))
    assert "attlas-hostile" not in tags.names, "a word was not escaped"
    assert tags.names.count("script") == SCRIPTS, "a word ends a script"


@dataclass(frozen=True)
class _Drawn:
    """A chart that was drawn already, which takes long: a page draws it as it is."""

    specification: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return self.specification


def _draw_alone(section: Section, tables: Frames) -> list[Figure]:
    """Draw all that a section has, without a page."""
    figures = []
    for figure in section.figures(tables):
        chart: Any = figure.chart
        if chart is not None:
            chart = _Drawn(chart.to_dict())
            json.dumps(chart.specification, allow_nan=False)
        figures.append(replace(figure, chart=chart))
        for part in (*figure.page, *figure.parts):
            json.dumps(part.data, allow_nan=False)
            for picture in part.pictures():
                ElementTree.fromstring(picture)
    found = section_findings(tables, "one", section)
    words = [*section.warnings(tables), *section.notes(tables)]
    for line in [*words, *(one.sentence for one in beyond_chance(found))]:
        assert line.strip() == line, line
        assert "\n" not in line, line
        assert not re.search(r"\bnan\b", line), line
    json.dumps([one.record() for one in found], allow_nan=False)
    _cards(section, tables)
    for table in section.terminal(tables):
        assert all(len(row) == len(table.titles) for row in table.rows), table.titles
    return figures


def _cards(section: Section, tables: Frames) -> list[HeadCard]:
    """The cards of the first and the last head, checked, and the data of those of all heads."""
    if not tables.manifest.get("model"):
        return []
    known = KnownHeads.of(tables, {"one": section})
    cards = [known.card(head) for head in (known.heads[0], known.heads[-1])]
    for card in cards:
        _check_card(card)
    assert HeadCards(known).data  # every number is JSON
    return cards


class _Tags(HTMLParser):
    """The names of all elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attributes: object) -> None:
        self.names.append(tag)


_DRAW = f"""
import contextlib, importlib, io, json, sys
from attlas.studies.opened import Study
from attlas.views.findings import summarize
from attlas.views.report import render
from attlas.views.terminal import print_table

heavy = {{}}
for name, (first, *others) in json.loads(sys.argv[1]).items():
    module = importlib.import_module(name)
    sections = getattr(module, "SECTIONS", None) or {{"one": module.SECTION}}
    study = Study.open(first)
    study = study.combined_with(*map(Study.open, others))
    render(study, sections)
    with contextlib.redirect_stdout(io.StringIO()):
        for table in summarize(study, sections).tables:
            print_table(table)
    heavy[name] = sorted({{one.partition(".")[0] for one in sys.modules}} & {{*{HEAVY!r}}})
print(json.dumps(heavy))
"""


def check_drawing_is_light(module: str, study: Study) -> None:
    """Law 21: the sections of a module draw a study without a model or a statistics library."""
    loaded = imported_to_draw({module: study})[module]
    assert not loaded, f"{module} imports {', '.join(loaded)} to draw"


def imported_to_draw(studies: Mapping[str, Study]) -> dict[str, list[str]]:
    """The heavy libraries that were imported when the sections of each module had drawn a study.

    One process of its own draws one after the other: what one imports counts for those after it.
    """
    for module in studies:
        importlib.import_module(module)
    folders = {
        module: [str(one.folder) for one in (study, *study.others)]
        for module, study in studies.items()
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", _DRAW, json.dumps(folders)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found
