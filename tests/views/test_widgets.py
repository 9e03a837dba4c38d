"""Views as widgets of a notebook: what a kernel answers, what is stored, what is shared."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attlas
from attlas.explain import explain
from attlas.models import look
from attlas.models.look import TextAttention
from attlas.studies.opened import Study
from attlas.support.errors import AttlasError, StudyError
from attlas.testing import tiny
from attlas.views import notebook, widgets
from attlas.views.modules import SCOPE, WIDGET, joined, source, with_imports
from attlas.views.notebook import HTML, PLAIN, WIDGET_VIEW, Shown
from tests.builders.models import shared
from tests.builders.notebook_words import words_in
from tests.builders.widgets import Kernel

TEXT = "quokkas adore zeppelins over lagoons"
TEXTS = [attlas.Text("one", "walrus tickles icebergs"), attlas.Text("two", "marmots juggle .")]
MEASURES = "surface,entropy,totals,examples"


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    yield
    attlas.notebook()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a kernel ran the test."""
    monkeypatch.setattr(notebook, "has_widgets", lambda: True)


@pytest.fixture(scope="module")
def study() -> Study:
    return attlas.study(tiny("bert"), TEXTS, MEASURES, workers=1, progress=False)


@pytest.fixture(scope="module")
def seen() -> TextAttention:
    return attlas.attention(shared("bert"), TEXT, matrix="L1H2")


def everything(study: Study, seen: TextAttention) -> list[Shown]:
    """All that shows itself as a widget."""
    return [
        study,
        study.heads(),
        study.heads("entropy"),
        study.head("L1H2"),
        study.text("one"),
        study.text("one", model=tiny("bert")),
        study.matrix("one", "L1H2", model=tiny("bert")),
        seen,
        seen.shaded("L1H2"),
        seen.lines("L1H2"),
        seen.matrix("L1H2"),
        attlas.topology.attention_graph(seen, "L1H2"),
        explain(shared("bert", "classify"), TEXT, progress=False),
    ]


def stored_words(stored: Any) -> set[str]:
    """Which words of the texts are in what is stored."""
    words = {word for text in (TEXT, *(one.text for one in TEXTS)) for word in text.split()}
    return words_in(json.dumps(stored, default=str), {word for word in words if len(word) > 4})


def test_the_joined_modules_are_those_of_reports() -> None:
    """Each is the same text, but for its imports and exports."""
    for shown in widgets.PartsWidget.__subclasses__():
        assert shown._esm.count('modules["') > 3
    view = attlas.views.parts.TEXT
    text = joined(view)
    for module in with_imports([view.module, WIDGET]):
        start = text.index(f'modules["{module}"] = (() => {{\n')
        body = text[start : text.index("\n})();", start)].splitlines()[1:-1]
        own = source(module).splitlines()
        assert len(body) == len(own)
        changed = [line for line, other in zip(own, body, strict=True) if line != other]
        assert all(line.startswith(("import {", "export ")) for line in changed)


def test_a_notebook_stores_no_words_unless_asked(
    study: Study, seen: TextAttention, kernel: None
) -> None:
    for shown in everything(study, seen):
        bundle = shown._repr_mimebundle_()
        assert bundle is not None
        assert set(bundle) == {PLAIN, HTML, WIDGET_VIEW}
        assert stored_words(bundle) == set(), shown
        assert stored_words(shown.widget.get_state()) == set(), shown
        assert 0 < sum(map(len, bundle.values())) < 100_000
    attlas.notebook(store_texts=True)
    assert {"quokkas", "zeppelins"} <= stored_words(seen._repr_mimebundle_())
    assert {"quokkas", "zeppelins"} <= stored_words(seen.widget.get_state())
    assert "walrus" in stored_words(study.text("one")._repr_mimebundle_())
    attlas.notebook(store_texts=False)
    assert stored_words(seen._repr_mimebundle_()) == stored_words(seen.widget.get_state()) == set()


def test_without_a_kernel_the_picture_is_that_of_before(study: Study, seen: TextAttention) -> None:
    for shown in everything(study, seen):
        assert shown._repr_mimebundle_() is None
        assert shown._repr_html_()
    assert seen._repr_html_().startswith("<iframe srcdoc=")
    attlas.notebook(store_texts=False)
    bundle = seen._repr_mimebundle_()
    assert bundle is not None
    assert WIDGET_VIEW not in bundle
    assert stored_words(bundle) == set()


def test_static_is_the_page_in_a_frame(study: Study, seen: TextAttention) -> None:
    for shown in everything(study, seen):
        page = shown.static()._repr_html_()
        assert page.startswith("<iframe srcdoc=")
        assert "&lt;!doctype html&gt;" in page[:60].lower()


def test_without_the_extra_a_widget_says_what_to_install(
    seen: TextAttention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "find_spec", lambda name: None)
    with pytest.raises(AttlasError, match=r"pip install 'attlas\[notebook\]'"):
        seen.widget  # noqa: B018
    assert not notebook.has_widgets()
    assert seen._display_()._repr_html_() == seen._repr_html_()


def test_widgets_of_a_study_share_one_selection(study: Study) -> None:
    grid, entropy, card = study.heads(), study.heads("entropy"), study.head("L1H2")
    text = study.text("one")
    study.widget.head = "L2H3"
    assert grid.widget.head == entropy.widget.head == text.widget.head == "L2H3"
    assert card.widget.head == "L1H2"  # what the code names stays
    grid.widget.column = "surface.next"
    assert study.widget.column == "surface.next"
    assert entropy.widget.column == "entropy.entropy"
    text.widget.selection = {"text": "one", "words": [1]}
    assert card.widget.selection == {"text": "one", "words": [1]}
    other = attlas.Study.open(study.folder)
    assert other.widget.head == ""


def test_the_data_come_in_pieces(seen: TextAttention, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widgets, "PIECE", 1_000)
    kernel, part = Kernel(seen.widget), seen.panel.parts[0]
    content, at, total = b"", 0, 1
    while at < total:
        answer = json.loads(kernel.ask(json.dumps({"kind": "data", "part": 0, "at": at})))
        piece = base64.b64decode(answer["bytes"])
        size = len(widgets.part_bytes(part))
        assert answer["message"] == {"kind": "data", "part": 0, "at": at, "total": size}
        content, at, total = content + piece, at + len(piece), answer["message"]["total"]
        assert len(piece) <= 1_000
    assert json.loads(content) == json.loads(json.dumps(part.data))
    assert seen.widget.n_bytes == len(content)


def test_the_memory_of_data_is_bounded(
    seen: TextAttention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widgets, "MOST_BYTES", 500)
    anew = replace(seen)
    answer = json.loads(Kernel(anew.widget).ask('{"kind": "data", "part": 0, "at": 0}'))
    assert answer["message"]["kind"] == "error"
    assert "a widget has at most" in answer["message"]["message"]
    assert anew.widget.n_bytes == 0


def test_exact_rows_are_those_of_the_model(seen: TextAttention) -> None:
    kernel = Kernel(seen.widget)
    asked = {"kind": "row", "text": "text", "head": "L1H2", "query": 3}
    answer = json.loads(kernel.ask(json.dumps(asked)))
    assert answer["message"] == asked
    row = np.frombuffer(base64.b64decode(answer["bytes"]), "<f4")
    assert np.array_equal(row, seen.weights[1, 2, 3].numpy())
    matrix = seen.matrix("L1H2")
    assert json.loads(Kernel(matrix.widget).ask(json.dumps(asked))) == answer


def test_exact_rows_of_a_text_whose_weights_are_not_kept(
    monkeypatch: pytest.MonkeyPatch, seen: TextAttention
) -> None:
    monkeypatch.setattr(look, "MOST_BYTES", 0)
    long = attlas.attention(shared("bert"), TEXT, matrix="L1H2")
    assert long.square is None
    for query in range(len(long.tokens)):
        assert np.array_equal(long.row(1, 2, query), seen.row(1, 2, query))
    asked = {"kind": "row", "text": "text", "head": "L0H0", "query": 3}
    answer = json.loads(Kernel(long.widget).ask(json.dumps(asked)))["message"]
    assert answer["kind"] == "error"
    assert "were not kept" in answer["message"]


@pytest.mark.parametrize(
    "message",
    [
        {},
        [],
        None,
        7,
        {"kind": "data"},
        {"kind": "data", "part": 9, "at": 0},
        {"kind": "data", "part": -1, "at": 0},
        {"kind": "data", "part": True, "at": 0},
        {"kind": "data", "part": "0", "at": 0},
        {"kind": "data", "part": 0, "at": -5},
        {"kind": "row"},
        {"kind": "row", "text": "text", "head": "L9H9", "query": 0},
        {"kind": "row", "text": "text", "head": "x", "query": 0},
        {"kind": "row", "text": "text", "head": "L1H2", "query": 10**9},
        {"kind": "row", "text": "text", "head": "L1H2", "query": -1},
        {"kind": "row", "text": "text", "head": "L1H2", "query": "0"},
        {"kind": "row", "text": "other", "head": "L1H2", "query": 0},
    ],
    ids=json.dumps,
)
def test_a_message_that_makes_no_sense_gets_one_line(seen: TextAttention, message: Any) -> None:
    answer = json.loads(Kernel(seen.widget).ask(json.dumps(message)))
    assert answer["message"]["kind"] == "error"
    assert "\n" not in answer["message"]["message"]
    assert answer["bytes"] == ""


def test_a_study_without_what_is_asked_says_so(study: Study) -> None:
    with pytest.raises(StudyError, match=r"this study has no text 'three'; .* 'one', 'two'"):
        study.text("three")
    other = attlas.study(tiny("bert"), TEXTS, "surface", workers=1, progress=False)
    with pytest.raises(StudyError, match=r"run it with --measures totals, or give its model"):
        other.text("one")
    with pytest.raises(StudyError, match="in weights"):
        study.matrix("one", "L1H2", model=tiny("bert", seed=1))


def test_a_text_is_read_anew_by_the_model_of_its_study_alone(tmp_path: Path) -> None:
    """Another tokenizer is another model; a classifier is loaded as the study loaded it."""
    classifier = tiny("bert", "classify")
    classifier.save(tmp_path / "model")
    folder = str(tmp_path / "model")
    study = attlas.study(folder, TEXTS, "surface", workers=1, progress=False)
    assert isinstance(study.text("one", model=folder), TextAttention)
    other = attlas.load((classifier.network, tiny("gpt2").tokenizer), task="classify")
    with pytest.raises(StudyError, match="in tokenizer"):
        study.text("one", model=other)


def test_the_numbers_of_a_text_are_those_of_its_table(study: Study) -> None:
    anew = study.text("one", model=tiny("bert"))
    assert isinstance(anew, TextAttention)
    table = study.table("totals", text="one")
    received = table[[f"L{layer}" for layer in range(study.n_layers)]].to_numpy().T
    assert np.allclose(anew.by_head.mean(1).numpy(), received, atol=1e-6)


def test_rules_are_inside_one_class(seen: TextAttention, study: Study) -> None:
    for shown in (seen, study):
        css = shown.widget._css
        assert css.startswith(f".{SCOPE} {{")
        depth = 0
        for at, letter in enumerate(css):
            depth += (letter == "{") - (letter == "}")
            assert depth > 0 or at < len(SCOPE) + 2 or at == len(css) - 1
        assert "@import" not in css
        assert "url(" not in css
