"""Several results as one: texts of different corpora never mix, whoever brings them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

import attlas
from attlas.core.batch import Batch
from attlas.core.measure import Measure, Outputs, Shape
from attlas.core.states import Moments, State
from attlas.experiments.run import input_files
from attlas.explain.measure import Explanations
from attlas.studies.opened import Study
from attlas.support.errors import StudyError
from attlas.support.fingerprint import fingerprint
from attlas.testing import tiny

QUIET: dict[str, Any] = {"progress": False, "workers": 1}


def test_texts_of_two_corpora_are_refused_behind_a_result_without_texts(tmp_path: Path) -> None:
    model = tiny("bert")
    one = attlas.study(model, ["a cat sat", "the dog"], ["totals"], tmp_path / "one", **QUIET)
    other = attlas.study(model, ["it was bad", "a film"], ["topk"], tmp_path / "other", **QUIET)
    tables = {"entropy": one.manifest["tables"]["totals"]}
    without = Study(tmp_path / "without", {**one.manifest, "tables": tables})
    assert without.combined_with(one).has("totals")
    with pytest.raises(StudyError, match="is of other texts"):
        without.combined_with(one, other)
    with pytest.raises(StudyError, match="is of other texts"):
        without.combined_with(one).combined_with(other)


def test_tokens_are_found_in_a_study_with_other_shards(tmp_path: Path) -> None:
    """Passes that run the model themselves have smaller shards than those that read it once."""
    model, texts = tiny("bert", "classify"), [f"a cat sat {n}" for n in range(70)]
    explained = attlas.study(
        model, texts, [Explanations(methods=("rollout",), permutations=2)], tmp_path / "a", **QUIET
    )
    totals = attlas.study(model, texts, ["totals"], tmp_path / "b", **QUIET)
    together = explained.combined_with(totals)
    last = together.first(70)[-1]
    assert last[0] == 1
    tokens = together.tokens("totals", last[0], last[1]["text"])
    pd.testing.assert_frame_equal(tokens, totals.table("totals", text=last[1]["text"]))
    assert len(tokens)


def test_what_is_joined_to_a_study_counts_where_it_is_compared() -> None:
    """Heads are matched on the texts that a study has from another one joined to it."""
    model, texts = tiny("bert"), [f"a cat sat on mat {number}" for number in range(6)]
    study = attlas.study(model, texts, ["entropy"], **QUIET)
    more, fewer = (attlas.study(model, texts[:n], ["totals"], **QUIET) for n in (6, 5))
    bare = Study(study.folder, {**study.manifest, "tables": {}})
    joined = [replace(bare, others=others) for others in ((), (more,), (fewer,), (more, fewer))]
    assert len({fingerprint(one) for one in joined}) == 4
    named = [
        input_files(attlas.Compare(studies=[one, study]))["studies"] for one in (bare, *joined[1:3])
    ]
    assert len(set(named)) == 3


@dataclass
class LossState(State):
    losses: Moments


@dataclass(frozen=True, kw_only=True)
class Both(Measure[LossState]):
    """Needs the network and a backward pass."""

    name: ClassVar[str] = "both"
    needs: ClassVar[frozenset[str]] = frozenset({"network", "loss"})

    def start(self, model: Shape) -> LossState:
        return LossState(Moments.zeros(1))

    def finish_batch(self, state: LossState, batch: Batch, outputs: Outputs) -> None:
        assert outputs.network is not None
        assert outputs.gradients is not None

    def result(self, state: LossState) -> dict[str, pd.DataFrame]:
        return {"both": pd.DataFrame({"n": [1]})}


def test_a_measure_may_need_the_network_and_a_backward_pass(tmp_path: Path) -> None:
    rows = [attlas.Text(str(n), "a cat sat", label=str(n % 2)) for n in range(4)]
    model = tiny("bert", "classify")
    assert attlas.study(model, rows, [Both(), "entropy"], **QUIET).has("both")
