"""The public functions that resolve names, and how a study draws itself.

Names of models, measures, folders of studies and sections of subjects are resolved here and in
`cli`; below, functions take the things themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from attlas.studies.opened import Pages, Study
from attlas.support.errors import StudyError

if TYPE_CHECKING:
    from attlas.core.measure import Measure
    from attlas.core.text import Text
    from attlas.models.look import TextAttention
    from attlas.views.cards import HeadCard
    from attlas.views.notebook import Panel, Shown
    from attlas.views.paper import Interactive, PaperFigure


class StudyKeywords(TypedDict, total=False):
    """How a study is run; the defaults are those of `attlas.studies.run.StudyOptions`."""

    engine: str  # "local"
    workers: int | None  # the number of cores
    long: str  # "truncate" or "error"
    bad: str  # "quarantine" or "error"
    fresh: bool
    keep_states: bool
    seed: int
    progress: bool | None
    until: float | None  # read everything


def study(
    model: Any = None,
    texts: Any = "embedded:all",
    measures: str | Measure[Any] | Iterable[str | Measure[Any]] = "all",
    out: str | Path | None = None,
    *,
    text: str | None = None,
    label: str | None = None,
    by: str | None = None,
    **options: Unpack[StudyKeywords],
) -> Study:
    """Run measures over a corpus and write their tables to `out`; interrupted, it resumes.

    `model` is anything `attlas.load` takes, `texts` anything `attlas.read` takes, `measures` names
    or measures. A text longer than the model is truncated and counted, or refused with
    `long="error"`; a row that is not a text goes to quarantine, or ends the study with
    `bad="error"`. `fresh` clears what an earlier study wrote to the folder, and nothing else. With
    `until=0.02` reading stops when the 95% intervals of all shares of attention, those of the
    measure `surface`, reach at most 0.02 to each side.
    Further keywords are `engine`, `workers`, `keep_states`, `seed` and `progress`. Without `out`
    the study lives in a temporary folder as long as the result does.

    With `by` (`label`, `prediction` for right and wrong ones, or a column of the data) every table
    of heads is made for each group of texts, and groups are compared: see `attlas.Groups`.
    """
    from attlas.catalogue import measures_of
    from attlas.corpora import read
    from attlas.groups.experiment import check_groups
    from attlas.studies.run import study as run_study

    if by is not None:
        check_groups(by, options.pop("until", None))
        named = {"text": text, "label": label, "by": by}
        return _compared(model, texts, measures_of(measures), out, {**named, **options})
    corpus = read(texts, text=text, label=label)
    return run_study(model, corpus, measures_of(measures), out, **options)


def _compared(
    model: Any,
    texts: Any,
    measures: Iterable[Measure[Any]],
    out: str | Path | None,
    options: dict[str, Any],
) -> Study:
    """Compare groups of texts; fields of the experiment are among the options."""
    from attlas.experiments.run import run
    from attlas.groups.experiment import Groups
    from attlas.support.options import declared

    own = {name: options[name] for name in declared(Groups) if name in options}
    how = {name: value for name, value in options.items() if name not in own}
    return run(Groups(data=texts, model=model, measures=measures, **own), out, **how)


def attention(
    model: Any,
    text: str | Text,
    importance: Any = None,
    *,
    matrix: str | Iterable[str] = (),
    matrix_tokens: int = 1_024,
) -> TextAttention:
    """The attention of one text in all layers; `model` is anything `attlas.load` takes.

    All weights are kept if they take at most a gigabyte; of longer texts what each token receives,
    the pattern of each head and the words that go with each word. `importance` is a study with that
    measure, its folder, or a table [layer, head]: it adds a view with heads weighted by it.
    `matrix` names heads, such as "L2H8,L0H2", whose weights between the first `matrix_tokens`
    tokens (at most 4,096) the page shows as matrices.
    """
    from attlas.explain.importance import importance_grid
    from attlas.models import load
    from attlas.models.look import attention as look

    grid = importance_grid(importance)
    return look(load(model), text, grid, matrix=matrix, matrix_tokens=matrix_tokens)


def _compare(
    study: Study, others: tuple[Any, ...], out: str | Path | None, options: dict[str, Any]
) -> Study:
    from attlas.compare.experiment import Compare
    from attlas.experiments.run import run
    from attlas.support.options import declared

    own = {name: options.pop(name) for name in declared(Compare) if name in options}
    return run(Compare(studies=[study, *others], **own), out, **options)


def _report(study: Study) -> str:
    from attlas.catalogue import sections
    from attlas.views.report import render

    return render(study, sections())


def _notebook(study: Study) -> str:
    from attlas.catalogue import sections
    from attlas.views.report import study_html

    return study_html(study, sections())


def _card(study: Study, layer: int, head: int) -> HeadCard:
    from attlas.catalogue import sections
    from attlas.views.cards import head_card

    return replace(head_card(study, sections(), layer, head), selection=study.selection)


def _heads(study: Study, column: str | None) -> PaperFigure:
    from attlas.catalogue import sections
    from attlas.views.heads import heads_figure
    from attlas.views.study_views import heads_interactive

    def interactive(name: str) -> Interactive:
        return heads_interactive(study, sections(), study.selection, name, column is not None)

    return heads_figure(study, sections(), study.head_columns, column, interactive)


def _methods(study: Study) -> str:
    from attlas.catalogue import methods_of
    from attlas.views.methods import methods_text

    return methods_text(study.manifest, methods_of(study.manifest))


def _panel(study: Study) -> Panel:
    from attlas.catalogue import sections
    from attlas.views.study_views import study_panel

    return study_panel(study, sections(), study.selection)


def _text(study: Study, text: str, model: Any) -> Shown:
    from attlas.measures.section import rows_overlay
    from attlas.views.study_views import StudyText

    if model is not None:
        return _read_anew(study, text, model)
    row = study.text_row(text)
    if not study.has("totals"):
        raise StudyError(
            "this study has no table totals, which shades a text; run it with --measures totals, "
            f"or give its model: study.text({text!r}, model=...)"
        )
    shown = rows_overlay(study, row, study.table("totals", text=text))
    title = " · ".join(str(one) for one in (row["text"], row["label"]) if one)
    return StudyText(title, shown, study.selection)


def _matrix(study: Study, text: str, head: str, model: Any) -> PaperFigure:
    return _read_anew(study, text, model).matrix(head)


def _read_anew(study: Study, text: str, model: Any) -> TextAttention:
    """The attention of one text of a study, with the model that it was made with."""
    from attlas.core.text import Text
    from attlas.models import load
    from attlas.views.numbers import listed

    known = study.manifest["model"]
    row, loaded = study.text_row(text), load(model, task=known.get("task", "base"))
    if others := study.differences_of_model(loaded.identity()):
        raise StudyError(
            f"{loaded.name} differs from {known['name']}, the model of this study, in "
            f"{listed(others)}"
        )
    seen = attention(loaded, Text(text, row["content"], row["label"]))
    return replace(seen, selection=study.selection)


Study.comparison = staticmethod(_compare)
Study.pages = Pages(
    report=_report,
    notebook=_notebook,
    card=_card,
    heads=_heads,
    methods=_methods,
    text=_text,
    matrix=_matrix,
    panel=_panel,
)
