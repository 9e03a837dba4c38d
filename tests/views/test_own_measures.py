"""A user's own measure, by class or instance, is in the report of the study that ran it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

import attlas
from attlas.catalogue import sections
from attlas.core.attention import Attention
from attlas.core.measure import Measure, Shape, head_frame
from attlas.core.states import Moments, State
from attlas.studies.opened import Study
from attlas.views.section import shown
from tests.builders.models import tiny

TEXTS = ["the cat sat on it", "a cat saw the mat"] * 3


@dataclass
class FirstState(State):
    first: Moments  # layer head


@dataclass(frozen=True, kw_only=True)
class First(Measure[FirstState]):
    """How much do heads attend to the first token?"""

    name: ClassVar[str] = "first_token"
    kinds: ClassVar[dict[str, str]] = {"first": "above"}

    def start(self, model: Shape) -> FirstState:
        return FirstState(Moments.zeros(model.n_layers, model.n_heads))

    def update(self, state: FirstState, layer: Attention) -> None:
        state.first.add(layer.index, layer.dense().weights[..., 0].mean(-1))

    def result(self, state: FirstState) -> dict[str, pd.DataFrame]:
        mean = state.first.average()
        return {"first": head_frame(*mean.shape, {"first": mean, "first_uniform": mean * 0 + 0.2})}


@dataclass(frozen=True, kw_only=True)
class Silent(First):
    name: ClassVar[str] = "silent"
    kinds: ClassVar[dict[str, str]] = {}

    def result(self, state: FirstState) -> dict[str, pd.DataFrame]:
        mean = state.first.average()
        return {"silent": head_frame(*mean.shape, {"value": mean})}


@pytest.mark.parametrize("how", [First, First()], ids=["class", "instance"])
def test_its_grid_is_on_the_page_with_its_control(how: Any, tmp_path: Path) -> None:
    study = attlas.study(tiny("bert"), TEXTS, [how, "entropy"], tmp_path / "out", progress=False)
    able = dict(shown(study, sections()))
    (column,) = able["first"].columns["first"]
    assert (column.name, column.kind, column.control) == ("first", "above", "first_uniform")
    assert able["first"].question == "How much do heads attend to the first token?"
    page = study.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="first"' in page
    assert "how much do heads attend to the first token?" in page.lower()
    figure = study.heads("first")
    assert "Tints start at" in figure.caption
    opened = Study.open(tmp_path / "out")
    assert "first" in dict(shown(opened, sections()))


def test_without_a_word_about_it_it_has_no_control_and_no_question(tmp_path: Path) -> None:
    study = attlas.study(tiny("bert"), TEXTS, [Silent()], tmp_path / "out", progress=False)
    section = dict(shown(study, sections()))["silent"]
    (column,) = section.columns["silent"]
    assert (column.kind, column.control, section.question) == ("plain", "", "")
    assert "Silent" in study.report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_measures_of_attlas_have_their_own_sections_alone(tmp_path: Path) -> None:
    study = attlas.study(tiny("bert"), TEXTS, "all", tmp_path / "out", progress=False)
    assert {*dict(shown(study, sections()))} <= {*sections()}
