"""A text's attention in the terminal."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text as Styled

from attlas.studies.opened import Study
from attlas.views.charts import CLASSIFIERS
from attlas.views.findings import facts, model_title, number, scale_title
from attlas.views.look import TextAttention
from attlas.views.overlay import LEVELS, levels, received_by

_TINTS = (
    "grey50",
    "grey70",
    "white",
    "black on grey78",
    "black on sky_blue2",
    "black on steel_blue1",
    "white on dodger_blue2",
    "white on blue3",
)


SHOWN = 400  # tokens of a text that are printed


def print_look(seen: TextAttention, layer: int | None = None, head: int | None = None, scaled: bool = False) -> None:
    """The text with tokens tinted by attention received, and the tokens that receive most."""
    received = received_by(seen.by_head.numpy(), layer, head, seen.importance if scaled else None)
    special = seen.special
    tints = levels(received[None], special)[0]
    line = Styled()
    for string, tint in list(zip(seen.tokens, tints.tolist(), strict=True))[:SHOWN]:
        line.append(string, style=_TINTS[round(tint / (LEVELS - 1) * (len(_TINTS) - 1))])
        line.append(" ")
    console = Console(highlight=False)
    console.print(line)
    if len(seen.tokens) > SHOWN:
        console.print(
            f"... {len(seen.tokens) - SHOWN:,} more tokens; write the whole text with --html look.html", style="dim"
        )
    if seen.batch.cut[0]:
        console.print(f"{seen.batch.cut[0]:,} tokens were cut off: the text is longer than the model", style="dim")
    which = (
        f"{'all layers' if layer is None else f'layer {layer}'}, {'mean of heads' if head is None else f'head {head}'}"
    )
    weighed = ", heads weighed by importance" if scaled else ""
    console.print(f"\nattention received ({which}{weighed}), beside what even attention would give")
    table = Table("token", "string", "receives", "even", "looks most at", box=None, pad_edge=False)
    even = seen.uniform.mean(0) if layer is None else seen.uniform[layer]
    for token in np.argsort(-received, kind="stable")[:10].tolist():
        table.add_row(
            str(token),
            Styled(seen.tokens[token]),
            number(float(received[token])),
            Styled(number(float(even[token])), style="dim"),
            Styled(_looks_at(seen, token, layer, head)),
        )
    console.print(table)


def _looks_at(seen: TextAttention, token: int, layer: int | None, head: int | None) -> str:
    """The token that a token looks at most and how much; of a long text, the word that its word looks at most over all heads."""
    if seen.square is None:
        words, weights = seen.tops
        word = seen.batch.words[0].of[token]
        return f"{seen.words[words[0, word, 0]]} ({number(float(weights[0, word, 0]))}, all heads)"
    rows = seen.square[:, :, token] if layer is None else seen.square[layer : layer + 1, :, token]
    row = (rows if head is None else rows[:, head : head + 1]).mean((0, 1))
    return f"{seen.tokens[int(row.argmax())]} ({number(float(row.max()))})"


def print_scores(study: Study) -> None:
    """The classifiers of a topology experiment: MCC and accuracy with their intervals."""
    table = Table(box=None, pad_edge=False)
    table.add_column("classifier")
    for title in ("MCC", "95 %", "accuracy", "95 %"):
        table.add_column(title, justify="right")
    for row in study.table("topology").to_dict("records"):
        cells = [f"{row['mcc']:.3f}", f"{row['mcc_low']:.3f} to {row['mcc_high']:.3f}"]
        cells += [f"{row['accuracy']:.3f}", f"{row['accuracy_low']:.3f} to {row['accuracy_high']:.3f}"]
        table.add_row(CLASSIFIERS.get(row["classifier"], row["classifier"]), *cells)
    console = Console(highlight=False)
    console.print(table)
    console.print()


def print_probe(study: Study) -> None:
    """The table of a probe: relations, probes or mentions beside their baselines, readers of relations beside their controls, or classifiers beside theirs."""
    if study.manifest.get("kind") == "topology":
        print_scores(study)
        return
    if "dynamics" in study.tables:
        print_dynamics(study)
        return
    if "finetune" in study.tables:
        print_finetune(study)
        return
    if not {"relations", "probe"} & {*study.tables, *study.manifest}:
        print_facts(study)
        return
    name = "relations" if "relations" in study.tables else str(study.manifest["probe"]["kind"])
    shown = {
        "syntax": {"relation": "relation", "layer": "layer", "head": "head", "accuracy": "accuracy", "low": "from", "high": "to", "baseline": "offset", "offset": "", "random_accuracy": "random", "n": "n"},
        "tree": {"probe": "probe", "uas": "UAS", "low": "from", "high": "to", "tree_uas": "best tree", "words": "words"},
        "relations": {"reader": "reader", "binary_accuracy": "related?", "f1": "F1", "f1_low": "from", "f1_high": "to", "f1_ahead": "attention ahead by", "cases": "triples"},
        "coreference": {"who": "who", "kind": "mentions", "accuracy": "accuracy", "low": "from", "high": "to", "n": "n"},
    }[name]  # fmt: skip
    table = Table(box=None, pad_edge=False)
    for title in shown.values():
        table.add_column(title, justify="left" if title in ("relation", "probe", "who", "mentions", "reader") else "right")  # fmt: skip
    whole = ("layer", "head", "n", "words", "cases")
    for row in study.table(name).to_dict("records"):
        table.add_row(*(
            Styled(str(row[key])) if isinstance(row[key], str) else f"{int(row[key]):+d}" if key == "offset" else f"{int(row[key]):,}" if key in whole else number(float(row[key]))
            for key in shown
        ))  # fmt: skip
    console = Console(highlight=False)
    console.print(table)
    console.print()


def print_finetune(study: Study) -> None:
    """The scores of every epoch (or penalty) on dev, the texts, the labels, and where the model is."""
    result = study.result
    for row in result["history"]:
        step = f"C {row['C']:g}" if "C" in row else f"epoch {row['epoch']:.0f}"
        print(f"{step:9} MCC {row['mcc']:.3f}  accuracy {row['accuracy']:.3f}")
    counts = result["counts"]
    held = f", {counts['held_out']:,} held out in {study.folder / 'held_out.jsonl'}" if counts["held_out"] else ""
    print(f"texts     {counts['fitted']:,} fitted, {counts['dev']:,} of dev, {counts['truncated']:,} truncated{held}")
    print(f"labels    {', '.join(result['labels'])}")
    print(f"model     {study.folder}")
    print()


def print_facts(study: Study) -> None:
    """What was read."""
    for name, value in facts(study):
        print(f"{name:9} {value}")
    print()


def print_dynamics(study: Study) -> None:
    """Classifiers by scale: accuracy and separation beside their controls, means over seeds."""
    summary = study.table("dynamics_summary")
    shown = {
        "accuracy": "accuracy", "accuracy_sd": "sd", "published": "paper", "majority": "majority", "separation": "AUC", "separation_untrained": "before",
        "separation_count": "count", "separation_frequent": "frequent", "gap": "gap",
    }  # fmt: skip
    shown = {name: title for name, title in shown.items() if name in summary and summary[name].notna().any()}
    table = Table("model", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("scale", *shown.values()):
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for row in summary.to_dict("records"):
        cells = ["-" if row[name] != row[name] else f"{row[name]:.3f}" for name in shown]
        table.add_row(Styled(model_title(row["attention"], row["encoder"])), scale_title(row["scale"]), *cells)
    console = Console(highlight=False)
    console.print(table)
    console.print("AUC: how well attention scores separate polarity tokens from neutral ones; before training, by count alone, and against frequent neutral tokens", style="dim")  # fmt: skip
    console.print()
