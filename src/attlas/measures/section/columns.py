"""What the columns of measures are called, and how they are coloured."""

from __future__ import annotations

from attlas.views.tables import Column

TARGETS = {
    "previous": "previous token",
    "next": "next token",
    "self": "the token itself",
    "first": "first token",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "sep_from_sep": "[SEP] → [SEP]",
    "sep_from_rest": "other tokens → [SEP]",
    "punctuation": "full stops and commas",
    "other": "other tokens",
    "all": "all tokens",
}
SURFACE = tuple(
    Column(name, label, kind="above", control=f"{name}_uniform") for name, label in TARGETS.items()
)
ENTROPY = (
    Column("entropy", "entropy", "nats", kind="below", control="entropy_uniform"),
    Column("cls_entropy", "entropy of [CLS]", "nats", kind="below", control="cls_entropy_uniform"),
)
POSITION_BIAS = (
    Column("at_multiples", "at multiples of the period"),
    Column("elsewhere", "at other positions"),
)
IMPORTANCE = (
    Column("importance", "importance, from 0 to 1"),
    Column("taylor", "Taylor importance"),
    Column("taylor_grad", "Taylor importance, as published"),
    Column("gate", "gate gradient"),
    Column("gate_signed", "signed gate gradient", kind="signed"),
    Column(
        "ablation", "growth of the loss without the head", kind="above", control="ablation_median"
    ),
)
GRADIENT = tuple(
    Column(name, f"gradient for {label}", control=f"{name}_all") for name, label in TARGETS.items()
)
