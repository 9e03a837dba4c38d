"""Figures, tables and methods for papers: of the wanted size, named, and complete."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import attlas
from attlas.catalogue import sections
from attlas.models.look import TextAttention
from attlas.studies.opened import Study
from attlas.support.errors import AttlasError, StudyError
from attlas.support.heads import layer_and_head
from attlas.testing import tiny
from attlas.views.charts import DARK, head_grid, theme
from attlas.views.lines import FAINT
from attlas.views.matrix import MOST_CELLS, Matrix, matrix_svg, uniform_weights
from attlas.views.paper import PaperFigure, Size
from attlas.views.picture import fitted, heading_svg, legend_svg, stacked, svg_size
from attlas.views.report import write_charts, write_tables
from attlas.views.tables import TextTable, latex_text
from tests.builders.contrast import contrast, rgb
from tests.builders.pages import n_pictures

TEXTS = ["a good film , not bad .", "the dog saw a cat .", "it was a very bad film"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def study() -> Study:
    return attlas.study(tiny("bert"), TEXTS, "surface,entropy", workers=1, progress=False)


@pytest.fixture(scope="module")
def seen() -> TextAttention:
    return attlas.attention(tiny("bert"), "a good film , not <bad> & old .")


def figures(study: Study, seen: TextAttention) -> dict[str, PaperFigure]:
    return {
        "heads": study.heads("entropy"),
        "text": seen.shaded(),
        "one head": seen.shaded("L1H2"),
        "lines": seen.lines(1, 2),
        "matrix": seen.matrix("L1.H2"),
    }


def words(svg: str) -> str:
    return " ".join("".join(ElementTree.fromstring(svg).itertext()).split())


@pytest.mark.parametrize(("width", "font"), [("3.3in", 8), ("12cm", 10), ("500px", 6.5)])
def test_pictures_have_the_width_and_letters_that_were_asked_for(
    study: Study, seen: TextAttention, tmp_path: Path, width: str, font: float
) -> None:
    points = Size.of(width, font).width
    for name, figure in figures(study, seen).items():
        path = figure.save(tmp_path / f"{name}.svg", width, font)
        root = ElementTree.parse(path).getroot()
        assert float(root.attrib["width"].removesuffix("pt")) == pytest.approx(points, rel=1e-5)
        units = float(root.attrib["viewBox"].split()[2])
        sizes = {float(size) for size in re.findall(r'font-size="([\d.]+)', path.read_text())}
        assert {round(size * points / units, 3) for size in sizes} == {font}, name
        assert f"{SVG}image" not in {one.tag for one in root.iter()}


def test_a_pdf_and_a_png_are_as_wide_as_the_svg(
    study: Study, seen: TextAttention, tmp_path: Path
) -> None:
    for name, figure in figures(study, seen).items():
        pdf = figure.save(tmp_path / f"{name}.pdf", "3.3in", 8).read_bytes()
        box = re.search(rb"/MediaBox ?\[0 0 ([\d.]+)", pdf)
        assert box is not None
        assert float(box[1]) == pytest.approx(237.6, abs=0.01)
        assert b"/Font" in pdf
        assert b"/Subtype /Image" not in pdf
        png = figure.save(tmp_path / f"{name}.png", "3.3in", 8).read_bytes()
        assert struct.unpack(">I", png[16:20])[0] == 990  # 300 dots an inch


def test_pictures_name_what_they_show(study: Study, seen: TextAttention, tmp_path: Path) -> None:
    model = study.manifest["model"]["name"]
    for name, figure in figures(study, seen).items():
        said = words(figure.save(tmp_path / f"{name}.svg").read_text())
        assert model in said
        assert "uniform" in said  # the control, in the legend
        assert model in figure.caption
        assert "uniform attention" in figure.caption
        if name == "heads":
            assert "Attention entropy: entropy (nats)" in said
            assert "3 texts" in said
            assert "n = 3 texts" in figure.caption
            assert "coloured by" not in said
        else:
            assert f"a text of {len(seen.tokens)} tokens" in said
        if name in ("one head", "lines", "matrix"):
            assert "L1H2" in said
            assert "L1H2" in figure.caption
        if name in ("lines", "matrix"):
            assert said.count("film") == 2  # on both sides


def test_a_grid_is_saved_as_charts_are(study: Study, tmp_path: Path) -> None:
    figure = study.heads("surface.previous")
    assert "vega" in figure.save(tmp_path / "fig.html").read_text()
    assert '"shown"' in figure.save(tmp_path / "fig.json").read_text()
    with pytest.raises(StudyError, match=r"ends in '.gif'; name a file that ends in .svg"):
        figure.save(tmp_path / "fig.gif")


def test_the_numbers_of_a_grid_can_be_read_on_every_tint() -> None:
    """Letters are in the darkest tint, or in the lightest from a shade on."""
    stops = theme()["range"]["heatmap"]
    channels = np.array([rgb(one) for one in stops])
    at = np.linspace(0, 1, len(stops))
    for shade in np.linspace(0, 1, 101):
        ground = tuple(np.interp(shade, at, channel) for channel in channels.T)
        letters = stops[-1] if shade <= DARK else stops[0]
        assert contrast(ground, letters) > 3, shade


def test_a_grid_has_the_tints_of_the_report(study: Study, tmp_path: Path) -> None:
    frame = study.table("entropy")
    columns = sections()["entropy"].columns["entropy"]
    shades = {
        (row["layer"], row["head"]): row["shade"]
        for rows in head_grid(frame, columns).to_dict()["datasets"].values()
        for row in rows
        if row["column"] == "entropy"
    }
    spec: Any = study.heads("entropy").draw(400)
    drawn = {
        (row["layer"], row["head"]): row["shade"]
        for rows in spec["datasets"].values()
        for row in rows
    }
    assert drawn == shades
    cells = study.heads("entropy").table
    assert len(cells.rows) == study.n_layers
    assert all(len(row) == 1 + study.n_heads for row in cells.rows)
    value = frame[(frame["layer"] == 1) & (frame["head"] == 2)]["entropy"].item()
    assert float(cells.rows[1][3]) == pytest.approx(value, abs=0.005)


def test_columns_are_found_by_short_names(study: Study) -> None:
    assert study.heads("previous").caption == study.heads("surface.previous").caption
    assert study.heads("cls_entropy").caption.startswith("Attention entropy: entropy of [CLS]")
    with pytest.raises(StudyError, match=r"did you mean surface.previous\?") as error:
        study.heads("surface.prevous")
    assert "\n" not in str(error.value)
    assert "entropy.cls_entropy" in str(error.value)
    with pytest.raises(StudyError, match="there is no column 'entropy_uniform'"):
        study.heads("entropy_uniform")
    assert set(study.head_columns) == set(study.atlas()) - {"layer", "head"}


def test_figures_overwrite_only_with_force(study: Study, tmp_path: Path) -> None:
    figure, path = study.heads("entropy"), tmp_path / "fig2.pdf"
    path.with_suffix(".txt").write_text("mine")
    with pytest.raises(StudyError, match=r"fig2\.txt already exists"):
        figure.save(path, caption=True)
    assert not path.exists()
    figure.save(path, caption=True, force=True)
    assert path.with_suffix(".txt").read_text() == f"{figure.caption}\n"
    with pytest.raises(StudyError, match=r"fig2\.pdf already exists"):
        figure.save(path)


@pytest.mark.parametrize(
    ("width", "font", "message"),
    [
        ("3.3", 8, "width is '3.3'; give it in in, cm, mm, pt or px: 3.3in"),
        ("-3in", 8, "width is '-3in'"),
        ("3em", 8, "width is '3em'"),
        ("0.1in", 8, "from 1in to 40in"),
        ("9999in", 8, "from 1in to 40in"),
        ("3in", 0, "font is 0; it must be from 4 to 48"),
        ("3in", float("nan"), "it must be a number of points"),
        ("3in", "big", "it must be a number of points"),
        ("1in", 20, "no room for letters of 20 points; give at least 2.8in"),
    ],
)
def test_sizes_are_checked(width: str, font: Any, message: str) -> None:
    with pytest.raises(AttlasError, match=re.escape(message)):
        Size.of(width, font)


def test_notebooks_show_figures_isolated(seen: TextAttention) -> None:
    page = seen.matrix(0, 0)._repr_html_()
    assert "data:image/svg+xml;base64," in page
    assert "<svg" not in page


def test_lines_are_the_weights_above_uniform_attention(seen: TextAttention) -> None:
    svg: Any = seen.lines(1, 2).draw(400)
    weights = seen.weights[1, 2].double().numpy()
    n = len(seen.tokens)
    expected = sum(
        weights[query, key] > 1 / n and weights[query, key] >= FAINT
        for query in range(n)
        for key in range(n)
    )
    assert svg.count("<line ") == expected


def test_lines_say_that_faint_weights_have_none() -> None:
    """Of many tokens, uniform attention is below the faintest line."""
    few, many = (attlas.attention(tiny("bert"), "a cat . " * n).lines(1, 2) for n in (2, 20))
    faint = ", or below .02"
    assert [faint in one.caption for one in (few, many)] == [False, True]
    assert f"no line: uniform attention or less{faint}" in str(many.draw(400))


def test_a_matrix_starts_at_uniform_attention_over_what_a_query_sees() -> None:
    random = np.random.default_rng(0)
    weights = np.tril(random.random((2, 6, 6)) + 0.01)
    weights /= weights.sum(-1, keepdims=True)
    uniform = uniform_weights(weights)
    for query in range(6):
        for key in range(6):
            assert uniform[query, key] == (1 / (query + 1) if key <= query else 0)
    shades = Matrix(tuple("abcdef"), weights[0], uniform).shades
    for query in range(6):
        for key in range(6):
            assert (shades[query, key] > 0) == (weights[0, query, key] > uniform[query, key])
    assert shades.max() <= 1
    even = Matrix(tuple("abcdef"), uniform, uniform)
    assert not even.shades.any()


def test_cells_of_a_long_text_are_one_image() -> None:
    for n, images in ((MOST_CELLS, 0), (MOST_CELLS + 1, 1)):
        weights = np.full((n, n), 0.5 / n)
        weights[:, 0] = 0.5
        svg = matrix_svg(Matrix(("token",) * n, weights, np.full((n, n), 1 / n)), 400)
        tags = [one.tag for one in ElementTree.fromstring(svg).iter()]
        assert tags.count(f"{SVG}image") == images
        assert tags.count(f"{SVG}rect") == (1 if images else n + 1)
        assert tags.count(f"{SVG}text") <= 2 * 400 / 13


@given(st.text(max_size=40), st.text(max_size=200), st.floats(100, 2000))
@settings(max_examples=60)
def test_hostile_strings_make_whole_pictures(title: str, about: str, width: float) -> None:
    svg = stacked(heading_svg(title, [about], width), legend_svg(title, about, width))
    ElementTree.fromstring(svg)
    scaled = ElementTree.fromstring(fitted(svg, 100.0, "pt"))
    assert scaled.attrib["width"] == "100pt"
    across, down = svg_size(svg)
    assert float(scaled.attrib["height"][:-2]) == pytest.approx(100 * down / across, rel=1e-4)


def test_hostile_tokens_are_drawn(tmp_path: Path) -> None:
    seen = attlas.attention(tiny("bert"), "<script> & \u2028 \x01 漢字 'a' \"b\" film")
    for number, figure in enumerate((seen.shaded(), seen.lines(0, 0), seen.matrix(0, 0))):
        ElementTree.parse(figure.save(tmp_path / f"{number}.svg"))
        figure.save(tmp_path / f"{number}.pdf")


def test_heads_are_named_in_both_ways(seen: TextAttention) -> None:
    assert seen.matrix("L1H2").caption == seen.matrix(1, 2).caption
    assert layer_and_head("l1.h2") == (1, 2)
    for wrong in (("L1H2", 3), (2, "L1H2"), ("2.10", None), ("L1", None), ("L1H2", "L1H2")):
        with pytest.raises(AttlasError, match="L2H10"):
            layer_and_head(*wrong)
    with pytest.raises(AttlasError, match="there is no head 99; the model has heads 0 to"):
        seen.lines("L0H99")
    with pytest.raises(AttlasError, match="give one head"):
        seen.matrix(1)


def test_captions_name_every_file(study: Study, tmp_path: Path) -> None:
    paths = write_charts(study, sections(), tmp_path, "svg")
    assert len({*paths}) == len(paths) == n_pictures(study)
    assert all(path.read_bytes().startswith(b"<svg") for path in paths)
    captions = (tmp_path / "captions-svg.md").read_text()
    for path in paths:
        assert captions.count(f"**{path.name}**: ") == 1
    assert "Attention targets: previous token. Each cell is one head." in captions
    assert "Hover" not in captions
    assert captions.count("3 texts.") == len(paths)
    (tmp_path / "captions-svg.md").write_text("mine")
    with pytest.raises(StudyError, match=r"captions-svg.md already exists"):
        write_charts(study, sections(), tmp_path, "svg")


def test_tables_are_written_as_latex_and_csv(study: Study, tmp_path: Path) -> None:
    paths = write_tables(study, sections(), tmp_path)
    names = {path.name for path in paths}
    assert {"entropy-heads-entropy.tex", "surface-heads-sep-from-rest.csv"} <= names
    tex = (tmp_path / "surface-heads-sep-from-rest.tex").read_text()
    assert r"other tokens $\rightarrow$ [SEP]" in tex
    assert r"\label{tab:surface-heads-sep-from-rest}" in tex
    rows = (tmp_path / "entropy-heads-entropy.csv").read_text().splitlines()
    assert rows[0] == "," + ",".join(f"H{head}" for head in range(study.n_heads))
    assert len(rows) == 1 + study.n_layers
    write_tables(study, sections(), tmp_path)  # the same content again
    paths[0].write_text("mine")
    with pytest.raises(StudyError, match="already exists"):
        write_tables(study, sections(), tmp_path)
    write_tables(study, sections(), tmp_path, force=True)


def unescaped(tex: str) -> str:
    """What LaTeX shows of escaped text, by replacing each command with its letter."""
    commands = {r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^"}
    commands |= {r"\textless{}": "<", r"\textgreater{}": ">", r"\textbar{}": "|"}
    commands |= {f"\\{letter}": letter for letter in "&%$#_{}"}
    pattern = "|".join(map(re.escape, sorted(commands, key=len, reverse=True)))
    return re.sub(pattern, lambda found: commands[found[0]], tex)


@given(st.text(st.characters(codec="ascii"), max_size=40))
def test_escaped_text_is_read_back(string: str) -> None:
    escaped = latex_text(string)
    assert unescaped(escaped) == "".join(one if one >= " " else " " for one in string)
    assert not re.search(r"(?<!\\)[&%$#_]", re.sub(r"\\[&%$#_{}]", "", escaped))


CELLS = st.text(st.characters(codec="ascii"), max_size=12)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5), CELLS)
def test_a_latex_table_has_its_rows_and_columns(
    rows: list[tuple[str, str, str]], note: str
) -> None:
    lines = TextTable(("name", "[x]", "n"), tuple(rows), (True, True, False), note).latex()
    assert r"\begin{tabular}{@{}llr@{}}" in lines
    body = lines.split("\\midrule\n")[1].split("\\bottomrule")[0]
    ended = [row for row in body.split("\n") if row]
    assert len(ended) == len(rows)
    for row in ended:
        assert row.endswith(r" \\")
        assert len(re.findall(r"(?<!\\)&", row.replace("\\\\", ""))) == 2
        assert not row.lstrip().startswith(("[", "*"))  # an argument of the row before
    for one in ("toprule", "midrule", "bottomrule"):
        assert lines.count(f"\\{one}") == 1


def test_a_latex_table_with_a_caption_is_a_float() -> None:
    table = TextTable(("", "n"), (("[CLS]", "-.05\u00a0[-.10,\u00a0.02]"), ("*", "-")))
    tex = table.latex("50% of heads_", "tab:one")
    assert tex.startswith("% \\usepackage{booktabs}\n\\begin{table}\n\\centering\n")
    assert "\\caption{50\\% of heads\\_}\n\\label{tab:one}\n" in tex
    assert "{[}CLS] & $-$.05~[$-$.10,~.02] \\\\\n{*} & -- \\\\" in tex
    with pytest.raises(AttlasError, match="label is 'a b'"):
        table.latex("caption", "a b")
