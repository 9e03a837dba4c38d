"""What Explain does: importance of heads where a method needs it, then one pass over the texts."""

from __future__ import annotations

import json
from typing import Any

from attlas.corpora import Corpus, read
from attlas.experiments.experiment import Outcome, TableFile
from attlas.experiments.workspace import Workspace
from attlas.explain.attention import SCALED
from attlas.explain.experiment import USUAL, Explain
from attlas.explain.importance import importance_grid
from attlas.explain.measure import Explanations
from attlas.explain.methods import METHODS
from attlas.measures.importance import Importance
from attlas.models import Model
from attlas.studies import Study
from attlas.studies.folder import TABLES
from attlas.studies.run import check_measures
from attlas.support.arrays import Floats
from attlas.support.errors import MeasureError

__all__ = ["check", "read", "run"]

COMPARED = ("attention_last", "attention_all")  # with a single method that is not attention itself
CONTROLS = {  # table: the columns that name a number in the result, and the control of `value`
    "agreement": (("left", "keep", "convention", "metric"), "chance"),
    "faithfulness": (("how", "method", "measured"), "random"),
    "plausibility": (("method", "metric"), "random"),
}


def chosen_methods(explain: Explain) -> tuple[str, ...]:
    """The methods; a single one that is not attention is compared with attention."""
    methods = explain.methods
    alone = len(methods) == 1 and not METHODS[methods[0]].attends
    return (*methods, *COMPARED) if alone else methods


def needs_importance(explain: Explain, importance: Floats | None) -> bool:
    """Whether importance is measured first."""
    return importance is None and any(method in SCALED for method in chosen_methods(explain))


def measure_of(
    explain: Explain, methods: tuple[str, ...], importance: Floats | None
) -> Explanations:
    """The measure with the options of the experiment."""
    options = {name: value for name, value in explain.options.items() if name != "methods"}
    return Explanations(methods=methods, importance=importance, **options)


def check(
    explain: Explain, work: Workspace, *, data: Corpus, model: Model, importance: Floats | None
) -> None:
    """Refuse what this model and these labels cannot serve."""
    plain = tuple(method for method in chosen_methods(explain) if method not in SCALED)
    measure = measure_of(explain, plain or USUAL, None)
    measure.check(model)  # before the texts are read
    first = [Importance()] if needs_importance(explain, importance) else []
    check_measures(model, [*first, measure], work.survey(data).labels)


def run(
    explain: Explain, work: Workspace, *, data: Corpus, model: Model, importance: Floats | None
) -> Outcome:
    """Explain every text by each method, compare the methods, and test them."""
    steps = 1 + needs_importance(explain, importance)
    if needs_importance(explain, importance):
        work.log(f"Explain 1/{steps}: importance of heads")
        importance = importance_grid(work.study(model, data, [Importance()]))
    work.log(f"Explain {steps}/{steps}: scoring tokens")
    study = work.study(model, data, [measure_of(explain, chosen_methods(explain), importance)])
    if not study.has("explanations"):
        first = json.loads(study.quarantine.read_text(encoding="utf-8").splitlines()[0])
        raise MeasureError(
            f"no text could be explained; the first, {first['id']!r}: {first['reason']}"
        )
    return Outcome(
        tables={
            name: TableFile(study.folder / TABLES / f"{name}.parquet", about)
            for name, about in study.manifest["tables"].items()
        },
        result=summary(study),
        counts=study.manifest["counts"],
        controls=[
            (name, "value", control) for name, (_, control) in CONTROLS.items() if study.has(name)
        ],
        corpus={"labels": study.manifest["corpus"]["labels"]},
        quarantine=study.quarantine,
    )


def summary(study: Study) -> dict[str, Any]:
    """What `--json` prints; `evaluations` is the mean per text."""
    explained = study.table("explanations", ["method", "evaluations", "gap"])
    first = explained[explained["method"] == explained["method"].iloc[0]]
    gap = first["gap"].dropna()
    out: dict[str, Any] = {
        "texts": len(first),
        "method": str(first["method"].iloc[0]),
        "evaluations": round(float(first["evaluations"].mean()), 2),
        "evaluations_total": int(first["evaluations"].sum()),
        "gap": {
            "median": float(gap.median()) if len(gap) else None,
            "max": float(gap.max()) if len(gap) else None,
        },
        "agreement": {},
        "counts": study.manifest["counts"],
    }
    present = [name for name in CONTROLS if study.has(name)]
    return {**out, **{name: _numbers(study, name) for name in present}}


def _numbers(study: Study, name: str) -> dict[str, Any]:
    """The numbers of a table by their names, each with its control and interval."""
    keys, control = CONTROLS[name]
    table = study.table(name)
    out: dict[str, Any] = {}
    for row in (table[table["bin"] == 0] if "bin" in table else table).to_dict("records"):
        entry = out
        for key in keys:
            entry = entry.setdefault(row[key], {})
        columns = ("value", control, "low", "high", "texts")
        entry |= {name: None if row[name] != row[name] else row[name] for name in columns}
    return out
