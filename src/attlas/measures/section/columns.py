"""What the columns of measures are called, and how they are coloured."""

from __future__ import annotations

from collections.abc import Iterable

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
# The smallest differences of interest; section.md has the reasons.
SHARE, NATS, TARGET, LOSS = 0.02, 0.1, 0.01, 0.01
SURFACE = tuple(
    Column(name, label, kind="above", control=f"{name}_uniform", least=SHARE)
    for name, label in TARGETS.items()
)
ENTROPY = tuple(
    Column(name, label, "nats", kind="below", control=f"{name}_uniform", least=NATS)
    for name, label in {"entropy": "entropy", "cls_entropy": "entropy of [CLS]"}.items()
)
NAMED = (Column("target", "a target word", kind="above", control="target_stronger", least=TARGET),)
NAMED_WORDS = (
    Column("string", "target", format="words"),
    Column("occurrences", "occurrences", format="count"),
    Column("matched", "words of similar frequency", format="count"),
)
POSITION_BIAS = (
    Column(
        "at_multiples",
        "at multiples of the period",
        "times uniform attention",
        kind="above",
        control="elsewhere",
        control_name="other positions",
    ),
    Column("elsewhere", "at other positions", "times uniform attention"),
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
    Column(name, f"gradient for {label}", kind="above", control=f"{name}_all")
    for name, label in TARGETS.items()
)
DIVERGENCE = Column(
    "mean",
    "divergence",
    "nats",
    kind="below",
    control="uniform",
    control_name="uniform attention",
)
ROWS = Column("share", "share of queries")
FAR = {"before": "further left", "after": "further right"}


def offset_columns(names: Iterable[str]) -> list[Column]:
    """Attention at an offset, and beyond the farthest on either side.

    >>> [one.label for one in offset_columns(["before", "offset_-8", "offset_-8_uniform"])]
    ['further left', '-8']
    """
    labels = {
        name: FAR.get(name, name.removeprefix("offset_"))
        for name in names
        if name in FAR or (name.startswith("offset_") and not name.endswith("_uniform"))
    }
    return [
        Column(name, label, kind="above", control=f"{name}_uniform", least=SHARE)
        for name, label in labels.items()
    ]


KNOWN = {  # what a number is called in a sentence, by table
    "surface": ("attention to ", SURFACE),
    "targets": ("attention to ", NAMED),
    "entropy": ("", ENTROPY),
}


def declared_column(measure: str, column: str) -> Column:
    """How a number is declared by the section of its measure; of others, a plain column."""
    _, columns = KNOWN.get(measure, ("", ()))
    known = next((one for one in columns if one.name == column), None)
    return known or Column(column, column_words(measure, column))


def least_of(measure: str, column: str) -> float:
    """The smallest difference of interest of a number: that of attention if none is declared.

    >>> least_of("surface", "previous"), least_of("entropy", "entropy"), least_of("betti", "b0")
    (0.02, 0.1, 0.02)
    """
    return declared_column(measure, column).least or SHARE


def column_words(measure: str, column: str) -> str:
    """A number in words.

    >>> column_words("surface", "previous"), column_words("betti", "b0_mean")
    ('attention to previous token', 'betti: b0 mean')
    >>> column_words("surface", "sep_from_rest")
    'attention from other tokens to [SEP]'
    """
    begin, columns = KNOWN.get(measure, (f"{measure}: ", ()))
    label = next((one.label for one in columns if one.name == column), column.replace("_", " "))
    query, arrow, key = label.partition(" → ")
    return f"attention from {query} to {key}" if arrow else begin + label
