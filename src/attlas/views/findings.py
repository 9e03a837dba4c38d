"""What stands out in a study, in sentences: each number with its control. Used by the terminal and the report alike."""

from __future__ import annotations

import pandas as pd

from attlas.studies.opened import Study

TARGETS = {
    "previous": "the previous token",
    "next": "the next token",
    "self": "itself",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "punctuation": "full stops and commas",
}


def number(value: float) -> str:
    """A number in the short form used throughout: no zero before the point.

    >>> number(0.834), number(-0.05), number(2.5), number(float("nan"))
    ('.83', '-.05', '2.50', '-')
    """
    return "-" if pd.isna(value) else f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def head_name(row: pd.Series[float]) -> str:
    """A head's name: layer and head, from 0."""
    return f"L{int(row['layer'])}.H{int(row['head'])}"


def findings(study: Study, over: float = 0.5) -> list[str]:
    """One sentence for each thing worth a look."""
    out = []
    heads = study.n_layers * study.n_heads
    if study.has("surface"):
        table = study.table("surface")
        for column, target in TARGETS.items():
            values = table[column]
            if not values.notna().any():
                continue
            best = table.loc[values.idxmax()]
            strong = table[values > over].sort_values(column, ascending=False)
            named = ", ".join(f"{head_name(row)} ({number(row[column])})" for _, row in strong.head(4).iterrows())
            control = f"uniform {number(best[f'{column}_uniform'])}"
            if len(strong):
                out.append(
                    f"{len(strong)} of {heads} heads {'gives' if len(strong) == 1 else 'give'} over half of {'its' if len(strong) == 1 else 'their'} attention to {target} ({control}): {named}{', ...' if len(strong) > 4 else ''}"
                )
            else:
                out.append(
                    f"No head gives over half of its attention to {target}; the most is {number(best[column])} by {head_name(best)} ({control})"
                )
    if study.has("entropy"):
        table = study.table("entropy")
        low, high = table.loc[table["entropy"].idxmin()], table.loc[table["entropy"].idxmax()]
        out.append(
            f"The most focused head is {head_name(low)} (entropy {number(low['entropy'])} nats), the broadest {head_name(high)} ({number(high['entropy'])}); uniform {number(low['entropy_uniform'])}"
        )
    return out


def facts(study: Study) -> list[tuple[str, str]]:
    """What was read: pairs of a name and a value."""
    manifest, counts = study.manifest, study.manifest["counts"]
    model = manifest["model"]
    out = [
        ("model", f"{model['name']} ({model['class']}, {model['n_layers']} layers x {model['n_heads']} heads)"),
        ("corpus", manifest["corpus"]["name"]),
        ("texts", f"{counts['analysed']:,} of {counts['read']:,} read, {counts['tokens']:,} tokens"),
        (
            "cut",
            f"{counts['truncated']:,} texts were longer than {model['max_length']:,} tokens and were cut ({counts['tokens_cut']:,} tokens not read)"
            if counts["truncated"]
            else "no text was cut",
        ),
        (
            "left out",
            f"{counts['quarantined']:,} rows; each with its reason in quarantine.jsonl"
            if counts["quarantined"]
            else "no row was left out",
        ),
        ("time", f"{manifest['seconds']:.1f} s"),
    ]
    return out
