"""What Compare does: bring the tables of studies together, and match heads by their attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.compare.differences import COLUMNS, HEADS, HeadTables, head_changes, with_corrections
from attlas.compare.experiment import Compare
from attlas.compare.matching import FEWEST, match_heads, text_divergences
from attlas.core.measure import REPLICATES, companion_table
from attlas.core.resampling import REPLICATES as DRAWS
from attlas.core.text import Text
from attlas.experiments.experiment import Outcome
from attlas.experiments.records import records
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.studies import Study
from attlas.studies.compare import measure_of, paired_differences, unpaired_reason
from attlas.support.errors import ModelError, StudyError
from attlas.views.numbers import listed

SHOWN = 10  # changes in the result
LONGEST = 2_000  # characters of a text that is read to match heads
MOST_NUMBERS = 2**27  # divergences that are held at once
INTO = "match heads by what they attend to with --match"
CHANGES, SERIES, MATCHES, COMPARED = "head_changes", "head_series", "head_matches", "compared"


def check(
    compare: Compare,
    work: Workspace,
    *,
    studies: list[Study],
    seed_study: Study | None,
    model_a: Model | None,
    model_b: Model | None,
) -> None:
    """Refuse studies without a common number of heads, and models that are not those of them."""
    a = studies[0]
    for one in [*studies, *([seed_study] if seed_study else [])]:
        if not one.manifest.get("model"):
            raise StudyError(f"{one.folder} is not of one model; compare results of attlas study")
        shape, other = _shape(a), _shape(one)
        if shape != other and not (compare.match and one is studies[-1]):
            raise StudyError(
                f"{a.folder} has {shape[0]} layers of {shape[1]} heads, {one.folder} {other[0]} "
                f"of {other[1]}; {INTO}"
            )
        if shape == other and not shared_tables(a, one):
            raise StudyError(
                f"{a.folder} and {one.folder} have no table of heads of the same measure, such as "
                "surface; run attlas study with the same --measures"
            )
    for name, model, study in (("model_a", model_a, a), ("model_b", model_b, studies[-1])):
        if compare.match and model is not None:
            _check_model(name, work.identity(model), study)
    if compare.match:
        shared_texts(a, studies[-1], compare.texts)


def _check_model(name: str, identity: Mapping[str, str], study: Study) -> None:
    """Refuse a model that is not the one that a study read."""
    if others := study.differences_of_model(identity):
        flag = name.replace("_", "-")
        raise ModelError(
            f"{name} differs from the model of {study.folder} in {listed(others)}; give its "
            f"folder with --{flag}"
        )


def run(
    compare: Compare,
    work: Workspace,
    *,
    studies: list[Study],
    seed_study: Study | None,
    model_a: Model | None,
    model_b: Model | None,
) -> Outcome:
    """Compare the first study with the last one, and match the heads of their models."""
    a, b = studies[0], studies[-1]
    changes = changes_between(a, b, seed_study)
    described = pd.DataFrame(_described(compare, studies, seed_study))
    tables, result = {COMPARED: described, CHANGES: changes}, summary(changes)
    controls = [(CHANGES, "difference", "uniform_difference")]
    if compare.series:
        tables[SERIES] = series(studies, changes)
        result["series"] = _series_summary(tables[SERIES])
    if compare.match and model_a is not None and model_b is not None:
        work.log("Compare: matching heads")
        texts = shared_texts(a, b, compare.texts)
        apart = work.cached(text_divergences, model_a, model_b, texts)
        heads = model_a.n_heads, model_b.n_heads
        tables[MATCHES] = match_heads(apart["between"], apart["within"], heads)
        result["matches"] = match_summary(tables[MATCHES])
        controls.append((MATCHES, "divergence", "nearest_other"))
    reason = unpaired_reason(a, b)
    return Outcome(
        tables=tables,
        result={"studies": records(described), "paired": not reason, **result},
        counts=dict(b.manifest["counts"]),
        controls=controls,
        about={"model": None, "subject": _subject(a, b), "compares": _roles(described)},
        corpus={"name": _corpus(a, b), "fingerprint": b.manifest["corpus"].get("fingerprint")},
    )


def changes_between(a: Study, b: Study, seed: Study | None = None) -> pd.DataFrame:
    """Every number of every head, B minus A, corrected for all of them."""
    if _shape(a) != _shape(b):
        return with_corrections(pd.DataFrame(columns=list(COLUMNS)))
    parts = [head_changes(one) for one in head_tables(a, b, seed)]
    known = [one for one in parts if len(one)] or parts[:1]
    return with_corrections(pd.concat(known, ignore_index=True))


def head_tables(a: Study, b: Study, seed: Study | None) -> Iterator[HeadTables]:
    """The tables of heads that studies have in common."""
    counts = [int(one.manifest["counts"].get("analysed", 0)) for one in (a, b)]
    pairs = not unpaired_reason(a, b)
    for name in shared_tables(a, b):
        paired = pairs and all(one.has(companion_table(name, REPLICATES)) for one in (a, b))
        others = seed is not None and name in shared_tables(a, seed)
        yield HeadTables(
            name,
            _heads(a, name),
            _heads(b, name),
            (counts[0], counts[1]),
            paired_differences(b, a, name) if paired else None,
            DRAWS,
            _heads(seed, name) if seed is not None and others else None,
        )


def shared_tables(a: Study, b: Study) -> list[str]:
    """The tables of heads of the same measures with the same parameters."""
    return [
        name
        for name, about in a.manifest["tables"].items()
        if about["kind"] == "head"
        and b.manifest["tables"].get(name, {}).get("kind") == "head"
        and measure_of(a, name) == measure_of(b, name)
        and list(_heads(a, name)) == list(_heads(b, name))
    ]


def _heads(study: Study, name: str) -> pd.DataFrame:
    return study.table(name).sort_values(HEADS, kind="stable").reset_index(drop=True)


def _shape(study: Study) -> tuple[int, int]:
    return study.n_layers, study.n_heads


def series(studies: Sequence[Study], changes: pd.DataFrame) -> pd.DataFrame:
    """The numbers of all heads in every study of a series, and how far each moved in total."""
    parts = []
    for measure in changes["measure"].unique():
        columns = changes.loc[changes["measure"] == measure, "column"].unique()
        for number, study in enumerate(studies):
            frame = _heads(study, measure) if study.has(measure) else pd.DataFrame(columns=HEADS)
            for column in columns if len(frame) else ():
                own = frame[HEADS].assign(value=frame[column], study=number)
                parts.append(own.assign(measure=measure, column=column))
    if not parts:
        return pd.DataFrame(columns=["measure", "column", *HEADS, "study", "value", "total_change"])
    table = pd.concat(parts, ignore_index=True)
    steps = table.groupby(["measure", "column", *HEADS], sort=False)["value"]
    total = steps.transform(lambda values: values.diff().abs().sum())
    named = table.assign(total_change=total)
    return named[["measure", "column", *HEADS, "study", "value", "total_change"]]


def _series_summary(table: pd.DataFrame) -> dict[str, Any]:
    """How many checkpoints there are, and the heads that moved most."""
    last = table[table["study"] == table["study"].max()]
    most = last.sort_values("total_change", ascending=False, kind="stable").head(SHOWN)
    names = ["measure", "column", *HEADS, "value", "total_change"]
    return {"studies": int(table["study"].nunique()), "largest": records(most[names])}


def shared_texts(a: Study, b: Study, most: int) -> list[Text]:
    """Texts that both studies read, by their content; at most as many, chosen by their content."""
    for one in (a, b):
        if not one.has("texts"):
            raise StudyError(f"{one.folder} has no texts, which --match needs")
    own, others = (set(one.table("texts", ["content"])["content"]) for one in (a, b))
    shared = [Text(content, content) for content in own & others if len(content) <= LONGEST]
    if len(shared) < FEWEST:
        raise StudyError(
            f"{a.folder} and {b.folder} share {len(shared)} texts of at most {LONGEST:,} "
            f"characters; --match needs at least {FEWEST}"
        )
    heads = [one.n_layers * one.n_heads for one in (a, b)]
    room = MOST_NUMBERS // (heads[0] * sum(heads))
    shared.sort(key=lambda text: text.key)
    chosen = shared[: min(most, max(FEWEST, room))]
    return [Text(str(number), text.text) for number, text in enumerate(chosen)]


def summary(changes: pd.DataFrame) -> dict[str, Any]:
    """Counts, and the changes that are furthest from their control, by their intervals."""
    half = (changes["beyond_high"] - changes["beyond_low"]) / 2
    sizes = (changes["beyond"].abs() / half.where(half > 0)).dropna()
    order = changes.loc[sizes.index].assign(size=sizes, is_sure=changes["significant"])
    order = order.sort_values(["is_sure", "size"], ascending=False, kind="stable").head(SHOWN)
    heads = changes[changes["significant"]][HEADS].drop_duplicates()
    return {
        "comparisons": int(changes["beyond_low"].notna().sum()),
        "significant": int(changes["significant"].sum()),
        "heads": [f"L{layer}H{head}" for layer, head in heads.sort_values(HEADS).to_numpy()],
        "largest": records(order.drop(columns=["size", "is_sure"])),
    }


def match_summary(matches: pd.DataFrame) -> dict[str, Any]:
    """How many heads have a counterpart, and how many of these are in the same place."""
    nearer = matches["significant"] & (matches["difference"] < 0)
    moved = (matches["layer"] != matches["other_layer"]) | (
        matches["head"] != matches["other_head"]
    )
    return {
        "texts": int(matches["texts"].iloc[0]),
        "heads": len(matches),
        "nearer_than_any_other": int(nearer.sum()),
        "elsewhere": int((nearer & moved).sum()),
        "stable": int(matches["stable"].sum()),
        "pairs": records(matches),
    }


def _described(compare: Compare, studies: list[Study], seed: Study | None) -> list[dict[str, Any]]:
    """What was compared: the role, model, corpus and number of texts of each study."""
    middle = [f"checkpoint {number}" for number in range(1, len(studies) - 1)]
    roles = ["A", *middle, "B", *(["another seed"] if seed else [])]
    return [
        {
            "study": role,
            "model": _model_of(one),
            "corpus": one.manifest["corpus"]["name"],
            "texts": int(one.manifest["counts"].get("analysed", 0)),
        }
        for role, one in zip(roles, [*studies, *([seed] if seed else [])], strict=True)
    ]


def _roles(described: pd.DataFrame) -> Mapping[str, str]:
    return {row["study"]: row["model"] for row in described.to_dict("records")}


def _subject(a: Study, b: Study) -> str:
    """What is compared, for titles."""
    names = [_model_of(one) for one in (a, b)]
    return names[0] if names[0] == names[1] else f"{names[0]} and {names[1]}"


def _model_of(study: Study) -> str:
    """What a model is called: by its own name, or by that of its folder."""
    name = str(study.manifest["model"]["name"])
    return Path(name).name if Path(name).is_absolute() or name.startswith((".", "~")) else name


def _corpus(a: Study, b: Study) -> str:
    names = list(dict.fromkeys(one.manifest["corpus"]["name"] for one in (a, b)))
    return " and ".join(names)
