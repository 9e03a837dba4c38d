"""Differences between groups of texts: against a slow twin, planted ones, and none by chance."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import attlas
from attlas.catalogue import sections
from attlas.core.annotations import COLUMNS
from attlas.groups.differences import OTHERS, group_differences, with_corrections
from attlas.groups.section import significant
from attlas.measures.entropy import Entropy
from attlas.measures.surface import Surface
from attlas.models.predict import logits_of
from attlas.stats.welch import Estimate, welch
from attlas.support.errors import AttlasError
from attlas.testing import tiny
from attlas.views.findings import findings, section_findings, warnings
from tests.builders.models import shared
from tests.builders.processes import CommandOutput
from tests.twins.stats import beyond_both, welch as slow_welch

QUIET = {"progress": False, "workers": 1}


def heads(values, uniform=None):
    """A table of two heads from values [text, head], as a measure makes it."""
    frame = pd.DataFrame({"layer": [0, 0], "head": [0, 1], "one": values.mean(0)})
    frame["one_error"] = values.std(0, ddof=1) / np.sqrt(len(values))
    if uniform is not None:
        apart = values - uniform
        frame["one_uniform"] = uniform.mean(0)
        frame["one_difference_error"] = apart.std(0, ddof=1) / np.sqrt(len(values))
    return frame


def ends_of(one, two):
    """A difference with its interval, by whole degrees of freedom."""
    apart, error, free = slow_welch(one.tolist(), two.tolist())
    half = stats.t.ppf(0.975, np.floor(free)) * error
    return apart, apart - half, apart + half


def test_a_head_that_does_the_same_in_both_groups_does_not_differ():
    """Texts of one group are longer, so that uniform attention differs, and the head does not."""
    rng = np.random.default_rng(3)
    left, right = rng.normal(0.001, 0.001, (40, 2)), rng.normal(0.001, 0.001, (60, 2))
    even = rng.normal(2.5, 0.1, (40, 2)), rng.normal(3.0, 0.1, (60, 2))
    frames = {"a": heads(left, even[0]), "b": heads(right, even[1])}
    table = with_corrections(group_differences("mine", frames, {"a": 40, "b": 60}))
    assert (table["uniform_difference"] < -0.4).all()
    assert not table["significant"].any()


def test_two_groups_are_compared_as_by_welch():
    rng = np.random.default_rng(0)
    for n, m in ((40, 90), (12, 35), (5, 60)):
        left, right = rng.normal(0.3, 0.1, (n, 2)), rng.normal(0.25, 0.3, (m, 2))
        even = rng.normal(0.2, 0.05, (n, 2)), rng.normal(0.22, 0.05, (m, 2))
        frames = {"a": heads(left, even[0]), "b": heads(right, even[1])}
        table = group_differences("mine", frames, {"a": n, "b": m})
        assert table["group"].tolist() == ["a", "a"]
        assert table["other"].tolist() == ["b", "b"]
        for head, row in enumerate(table.to_dict("records")):
            own, apart = (
                ends_of(one[:, head], two[:, head])
                for one, two in ((left, right), (left - even[0], right - even[1]))
            )
            for name, ends in (("difference", own), ("beyond", beyond_both(own, apart))):
                found = row[name], row[f"{name}_low"], row[f"{name}_high"]
                assert found == pytest.approx(ends, rel=1e-3)
            exact = stats.ttest_ind(left[:, head], right[:, head], equal_var=False)
            assert row["difference_low"] <= exact.confidence_interval().low + 1e-4
            even_apart = even[0][:, head].mean() - even[1][:, head].mean()
            assert row["uniform_difference"] == pytest.approx(even_apart)
            assert (row["texts"], row["other_texts"]) == (n, m)


def test_each_of_several_groups_is_compared_with_all_other_texts():
    rng = np.random.default_rng(1)
    parts = {name: rng.normal(size=(n, 2)) for name, n in (("a", 30), ("b", 50), ("c", 20))}
    sizes = {name: len(part) for name, part in parts.items()}
    table = group_differences("mine", {name: heads(part) for name, part in parts.items()}, sizes)
    assert table["other"].unique().tolist() == [OTHERS]
    for row in table.to_dict("records"):
        own = parts[row["group"]][:, row["head"]]
        rest = np.concatenate(
            [part[:, row["head"]] for name, part in parts.items() if name != row["group"]]
        )
        assert row["other_value"] == pytest.approx(rest.mean())
        assert row["difference"] == row["beyond"] == pytest.approx(own.mean() - rest.mean())
        assert row["other_texts"] == len(rest)
        pooled = slow_welch(own.tolist(), rest.tolist())[1]
        width = (row["difference_high"] - row["difference_low"]) / 2
        assert width == pytest.approx(stats.t.ppf(0.975, len(own)) * pooled, rel=0.1)


def test_a_group_of_one_text_has_no_interval_and_spoils_no_other():
    rng = np.random.default_rng(2)
    parts = {"a": heads(rng.normal(size=(9, 2))), "b": heads(rng.normal(size=(9, 2)))}
    alone = heads(rng.normal(size=(2, 2))).assign(one_error=np.nan)
    two = group_differences("mine", parts, {"a": 9, "b": 9})
    three = group_differences("mine", {**parts, "c": alone}, {"a": 9, "b": 9, "c": 1})
    assert three[three["group"] == "c"]["beyond_low"].isna().all()
    columns = ["difference", "difference_low", "difference_high", "other_texts"]
    np.testing.assert_allclose(three[three["group"] == "a"][columns], two[columns])


def test_intervals_hold_their_level():
    """Of 95% intervals of the difference of equal groups, about 95% include zero."""
    rng, n, m = np.random.default_rng(3), 12, 30
    one, two = rng.normal(0, 1, (n, 4000)), rng.normal(0, 2, (m, 4000))
    estimates = [
        Estimate(x.mean(0), x.std(0, ddof=1) / np.sqrt(len(x)), np.full(4000, float(len(x))))
        for x in (one, two)
    ]
    _, low, high = welch(estimates[0], estimates[1:])
    assert 0.94 < ((low < 0) & (high > 0)).mean() < 0.965


def planted_model() -> attlas.Model:
    """A model in which one head, L1H2, attends to some words more; all others attend evenly."""
    model = tiny("bert")
    with torch.no_grad():
        for number, layer in enumerate(model.network.encoder.layer):
            own = layer.attention.self
            own.query.weight *= 0.0
            own.query.bias *= 0.0
            if number == 1:
                generator = torch.Generator().manual_seed(5)
                own.query.bias[16:24] = torch.randn(8, generator=generator) * 3
                own.key.weight[16:24] *= 10
    return model


def words_of(group: str, rng: random.Random) -> str:
    """Six words, or nine: lengths are the same in both groups."""
    words = ["cat", "dog", "mat"] if group == "animals" else ["film", "good", "bad"]
    return " ".join(rng.choice(words) for _ in range(rng.choice([6, 9]))) + " ."


def labelled(shuffled: bool = False) -> list[attlas.Text]:
    rng = random.Random(7)
    groups = ["animals", "films"] * 60
    texts = [words_of(group, rng) for group in groups]
    if shuffled:
        rng.shuffle(groups)
    return [attlas.Text(str(n), text, groups[n]) for n, text in enumerate(texts)]


def compared(texts, model=None, **options):
    options = {"measures": [Surface(), Entropy()], "by": "label", **QUIET, **options}
    return attlas.study(model or planted_model(), texts, **options)


def test_a_planted_difference_is_found_and_shuffled_groups_have_none():
    study = compared(labelled())
    signals = [one for one in findings(study, sections()) if one.verdict == "signal"]
    assert signals
    assert all(one.claim.words.startswith("L1H2 differs in") for one in signals)
    assert "between animals and films" in signals[0].sentence
    rows = significant(study)
    assert rows[rows["significant"] & (rows["beyond"].abs() > 0.02)]["head"].unique() == [2]
    assert study.tables == [
        "groups",
        "group_differences",
        "surface_by_group",
        "entropy_by_group",
    ]
    judged, rows = significant(study), study.table("group_differences")
    assert rows["significant"].any()
    assert rows.loc[judged.index, "significant"].equals(judged["significant"])
    beyond_zero = (rows["corrected_low"] > 0) | (rows["corrected_high"] < 0)
    assert beyond_zero.equals(rows["significant"])
    wider = (rows["corrected_high"] - rows["corrected_low"]) / (
        rows["beyond_high"] - rows["beyond_low"]
    )
    assert (wider.dropna() >= 1).all()
    assert wider.max() > 1.1
    both = study.table("surface_by_group")
    assert both.columns[:3].tolist() == ["group", "layer", "head"]
    assert both["group"].unique().tolist() == ["animals", "films"]
    shuffled = compared(labelled(shuffled=True))
    assert not [one for one in findings(shuffled, sections()) if one.verdict == "signal"]


def test_claims_are_called_what_their_columns_of_the_grid_are():
    """So that a report opens with the grid of its first finding."""
    study, section = compared(labelled()), sections()["groups"]
    (grid,) = section.figures(study)[0].page
    labels = {one.column.label for one in grid.columns}
    assert {one.label for one in section.claims(study)} == labels


def test_cls_and_the_first_token_are_one_fact():
    study = compared(labelled(), measures=[Surface()])
    found = section_findings(study, "groups", sections()["groups"])
    both = [one for one in found if one.claim.group.split()[1] in ("first", "cls")]
    assert len(both) == 2
    assert both[0].claim.fact == both[1].claim.fact != ""


def test_a_group_is_a_study_of_its_texts_alone():
    texts = labelled()[:20]
    study = compared(texts)
    for group in ("animals", "films"):
        alone = attlas.study(
            planted_model(), [one for one in texts if one.label == group], "surface", **QUIET
        )
        rows = study.table("surface_by_group")
        own = rows[rows["group"] == group].drop(columns="group").reset_index(drop=True)
        pd.testing.assert_frame_equal(own, alone.table("surface"))
    assert study.manifest["counts"]["analysed"] == 20
    assert any("Differences between groups (10 texts of" in one for one in warnings_of(study))


def warnings_of(study):
    return warnings(study, sections())


def test_by_prediction_divides_right_from_wrong():
    model = shared("bert", "classify")
    texts = [attlas.Text(str(n), words_of("films", random.Random(n)), None) for n in range(12)]
    answers = logits_of(model, texts).argmax(-1)
    names = list(model.network.config.label2id)
    right = [n % 3 != 0 for n in range(12)]
    own = [
        attlas.Text(one.id, one.text, names[int(answer) if good else 1 - int(answer)])
        for one, answer, good in zip(texts, answers, right, strict=True)
    ]
    study = attlas.study(model, own, "surface", by="prediction", **QUIET)
    sizes = study.table("groups").set_index("group")["texts"].to_dict()
    assert sizes == {"right": 8, "wrong": 4}
    with pytest.raises(AttlasError, match=r"is not a classifier \(task 'base'\)"):
        attlas.study(tiny("bert"), own, "surface", by="prediction", **QUIET)
    correct = [one for one, good in zip(own, right, strict=True) if good]
    with pytest.raises(AttlasError, match="all 8 texts have the same prediction, 'right'"):
        attlas.study(model, correct, "surface", by="prediction", **QUIET)


def rows(n: int = 12) -> list[dict[str, object]]:
    sources = ["web", "news", "mail"]
    return [
        {"text": words_of("films", random.Random(k)), "source": sources[k % 3], "number": k}
        for k in range(n)
    ]


def test_by_a_column_of_any_kind_of_data(tmp_path: Path):
    frame = pd.DataFrame(rows())
    file = tmp_path / "texts.csv"
    frame.to_csv(file, index=False)
    texts = [
        attlas.Text(str(n), row["text"], annotations={"source": row["source"]})
        for n, row in enumerate(rows())
    ]
    same = [
        compared(source, tiny("bert"), by="source", measures="surface").table("group_differences")
        for source in (str(file), frame, rows(), texts)
    ]
    assert same[0]["group"].unique().tolist() == ["mail", "news", "web"]
    for other in same[1:]:
        pd.testing.assert_frame_equal(same[0], other)


def test_a_column_is_read_only_when_it_is_asked_for():
    plain, asked = (next(iter(attlas.read(rows(), column=one))) for one in (None, "source"))
    assert COLUMNS not in plain.annotations
    assert asked.annotations[COLUMNS] == {"source": "web"}


def test_what_cannot_be_compared_is_refused_in_one_line():
    unlabelled = [{"text": "a cat", "source": ""}, *rows()]
    study = compared(unlabelled, tiny("bert"), by="source", measures="surface")
    assert study.manifest["counts"]["quarantined"] == 1
    assert "it has no value in 'source'" in study.quarantine.read_text()
    wrong = {
        "number": "number has 30 values ('0', '1', '2', ...), but at most 20 groups are compared; "
        "is it the wrong column?",
        "place": "list has no column 'place'; its columns are text, source, number",
        "label": "list has no column 'label'; its columns are text, source, number",
        " ": "by is empty",
    }
    for by, message in wrong.items():
        with pytest.raises(AttlasError) as error:
            compared(rows(30), tiny("bert"), by=by, measures="surface")
        assert message in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(AttlasError, match="it has no value in 'source'"):
        compared(unlabelled, tiny("bert"), by="source", measures="surface", bad="error")
    with pytest.raises(AttlasError, match="or their names to"):
        attlas.Groups(data=rows(), by="source", measures="surface")


def test_on_the_command_line(tmp_path: Path, inside: Callable[..., CommandOutput]):
    tiny("bert").save(tmp_path / "m")
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    asked = ["--data", "texts.jsonl", "--model", "m", "--measures", "surface", "--by", "source"]
    done = inside("study", *asked, "--out", "out", "--json", "--no-report")
    assert done.code == 0, done.error
    printed = json.loads(done.out)
    assert printed["by"] == "source"
    assert [one["texts"] for one in printed["groups"]] == [4, 4, 4]
    assert printed["comparisons"] == 12 * 9 * 3
    opened = compared(
        str(tmp_path / "texts.jsonl"),
        str(tmp_path / "m"),
        by="source",
        measures="surface",
        out=tmp_path / "out",
    )
    assert opened.result == {key: printed[key] for key in opened.result}
    wrong = inside("study", *asked[:-1], "colour", "--out", "other")
    assert (wrong.code, wrong.out) == (2, "")
    assert "has no column 'colour'; its columns are text, source, number" in wrong.error
    assert wrong.error.count("\n") == 1
