"""The laws of pictures: labels instead of column names, colour by kind, and what they show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from attlas.studies.opened import Study
from attlas.views.charts import chart_spec, titled_choices
from attlas.views.findings import origin, source
from attlas.views.section import Figure, Section

TITLED = ("x", "y", "color", "tooltip")  # channels whose field a reader would see as a name
SHADES = ("shade", "ink")  # fields of colours that `views.shades` makes


def check_columns_have_labels(section: Section, study: Study) -> None:
    """No column name reaches a reader: axes, legends, tooltips, menus and tables have labels."""
    for figure, spec in _specs(section, study):
        for channel, one in _encodings(spec):
            if channel not in TITLED or "field" not in one or _is_bare(channel, one):
                continue
            named = "title" in one
            assert named, f"{figure.name}: {channel} shows the column {one['field']!r} unlabelled"
            assert "_" not in json.dumps(one["title"]), f"{figure.name}: {one['title']}"
        for menu in _menus(spec):
            labels = menu["bind"].get("labels") or menu["bind"]["options"]
            assert not [label for label in labels if "_" in str(label)], (figure.name, labels)
    tables = [one.table for one in section_figures(section, study) if one.table is not None]
    for table in [*tables, *section.terminal(study)]:
        assert not [title for title in table.titles if "_" in title], table.titles


def check_colour_follows_kind(section: Section, study: Study) -> None:
    """Every scale of amounts is made by `views.shades`, and its legend has the control."""
    for figure, spec in _specs(section, study):
        for channel, one in _encodings(spec):
            if channel != "color" or one.get("type") != "quantitative":
                continue
            assert one["field"] in SHADES, f"{figure.name}: colour by {one['field']} has no kind"
            says = json.dumps([one.get("title"), _titles(spec)])
            assert "tint " in says or "plain scale" in says, f"{figure.name}: {says}"
            assert one["legend"]["labelExpr"], figure.name


def check_pictures_say_what_they_show(section: Section, study: Study) -> None:
    """An exported chart names its section, its choice, the model and the corpus; all choices are
    exported."""
    tables = source(study, section)
    about = [origin(tables.manifest)]
    for figure, whole in _specs(section, study):
        assert figure.chart is not None
        menus = list(_menus(whole))
        specs = titled_choices(figure.chart, section.title, about)
        count = 1
        for menu in menus:
            count *= len(menu["bind"]["options"])
        assert len(specs) == count, f"{figure.name}: {len(specs)} of {count} choices"
        titles = [spec["title"]["text"] for spec in specs.values()]
        assert all(str(title).startswith(section.title) for title in titles)
        assert len({str(title) for title in titles}) == count, titles
        assert all(spec["title"]["subtitle"] == about for spec in specs.values())


@cache
def section_figures(section: Section, study: Study) -> tuple[Figure, ...]:
    """The figures of a section, made once for all laws that look at them."""
    return tuple(section.figures(study))


@cache
def _specs(section: Section, study: Study) -> tuple[tuple[Figure, dict[str, Any]], ...]:
    """Every figure with a chart, and the specification of that."""
    figures = section_figures(section, study)
    return tuple((one, chart_spec(one.chart)) for one in figures if one.chart is not None)


def _encodings(
    spec: Any, titles: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every channel of every view with what it encodes; layers share their titles."""
    for channel, one in spec.get("encoding", {}).items():
        for each in one if isinstance(one, list) else [one]:
            shared = {"title": titles[channel]} if channel in titles else {}
            yield channel, {**shared, **each}
    layers = spec.get("layer", [])
    shared = {
        channel: one["title"]
        for layer in layers
        for channel, one in layer.get("encoding", {}).items()
        if channel in ("x", "y") and "title" in one
    }
    for layer in layers:
        yield from _encodings(layer, shared)
    for part in _parts(spec):
        yield from _encodings(part)


def _parts(spec: Mapping[str, Any]) -> list[Any]:
    """The views side by side or one below the other."""
    return [one for name in ("hconcat", "vconcat", "concat") for one in spec.get(name, [])]


def _is_bare(channel: str, one: Mapping[str, Any]) -> bool:
    """Whether a channel has neither an axis nor a legend."""
    return channel != "tooltip" and one.get("axis" if channel in "xy" else "legend", 0) is None


def _menus(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for one in spec.get("params", []):
        if isinstance(one.get("bind"), dict) and one["bind"].get("input") == "select":
            yield one


def _titles(spec: Mapping[str, Any]) -> list[Any]:
    """The titles of a chart and of its parts."""
    return [spec.get("title"), *(title for part in _parts(spec) for title in _titles(part))]
