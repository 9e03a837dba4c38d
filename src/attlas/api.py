"""The public functions that resolve names, and how a study draws itself.

Names of models, folders of studies and sections of subjects are resolved here and in `cli`; below,
functions take the things themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attlas.studies.opened import Pages, Study

if TYPE_CHECKING:
    from attlas.core.text import Text
    from attlas.models.look import TextAttention


def attention(model: Any, text: str | Text, importance: Any = None) -> TextAttention:
    """The attention of one text in all layers; `model` is anything `attlas.load` takes.

    All weights are kept if they take at most a gigabyte; of longer texts what each token receives,
    the pattern of each head and the words that go with each word. `importance` is a study with that
    measure, its folder, or a table [layer, head]: it adds a view with heads weighted by it.
    """
    from attlas.explain.importance import importance_grid
    from attlas.models import load
    from attlas.models.look import attention as look

    return look(load(model), text, importance_grid(importance))


def _report(study: Study) -> str:
    from attlas.catalogue import sections
    from attlas.views.report import render

    return render(study, sections())


def _notebook(study: Study) -> str:
    from attlas.catalogue import sections
    from attlas.views.report import study_html

    return study_html(study, sections())


Study.pages = Pages(report=_report, notebook=_notebook)
