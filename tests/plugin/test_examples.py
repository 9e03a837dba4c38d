"""The examples of CONTRIBUTING run: a measure, a format, a family; a subject has its own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import attlas
from attlas.core.annotations import RATIONALE
from attlas.models import families
from attlas.support.errors import AttlasError
from attlas.testing import check_measure, stream, tiny
from examples import own_family, own_format, own_measure

ROOT = Path(__file__).parents[2]


def test_a_measure() -> None:
    model = tiny("bert")
    check_measure(own_measure.Farthest(), stream(model, ["a cat sat", "the dog saw it"]), model)


def test_a_format(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["attlas.corpora.read"]
    monkeypatch.setattr(module, "LAYOUTS", (*module.LAYOUTS, own_format.MARKED))
    good = {"marked": "A *dull* film, *dull*.", "label": "negative"}
    (text,) = attlas.read([good])
    assert (text.text, text.label) == ("A dull film, dull.", "negative")
    assert text.annotations[RATIONALE] == ((2, 6), (13, 17))
    with pytest.raises(AttlasError, match="has 1 asterisks; they must come in pairs"):
        list(attlas.read([good, {"marked": "A *dull film", "label": "negative"}]))


def test_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heads are read and switched off without a row; the row says how long its texts may be."""
    monkeypatch.setattr(families, "FAMILIES", dict(families.FAMILIES))
    monkeypatch.setattr(sys.modules["attlas.models.model"], "FAMILIES", families.FAMILIES)
    before = own_family.own_model()
    assert (before.n_layers, before.n_heads) == (3, 4)
    assert own_family.output_change(before, 0, 1) > 0
    own_family.register()
    assert (before.max_length, own_family.own_model().max_length) == (512, 32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own_measure", "own_format", "own_family"])
def test_it_runs_as_a_script(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    script = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    subprocess.run(script, check=True, cwd=tmp_path, env=environment, capture_output=True)
