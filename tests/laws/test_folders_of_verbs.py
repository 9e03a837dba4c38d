"""Every verb that writes a folder: stopped in the middle it resumes to the same bytes, and a damaged file is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import attlas
from attlas.coreference.pipeline import probe_coreference
from attlas.dynamics import run_dynamics
from attlas.explain.corpus import explain_corpus
from attlas.finetune.training import finetune
from attlas.syntax.pipeline import probe_syntax
from attlas.topology.pipeline import experiment
from attlas.tree.pipeline import probe_tree
from tests.folders import Stopped, contents, damage, refusal, results, stopping
from tests.laws.test_identity import bert, chains, classifier, labelled, trees, triples

Verb = Callable[[Path], object]


def quiet(function: Callable[..., object], *given: Any, **options: Any) -> Verb:
    return lambda out: function(*given, out=out, progress=False, **options)


def relations() -> attlas.FitRelations:
    return attlas.FitRelations(train=list(triples()[:16]), dev=list(triples()[16:]), model=bert())


VERBS: dict[str, Verb] = {
    "explain": lambda out: explain_corpus(classifier(), list(labelled()[:6]), out, ["integrated_gradients", "attention_last_scaled"], max_evaluations=20, progress=False),
    "syntax": quiet(probe_syntax, bert(), list(trees()[:8]), list(trees()[8:]), min_cases=2, workers=1),
    "tree": quiet(probe_tree, bert(), list(trees()[:6]), list(trees()[6:9]), workers=1),
    "coreference": quiet(probe_coreference, bert(), list(chains()[:2]), list(chains()[2:]), workers=1),
    "relations fit": lambda out: attlas.run(relations(), out, workers=1, progress=False),
    "topology": quiet(experiment, classifier(), list(labelled()[:20]), list(labelled()[20:30]), list(labelled()[30:]), frozen=bert(), workers=1),
    "dynamics": quiet(run_dynamics, list(labelled()[:20]), list(labelled()[20:30]), list(labelled()[30:]), epochs=2, scales=[1.0, 10.0], workers=1),
    "finetune": quiet(finetune, list(labelled()[:30]), classifier(), dev=list(labelled()[30:]), head_only=True),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_stopped_in_the_middle_and_damaged(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(VERBS[verb], tmp_path, monkeypatch)


def test_scores_of_relations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attlas.run(relations(), tmp_path / "fitted", workers=1, progress=False)
    score = attlas.ScoreRelations(extractor=tmp_path / "fitted", test=list(triples()[12:]), model=bert())
    check(lambda out: attlas.run(score, out, workers=1, progress=False), tmp_path, monkeypatch)


def check(verb: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    with stopping(monkeypatch, 10**9) as steps:
        verb(whole)
    expected = located(whole)
    with stopping(monkeypatch, len(steps) // 2), pytest.raises(Stopped):
        verb(stopped)
    verb(stopped)
    assert located(stopped) == expected
    assert contents(stopped).keys() == contents(whole).keys()
    largest = max(results(stopped), key=lambda name: len(results(stopped)[name]))
    data = (stopped / largest).read_bytes()
    damage(stopped / largest, "changed")
    said = refusal(lambda folder, _: verb(folder), stopped)
    assert said is not None
    assert Path(largest).name in said
    (stopped / largest).write_bytes(data)
    verb(stopped)
    assert located(stopped) == expected


def located(folder: Path) -> dict[str, bytes]:
    """The result files, whatever folder they name as their own."""
    return {
        name: data.replace(str(folder).encode(), b"FOLDER") if name.endswith(".json") else data
        for name, data in results(folder).items()
        if name != "finetune.json"  # has its seconds
    }
