"""What Coreference does: documents split into windows, heads counted, chosen and scored."""

from __future__ import annotations

from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.coreference.antecedents import AntecedentCounts, choose_heads, score_heads
from attlas.coreference.experiment import Coreference
from attlas.coreference.windows import cut
from attlas.corpora.annotated import documents as read
from attlas.corpora.splits import overlap
from attlas.experiments.experiment import Outcome
from attlas.experiments.inputs import held_out as resolve
from attlas.experiments.records import records
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.studies import Study

__all__ = ["read", "resolve", "run"]


def run(
    coreference: Coreference,
    work: Workspace,
    *,
    train: list[Text],
    test: list[Text],
    model: Model,
) -> Outcome:
    """Choose heads on `train` and score them on `test`, with every control."""
    measure, shape = AntecedentCounts(), (model.n_layers, model.n_heads)
    windows = [cut(model, texts, coreference.tokens) for texts in (train, test)]

    def passes(of: Model) -> tuple[Study, Study]:
        first, second = (work.study(of, one.texts, [measure]) for one in windows)
        return first, second

    def scored(chosen_on: Study, scored_on: Study) -> pd.DataFrame:
        chosen = choose_heads(chosen_on.table("antecedents_sums"), shape)
        return score_heads(chosen, scored_on.table("antecedents_sums"), shape)

    work.log("Coreference 1/2: counting what every head finds")
    chosen_on, scored_on = passes(model)
    work.log("Coreference 2/2: the same with random weights")
    control = passes(model.randomized(coreference.seed))
    table = scored(chosen_on, scored_on)
    random = scored(*control)
    table = pd.concat(
        [table, random[random["who"] == "head"].assign(who="random")], ignore_index=True
    )
    heads = by_kind(scored_on.table("antecedents"))
    mean = by_kind(control[1].table("antecedents")).drop(columns=["layer", "head"]).mean()
    heads = heads.assign(**{f"{name}_random": value for name, value in mean.items()})
    lost = windows[1].counts
    result = _result(table, heads, coreference.tokens, lost, chosen_on, scored_on)
    texts = {"train": len(train), "test": len(test), "in_both": overlap(train, test)}
    counts = dict(scored_on.manifest["counts"])
    return Outcome(
        tables={"coreference": table, "coreference_heads": heads},
        result={**result, "texts": texts, "counts": counts},
        counts=counts,
        controls=[
            *(("coreference_heads", name, f"{name}_random") for name in mean.index),
            *(("coreference", "accuracy", {"who": who}) for who in ("nearest", "random")),
        ],
        about={"probe": {"kind": coreference.name, "texts": texts, "lost": result["lost"]}},
        quarantine=scored_on.quarantine,
    )


def _result(
    table: pd.DataFrame,
    heads: pd.DataFrame,
    tokens: int | None,
    lost: dict[str, int],
    chosen_on: Study,
    scored_on: Study,
) -> dict[str, Any]:
    """What `--json` prints."""
    mentions = scored_on.table("antecedents_counts").set_index("count")["n"].to_dict()
    by_who = {
        str(who): dict(zip(rows["kind"], rows["accuracy"], strict=True))
        for who, rows in table.groupby("who")
    }
    return {
        "heads": records(heads),
        "best": records(table[table["who"] == "head"]),
        "baselines": {name: by_who[name]["all"] for name in ("nearest", "head_match", "rules")},
        "by_kind": by_who,
        "windows": {"tokens": tokens, **lost},
        "mentions": mentions,
        "lost": {
            "mentions whose antecedents lie in other windows": lost["out_of_reach"],
            "mentions cut off": mentions["unseen"],
            "windows to choose on that were cut": chosen_on.manifest["counts"]["truncated"],
        },
    }


def by_kind(table: pd.DataFrame) -> pd.DataFrame:
    """The accuracy of every head with a column per kind of mention.

    Plain names are of mentions that attend to antecedents, `_from` of antecedents that attend to
    mentions.
    """
    parts = []
    for direction, end in (("to", ""), ("from", "_from")):
        rows = table[table["direction"] == direction]
        wide = rows.pivot(index=["layer", "head"], columns="kind", values="accuracy")
        wide = wide.reindex(columns=["all", "pronoun", "proper", "common"])
        parts.append(wide.add_suffix(end))
    return pd.concat(parts, axis=1).reset_index().rename_axis(columns=None)
