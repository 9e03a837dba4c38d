"""The report: one HTML file that opens offline. Each section draws its tables, or is left out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from markupsafe import Markup

from attlas.support.errors import AttlasError
from attlas.support.files import write_errors
from attlas.support.fingerprint import versions
from attlas.views import charts
from attlas.views.findings import facts, findings
from attlas.views.page import inline_json, templates
from attlas.views.parts import Drawing
from attlas.views.picture import write_picture
from attlas.views.section import Figure, Section, Tables, shown


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, without a network; its own tags harmless."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    return str(bundle).replace("</script", "<\\/script")


def render(study: Tables, sections: Mapping[str, Section]) -> str:
    """The report as HTML."""
    specs: list[dict[str, Any]] = []
    data: dict[Drawing, list[Any]] = {}
    parts = [
        {
            "name": name,
            "title": section.title,
            "about": section.about,
            "figures": [_numbered(figure, specs, data) for figure in section.figures(study)],
        }
        for name, section in shown(study, sections)
    ]
    drawings = [
        {
            "name": one.name,
            "call": Markup(one.call),
            "source": Markup(one.source),
            "css": Markup(one.css),
            "data": inline_json(data[one]),
        }
        for one in sorted(data, key=lambda drawing: drawing.name)
    ]
    page = templates().get_template("report.html")
    return page.render(
        title=report_title(study.manifest),
        facts=facts(study, sections),
        findings=findings(study, sections),
        parts=parts,
        specs=inline_json(specs),
        drawings=drawings,
        names_heads=any(section.names_heads for _, section in shown(study, sections)),
        themes=inline_json([charts.theme(), charts.theme(dark=True)]),
        bundle=Markup(_bundle()),
        version=versions()["attlas"],
        manifest=study.manifest,
    )


def _numbered(
    figure: Figure, specs: list[dict[str, Any]], data: dict[Drawing, list[Any]]
) -> dict[str, Any]:
    """A figure for the page; its chart and its parts are known by their numbers there."""
    chart = None
    if figure.chart is not None:
        chart = len(specs)
        specs.append(figure.chart.to_dict())
    drawn = []
    for part in figure.parts:
        known = data.setdefault(part.drawing, [])
        drawn.append(Markup(part.html(len(known))))
        known.append(part.data)
    html = Markup(figure.html)
    return {"caption": figure.caption, "chart": chart, "html": html, "parts": drawn}


def report_title(manifest: Mapping[str, Any]) -> str:
    """What a report is of: a model on a corpus."""
    model, corpus = manifest.get("model") or {}, manifest["corpus"]["name"]
    return f"{model['name']} on {corpus}" if model else str(corpus)


def write_charts(
    study: Tables, sections: Mapping[str, Section], folder: Path, kind: str = "svg"
) -> list[Path]:
    """Write every chart and every other picture of the report as a file of its own."""
    if kind not in charts.FORMATS:
        raise AttlasError(f"a chart is written as {', '.join(charts.FORMATS)}, not as {kind!r}")
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    out = []
    for name, section in shown(study, sections):
        for figure in section.figures(study):
            path = folder / f"{name}-{figure.name}"
            if figure.chart is not None:
                out.append(charts.export(figure.chart, path.with_name(f"{path.name}.{kind}")))
            pictures = [picture for part in figure.parts for picture in part.pictures()]
            for place, picture in enumerate(pictures):
                out += write_picture(picture, path.with_name(f"{path.name}-{place}"), kind)
    return out


def study_html(study: Tables, sections: Mapping[str, Section]) -> str:
    """What was read and what stands out, for a notebook."""
    if not study.manifest["tables"]:
        return f"<code>{escape(repr(study))}</code>"
    left = "style='text-align:left'"
    rows = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(value)}</td></tr>"
        for name, value in facts(study, sections)
    )
    lines = "".join(f"<li>{escape(line)}</li>" for line in findings(study, sections))
    return f"<table>{rows}</table><ul>{lines}</ul>"
