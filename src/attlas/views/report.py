"""The report: one HTML file that opens offline, with every section that its tables allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attlas.support.files import write_bytes, write_errors
from attlas.support.fingerprint import versions
from attlas.support.options import checked
from attlas.support.outputs import CHARTS, FORMAT, MARKDOWN, PICTURES, TABLES, check_output
from attlas.views import charts
from attlas.views.all_heads import Drawn, all_heads
from attlas.views.card_parts import HeadCards
from attlas.views.claims import Finding
from attlas.views.dots import dot_svg
from attlas.views.findings import (
    about_source,
    beyond_chance,
    facts,
    findings,
    opening,
    origin,
    origins,
    section_findings,
    source,
    verdict_of,
    warnings,
)
from attlas.views.head_views import FINDER, HEADS, SCATTER
from attlas.views.heads import drawable, grid_table
from attlas.views.modules import page_scripts
from attlas.views.numbers import listed, number
from attlas.views.packing import deflated
from attlas.views.page import templates
from attlas.views.parts import Part
from attlas.views.picture import heading_svg, picture_bytes, stacked, svg_size
from attlas.views.placed import PageData, compressed
from attlas.views.section import Figure, Section, Tables, shown
from attlas.views.summary import made_from
from attlas.views.tables import TextTable
from attlas.views.vega import alt, vl_convert

Content = str | Mapping[str, Any]  # SVG or another text, or the specification of a chart
SCRIPTS = 5  # of a page: modules, data of views and of charts, the library of charts, one call
FRAME = "attlas/report.js"
ON_A_PAGE = r"(Hover|Click|Choose|Drag|Select)\b"  # how a sentence begins


@cache
def chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script: a page needs no network."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version))


@cache
def _bundle() -> str:
    """The library of charts, compressed."""
    return deflated(chart_library().encode())


def render(study: Tables, sections: Mapping[str, Section]) -> str:
    """The report as HTML."""
    together, found = origins(study, sections), findings(study, sections)
    page, able = PageData(), shown(study, sections)
    drawn = [(name, section, section.figures(study)) for name, section in able]
    heads, chosen = head_workbench(study, sections, drawn, opening(found), page)
    parts = section_parts(study, drawn, page, several=len(together) > 1)
    return (
        templates()
        .get_template("report.html")
        .render(
            title=report_title(together),
            headline=headline(study.manifest, _corpus(together[0]) if together[1:] else ""),
            others=others_line(together),
            facts=facts(study, sections),
            warnings=warnings(study, sections),
            findings=opening(found),
            finding_table=Markup(finding_table(opening(found)).html()),
            dots=dot_svg,
            several=len(together) > 1,
            heads=heads,
            groups=_grouped(parts),
            chart_data=chart_data(page),
            **page_scripts(page.views, {"head": chosen}, [FRAME]),
            names_heads=any(section.names_heads for _, section in able),
            library=_bundle(),
            version=versions()["attlas"],
            manifest=study.manifest,
            made_from=made_from(study),
        )
    )


def section_parts(
    study: Tables, drawn: Iterable[Drawn], page: PageData, *, several: bool
) -> list[dict[str, Any]]:
    """Sections with their words and figures, for the template `sections.html`.

    Each names its origin where there are `several`.
    """
    return [
        {
            **_section_words(study, name, section),
            "of": origin(source(study, section).manifest) if several else "",
            "figures": [page.figure(figure) for figure in figures],
        }
        for name, section, figures in drawn
    ]


def chart_data(page: PageData) -> str:
    """The charts of a page in both themes, compressed."""
    themes = {"light": charts.theme(), "dark": charts.theme(dark=True)}
    return compressed({"specs": page.specs, "themes": themes})


def head_workbench(
    study: Tables,
    sections: Mapping[str, Section],
    drawn: Sequence[Drawn],
    found: Sequence[Finding],
    page: PageData,
) -> tuple[dict[str, Any] | None, str]:
    """The pictures of all heads, which share the data of one grid, and the head chosen at first."""
    every = all_heads(study, sections, drawn, found)
    if every is None:
        return None, ""
    grid, card = every.grid, head_card_part(study, sections)
    at = page.number(grid)
    page.all_heads = at, grid
    of = {"of": HEADS.module}
    for view in (FINDER, SCATTER):
        page.views.setdefault(view, [])
    return {
        "title": f"{grid.layers * grid.heads:,} heads",
        "opening": Markup(HEADS.html(at, kind="compact")),
        "kinds": page.part(every.kinds) if every.kinds else "",
        "sentence": every.kinds.sentence if every.kinds else "",
        "grid": Markup(HEADS.html(at)),
        "finder": Markup(FINDER.html(at, options=of)),
        "scatter": Markup(SCATTER.html(at, options=of)),
        "tiles": page.part(every.tiles) if every.tiles else "",
        "card": page.part(card) if card else "",
    }, every.head


def head_card_part(study: Tables, sections: Mapping[str, Section]) -> Part | None:
    """The card of the chosen head, next to the grid; None if a page has none."""
    return HeadCards.of(study, sections)


def _grouped(parts: Iterable[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Sections by the heading that they are listed under, in the order of their first ones."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        groups.setdefault(part["group"], []).append(part)
    return list(groups.items())


def headline(manifest: Mapping[str, Any], corpus: str = "") -> str:
    """What was read, in one line; the corpus is named where a page has several.

    >>> about = {"model": {"n_layers": 6, "n_heads": 12}, "counts": {
    ...     "analysed": 1, "tokens": 9, "truncated": 0, "quarantined": 2}}
    >>> headline(about)
    '6 layers × 12 heads, 1 text, 9 tokens; none truncated, 2 excluded'
    >>> headline(about, "reviews.csv")
    '6 layers × 12 heads, 1 text of reviews.csv, 9 tokens; none truncated, 2 excluded'
    """
    model, counts = manifest.get("model") or {}, manifest["counts"]
    read = [f"{model['n_layers']} layers × {model['n_heads']} heads"] if model else []
    if "analysed" in counts:
        texts = counts["analysed"]
        of = f" of {corpus}" if corpus else ""
        read += [f"{texts:,} {'text' if texts == 1 else 'texts'}{of}"]
    if counts.get("tokens"):
        read += [f"{counts['tokens']:,} tokens"]
    lost = {"truncated": counts.get("truncated"), "excluded": counts.get("quarantined")}
    words = [f"{n:,} {what}" if n else f"none {what}" for what, n in lost.items() if n is not None]
    return "; ".join(filter(None, (", ".join(read), ", ".join(words))))


def finding_table(found: Iterable[Finding]) -> TextTable:
    """The findings with their numbers."""
    rows = []
    for one in found:
        low, high = one.ends
        control = f"{one.claim.control_name} {number(one.claim.control)}"
        ends = f"[{number(low)},\u00a0{number(high)}]"
        rows.append((one.claim.words, number(one.claim.value), ends, control, one.verdict))
    titles = ("finding", "value", "95% CI", "control", "verdict")
    return TextTable(titles, tuple(rows), (True, False, False, True, True))


def _section_words(study: Tables, name: str, section: Section) -> dict[str, Any]:
    """The words of a section: title, verdict, findings and notes."""
    found = section_findings(study, name, section)
    verdict = verdict_of(study, section, found)
    nothing = verdict == "nothing beyond chance"
    return {
        "name": name,
        "group": section.group,
        "title": section.title,
        "question": section.question,
        "about": section.about,
        "verdict": verdict,
        "folded": nothing,
        "comparisons": found[0].judged.comparisons if found else 0,
        "findings": beyond_chance(found),
        "nothing": found[0] if nothing and found else None,
        "at_chance": nothing and not found,
        "notes": section.notes(study),
    }


def report_title(origins: Sequence[str]) -> str:
    """What a report is of: a model on one or more corpora.

    >>> report_title(["bert on reviews.csv", "bert on ewt (32 texts)", "bert on ewt", "gpt on b"])
    'bert on reviews.csv and ewt'
    """
    model, on, _ = origins[0].partition(" on ")
    corpora = [_corpus(one) for one in origins if one.startswith(f"{model} on ")]
    return f"{model} on {listed(list(dict.fromkeys(corpora)))}" if on else model


def _corpus(origin: str) -> str:
    """The corpus of a result, also where it read a part of it."""
    return re.sub(r" \([\d,]+ texts?\)$", "", origin.partition(" on ")[2])


def others_line(origins: Sequence[str]) -> str:
    """The results of a report that are of other models.

    >>> others_line(["bert on reviews.csv", "bert on ewt", "gpt on b", "finetune on reviews.csv"])
    'Also on this page: gpt on b and finetune on reviews.csv'
    """
    model = origins[0].partition(" on ")[0]
    others = [one for one in origins if one != model and not one.startswith(f"{model} on ")]
    return f"Also on this page: {listed(others)}" if others else ""


def write_charts(
    study: Tables,
    sections: Mapping[str, Section],
    folder: Path,
    kind: str = "svg",
    *,
    force: bool = False,
) -> list[Path]:
    """Write every chart and every other picture of the report as a file of its own.

    A chart with a menu is one file for each choice, and each names what it shows. The file
    `captions-KIND.md` lists them with their captions. If one of the files already exists with
    other content, none is written, unless with `force`.
    """
    checked("format", kind, str, FORMAT)
    contents: dict[Path, Content] = {}
    captions = [f"# Captions: {report_title(origins(study, sections))}"]
    for name, section in shown(study, sections):
        about = about_source(source(study, section))
        for figure in section.figures(study):
            for end, content in _pictures(figure, section.title, about, kind).items():
                path = folder / f"{name}-{figure.name}{end}.{kind}"
                title = section.title if isinstance(content, str) else content["title"]["text"]
                contents[path] = content
                words = f"{title}. {printed(figure.caption)} {'; '.join(about)}."
                captions.append(f"**{path.name}**: {words}")
    notes = (
        {folder / f"captions-{kind}{MARKDOWN}": "\n\n".join([*captions, ""])} if contents else {}
    )
    _write_all(folder, {**contents, **notes}, (*CHARTS, MARKDOWN), force)
    return list(contents)


def _pictures(figure: Figure, title: str, about: Sequence[str], kind: str) -> dict[str, Content]:
    """The pictures of a figure by the ends of their names, each with what it shows inside it."""
    out: dict[str, Content] = {}
    if figure.chart is not None:
        interactive = kind in ("html", "json")
        specs = charts.titled_choices(figure.chart, title, about, interactive)
        out |= {f"-{choice}" if choice else "": spec for choice, spec in specs.items()}
    pictures = (picture for part in figure.parts for picture in part.pictures())
    for at, picture in enumerate(pictures if f".{kind}" in PICTURES else ()):
        out[f"-{at}"] = stacked(heading_svg(title, about, svg_size(picture)[0]), picture)
    return out


def printed(caption: str) -> str:
    """A caption without what holds on a page only.

    >>> printed("Each cell is one head. Hover for the value.")
    'Each cell is one head.'
    """
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z])", caption)
    return " ".join(one for one in sentences if not re.match(ON_A_PAGE, one))


def write_tables(
    study: Tables, sections: Mapping[str, Section], folder: Path, *, force: bool = False
) -> list[Path]:
    """Write every table of the report, and every column of heads, as LaTeX (booktabs) and CSV.

    Existing files are treated as those of `write_charts`.
    """
    contents: dict[Path, Content] = {}
    for name, section in shown(study, sections):
        about = "; ".join(about_source(source(study, section)))
        tables = {
            one.name: (f"{section.title}. {printed(one.caption)} {about}.", one.table)
            for one in section.figures(study)
            if one.table is not None
        }
        for table, columns in section.columns.items():
            frame = study.table(table) if study.has(table) else None
            for column in [] if frame is None else drawable(frame, columns):
                words = f"{section.title}: {column.title}. {about}."
                tables[f"heads-{charts.file_name(column.name)}"] = words, grid_table(frame, column)
        for end, (caption, one) in tables.items():
            path = folder / f"{name}-{end}"
            label = f"tab:{charts.file_name(path.name)}"
            contents[path.with_name(f"{path.name}.tex")] = one.latex(caption, label)
            contents[path.with_name(f"{path.name}.csv")] = one.csv()
    _write_all(folder, contents, TABLES, force)
    return list(contents)


def _write_all(
    folder: Path, contents: Mapping[Path, Content], endings: Sequence[str], force: bool
) -> None:
    """Write files, all or none: those that exist with the same content are left as they are."""
    missing = [path for path in contents if force or not _is_written(path, contents[path])]
    for path in missing:
        check_output(path, endings, force)
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        write_bytes(path, _bytes(contents[path], path.suffix))


def _is_written(path: Path, content: Content) -> bool:
    """Whether a file is there already, as an interrupted run leaves it."""
    if not path.is_file() or path.is_symlink():
        return False
    return path.read_bytes() == _bytes(content, path.suffix)


def _bytes(content: Content, suffix: str) -> bytes:
    """A picture, the specification of a chart, or a text, in a format."""
    if isinstance(content, str) and suffix not in PICTURES:
        return content.encode("utf-8", "replace")
    if isinstance(content, str):
        return picture_bytes(content, suffix[1:])
    return charts.spec_bytes(content, suffix)


def study_html(study: Tables, sections: Mapping[str, Section]) -> str:
    """The facts of the run and its findings, for a notebook."""
    if not study.manifest["tables"]:
        return f"<code>{escape(repr(study))}</code>"
    left = "style='text-align:left'"
    rows = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(value)}</td></tr>"
        for name, value in facts(study, sections)
    )
    said = [
        *(f"Warning: {line}" for line in warnings(study, sections)),
        *(f"{one.sentence} ({one.verdict})" for one in findings(study, sections)),
    ]
    lines = "".join(f"<li>{escape(line)}</li>" for line in said)
    return f"<table>{rows}</table><ul>{lines}</ul>"
