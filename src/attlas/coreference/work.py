"""What Coreference does: documents split into windows, heads counted, chosen and scored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from attlas.core.text import Text
from attlas.coreference.antecedents import (
    ALL,
    ALL_KINDS,
    AntecedentCounts,
    Chosen,
    choose_heads,
    compare_heads,
    score_heads,
)
from attlas.coreference.experiment import Coreference
from attlas.coreference.windows import cut
from attlas.corpora.annotated import documents as read
from attlas.corpora.splits import overlap
from attlas.experiments.experiment import Outcome
from attlas.experiments.inputs import held_out as resolve
from attlas.experiments.records import records
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.stats.clustered import paired_differences
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

    def passes(of: Model, random: bool) -> tuple[Study, Study, Chosen]:
        first = work.study(of, windows[0].texts, [measure])
        chosen = choose_heads(first.table("antecedents_sums"), shape)
        # random weights are scored by one head for all kinds of mentions
        followed = dict.fromkeys(ALL_KINDS, chosen.to[ALL]) if random else chosen.to
        counts = AntecedentCounts(followed=tuple(followed.items()))
        second = work.study(of, windows[1].texts, [counts])
        return first, second, chosen

    work.log("Coreference 1/2: counting what every head finds")
    chosen_on, scored_on, chosen = passes(model, random=False)
    work.log("Coreference 2/2: the same with random weights")
    _, control, by_chance = passes(model.randomized(coreference.seed), random=True)
    sums = scored_on.table("antecedents_sums")
    table = score_heads(chosen, sums, shape)
    random = score_heads(by_chance, control.table("antecedents_sums"), shape)
    random = random[random["who"] == "head"].assign(who="random")
    table = pd.concat([table, random], ignore_index=True)
    apart = paired_differences(*(one.table("antecedents_texts") for one in (scored_on, control)))
    who = np.where(apart["kind"] == ALL, "head", "head_by_kind")
    apart = apart.assign(who=who, control="random")
    differences = pd.concat([compare_heads(chosen, sums, shape), apart], ignore_index=True)
    heads = by_kind(scored_on.table("antecedents"))
    mean = by_kind(control.table("antecedents")).drop(columns=["layer", "head"]).mean()
    heads = heads.assign(**{f"{name}_random": value for name, value in mean.items()})
    lost = windows[1].counts
    result = _result(table, heads, coreference.tokens, lost, chosen_on, scored_on)
    texts = {"train": len(train), "test": len(test), "in_both": overlap(train, test)}
    counts = dict(scored_on.manifest["counts"])
    return Outcome(
        tables={
            "coreference": table,
            "coreference_differences": differences,
            "coreference_heads": heads,
        },
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
