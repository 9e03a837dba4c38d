"""explain_corpus: every text of a corpus explained, compared and tested; a study like any other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attlas.explain.attention import SCALED
from attlas.explain.importance import importance_grid
from attlas.explain.measure import USUAL, Explanations
from attlas.explain.methods import METHODS
from attlas.measures.importance import Importance
from attlas.models import Model, load
from attlas.studies import Study, study
from attlas.studies.folder import PARTS, Folder
from attlas.studies.run import STUDY
from attlas.support.errors import StudyError

IMPORTANCE = "importance"  # a study of its own, made first where explanations need it
BESIDE = ("attention_last", "attention_all")  # what a single method is compared with: one pass for both
STUDY_OPTIONS = ("engine", "workers", "text", "label", "long", "bad", "fresh", "keep_states", "seed", "progress")


def explain_corpus(
    model: Any,
    texts: Any,
    out: str | Path,
    methods: str | Sequence[str] = USUAL,
    *,
    importance: Any = None,
    **options: Any,
) -> Study:
    """Explain every text by each method and write the tables to `out`; run again after a crash, it resumes.

    `methods` are names, or "all"; the first is what the others are compared with, a single one with attention received. The options are those of the measure `Explanations` (target, of, baseline, tolerance, keep,
    faithfulness, ...) and of `attlas.study`. Methods that scale heads by importance take it from `importance`, or it is measured first, over the same texts.
    """
    model = load(model, task="auto") if not isinstance(model, Model) else model
    chosen = all_methods() if methods == "all" else (methods,) if isinstance(methods, str) else tuple(methods)
    if len(chosen) == 1 and chosen[0] in METHODS and not METHODS[chosen[0]].attends:
        chosen = (*chosen, *BESIDE)
    settings = {name: value for name, value in options.items() if name not in STUDY_OPTIONS}
    running = {name: value for name, value in options.items() if name in STUDY_OPTIONS}
    seed = {"seed": options["seed"]} if "seed" in options else {}
    grid = importance_grid(importance)
    plain = tuple(method for method in chosen if method not in SCALED)
    Explanations(methods=plain or USUAL, **settings, **seed).check(model)  # what cannot be is said before any work
    if grid is None and any(method in SCALED for method in chosen):
        place = Folder(Path(out).expanduser(), STUDY)
        place.refuse_foreign()  # before anything is written there
        if running.pop("fresh", False):
            place.reset()  # and importance with it, which is measured once
        grid = importance_grid(study(model, texts, [Importance()], place.path / PARTS / IMPORTANCE, **running))
    measure = Explanations(methods=chosen, importance=grid, **settings, **seed)
    done = study(model, texts, [measure], out, **running)
    if not done.has("explanations"):
        first = json.loads(done.quarantine.read_text().splitlines()[0])
        raise StudyError(
            f"no text could be explained; the first, {first['id']!r}: {first['reason']} (all in {done.quarantine})"
        )
    return done


def all_methods() -> tuple[str, ...]:
    """Every method but the random one."""
    return tuple(name for name in METHODS if name != "random")


def summary(done: Study) -> dict[str, Any]:
    """What machines want to know of a study with explanations; `evaluations` is the mean a text."""
    told = done.table("explanations")
    first = told[told["method"] == told["method"].iloc[0]]
    gap = first["gap"].dropna()
    out: dict[str, Any] = {
        "texts": len(first), "method": str(first["method"].iloc[0]), "evaluations": round(float(first["evaluations"].mean()), 2), "evaluations_total": int(first["evaluations"].sum()),
        "gap": {"median": float(gap.median()) if len(gap) else None, "max": float(gap.max()) if len(gap) else None}, "agreement": {}, "counts": done.manifest["counts"],
    }  # fmt: skip
    for name, keys, control in (
        ("agreement", ("left", "keep", "convention", "metric"), "chance"),
        ("faithfulness", ("how", "method", "measured"), "random"),
        ("plausibility", ("method", "metric"), "random"),
    ):
        if done.has(name):
            table = done.table(name)
            rows = table[table["bin"] == 0] if "bin" in table else table
            for row in rows.to_dict("records"):
                place = out.setdefault(name, {})
                for key in keys:
                    place = place.setdefault(row[key], {})
                place |= {what: None if row[what] != row[what] else row[what] for what in ("value", control, "low", "high", "texts")}  # fmt: skip
    return out
