"""What Groups does: divide the texts, study each group, and compare the tables of heads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from attlas import corpora
from attlas.core.annotations import COLUMNS, WHERE
from attlas.core.measure import Measure
from attlas.core.text import Text
from attlas.corpora.corpus import BadRow, Corpus, Labelled, no_label
from attlas.experiments.experiment import Outcome
from attlas.experiments.records import records
from attlas.experiments.workspace import Workspace
from attlas.groups.differences import group_differences, with_corrections
from attlas.groups.experiment import MOST_GROUPS, PREDICTION, Groups
from attlas.measures.entropy import Entropy
from attlas.measures.surface import Surface
from attlas.models import Model
from attlas.models.differentiate import label_number
from attlas.models.predict import logits_of
from attlas.studies import Study
from attlas.studies.folder import QUARANTINE
from attlas.studies.run import check_measures, refuse_long
from attlas.studies.store import write_quarantine
from attlas.support.errors import CorpusError, ModelError

RIGHT, WRONG = "right", "wrong"
SHOWN = 10  # differences in the result


def read(source: Any, column: str | None = None, bad: str = "quarantine", **names: Any) -> Labelled:
    """Texts with a label, or with a value in a column; other rows are excluded, or an error."""
    is_embedded = isinstance(source, str) and source.startswith("embedded:")
    if column is None and names.get("label") is None and not is_embedded:
        names = {**names, "label": "label"}
    corpus = corpora.read(source, column=column, **names)
    texts, excluded = list[Text](), list[tuple[int, BadRow]]()
    for index, row in enumerate(corpus.rows()):
        good = row if isinstance(row, BadRow) or group_of(row, column) else _no_group(row, column)
        if isinstance(good, Text):
            texts.append(good)
        elif bad == "error":
            raise good.error()
        else:
            excluded.append((index, good))
    if not texts:
        reason = f": {excluded[0][1].where}: {excluded[0][1].reason}" if excluded else ""
        raise CorpusError(f"no row of {corpus.name} can be used{reason}")
    return Labelled(texts, excluded)


def group_of(text: Text, column: str | None) -> str | None:
    """The group of a text: its label, or its value in a column or under an annotation."""
    if column is None:
        return text.label
    value = text.annotations.get(COLUMNS, text.annotations).get(column)
    return str(value) if isinstance(value, str | int) and str(value).strip() else None


def _no_group(text: Text, column: str | None) -> BadRow:
    where = text.annotations.get(WHERE, f"text {text.id!r}")
    reason = no_label(None) if column is None else f"it has no value in {column!r}"
    return BadRow(where, reason, text.id)


def resolve(groups: Groups, opened: dict[str, Any]) -> dict[str, Any]:
    """Refuse a column with one value or with too many, before a model is loaded."""
    if groups.by != PREDICTION:
        check_groups(groups.by, [str(group_of(one, groups.column)) for one in opened["data"]])
    return opened


def check_groups(by: str, names: Sequence[str]) -> None:
    """Refuse a division into one group or into too many."""
    counts = Counter(names)
    if len(counts) == 1:
        name = next(iter(counts))
        raise CorpusError(
            f"all {len(names)} texts have the same {by}, {name[:40]!r}; compare by another column"
        )
    if len(counts) > MOST_GROUPS:
        some = ", ".join(repr(name[:40]) for name in list(counts)[:3])
        raise CorpusError(
            f"{by} has {len(counts):,} values ({some}, ...), but at most {MOST_GROUPS} groups are "
            "compared; is it the wrong column?"
        )


def chosen_measures(groups: Groups) -> Sequence[Measure[Any]]:
    """The measures; without any, surface and entropy."""
    return (Surface(), Entropy()) if groups.measures is None else groups.measures


def check(groups: Groups, work: Workspace, *, data: list[Text], model: Model) -> None:
    """Refuse what this model and these labels cannot serve."""
    labels = Counter(text.label for text in data if text.label is not None)
    if groups.by == PREDICTION:
        if model.task != "classify" or model.network.config.num_labels < 2:
            raise ModelError(
                f"{model.name} is not a classifier (task {model.task!r}), so that its predictions "
                "are neither right nor wrong; fine-tune it with attlas finetune, or compare by "
                "label or by a column"
            )
        for label in labels:
            label_number(model, label, f"some texts have the label {label!r}")
    check_measures(model, chosen_measures(groups), labels)
    if groups.long == "error":
        refuse_long(model, Corpus("texts", lambda: data))


def right_or_wrong(model: Model, texts: list[Text]) -> list[str]:
    """Whether a classifier predicts the label of each text."""
    predicted = logits_of(model, texts).argmax(-1)
    own = [label_number(model, text.label, f"text {text.id!r}") for text in texts]
    return [RIGHT if one == two else WRONG for one, two in zip(predicted, own, strict=True)]


def run(groups: Groups, work: Workspace, *, data: list[Text], model: Model) -> Outcome:
    """Study each group, and compare every number that has a standard error."""
    if groups.by == PREDICTION:
        work.log("Groups: predicting labels")
        names = work.cached(right_or_wrong, model, data)
        check_groups(groups.by, names)
    else:
        names = [str(group_of(text, groups.column)) for text in data]
    parts: dict[str, list[Text]] = {name: [] for name in sorted(set(names))}
    for name, text in zip(names, data, strict=True):
        parts[name].append(text)
    studies = {}
    for number, (name, texts) in enumerate(parts.items(), 1):
        work.log(f"Groups {number}/{len(parts)}: {name[:40]!r}, {len(texts):,} texts")
        studies[name] = work.study(model, texts, chosen_measures(groups))
    return outcome(groups.by, work, studies)


def outcome(by: str, work: Workspace, studies: Mapping[str, Study]) -> Outcome:
    """The tables of heads of all groups, their differences, and the counts of all passes."""
    counts: Counter[str] = Counter()
    for study in studies.values():
        counts.update(study.manifest["counts"])
    sizes = {name: int(one.manifest["counts"]["analysed"]) for name, one in studies.items()}
    frames = {name: _by_group(studies, name) for name in head_tables(studies)}
    apart = [group_differences(name, frames[name], sizes) for name in frames]
    table = pd.concat([one for one in apart if len(one)] or apart[:1], ignore_index=True)
    table = with_corrections(table)
    described = pd.DataFrame(
        {
            "group": list(sizes),
            "texts": list(sizes.values()),
            "tokens": [int(one.manifest["counts"].get("tokens", 0)) for one in studies.values()],
        }
    )
    quarantine = [
        one.quarantine.read_bytes() for one in studies.values() if one.quarantine.exists()
    ]
    together = work.files(write_quarantine, [], b"".join(quarantine)) / QUARANTINE
    return Outcome(
        tables={
            "groups": described,
            "group_differences": table,
            **{f"{name}_by_group": _joined(some) for name, some in frames.items()},
        },
        result={
            "by": by,
            "groups": records(described),
            "tables": list(frames),
            "comparisons": int(table["beyond_low"].notna().sum()),
            "largest": records(largest(table)),
            "counts": dict(counts),
        },
        counts=dict(counts),
        controls=[("group_differences", "difference", "uniform_difference")],
        about={"by": by},
        quarantine=together if quarantine else None,
    )


def head_tables(studies: Mapping[str, Study]) -> list[str]:
    """The tables with one row per head that all groups have."""
    each = [
        [name for name, about in one.manifest["tables"].items() if about["kind"] == "head"]
        for one in studies.values()
    ]
    return [name for name in each[0] if all(name in names for names in each)]


def _by_group(studies: Mapping[str, Study], table: str) -> dict[str, pd.DataFrame]:
    return {name: one.table(table) for name, one in studies.items()}


def _joined(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The tables of all groups, with the group as first column."""
    parts = []
    for group, frame in frames.items():
        out = frame.copy()
        out.insert(0, "group", group)
        parts.append(out)
    return pd.concat(parts, ignore_index=True)


def largest(table: pd.DataFrame) -> pd.DataFrame:
    """The differences that are furthest from what uniform attention shows, by their intervals."""
    half = (table["beyond_high"] - table["beyond_low"]) / 2
    sizes = (table["beyond"].abs() / half.where(half > 0)).dropna()
    return table.loc[sizes.sort_values(ascending=False, kind="stable").index[:SHOWN]]
