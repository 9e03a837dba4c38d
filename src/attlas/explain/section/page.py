"""One explanation to look at: a page, a frame in a notebook, a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from attlas.explain.section.aligned import AlignedTexts, explanation_text
from attlas.explain.section.findings import named
from attlas.explain.section.picture import aligned_svg
from attlas.explain.section.texts import explained_line, is_signed, tints_line
from attlas.support.files import write_bytes
from attlas.support.outputs import PAGE, PICTURES, check_output
from attlas.views.modules import page_scripts
from attlas.views.notebook import NOT_STORED, Panel, picture_html
from attlas.views.numbers import decimal
from attlas.views.overlay import Overlay, score_overlay
from attlas.views.page import framed, templates
from attlas.views.parts import TEXT, TintedText
from attlas.views.picture import stacked, tinted_svg, write_picture

if TYPE_CHECKING:
    from attlas.explain.explanation import Explanation


def explanation_overlay(explanation: Explanation) -> Overlay:
    """One text shaded by the scores of its words; its parts too, where they were asked for."""
    scores = {explanation.method: explanation.scores, **explanation.parts}
    signed = dict.fromkeys(scores, is_signed(explanation.method))
    frame, content = explanation.to_frame(), explanation.text.text
    shown = score_overlay(content, frame, scores, signed, explanation.word_of)
    return replace(shown, says=tints_line(explanation.method))


def explanation_header(explanation: Explanation) -> str:
    """What was explained of one text and how well."""
    names = ("predicted", "probability", "target", "value", "total", "gap", "converged")
    row = {name: getattr(explanation, name) for name in (*names, "evaluations")}
    label, baseline = explanation.text.label, explanation.baseline_value
    return explained_line({**row, "label": label, "baseline": baseline}, explanation.of)


def explanation_page(explanation: Explanation) -> str:
    """A page that needs nothing else."""
    drawn = explanation_overlay(explanation)
    aligned = AlignedTexts((explanation_text(explanation),))
    page = templates(__package__ or "").get_template("explained.html")
    return page.render(
        words=Markup(TEXT.html(0, drawn.html, "words")),
        aligned=Markup(aligned.html(0)),
        **page_scripts({TEXT: [drawn.data], aligned.view: [aligned.data]}),
        headline=(
            f"What does {explanation.target} ({explanation.of} {decimal(explanation.value)}) "
            "depend on?"
        ),
        title=explanation_header(explanation),
        model=explanation.model,
        method=named(explanation.method),
    )


def explanation_html(explanation: Explanation) -> str:
    """An explanation in a notebook, in a frame of its own."""
    return framed(explanation_page(explanation), len(explanation.text.text))


def explanation_panel(explanation: Explanation) -> Panel:
    """An explanation in a notebook: the shaded text, and attention above attribution."""
    drawn, aligned = explanation_overlay(explanation), explanation_text(explanation)
    predicts_token = explanation.position is not None  # which is a word

    def picture(words: bool) -> str:
        shown = drawn if words else drawn.without_words
        svg = stacked(tinted_svg(shown), aligned_svg(aligned)) if words else tinted_svg(shown)
        caption = f"{named(explanation.method)} of {explanation.model}"
        about = explanation_header(explanation) if words or not predicts_token else caption
        return picture_html(svg, about, "" if words else NOT_STORED)

    return Panel(
        (TintedText(explanation.text.id, drawn), AlignedTexts((aligned,))),
        picture,
        lambda: explanation_page(explanation),
        explanation.selection,
        "" if predicts_token else explanation_header(explanation),
        ("", "attlas-explanation"),
    )


def write_explanation(explanation: Explanation, path: str | Path, *, force: bool = False) -> Path:
    """Write the page to a file; to .svg, .png or .pdf, a picture of the shaded text."""
    path = check_output(path, (PAGE, *PICTURES), force)
    if path.suffix in PICTURES:
        shown = tinted_svg(explanation_overlay(explanation), explanation_header(explanation))
        svg = stacked(shown, aligned_svg(explanation_text(explanation)))
        return write_picture(svg, path.with_suffix(""), path.suffix[1:])[0]
    write_bytes(path, explanation_page(explanation).encode("utf-8", "replace"))
    return path
