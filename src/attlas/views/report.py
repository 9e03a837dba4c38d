"""The report: one HTML file that opens offline. Sections are registered; each draws the tables it needs or is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

import altair as alt
import jinja2
import vl_convert
from markupsafe import Markup

from attlas import __version__
from attlas.core.errors import AttlasError
from attlas.core.files import write_bytes, writing
from attlas.core.registry import Registry
from attlas.studies.opened import Study
from attlas.views import charts
from attlas.views.findings import facts, findings
from attlas.views.overlay import tinted

EXAMPLE_TEXTS = 6


@dataclass(frozen=True)
class Figure:
    """A chart or a piece of HTML with the sentence that says what it shows."""

    caption: str
    chart: alt.TopLevelMixin | None = None
    html: str = ""

    @property
    def name(self) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in self.caption.split(":")[0].lower())[:40].strip(
            "-"
        )


@dataclass(frozen=True)
class Section:
    """A part of the report: what it answers, how it was computed and what to be careful about."""

    title: str
    needs: tuple[str, ...]
    about: str
    figures: Callable[[Study], list[Figure]]


SECTIONS: Registry[Section] = Registry("section")


def _surface(study: Study) -> list[Figure]:
    return [
        Figure(
            "Attention to simple targets: each cell a head, hover for its value and what uniform attention would give.",
            charts.head_grid(study.table("surface"), first="previous"),
        )
    ]


def _entropy(study: Study) -> list[Figure]:
    out = [
        Figure(
            "Entropy: low is a head that picks few tokens, high one that spreads over many; the grey tick is uniform attention.",
            charts.head_grid(
                study.table("entropy"),
                ["entropy", *(["cls_entropy"] if study.table("entropy")["cls_entropy"].notna().any() else [])],
            ),
        )
    ]
    if study.has("entropy_histogram"):
        out.append(
            Figure(
                "Rows by how spread out they are: each layer's rows from all on one token (0) to uniform (1).",
                charts.spread_by_layer(study.table("entropy_histogram")),
            )
        )
    return out


def _positions(study: Study) -> list[Figure]:
    return [
        Figure(
            "How far heads look: each row a head, each column an offset from the token (negative is to the left).",
            charts.offset_profiles(study.table("positions")),
        )
    ]


def _totals(study: Study) -> list[Figure]:
    views = ["all", *(f"L{layer}" for layer in range(study.n_layers))]
    names = ["all layers", *(f"layer {layer}" for layer in range(study.n_layers))]
    options = "".join(f'<option value="{number}">{name}</option>' for number, name in enumerate(names))
    blocks = []
    for group, row in study.sample(EXAMPLE_TEXTS):
        overlay = tinted(row["content"], study.tokens("totals", group, row["text"]), views)
        label = f" · {escape(row['label'])}" if row["label"] else ""
        blocks.append(
            f'<div class="text"><div class="id">{escape(row["text"])}{label}</div><p dir="auto">{overlay.html}</p></div>'
        )
    control = f'<label class="tints">tint by <select data-tints>{options}</select></label>'
    caption = "Attention received: darker tokens receive more (sum over queries, mean over heads); hover for numbers."
    return [Figure(caption, html=control + "".join(blocks))]


def _grid_of(table: str, caption: str, first: str | None = None) -> Callable[[Study], list[Figure]]:
    def figures(study: Study) -> list[Figure]:
        frame = study.table(table).drop(columns=["texts", "h1_texts"], errors="ignore")
        return [Figure(caption, charts.head_grid(frame, first=first if first in frame else None))]

    return figures


def _barcode(study: Study) -> list[Figure]:
    frame = study.table("barcode_heads")
    with_holes, texts = int(frame["h1_texts"].max()), int(frame["texts"].max())
    holes = f"The numbers of holes (h1) are of the {with_holes:,} of {texts:,} texts that are short enough for them."
    caption = f"Bars of the Rips complex: means over texts. {holes if with_holes else 'Holes (h1) were not sought.'}"
    return _grid_of("barcode_heads", caption, "h0_sum")(study)


def _topology(study: Study) -> list[Figure]:
    scores = study.table("topology")
    return [
        Figure("Scores on the test texts: dots with 95 % intervals of a bootstrap over texts.", charts.classifier_scores(scores)),
        Figure("Single heads: a classifier on the features of each head alone, scored on the texts it was fitted on and on the test texts.", charts.head_maps(study.table("topology_heads"))),
        Figure("Chosen on dev: the path of the solver for each C; stopping early regularises.", charts.chosen_on_dev(study.table("topology_grid"))),
    ]  # fmt: skip


SECTIONS.register("topology", Section(
    "What the shape of attention tells", ("topology", "topology_heads", "topology_grid"),
    "A logistic regression on topological features of the attention graphs of every head, after Kushnareva et al. (arXiv 2207.01903): no token, no position, no direction, only how many pieces and cycles a "
    "graph has. Controls: the same features of the model before fine-tuning and of the same network with random weights, and the length of the text alone. If the classifier was fitted on texts the model was "
    "fine-tuned on, its features look better separated there than on fresh texts: fit it on texts held out (attlas finetune --hold-out) to see.", _topology), "Does the shape of attention tell labels apart?")  # fmt: skip
SECTIONS.register("surface", Section(
    "Where heads look", ("surface",),
    "The mean share of a row's attention that goes to the token itself, its neighbours, the first token, [CLS], [SEP], and full stops and commas, after Clark et al. 2019 "
    "(sections 3.1 and 3.2); every text weighs the same. The grey number is the control: uniform attention over the tokens a query can see. A head that gives much to [SEP] may be doing "
    "nothing at all: attention there often changes the output little.", _surface), "Where do heads look?")  # fmt: skip
SECTIONS.register("entropy", Section(
    "Focus and breadth", ("entropy",),
    "The entropy of a row of attention in nats, averaged over rows and texts (Clark et al. 2019, section 3.3), and of the [CLS] row alone. The control is ln of the number of tokens "
    "a row can see. Longer texts allow more entropy: compare heads, not corpora.", _entropy), "Do heads attend to few tokens or many?")  # fmt: skip
SECTIONS.register("positions", Section(
    "Near and far", ("positions",),
    "The mean share of a row's attention at each offset, key minus query. Short texts have few far tokens, so the control on hover is uniform attention over the same texts.", _positions), "How far do heads look?")  # fmt: skip
SECTIONS.register("totals", Section(
    "Which tokens receive attention", ("totals", "texts"),
    "Column sums of attention, averaged over heads; uniform attention would give every token 1 in a model that sees the whole text. The darkest tint is the text's largest value among "
    "ordinary tokens; special tokens often exceed it. Attention received is not importance for the model's output.", _totals), "Which tokens receive attention?")  # fmt: skip


SECTIONS.register("betti", Section(
    "Pieces and cycles", ("betti_heads",),
    "Two tokens are joined in a head's graph if either attends to the other with at least the threshold's weight; b0@0.1 is the mean number of connected pieces at threshold 0.1, b1@0.1 that of independent cycles, loops "
    "included (arXiv 2207.01903). Longer texts have more of both: the control is uniform attention over the same texts.", _grid_of("betti_heads", "Betti numbers: each cell a head's mean over texts at a threshold.", "b0@0.1")), "What shape have attention graphs?")  # fmt: skip
SECTIONS.register("digraph", Section(
    "Graphs with direction", ("digraph_heads",),
    "The same graphs with their direction: strongly connected components, edges, mean degree, simple directed cycles (counted up to a cap, so that a large mean says at least so many), and pairs of tokens that attend to each other.",
    _grid_of("digraph_heads", "Directed invariants: each cell a head's mean over texts at a threshold.", "edges@0.1")), "What shape have directed attention graphs?")  # fmt: skip
SECTIONS.register("barcode", Section(
    "Bars", ("barcode_heads",),
    "Tokens as points at distance 1 - weight: h0 bars end where pieces join, h1 bars are holes that open and are filled by triangles (so not the cycles of Betti numbers). Sums, entropies and counts as in Kushnareva et al. 2021.", _barcode), "At which distances do graphs join and close?")  # fmt: skip
SECTIONS.register("templates", Section(
    "Distance from simple patterns", ("templates_heads",),
    "The Frobenius distance of each head's weights from a pattern, 0 if equal and 1 if they share nothing: itself, the first, previous or next token, and rows spread evenly over commas, full stops or separators. Low is near.",
    _grid_of("templates_heads", "Distance from patterns: each cell a head's mean over texts; low is near.", "previous")), "How near are heads to simple patterns?")  # fmt: skip


def sections(study: Study) -> list[tuple[str, Section]]:
    """The sections this study has tables for."""
    return [(name, SECTIONS[name]) for name in SECTIONS if all(study.has(table) for table in SECTIONS[name].needs)]


@cache
def templates() -> jinja2.Environment:
    """The page templates; everything put into them is escaped."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("attlas.views"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, without a network; its own closing tags made harmless."""
    return str(
        vl_convert.javascript_bundle(
            "window.vegaEmbed = vegaEmbed;", vl_version=".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
        )
    ).replace("</script", "<\\/script")


def _inline_json(content: object) -> Markup:
    """JSON that can stand inside a script element."""
    return Markup(
        json.dumps(content, ensure_ascii=False)
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def render(study: Study) -> str:
    """The report as HTML."""
    specs: list[dict[str, object]] = []
    parts = []
    for name, section in sections(study):
        figures = []
        for figure in section.figures(study):
            chart = None
            if figure.chart is not None:
                chart = len(specs)
                specs.append(figure.chart.to_dict())
            figures.append({"caption": figure.caption, "chart": chart, "html": Markup(figure.html)})
        parts.append({"name": name, "title": section.title, "about": section.about, "figures": figures})
    return templates().get_template("report.html").render(
        title=f"{study.manifest['model']['name']} on {study.manifest['corpus']['name']}",
        facts=facts(study), findings=findings(study), parts=parts, specs=_inline_json(specs), themes=_inline_json([charts.theme(), charts.theme(dark=True)]), bundle=Markup(_bundle()), version=__version__, manifest=study.manifest,
    )  # fmt: skip


def write_report(study: Study, path: Path) -> Path:
    """Write the report to a file, whole or not at all."""
    if path.is_dir():
        path = path / "report.html"
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, render(study).encode("utf-8", "replace"))
    return path


def write_charts(study: Study, folder: Path, kind: str = "svg") -> list[Path]:
    """Write every chart of the report as a file of its own."""
    if kind not in charts.FORMATS:
        raise AttlasError(f"a chart is written as {', '.join(charts.FORMATS)}, not as {kind!r}")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return [
        charts.export(figure.chart, folder / f"{name}-{figure.name}.{kind}")
        for name, section in sections(study)
        for figure in section.figures(study)
        if figure.chart is not None
    ]


def study_html(study: Study) -> str:
    """A study in a notebook: what was read and what stands out."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in facts(study)
    )
    return f"<table>{rows}</table><ul>{''.join(f'<li>{escape(line)}</li>' for line in findings(study))}</ul>"
