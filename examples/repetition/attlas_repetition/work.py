"""What Repetition does: two passes, a choice, and the same with random weights."""

from __future__ import annotations

from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.corpora import read as read_corpus
from attlas.corpora.splits import overlap, split
from attlas.experiments.experiment import Outcome
from attlas.experiments.records import records
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas_repetition.experiment import Repetition
from attlas_repetition.repeats import Repeats


def read(source: Any) -> list[Text]:
    """Texts of any corpus."""
    return list(read_corpus(source))


def resolve(experiment: Repetition, opened: dict[str, Any]) -> dict[str, Any]:
    """A fifth of `train` as `test` where none was given."""
    if opened["test"] is not None:
        return opened
    train, test = split(opened["train"], 0.2, experiment.seed)
    return {**opened, "train": train, "test": test}


def choose(table: pd.DataFrame, top: int) -> pd.DataFrame:
    """The heads with the most attention to repeated tokens; the first among equals."""
    best = table.sort_values("repetition", ascending=False, kind="stable").head(top)
    return best[["layer", "head"]].reset_index(drop=True)


def run(
    repetition: Repetition, work: Workspace, *, train: list[Text], test: list[Text], model: Model
) -> Outcome:
    """Choose heads on `train` and score them on `test`, with both controls."""
    work.log("Repetition 1/2: reading attention")
    chosen = choose(work.study(model, train, [Repeats()]).table("repetition"), repetition.top)
    scored_on = work.study(model, test, [Repeats()])
    work.log("Repetition 2/2: the same with random weights")
    random = work.study(model.randomized(repetition.seed), test, [Repeats()]).table("repetition")
    heads = scored_on.table("repetition").assign(repetition_random=random["repetition"])
    best = chosen.merge(heads, on=["layer", "head"])
    counts = dict(scored_on.manifest["counts"])
    return Outcome(
        tables={"repetition_best": best, "repetition_heads": heads},
        result={"heads": records(best), "counts": counts, "in_both": overlap(train, test)},
        counts=counts,
        controls=[
            ("repetition_best", "repetition", "repetition_uniform"),
            ("repetition_best", "repetition", "repetition_random"),
        ],
    )
