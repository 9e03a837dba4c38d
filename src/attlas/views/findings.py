"""What stands out in a study, in sentences: each number with its control. Used by the terminal and the report alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from attlas.stats.rankings import spearman
from attlas.studies.opened import Study

TARGETS = {
    "previous": "the previous token",
    "next": "the next token",
    "self": "itself",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "punctuation": "full stops and commas",
}

READERS = {
    "attention": "attention",
    "random_model": "attention of random weights",
    "relation_words": "the relation words",
    "head_tail": "attention between head and tail alone",
    "distance": "distances and order of phrases",
    "part_of_speech": "parts of speech",
    "word_embeddings": "word vectors of the phrases",
    "attention_and_words": "attention and the relation words",
}

ENCODERS = {"affine": "affine", "lstm": "LSTM", "vectors": "given vectors", "model": "frozen model"}
CELL = ("attention", "encoder", "scale")  # what tells classifiers apart, but for the seed
UNEQUAL = 1.5  # times as many texts as the smallest class
NAMED = 4  # classifiers that a sentence names
USUAL = 10.0  # the scale that Sun & Lu 2020 draw


def number(value: float) -> str:
    """A number in the short form used throughout: no zero before the point.

    >>> number(0.834), number(-0.05), number(2.5), number(-0.001), number(float("nan"))
    ('.83', '-.05', '2.50', '.00', '-')
    """
    if pd.isna(value):
        return "-"
    short = f"{value:.2f}".removeprefix("-") if abs(value) < 0.005 else f"{value:.2f}"
    return short.replace("0.", ".", 1) if abs(value) < 1 else short


def head_name(row: pd.Series[float]) -> str:
    """A head's name: layer and head, from 0."""
    return f"L{int(row['layer'])}.H{int(row['head'])}"


def model_title(attention: str, encoder: str) -> str:
    """What a classifier is called: its attention, and its encoder if it has one.

    >>> model_title("dot", "none"), model_title("additive", "lstm")
    ('dot', 'additive, LSTM')
    """
    return attention if encoder == "none" else f"{attention}, {ENCODERS.get(encoder, encoder)}"


def scale_title(scale: float) -> str:
    """A scale as it is written.

    >>> scale_title(0.001), scale_title(10.0), scale_title(10_000)
    ('.001', '10', '10,000')
    """
    return f"{scale:,g}".removeprefix("0")


def cell_title(row: Mapping[str, Any]) -> str:
    """A classifier with its scale.

    >>> cell_title({"attention": "dot", "encoder": "lstm", "scale": 10.0})
    'dot, LSTM, scale 10'
    """
    return f"{model_title(row['attention'], row['encoder'])}, scale {scale_title(row['scale'])}"


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
    if study.has("topk_types"):
        types = study.table("topk_types")
        first = types[(types["layers"] == "all") & (types["rank"] == 0)].set_index("direction")
        if len(first) == 2:
            most, more = first.loc["attended"], first.loc["attending"]
            out.append(
                f"On most lists of attended tokens is {most['string']!r} ({int(most['count']):,} lists, {most['chance']:,.0f} by chance), on most of attending ones {more['string']!r} ({int(more['count']):,}, {more['chance']:,.0f} by chance)"
            )
    if line := position_finding(study):
        out.append(line)
    if study.has("importance"):
        table = study.table("importance")
        best = table.loc[table["importance"].idxmax()]
        alike = {name: spearman(table["importance"], table[name]) for name in ("gate", "ablation")}
        out.append(
            f"The most important head is {head_name(best)}; importance ranks heads as the gates' gradients do by {number(alike['gate'])} (Spearman)"
            + ("" if pd.isna(alike["ablation"]) else f", as measured ablation does by {number(alike['ablation'])}")
        )
    if study.has("betti_heads"):
        table = study.table("betti_heads")
        column = "b0@0.1" if "b0@0.1" in table else str(table.columns[2])
        low, high = table.loc[table[column].idxmin()], table.loc[table[column].idxmax()]
        at = column.partition("@")[2]
        out.append(
            f"At weight {at} the attention graph of {head_name(low)} holds together most (on average {number(low[column])} pieces a text), that of {head_name(high)} least ({number(high[column])}); uniform {number(low[f'{column}_uniform'])}"
        )
    if study.has("barcode_heads"):
        table = study.table("barcode_heads")
        with_holes, texts = int(table["h1_texts"].max()), int(table["texts"].max())
        if not with_holes:
            out.append(
                "Holes (h1 of barcode) were not sought: name the measure, with gudhi installed, and mind its limit of tokens"
            )
        elif with_holes < texts:
            out.append(
                f"Holes (h1 of barcode) were sought in {with_holes:,} of {texts:,} texts: the others have more tokens than its limit"
            )
    if study.has("topology"):
        out += _topology(study)
    if study.has("explanations"):
        out += _explained(study)
    for table, tell in (
        ("special_gradient", _special_gradient), ("head_distance", _head_distance), ("syntax", _syntax), ("tree", _tree), ("coreference", _coreference), ("relations", relation_findings),
        ("dynamics", dynamics_findings), ("finetune", _finetune),
    ):  # fmt: skip
        if study.has(table):
            out += tell(study)
            out += _lost(study.holding(table))
    return out


def _lost(study: Study) -> list[str]:
    """What a probe could not use, and texts that stand on both sides."""
    told = study.manifest.get("probe")
    if told is None:
        return []
    texts, out = told["texts"], []
    if texts["in_both"]:
        out.append(f"{texts['in_both']:,} of the texts scored on ({told['kind']}) also stand among those chosen on: the scores flatter")  # fmt: skip
    left = [f"{count:,} {what}" for what, count in told["lost"].items() if count]
    if left:
        out.append(f"Not scored ({told['kind']}): {', '.join(left)}")
    return out


def _special_gradient(study: Study) -> list[str]:
    """How the gradient for [SEP] compares with that for other tokens, first and last layer."""
    table = study.table("special_gradient").groupby("layer")[["cls", "sep", "other"]].mean()
    out = []
    for column, name in (("cls", "[CLS]"), ("sep", "[SEP]")):
        ratio = (table[column] / table["other"]).dropna()
        if len(ratio):
            shown = ratio.iloc[sorted({0, len(ratio) // 2, len(ratio) - 1})]
            told = ", ".join(f"{number(value)} in layer {layer}" for layer, value in shown.items())
            out.append(f"A weight to {name} moves the loss so many times as much as one to an ordinary token: {told} (the same would be 1)")  # fmt: skip
    return out


def _head_distance(study: Study) -> list[str]:
    """Whether heads of one layer are alike, and which two are most alike."""
    table = study.table("head_distance")
    told = study.table("head_layers").iloc[0]
    pairs = table[(table["layer"] < table["other_layer"]) | ((table["layer"] == table["other_layer"]) & (table["head"] < table["other_head"]))]  # fmt: skip
    out = []
    if not pd.isna(told["p"]):
        out.append(f"Heads of one layer diverge by {number(told['within'])} nats a row on average, heads of two layers by {number(told['across'])} (p {told['p']:.3f} if heads are dealt to layers at random)")  # fmt: skip
    if len(pairs):
        near = pairs.loc[pairs["mean"].idxmin()]
        out.append(f"Most alike are L{int(near['layer'])}.H{int(near['head'])} and L{int(near['other_layer'])}.H{int(near['other_head'])} ({number(near['mean'])} nats; from even attention {number(near['mean_uniform'])})")  # fmt: skip
    return out


def _finetune(study: Study) -> list[str]:
    result = study.holding("finetune").result
    scores, majority, n = result["scores"], result["controls"]["majority"], result["counts"]["dev"]
    low, high = result["accuracy_interval"]
    numbers = (
        f"accuracy {number(scores['accuracy'])} [{number(low)}, {number(high)}] on {n:,} texts of dev, "
        f"MCC {number(scores['mcc'])}; majority class {number(majority)}"
    )
    beyond = "predicts labels" if low > majority else "is not significantly better than the majority class"
    return [f"The fine-tuned model {beyond}: {numbers}"]


def _syntax(study: Study) -> list[str]:
    table = study.table("syntax")
    one = table[table["relation"] != "all"]
    above = one[one["difference_low"] > 0].sort_values("difference", ascending=False)
    named = ", ".join(
        f"{row['relation']} {number(row['accuracy'])} by {head_name(row)} (offset {number(row['baseline'])}, random weights {number(row.get('random_accuracy', float('nan')))})"
        for _, row in above.head(4).iterrows()
    )
    out = [
        f"{len(above)} of {len(one)} relations have a head that beats the best fixed offset with an interval that excludes it{': ' + named if named else ''}"
    ]
    behind = one[one["difference_high"] < 0]
    if len(behind):
        out.append(f"For {', '.join(behind['relation'])} the best offset beats the head that was chosen")
    every = table[table["relation"] == "all"]
    if len(every):
        row = every.iloc[0]
        out.append(f"Over all relations the best single head is {head_name(row)}: {number(row['accuracy'])} of {int(row['n']):,} words (offset {int(row['offset']):+d} {number(row['baseline'])})")  # fmt: skip
    return out


def _tree(study: Study) -> list[str]:
    table = study.table("tree").set_index("probe")

    def told(name: str) -> str:
        row = table.loc[name]
        return f"{number(row['uas'])} [{number(row['low'])}, {number(row['high'])}]"

    return [
        f"Attention alone finds the syntactic head of {told('attention')} of {int(table.loc['attention', 'words']):,} words; the next word as head {number(table.loc['right_branching', 'uas'])}, random weights {number(table.loc['random_attention', 'uas'])}",
        f"With words it finds {told('attention_words')}; words and distances without attention {told('distance_words')}, random weights with words {told('random_attention_words')}",
    ]


def _coreference(study: Study) -> list[str]:
    table = study.table("coreference")
    every = table[table["kind"] == "all"].set_index("who")
    head, rules = every.loc["head"], every.loc["rules"]
    return [
        f"{head_name(head)} finds the antecedent of {number(head['accuracy'])} [{number(head['low'])}, {number(head['high'])}] of {int(head['n']):,} mentions; nearest mention {number(every.loc['nearest', 'accuracy'])}, same head word {number(every.loc['head_match', 'accuracy'])}, rules {number(rules['accuracy'])}, random weights {number(every.loc['random', 'accuracy']) if 'random' in every.index else '-'}"
    ]


def relation_findings(study: Study) -> list[str]:
    """What attention adds over the best control and over random weights, below nothing if so; on phrases not learnt from, and from plain text."""
    about = study.holding("relations").manifest["relations"]
    table = study.table("relations").set_index("reader")
    own, best = table.loc["attention"], str(about["best_control"])

    def told(row: pd.Series[float], what: str = "f1") -> str:
        return f"{number(row[what])} [{number(row[f'{what}_low'])}, {number(row[f'{what}_high'])}]"

    def adds(name: str) -> str:
        row = table.loc[name]
        ahead = row["f1_ahead"] >= 0
        size, *ends = (number(abs(row["f1_ahead"])), *(number(value if ahead else -value) for value in ((row["f1_ahead_low"], row["f1_ahead_high"]) if ahead else (row["f1_ahead_high"], row["f1_ahead_low"]))))  # fmt: skip
        sure = "" if row["f1_ahead_low"] > 0 or row["f1_ahead_high"] < 0 else ", an interval with 0 in it"
        said = f"{'the best control, ' if name == best else ''}{READERS.get(name, name)} ({number(row['f1'])})"
        return f"{'ahead of' if ahead else 'behind'} {said}, by {size} [{', '.join(ends)}]{sure}"

    beside = adds(best) + (f", and {adds('random_model')}" if "random_model" in table.index and best != "random_model" else "")  # fmt: skip
    where = (
        ""
        if "thresholds" not in about
        else " (of the texts that it was tuned on: score other texts for a number to report)"
    )
    out = [f"Attention names the relation of {int(own['cases']):,} triples{where} with macro F1 {told(own)}: {beside}"]
    if "attention_and_words" in table.index and "both_f1_ahead" in table:
        row = table.loc[best]
        out.append(f"Attention and the relation words together are ahead of the best control by {_between(row, 'both_f1_ahead')} in F1, and in telling related phrases by {_between(row, 'both_binary_accuracy_ahead')}")  # fmt: skip
    rivals = table[~table.index.isin(["attention", "attention_and_words"])]
    if len(rivals):
        rival = str(rivals["binary_accuracy"].idxmax())
        out.append(f"Attention tells related phrases from others with accuracy {told(own, 'binary_accuracy')}, {READERS.get(rival, rival)} with {told(rivals.loc[rival], 'binary_accuracy')}, the best control")  # fmt: skip
    if study.has("relations_unseen"):
        rows = study.table("relations_unseen").set_index("reader")
        others = ", ".join(f"{READERS.get(str(name), str(name))} {number(row['f1'])}" for name, row in rows.iterrows() if name != "attention")  # fmt: skip
        rest = rows.drop(index=["attention", "attention_and_words"], errors="ignore")
        if len(rest):
            others += f"; it is ahead of the best of these controls by {_between(rest.loc[str(rest['f1'].idxmax())], 'f1_ahead')}"
        out.append(f"On relation phrases that were not learnt from ({int(rows['cases'].iloc[0]):,} triples) attention reaches F1 {told(rows.loc['attention'])}; {others}")  # fmt: skip
    if study.has("relations_extraction"):
        by = study.table("relations_extraction").set_index("match")
        if {"exact", "published"} <= set(by.index):
            out.append(f"From plain text {number(by.loc['exact', 'precision'])} of the triples found are in the data, and {number(by.loc['exact', 'recall'])} of the data's are found (F1 {number(by.loc['exact', 'f1'])}; compared as published {number(by.loc['published', 'f1'])})")  # fmt: skip
    return out + _lost_relations(about)


def _between(row: pd.Series[float], name: str) -> str:
    """A difference with its interval."""
    return f"{number(row[name])} [{number(row[f'{name}_low'])}, {number(row[f'{name}_high'])}]"


def _lost_relations(about: dict[str, Any]) -> list[str]:
    """What could not be used of the triples scored on, texts that were learnt from, and relations that never were."""
    out, part = [], "test" if "test" in about["lost"] else "dev"
    left = [f"{count:,} {what}" for what, count in about["lost"].get(part, {}).items() if count]
    if left:
        out.append(f"Triples not scored (relations): {', '.join(left)}")
    if both := about["texts"].get("in_both", 0):
        out.append(f"{both:,} of the texts scored on (relations) were also learnt from: the scores flatter")
    if never := about.get("relations_never_learnt"):
        out.append(f"{len(never):,} relations of the data were never learnt and cannot be named")
    return out


def with_intervals(summary: pd.DataFrame, rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """The summary of classifiers with `low` and `high` of a number: the interval of the one seed, or the lowest and highest of several."""
    found = []
    for cell, part in rows.groupby(list(CELL), sort=False):
        alone = len(part) == 1 and f"{what}_low" in part
        low, high = (part[f"{what}_low"], part[f"{what}_high"]) if alone else (part[what], part[what])
        found.append({**dict(zip(CELL, cell, strict=True)), "low": low.min(), "high": high.max()})
    return summary.merge(pd.DataFrame(found), on=list(CELL), how="left")


def dynamics_findings(study: Study) -> list[str]:
    """How good the best classifier is, how well attention scores mark polarity tokens and where they do not, and what scale and V·W do to the two polarities."""
    rows, summary = study.table("dynamics"), study.table("dynamics_summary")
    told = study.holding("dynamics").manifest["dynamics"]
    out = [_best_classifier(rows, summary), *_flattered(told)]
    if summary["separation"].notna().any():
        out += [_separation(rows, summary), where_it_breaks(rows)]
    else:
        out.append("No separation can be told: by the rule there are no neutral tokens, or no others")
    if summary["gap"].notna().any():
        out.append(_gap(rows, summary, told.get("positive") is not None))
    if rows["polarity_auc"].notna().any():
        low, high = (rows.loc[place] for place in (rows["polarity_auc"].idxmin(), rows["polarity_auc"].idxmax()))
        one = number(low["polarity_auc"]) == number(high["polarity_auc"])
        ends = number(low["polarity_auc"]) if one else f"from {number(low['polarity_auc'])} ({cell_title(low)}) to {number(high['polarity_auc'])} ({cell_title(high)})"  # fmt: skip
        out.append(f"Polarity scores tell positive tokens from negative ones with AUC {ends}; chance .50")
    return out


def _flattered(told: dict[str, Any]) -> list[str]:
    """Texts that stand on both sides, and classes of unequal size under a rule that counts words as they are."""
    out, labels = [], list(told.get("labels", {}).values())
    if told.get("texts", {}).get("in_both"):
        out.append(f"{told['texts']['in_both']:,} of the texts scored on also stand among those learnt from: the scores flatter")  # fmt: skip
    if labels and max(labels) > UNEQUAL * min(labels) and told.get("options", {}).get("rule") != "balanced":
        out.append(f"The largest class has {max(labels):,} texts to learn from, the smallest {min(labels):,}: neutral words are taken for those of the largest; the rule balanced weighs classes alike (--rule balanced)")  # fmt: skip
    return out


def _best_classifier(rows: pd.DataFrame, summary: pd.DataFrame) -> str:
    """The classifier that is best on dev beside the commonest class, and beside the published number if that is known."""
    by, chosen = ("dev_accuracy", "The best on dev") if rows["dev_accuracy"].notna().any() else ("accuracy", "The best")
    told = with_intervals(summary, rows, "accuracy").merge(rows.groupby(list(CELL), as_index=False)[by].mean().rename(columns={by: "by"}), on=list(CELL))  # fmt: skip
    best = told.loc[told["by"].idxmax()]
    name = f"The classifier ({cell_title(best)})" if len(told) == 1 else f"{chosen} ({cell_title(best)})"
    known = "" if pd.isna(best.get("published")) else f", published {number(best['published'])}"
    return f"{name} names the class of {_reached(best, 'accuracy')} of {int(rows['texts'].max()):,} texts; always the commonest class {number(best['majority'])}{known}"  # fmt: skip


def _reached(row: pd.Series[float], what: str) -> str:
    """A number with its interval, or with its range over seeds."""
    if row["seeds"] > 1:
        return f"{number(row[what])} (mean of {int(row['seeds'])} seeds, {number(row['low'])} to {number(row['high'])})"
    return f"{number(row[what])} [{number(row['low'])}, {number(row['high'])}]"


def _separation(rows: pd.DataFrame, summary: pd.DataFrame) -> str:
    """Where attention scores tell polarity tokens from neutral ones best and worst, beside both controls."""
    told = with_intervals(summary, rows, "separation").dropna(subset=["separation"])

    def at(row: pd.Series[float], where: str = "", *name: str) -> str:
        beside = f"before training {number(row['separation_untrained'])}, frequency alone {number(row['separation_count'])}"  # fmt: skip
        return f"{_reached(row, 'separation')}{where} ({'; '.join([*name, beside])})"

    best, worst = (told.loc[place] for place in (told["separation"].idxmax(), told["separation"].idxmin()))
    begin = "Attention scores separate polarity tokens from neutral ones with AUC"
    if len(told) == 1:
        return f"{begin} {at(best)}"
    return f"{begin} {at(best, ' at best', cell_title(best))} and {at(worst, ' at worst', cell_title(worst))}"


def where_it_breaks(rows: pd.DataFrame) -> str:
    """How many classifiers do not mark polarity tokens, by intervals: against chance, against frequency alone, and among tokens that are as frequent."""
    known, frequent = rows.dropna(subset=["separation"]), rows.dropna(subset=["separation_frequent"])
    ends = [number(value) for value in (known["separation_count"].min(), known["separation_count"].max())]
    count = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    low = [known["separation_low"] <= 0.5, known["separation_low"] <= known["separation_count"], frequent["separation_frequent_low"] <= 0.5]  # fmt: skip
    alike = "against neutral tokens as frequent as polarity tokens must be"
    if len(known) == 1:
        chance, alone, often = ("not above" if one.any() else "above" for one in low)
        also = f", and {alike} {often} .50" if len(frequent) else ""
        return f"The interval of the separation lies {chance} .50, {alone} what frequency alone gives ({count}){also}"
    also = f"; {alike} it reaches .50 in {_some_of(frequent, low[2])}{f' of {len(frequent):,}' if len(frequent) < len(known) else ''}" if len(frequent) else ""  # fmt: skip
    return f"Of {len(known):,} classifiers the interval of the separation reaches down to .50 in {_some_of(known, low[0])}, to what frequency alone gives ({count}) in {_some_of(known, low[1])}{also}"


def _some_of(rows: pd.DataFrame, which: pd.Series[bool]) -> str:
    """How many classifiers, and the names of some, or of those it does not hold of if they are fewer; all of a scale together."""
    if which.all() or not which.any():
        return "all" if which.all() else "none"
    cells = rows.assign(which=which).groupby(list(CELL), as_index=False, sort=False)["which"].any()
    few = cells["which"].mean() <= 0.5
    names = []
    for scale, part in cells.assign(which=cells["which"] == few).groupby("scale"):
        every = len(part) > 1 and part["which"].all()
        names += [f"all at scale {scale_title(scale)}"] if every else [cell_title(row) for row in part[part["which"]].to_dict("records")]  # fmt: skip
    listed = "; ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])
    return f"{int(which.sum()):,}" + (f" ({'' if few else 'not in '}{listed})" if names and len(cells) > 1 else "")


def nearest_scale(frame: pd.DataFrame) -> pd.Series[Any]:
    """The row whose scale is nearest to the usual one, by ratio."""
    return frame.loc[np.log(frame["scale"] / USUAL).abs().idxmin()]


def _gap(rows: pd.DataFrame, summary: pd.DataFrame, signed: bool) -> str:
    """What lies between the attention scores of the classes' tokens at the largest scale and at the usual one; with a sign if there are two classes."""
    known = with_intervals(summary, rows, "gap").dropna(subset=["gap"])
    own = known[(known[list(CELL[:2])] == known[list(CELL[:2])].iloc[0]).all(axis=1)]
    large, usual = own.loc[own["scale"].idxmax()], nearest_scale(own)
    name = model_title(large["attention"], large["encoder"])

    def way(row: pd.Series[Any]) -> str:
        return "higher" if row["gap"] > 0 else "lower"

    at = f"At {'the largest scale, ' if len(own) > 1 else 'scale '}{scale_title(large['scale'])},"
    what = f"positive tokens have {way(large)} attention scores than negative ones," if signed else "the mean attention scores of the classes' tokens differ"  # fmt: skip
    over = f"; mean of {int(large['seeds'])} seeds, {number(large['low'])} to {number(large['high'])}" if large["seeds"] > 1 else ""  # fmt: skip
    said = f"{at} {what} by {number(abs(large['gap']))} pooled standard deviations ({name}{over})"
    if usual["scale"] != large["scale"]:
        said += f", at scale {scale_title(usual['scale'])} {way(usual) + ' ' if signed else ''}by {number(abs(usual['gap']))}"
    plain = rows[(rows["attention"] == "dot") & (rows["encoder"] == "none")].dropna(subset=["gap", "vw"])
    if signed and len(plain) > 1:
        alike = int((np.sign(plain["gap"]) == np.sign(plain["vw"])).sum())
        said += f"; with plain dot attention the gap has the sign of V·W in {alike} of {len(plain):,}"
    return said


def _explained(study: Study) -> list[str]:
    """What stands out of explanations: how exact, whether attention agrees, whether they are faithful and plausible."""
    table = study.table("explanations", ["method", "gap", "evaluations", "converged"])
    out = []
    exact = table[table["method"] == "integrated_gradients"]
    if len(exact):
        late = int((~exact["converged"]).sum())
        out.append(
            f"Integrated gradients took {exact['evaluations'].median():.0f} gradients a text (median; at most {exact['evaluations'].max():,}) and miss the difference they explain by {exact['gap'].median():.2%} (at most {exact['gap'].max():.2%})"
            + (f"; {late:,} texts did not converge" if late else "")
        )
    if study.has("agreement"):
        out += _agreement(study.table("agreement"))
    if study.has("faithfulness"):
        rows = study.table("faithfulness")
        rows = rows[
            (rows["bin"] == 0) & (rows["measured"] == "comprehensiveness") & (rows["how"] == rows["how"].iloc[0])
        ]
        best, least = (rows.loc[rows["value"].idxmax()], rows.loc[rows["value"].idxmin()])
        if len(rows) == 1:
            out.append(f"Without the top tokens by {_named(best['method'])} the answer loses {number(best['value'])} [{number(best['low'])}, {number(best['high'])}], random order {number(best['random'])} ({int(best['texts']):,} texts)")  # fmt: skip
        else:
            out.append(
                f"Without its top tokens the answer loses most by {_named(best['method'])} ({number(best['value'])}) and least by {_named(least['method'])} ({number(least['value'])}); random order {number(best['random'])}"
            )
    if study.has("plausibility"):
        rows = study.table("plausibility")
        rows = rows[rows["metric"] == "auprc"]
        best = rows.loc[rows["value"].idxmax()]
        out.append(
            f"Nearest to what people marked is {_named(best['method'])} (area under precision and recall {number(best['value'])}, random {number(best['random'])}, {int(best['texts']):,} texts)"
        )
    return out


def _agreement(table: pd.DataFrame) -> list[str]:
    """The published number beside the sound one, each with chance, for the first comparison under the strictest mask."""
    keep = "keywords" if (table["keep"] == "keywords").any() else str(table["keep"].iloc[-1])
    left = "attention_all" if (table["left"] == "attention_all").any() else str(table["left"].iloc[0])
    rows = table[(table["keep"] == keep) & (table["left"] == left)].set_index(["convention", "metric"])
    sound, published = rows.loc[("sound", "tau")], rows.loc[("published", "tau")]
    return [
        f"{_named(left).capitalize()} against {_named(sound['right'])} on {keep}: tau {number(sound['value'])} [{number(sound['low'])}, {number(sound['high'])}], chance {number(sound['chance'])}; as published (masked tokens count as 0) tau {number(published['value'])}, of which chance gives {number(published['chance'])} ({int(sound['texts']):,} texts)"
    ]


def _named(method: str) -> str:
    return method.replace("_", " ")


def position_period(study: Study) -> int | None:
    """After how many tokens position embeddings repeat, if the study's model repeats them."""
    return int(study.table("position_bias_period")["residue"].max()) + 1 if study.has("position_bias_period") else None


def position_finding(study: Study) -> str | None:
    """What tokens at multiples of the period receive, where texts are long enough to have such tokens."""
    period = position_period(study)
    if period is None:
        return None
    table, whole = study.table("position_bias_period"), study.table("position_bias")
    if whole["position"].max() < period or not (table["residue"] == 0).any():
        return None
    at = table["residue"] == 0
    ratio = [
        float((part["all"] * part["tokens"]).sum() / (part["uniform"] * part["tokens"]).sum())
        for part in (table[at], table[~at])
    ]
    return f"Ordinary tokens at multiples of {period} receive {number(ratio[0])} times what even attention would give, all others {number(ratio[1])} times: the former share the first token's position embedding"


def _topology(study: Study) -> list[str]:
    table = study.table("topology").set_index("classifier")
    every = table.loc["all"]

    def told(name: str) -> str:
        row = table.loc[name]
        return f"{number(row['mcc'])} [{number(row['mcc_low'])}, {number(row['mcc_high'])}]"

    out = [f"The shape of attention alone reaches MCC {told('all')} on {int(every['n']):,} texts (all heads)"]
    if "model" in table.index:
        out[0] += f"; the model itself {told('model')}"
        gap = study.holding("topology").manifest["topology"]["difference_from_model"]
        out[0] += f", a difference of {number(gap['mcc'])} [{number(gap['low'])}, {number(gap['high'])}]"
    beside = [(name, what) for name, what in (("frozen_model", "the model before fine-tuning"), ("random_model", "random weights"), ("length_only", "the length of the text alone")) if name in table.index]  # fmt: skip
    if beside:
        out.append("Controls: " + ", ".join(f"{what} {told(name)}" for name, what in beside))
    about = study.holding("topology").manifest["topology"]
    if about["test_texts_in_train"]:
        out.append(f"{about['test_texts_in_train']:,} test texts also stand in train: the scores flatter")
    cut = {part: count for part, count in about["truncated"].items() if count}
    if cut:
        out.append(
            "Texts longer than the model were cut: " + ", ".join(f"{count:,} of {part}" for part, count in cut.items())
        )
    if about["features"]["left_out"]:
        out.append(f"{about['features']['left_out']:,} features were left out because some texts lack them")
    heads = study.table("topology_heads")
    best, alike = heads.loc[heads["train"].idxmax()], study.holding("topology").manifest["topology"]["maps"]["pearson"]
    out.append(
        f"The best single head on train is {head_name(best)} ({number(best['train'])} there, {number(best['test'])} on test); over heads the two correlate by {number(float('nan') if alike is None else alike)}"
    )
    return out


def facts(study: Study) -> list[tuple[str, str]]:
    """What was read: pairs of a name and a value."""
    manifest, counts = study.manifest, study.manifest["counts"]
    model = manifest["model"]
    if model["class"] == "AttentionClassifier":
        return _classifier_facts(study)
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
    if "explained" in counts:
        missed = (
            f", {counts['unexplained']:,} could not be; each with its reason in quarantine.jsonl"
            if counts["unexplained"]
            else ""
        )
        late = f", {counts['not_converged']:,} did not converge" if counts["not_converged"] else ""
        few = (
            f", {counts['not_compared']:,} have fewer than two tokens to compare under some mask"
            if counts["not_compared"]
            else ""
        )
        out.insert(-1, ("explained", f"{counts['explained']:,} texts{missed}{late}{few}"))
    return out


def _classifier_facts(study: Study) -> list[tuple[str, str]]:
    """What was trained on what."""
    manifest, about = study.manifest, study.manifest["dynamics"]
    rows = study.table("dynamics", [*CELL, "seed"])
    models = [model_title(*pair) for pair in rows[list(CELL[:2])].drop_duplicates().itertuples(index=False)]
    scales = ", ".join(scale_title(scale) for scale in sorted(set(rows["scale"])))
    seeds = rows["seed"].nunique()
    parts = {"train": "to learn from", "dev": "to choose the epoch by", "test": "scored on"}
    texts = [f"{about['texts'][part]:,} {said}" for part, said in parts.items() if about["texts"].get(part)]
    classes = ", ".join(str(name) for name in about["classes"])
    called = "" if about.get("positive") in (None, "positive") else f"; tokens of {about['positive']} are called positive"  # fmt: skip
    left = manifest["counts"].get("quarantined", 0)
    return [
        ("model", f"{len(rows):,} {'classifier' if len(rows) == 1 else 'classifiers'}: {'; '.join(models)}; scale {scales}; {seeds} {'seed' if seeds == 1 else 'seeds'}"),
        ("corpus", manifest["corpus"]["name"]),
        ("texts", ", ".join(texts)),
        ("classes", classes + called),
        ("left out", f"{left:,} rows; each with its reason in quarantine.jsonl" if left else "no row was left out"),
        ("time", f"{manifest['seconds']:.1f} s"),
    ]  # fmt: skip
