"""What Syntax does: count, choose and score heads, also with random weights."""

from __future__ import annotations

from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.corpora.annotated import sentences as read
from attlas.corpora.splits import overlap
from attlas.experiments.experiment import Outcome
from attlas.experiments.inputs import held_out as resolve
from attlas.experiments.records import first_value, records
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.stats.clustered import DIFFERENCE, paired_differences
from attlas.studies import Study
from attlas.syntax.arcs import ALL, ArcCounts, choose_heads, score_heads
from attlas.syntax.examples import best_examples, examples
from attlas.syntax.experiment import Syntax

__all__ = ["read", "resolve", "run"]


def run(
    syntax: Syntax, work: Workspace, *, train: list[Text], test: list[Text], model: Model
) -> Outcome:
    """Choose heads on `train` and score them on `test`, with every control."""
    measure, published = ArcCounts(), ArcCounts(convention="published")
    shape = model.n_layers, model.n_heads

    def chosen(on: Study, measure: ArcCounts) -> pd.DataFrame:
        return choose_heads(on.table("arcs_sums"), shape, measure, syntax.min_cases)

    def scored(heads: pd.DataFrame, by: Study, measure: ArcCounts) -> pd.DataFrame:
        return score_heads(heads, by.table("arcs_sums"), shape, measure, syntax.min_cases)

    def passes(of: Model) -> tuple[Study, Study, pd.DataFrame]:
        first = work.study(of, train, [measure])
        heads = chosen(first, measure)
        followed = tuple(zip(heads["relation"], map(int, heads["answer"]), strict=True))
        second = work.study(of, test, [ArcCounts(followed=followed)])
        return first, second, scored(heads, second, measure)

    work.log("Syntax 1/3: counting what every head finds")
    chosen_on, scored_on, table = passes(model)
    work.log("Syntax 2/3: the same with random weights")
    _, control, random = passes(model.randomized(syntax.seed))
    work.log("Syntax 3/3: scoring by the published convention, choosing examples")
    theirs = work.study(model, test, [published])
    table = _with_random(table, random, scored_on, control)
    as_published = scored(chosen(theirs, published), theirs, published)
    result = _result(table, as_published, chosen_on, scored_on)
    texts = {"train": len(train), "test": len(test), "in_both": overlap(train, test)}
    counts = dict(scored_on.manifest["counts"])
    return Outcome(
        tables={
            "syntax": table,
            "syntax_published": as_published,
            "syntax_heads": scored_on.table("arcs"),
            "syntax_offsets": scored_on.table("arcs_offsets"),
            **examples(model, test, best_examples(table)),
        },
        result={**result, "texts": texts, "counts": counts},
        counts=counts,
        controls=[("syntax", "accuracy", "baseline"), ("syntax", "accuracy", "random_accuracy")],
        about={"probe": {"kind": syntax.name, "texts": texts, "lost": result["lost"]}},
        quarantine=scored_on.quarantine,
    )


def _with_random(
    table: pd.DataFrame, random: pd.DataFrame, scored_on: Study, control: Study
) -> pd.DataFrame:
    """The scores next to those of random weights, with the paired interval of the difference."""
    apart = paired_differences(scored_on.table("arcs_texts"), control.table("arcs_texts"))
    other = random.set_index("relation")[["accuracy", "low", "high"]]
    other = other.join(apart.set_index("kind")[list(DIFFERENCE)])
    return table.join(other.add_prefix("random_"), on="relation")


def _result(
    table: pd.DataFrame, as_published: pd.DataFrame, chosen_on: Study, scored_on: Study
) -> dict[str, Any]:
    """What `--json` prints."""
    words = scored_on.table("arcs_counts").iloc[0].to_dict()
    every = table[table["relation"] == ALL]
    return {
        "relations": records(table[table["relation"] != ALL]),
        "published": records(as_published),
        "words": words,
        "lost": {
            "words cut off, or whose head was": words["unseen"],
            "sentences to choose on that were cut": chosen_on.manifest["counts"]["truncated"],
        },
        "overall": first_value(every, "accuracy"),
        "overall_baseline": first_value(every, "baseline"),
        "overall_random": first_value(every, "random_accuracy"),
    }
