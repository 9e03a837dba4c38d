"""What fine-tuning shows: scores on dev, with the majority class as their control."""

from __future__ import annotations

from attlas.views.claims import Claim
from attlas.views.majority import AtMajority, at_majority
from attlas.views.numbers import decimal
from attlas.views.section import Figure, Tables, prose
from attlas.views.tables import Column, TextTable, declared, text_table

TEXT = prose(__file__)["finetune"]
# The smallest difference of interest; section.md has the reason.
ACCURACY = 0.05
WEIGHTS = "model.safetensors"  # the file of the model
COLUMNS = (
    Column("epoch", "epoch", format="general"),
    Column("C", "C", format="general"),
    Column("loss", "loss"),
    Column("mcc", "MCC"),
    Column("accuracy", "accuracy", kind="above", control="majority"),
    Column("majority", "majority class"),
)


def _table(study: Tables) -> TextTable:
    table = study.table("finetune")
    return text_table(table, declared(COLUMNS, map(str, table.columns)))


def _figures(study: Tables) -> list[Figure]:
    return [TEXT.figure("scores", table=_table(study))]


def _claims(study: Tables) -> list[Claim]:
    """Accuracy on dev against the majority class.

    The epoch, or C, was chosen on dev too, so that the correction covers the choice.
    """
    about = study.study_with_table("finetune").manifest.get("finetune")
    if about is None:
        return []
    scores, majority, (low, high) = about["scores"], about["majority"], about["accuracy_interval"]
    return [
        Claim(
            "The fine-tuned model predicts labels",
            scores["accuracy"],
            low,
            high,
            majority,
            "majority class",
            low - majority,
            high - majority,
            about["counts"]["dev"],
            what="accuracy on dev",
            also=(f"MCC {decimal(scores['mcc'])}",),
            choices=max(1, len(study.table("finetune"))),
        )
    ]


def _texts_used(study: Tables) -> dict[str, float]:
    about = study.study_with_table("finetune").manifest.get("finetune")
    return {} if about is None else {"dev texts": about["counts"]["dev"]}


def _at_majority(study: Tables) -> AtMajority | None:
    """The fine-tuned model, which is known by its file."""
    manifest = study.study_with_table("finetune").manifest
    about = manifest.get("finetune")
    if about is None:
        return None
    count = about["counts"]["dev"]
    right, most = (
        round(share * count) for share in (about["scores"]["accuracy"], about["majority"])
    )
    weights = [manifest.get("files", {}).get(WEIGHTS, "")]
    so = "it is not better than always predicting that class"
    return at_majority("On dev, the fine-tuned model", right, count, most, so, weights)


SECTIONS = {
    "finetune": TEXT.section(
        needs=("finetune",),
        figures=_figures,
        claims=_claims,
        smallest_effect=ACCURACY,
        texts_used=_texts_used,
        at_majority=_at_majority,
        terminal=lambda study: [_table(study)],
        names_heads=False,
    )
}
