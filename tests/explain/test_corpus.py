"""Explanations of a corpus against loops over single texts; merged, killed, resumed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import attlas
from attlas.catalogue import measures_of
from attlas.core.masks import KINDS, TokenMask
from attlas.core.text import Text
from attlas.explain import (
    METHODS,
    Explanations,
    agreement,
    experiment,
    explain,
    faithfulness,
    plausibility,
)
from attlas.explain.agreement import CONVENTIONS
from attlas.explain.corpus import attributions
from attlas.explain.faithfulness import HOW
from attlas.explain.gradients import BASELINES
from attlas.explain.importance import importance_grid
from attlas.explain.shifts import tau_band
from attlas.explain.target import OF
from attlas.models import Model
from attlas.models.embeddings import AT
from attlas.studies import Study
from attlas.support.errors import AttlasError, MeasureError, ModelError, StudyError
from attlas.support.files import is_temporary
from attlas.support.options import Option, declared
from attlas.testing import assert_same, check_measure, fold, stream, tiny
from tests.builders.explain import (
    TEXT,
    classifier,
    full_batch_of as batch_of,
    gpt2_classifier,
    not_a_number,
)
from tests.builders.folders import Stopped, stopping
from tests.builders.models import perturbed_model
from tests.builders.studies import table_bytes
from tests.builders.texts import sentences
from tests.close import close_tables, terms_of
from tests.twins.explain import types_slowly

TEXTS = (
    "a cat sat on a mat , the cat saw a dog",
    "the dog",
    "it was not a very good film .",
    "a bad dog , a good cat ! a bad film ?",
    "a the of",  # no keyword
    "cat",
    "cat dog cat dog cat",
)


BAND = ("tau_low", "tau_high", "tau_level", "shifts")


def frames(study: Study) -> dict[str, pd.DataFrame]:
    return {name: study.table(name) for name in study.manifest["tables"]}


def reasons(study: Study) -> dict[str, str]:
    """Why texts were left out, by their id."""
    rows = [json.loads(line) for line in study.quarantine.read_text().splitlines()]
    assert [row["place"] for row in rows] == sorted(row["place"] for row in rows)
    return {row["id"]: row["reason"] for row in rows}


def named(model: Model, *labels: str) -> Model:
    """A model whose classes have these names."""
    model.network.config.id2label = dict(enumerate(labels))
    model.network.config.label2id = {label: number for number, label in enumerate(labels)}
    return model


# the laws of a measure


def test_the_laws_of_a_measure_hold() -> None:
    model = classifier()
    texts = [
        Text("0", TEXTS[1], label="LABEL_1", annotations={"rationale": ((0, 3),)}),
        Text("1", TEXTS[2], label="LABEL_0", annotations={"rationale": ((3, 10),)}),
        Text("2", TEXTS[3]),  # no label, so that it is left out
        Text("3", TEXTS[6], label="LABEL_1", annotations={"rationale": ()}),
    ]
    one = Explanations(
        methods=("input_x_gradient", "attention_last", "random"),
        target="label",
        faithfulness=("remove", "mask"),
        bins=(0.2, 0.5),
        draws=2,
        permutations=2,
        keep=("all", "keywords"),
    )
    batches = stream(model, texts)
    check_measure(one, batches, model)
    tables = one.result(fold(one, batches, model))
    assert sorted(tables) == [
        "agreement",
        "agreement_texts",
        "attribution_types",
        "attributions",
        "explanations",
        "faithfulness",
        "faithfulness_texts",
        "plausibility",
        "plausibility_texts",
    ]
    assert tables["explanations"]["text"].unique().tolist() == ["0", "1", "3"]
    assert tables["plausibility_texts"]["text"].unique().tolist() == ["0", "1"]


# the tables are what single texts give


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_tables_are_the_explanations_of_single_texts(family: str, tmp_path: Path) -> None:
    model = classifier(family)
    methods = ("integrated_gradients", "saliency", "gradient_rollout", "rollout", "random")
    texts = [Text(f"t{place}", text, label="LABEL_1") for place, text in enumerate(TEXTS)]
    study = attlas.study(
        model, texts, [Explanations(methods=methods, of="logit", seed=4)], tmp_path / "study"
    )
    counts = study.manifest["counts"]
    assert (counts["explained"], counts["unexplained"], counts["not_converged"]) == (
        len(TEXTS),
        0,
        0,
    )
    explained, tokens = study.table("explanations"), study.table("attributions")
    assert explained["text"].tolist() == [text.id for text in texts for _ in methods]
    assert explained["method"].tolist() == list(methods) * len(texts)
    for text in texts:
        for method in methods:
            one = explain(model, text, method, of="logit", seed=4)
            (row,) = explained[
                (explained["text"] == text.id) & (explained["method"] == method)
            ].to_dict("records")
            assert (row["label"], row["predicted"], row["target"]) == (
                "LABEL_1",
                one.predicted,
                one.target,
            )
            assert (row["evaluations"], row["converged"]) == (one.evaluations, one.converged)
            for column, value in (
                ("probability", one.probability),
                ("value", one.value),
                ("baseline", one.baseline_value),
                ("total", one.total),
                ("gap", one.gap),
                ("error", one.error),
            ):
                assert row[column] == pytest.approx(value, rel=1e-4, abs=5e-5, nan_ok=True), (
                    text.id,
                    method,
                    column,
                )
            mine = tokens[tokens["text"] == text.id]
            np.testing.assert_allclose(mine[method], one.scores, rtol=1e-4, atol=1e-5)
            assert (
                (f"{method}_uniform" in mine) == (one.uniform is not None) == (method == "rollout")
            )
            if one.uniform is not None:
                np.testing.assert_allclose(mine["rollout_uniform"], one.uniform, rtol=1e-5)
            frame = one.to_frame()
            for column in ("token", "start", "stop", "string"):
                assert mine[column].tolist() == frame[column].tolist()
    assert tokens["text"].drop_duplicates().tolist() == [text.id for text in texts]


def test_bands_are_those_of_single_texts(tmp_path: Path) -> None:
    model, methods = classifier(), ("saliency", "rollout", "random")
    study = attlas.study(model, TEXTS, [Explanations(methods=methods)], tmp_path / "study")
    table = study.table("agreement_texts")
    assert len(table) == len(TEXTS) * 2 * 3 * 2  # pairs, masks, conventions
    assert (table["shifts"] == np.maximum(table["kept"] - 1, 0)).all()
    scores = [
        {method: np.abs(explain(model, text, method).scores) for method in methods[:2]}
        for text in TEXTS
    ]
    rows = table[(table["left"] == "rollout") & (table["keep"] == "all")]
    for (_, row), one in zip(
        rows.iterrows(), [one for one in scores for _ in CONVENTIONS], strict=True
    ):
        expected = tau_band(one["rollout"], one["saliency"], None, row["convention"])
        assert tuple(row[list(BAND)]) == pytest.approx(expected)


def assert_types(table: pd.DataFrame, expected: dict[Any, dict[str, list[float]]]) -> None:
    groups = dict(iter(table.groupby(["method", "predicted"], sort=False)))
    assert sorted(groups) == sorted(expected)
    for key, rows in expected.items():
        group = groups[key]
        assert group["mean"].is_monotonic_decreasing
        assert sorted(group["string"]) == sorted(rows)
        for row in group.itertuples():
            texts, occurrences, mean, each = rows[row.string]
            assert (row.texts, row.occurrences) == (texts, occurrences), (key, row.string)
            assert row.mean == pytest.approx(mean, rel=1e-4, abs=1e-6), (key, row.string)
            assert row.per_occurrence == pytest.approx(each, rel=1e-4, abs=1e-6), (key, row.string)


def two_minded() -> Model:
    """A classifier that does not predict one class for all: its bias is removed."""
    model = perturbed_model(tiny("bert", "classify", num_labels=3))
    with torch.no_grad():
        logits = [
            model.network(torch.tensor([model.tokenizer(text)["input_ids"]])).logits[0]
            for text in TEXTS
        ]
        model.network.classifier.bias -= torch.stack(logits).mean(0)
    assert len({explain(model, text, "random").predicted for text in TEXTS}) > 1
    return model


def test_types_are_loops_over_texts(tmp_path: Path) -> None:
    model, methods = two_minded(), ("input_x_gradient", "attention_last")
    study = attlas.study(model, TEXTS, [Explanations(methods=methods)], tmp_path / "study")
    expected = types_slowly(model, TEXTS, methods)
    assert_types(study.table("attribution_types"), expected)
    counts = pd.Series([explain(model, text, "random").predicted for text in TEXTS]).value_counts()
    left, right = sorted(counts.index, key=lambda answer: (-counts[answer], answer))[:2]
    table = study.table("attribution_difference")
    assert set(table["left"]) == {left}
    assert set(table["right"]) == {right}
    for method in methods:
        one, two = expected[method, left], expected[method, right]
        rows = table[table["method"] == method]
        assert sorted(rows["string"]) == sorted({*one, *two})
        assert rows["difference"].is_monotonic_decreasing
        for row in rows.itertuples():
            means = [of.get(row.string, [0, 0, 0.0])[2] for of in (one, two)]
            assert (row.left_mean, row.right_mean) == pytest.approx(
                tuple(means), rel=1e-4, abs=1e-6
            )
            assert row.difference == pytest.approx(means[0] - means[1], rel=1e-4, abs=1e-6)


def test_only_the_ends_of_long_tables_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = classifier()
    one = Explanations(methods=("input_x_gradient",))
    whole = attlas.study(model, TEXTS, [one], tmp_path / "whole").table("attribution_types")
    monkeypatch.setattr(attributions, "SHOWN", 3)
    short = attlas.study(model, TEXTS, [one], tmp_path / "short").table("attribution_types")
    for answer, group in whole.groupby("predicted"):
        assert len(group) > 6
        ends = {*group["string"].head(3), *group["string"].tail(3)}  # by mean over texts
        often = group.sort_values("per_occurrence", kind="stable")["string"]
        ends |= {*often.head(3), *often.tail(3)}
        expected = group[group["string"].isin(ends)].reset_index(drop=True)
        assert 6 <= len(expected) < len(group)
        pd.testing.assert_frame_equal(
            short[short["predicted"] == answer].reset_index(drop=True), expected
        )


def test_a_class_may_be_called_all(tmp_path: Path) -> None:
    """The name that stands for any answer is nobody's."""
    model = named(two_minded(), "some", "all", "none")
    study = attlas.study(model, TEXTS, [Explanations(methods=("saliency",))], tmp_path / "study")
    table = study.table("attribution_types")
    found = [explain(model, text, "saliency") for text in TEXTS]
    total = sum(one.tokens.count("cat") for one in found)
    mine = sum(one.tokens.count("cat") for one in found if one.predicted == "all")
    assert 0 < mine < total
    assert sorted(table[table["string"] == "cat"]["occurrences"]) == sorted(
        [
            total,
            *(
                sum(one.tokens.count("cat") for one in found if one.predicted == answer)
                for answer in {one.predicted for one in found}
            ),
        ]
    )


def test_agreement_is_that_of_each_text(tmp_path: Path) -> None:
    model, methods = classifier(), ("input_x_gradient", "attention_last", "gradient_rollout")
    one = Explanations(methods=methods, keep=("all", "keywords"), p=0.8, top=0.2, permutations=3)
    study = attlas.study(model, TEXTS, [one], tmp_path / "study")
    sizes = {
        method: [np.abs(one.scores) for one in explain(model, list(TEXTS), method)]
        for method in methods
    }
    table, of_texts = study.table("agreement"), study.table("agreement_texts")
    assert len(table) == 2 * 2 * 2 * 4
    for keep in ("all", "keywords"):
        masks = [TokenMask.of(keep).mask(batch_of(model, text))[0].numpy() for text in TEXTS]
        able = [place for place, mask in enumerate(masks) if mask.sum() > 1]
        assert (len(able) == len(TEXTS)) == (keep == "all")
        for left in methods[1:]:
            for convention in ("sound", "published"):
                expected = agreement(
                    [sizes[left][place] for place in able],
                    [sizes[methods[0]][place] for place in able],
                    [masks[place] for place in able],
                    convention=convention,
                    p=0.8,
                    top=0.2,
                    permutations=3,
                )
                rows = table[
                    (table["left"] == left)
                    & (table["keep"] == keep)
                    & (table["convention"] == convention)
                ]
                assert set(rows["right"]) == {methods[0]}
                for row in rows.itertuples():
                    figure = expected[row.metric]
                    assert row.texts == figure.texts
                    assert (row.value, row.low, row.high) == pytest.approx(
                        (figure.value, figure.low, figure.high), abs=1e-4, nan_ok=True
                    )
    counts = study.manifest["counts"]
    few = [sum(TokenMask().mask(batch_of(model, text))[0].tolist()) < 2 for text in TEXTS]
    assert counts["not_compared"] == sum(few) > 1
    assert len(of_texts) == len(TEXTS) * 8
    undefined = of_texts[(of_texts["keep"] == "keywords") & (of_texts["kept"] < 2)]
    assert undefined["tau"].isna().all()
    assert sorted(undefined["text"].unique()) == [
        str(place) for place, one in enumerate(few) if one
    ]


def test_faithfulness_is_that_of_each_text(tmp_path: Path) -> None:
    model, methods, bins = classifier(), ("input_x_gradient", "rollout"), (0.2, 0.6)
    one = Explanations(methods=methods, faithfulness=("remove", "mask"), bins=bins, draws=3, seed=2)
    study = attlas.study(model, TEXTS, [one], tmp_path / "study")
    table, of_texts = study.table("faithfulness"), study.table("faithfulness_texts")
    assert len(table) == 2 * 2 * 2 * 3
    for how in ("remove", "mask"):
        for method in methods:
            expected = faithfulness(model, list(TEXTS), method, how=how, bins=bins, draws=3, seed=2)
            rows = of_texts[(of_texts["how"] == how) & (of_texts["method"] == method)]
            assert rows["text"].tolist() == [str(place) for place in range(len(TEXTS))]
            for number, measured in enumerate(("comprehensiveness", "sufficiency")):
                np.testing.assert_allclose(
                    rows[measured], expected.by_bin[:, number].mean(-1), atol=1e-5
                )
                np.testing.assert_allclose(
                    rows[f"{measured}_random"], expected.random[:, number].mean(-1), atol=1e-5
                )
                mine = table[
                    (table["how"] == how)
                    & (table["method"] == method)
                    & (table["measured"] == measured)
                ]
                whole = expected.to_frame().set_index("measured").loc[measured]
                (row,) = mine[mine["bin"] == 0].to_dict("records")
                for column in (
                    "value",
                    "random",
                    "low",
                    "high",
                    "difference",
                    "difference_low",
                    "difference_high",
                ):
                    assert row[column] == pytest.approx(whole[column], abs=1e-5), column
                for column, share in enumerate(bins):
                    value = float(mine[mine["bin"] == share]["value"].iloc[0])
                    assert value == pytest.approx(
                        expected.by_bin[:, number, column].mean(), abs=1e-5
                    )


def test_plausibility_is_that_of_texts_with_a_rationale(tmp_path: Path) -> None:
    model, method = classifier(), "input_x_gradient"
    spans = {0: ((2, 5), (24, 27)), 2: ((7, 15),), 3: ((0, 5),), 4: (), 6: ((0, 3),)}
    texts = [
        Text(str(place), text, annotations={"rationale": spans[place]} if place in spans else {})
        for place, text in enumerate(TEXTS)
    ]
    study = attlas.study(model, texts, [Explanations(methods=(method,))], tmp_path / "study")
    scores, marks = [], []
    for place in (0, 2, 3, 6):  # 4 has nothing marked
        one = explain(model, texts[place], method)
        words = TEXTS[place].split()
        starts = [len(" ".join(words[:number])) + bool(number) for number in range(len(words))]
        scores.append(one.by_word()[1:-1])
        marks.append(
            [
                any(start < stop and start + len(word) > first for first, stop in spans[place])
                for start, word in zip(starts, words, strict=True)
            ]
        )
    expected = plausibility(scores, marks)
    table = study.table("plausibility").set_index("metric")
    for metric in ("token_f1", "auprc"):
        row, figure = table.loc[metric], getattr(expected, metric)
        assert row["texts"] == 4
        assert (row["value"], row["random"]) == pytest.approx(
            (figure.value, figure.random), abs=1e-6
        )
    assert study.table("plausibility_texts")["text"].tolist() == ["0", "2", "3", "6"]


def test_importance_is_taken_as_it_is(tmp_path: Path) -> None:
    """Small numbers too: only their shares count."""
    model, method = classifier(), "attention_all_scaled"
    grid = np.random.default_rng(0).random((3, 4))
    for factor in (1.0, 1e-7):
        one = Explanations(methods=(method,), importance=grid * factor)
        study = attlas.study(model, [TEXT], [one], tmp_path / str(factor))
        assert study.manifest["counts"]["explained"] == 1
        expected = explain(model, TEXT, method, importance=grid).scores
        np.testing.assert_allclose(study.table("attributions")[method], expected, rtol=1e-4)


# beside other measures


@pytest.mark.parametrize("family", ["bert", "longformer"])
@pytest.mark.parametrize("other", ["entropy", "importance"])
def test_a_study_may_measure_attention_and_explain(family: str, other: str, tmp_path: Path) -> None:
    """Explanations must not affect the measures that read attention, nor the other way round."""
    model, texts = classifier(family), TEXTS[:4]
    one = Explanations(methods=("integrated_gradients", "gradient_rollout"), permutations=2)
    alone = frames(attlas.study(model, texts, [one], tmp_path / "alone"))
    measured = frames(attlas.study(model, texts, [other], tmp_path / "measured"))
    both = attlas.study(model, texts, [other, one], tmp_path / "both")
    assert both.manifest["counts"]["explained"] == len(texts)
    assert_same({other: both.table(other)}, {other: measured[other]})
    for name, table in alone.items():
        some = [
            column for column in table if column not in ("gap", "error")
        ]  # of the last digits of numbers
        pd.testing.assert_frame_equal(
            both.table(name)[some], table[some], rtol=1e-3, atol=1e-5, obj=name
        )


# what cannot be explained


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (lambda: tiny("bert"), {}, ModelError, r"without a head .*attlas finetune"),
        (classifier, {"target": "nothing"}, ModelError, "there is no class 'nothing'"),
        (classifier, {"target": 3}, ModelError, "there is no class 3"),
        (
            classifier,
            {"methods": ("attention_all_scaled",)},
            ModelError,
            "needs the importance of heads",
        ),
        (
            lambda: tiny("bert", "classify", num_labels=1),
            {},
            ModelError,
            "one number and no probability",
        ),
    ],
)
def test_a_model_that_cannot_be_explained_is_refused_before_any_work(
    model: Any, options: dict[str, Any], error: type[AttlasError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        attlas.study(model(), TEXTS, [Explanations(**options)], tmp_path / "study")
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ()}, "name at least one"),
        ({"methods": ("saliency", "saliency")}, "each once"),
        ({"methods": ("magic",)}, "there is no method 'magic'"),
        ({"at": "parts"}, "at='parts' is for single texts"),
        ({"baseline": "nothing"}, "there is no baseline"),
        ({"tolerance": -1}, "tolerance is -1"),
        ({"max_evaluations": 3}, "max_evaluations is 3; it must be a whole number at least 9"),
        ({"keep": ("nouns",)}, "there is no kind of tokens 'nouns'"),
        ({"faithfulness": ("burn",)}, "how is 'burn'"),
        (
            {"faithfulness": ("remove",), "bins": (2,)},
            "bins is .* each a number above 0 and below 1",
        ),
    ],
)
def test_what_cannot_be_is_said_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MeasureError, match=message):
        Explanations(**options)


def test_the_experiment_has_the_names_and_defaults_of_the_measure() -> None:
    assert tuple(METHODS) == experiment.METHODS
    assert experiment.KEEPS == KINDS
    mine = attlas.Explain(data=[]).options
    theirs = {one.name: one.default for one in fields(Explanations) if one.name != "importance"}
    assert {
        **mine,
        "faithfulness": (),
    } == theirs  # of one measure among many, it is tested if asked for
    assert mine["faithfulness"] == ("remove",)
    assert attlas.Explain(data=[], methods="all").methods == tuple(METHODS)[:-1]
    assert attlas.Explain(data=[], faithfulness="none").faithfulness == ()
    choices = {
        name: about.choices
        for name, about in declared(attlas.Explain).items()
        if isinstance(about, Option)
    }
    assert (choices["of"], choices["baseline"], choices["at"]) == (OF, BASELINES, AT[:2])
    assert choices["faithfulness"] == (*HOW, "none")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ()}, "methods is empty"),
        ({"methods": "saliency,saliency"}, "name each once"),
        ({"methods": "all,saliency"}, "all cannot be combined"),
        ({"faithfulness": "none,mask"}, "none cannot be combined"),
        ({"bins": ()}, "bins is empty"),
        (
            {"keep": "all,nouns"},
            "keep is 'all,nouns'; each must be all or ordinary or words or keywords",
        ),
    ],
)
def test_lists_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AttlasError, match=message):
        attlas.Explain(data=[], **options)


def test_importance_may_be_given(tmp_path: Path) -> None:
    """By a study, its folder or its numbers: one and the same."""
    texts = [Text(str(place), text, label=f"LABEL_{place % 2}") for place, text in enumerate(TEXTS)]
    model = classifier()
    attlas.study(model, texts, "importance", tmp_path / "study")
    given = attlas.Study.open(tmp_path / "study")
    options = {
        "data": texts,
        "model": model,
        "methods": "attention_all_scaled,random",
        "permutations": 2,
    }
    grid = importance_grid(given)
    done = [
        attlas.run(attlas.Explain(**options, importance=one), progress=False)
        for one in (None, given, tmp_path / "study", grid)
    ]
    for one in done:
        assert table_bytes(one.folder) == table_bytes(done[0].folder)
    found = [one.manifest["identity"]["importance"] for one in done]
    assert found[0] != found[1] == found[2] == found[3]


def test_the_command_line_can_name_every_parameter() -> None:
    measures = (
        "explanations(methods=integrated_gradients+saliency, faithfulness=remove+mask, "
        "bins=0.1+0.5, keep=all+ordinary, tolerance=0.1)"
    )
    expected = Explanations(
        methods=("integrated_gradients", "saliency"),
        faithfulness=("remove", "mask"),
        bins=(0.1, 0.5),
        keep=("all", "ordinary"),
        tolerance=0.1,
    )
    assert measures_of(measures) == [expected]
    assert "explanations" not in [one.name for one in measures_of("all")]
    assert set(expected.methods) <= set(METHODS)


def test_bad_texts_are_left_out_and_named_and_the_others_go_on(tmp_path: Path) -> None:
    model = not_a_number(perturbed_model(tiny("bert", "classify", num_labels=3)))
    texts = [
        Text("good", "a good film", label="LABEL_1"),
        Text("unlabelled", "a very cat"),
        Text("strange", "a cat film", label="stars"),
        Text("empty", " ", label="LABEL_0"),
        Text("nothing", "\u200b", label="LABEL_0"),
        Text("infinite", "a bad film", label="LABEL_0"),
        Text("one", "cat", label="2"),
        Text("masked", "a the of", label="LABEL_0"),
        Text("last", "a good dog", label="LABEL_1"),
    ]
    one = Explanations(methods=("integrated_gradients", "attention_last"), target="label")
    study = attlas.study(model, texts, [one], tmp_path / "study")
    counts = study.manifest["counts"]
    assert {
        name: counts[name]
        for name in ("read", "analysed", "explained", "unexplained", "not_converged")
    } == {
        "read": 9,
        "analysed": 7,
        "explained": 4,
        "unexplained": 3,
        "not_converged": 0,
    }
    assert counts["not_compared"] == 2  # "cat" and "a the of" have no two keywords
    why = reasons(study)
    assert sorted(why) == ["empty", "infinite", "nothing", "strange", "unlabelled"]
    assert "has no label to explain" in why["unlabelled"]
    assert "has the label 'stars', but the model knows LABEL_0" in why["strange"]
    assert "are NaN or infinite" in why["infinite"]
    assert "empty" in why["empty"]
    assert "makes no token" in why["nothing"]
    rows = [json.loads(line) for line in study.quarantine.read_text().splitlines()]
    assert {row["id"]: row.get("measure") for row in rows}["infinite"] == "explanations"
    explained = study.table("explanations")
    assert explained["text"].drop_duplicates().tolist() == ["good", "one", "masked", "last"]
    fine = [text for text in texts if text.id in ("good", "one", "masked", "last")]
    alone = attlas.study(model, fine, [one], tmp_path / "alone")
    least = float((explained["value"] - explained["baseline"]).abs().min())
    shares = {"gap": 1 / least, "error": 1 / least}  # of a difference between probabilities
    for name in ("explanations", "attributions", "attribution_types", "agreement"):
        close_tables(
            study.table(name), alone.table(name), 2 * terms_of(model.network), shares
        )  # forward and back


def test_a_corpus_of_which_nothing_can_be_explained(tmp_path: Path) -> None:
    texts = [Text("0", "a cat", label="stars"), Text("1", "the dog", label="stars")]
    study = attlas.study(classifier(), texts, [Explanations(target="label")], tmp_path / "study")
    counts = study.manifest["counts"]
    assert (counts["analysed"], counts["unexplained"]) == (2, 2)
    assert counts["explained"] == 0
    assert sorted(reasons(study)) == ["0", "1"]
    assert "explanations" not in study.tables
    assert study.report(tmp_path / "report.html").is_file()
    with pytest.raises(
        MeasureError,
        match=r"no text could be explained; the first, '0': text '0' has the label 'stars', but",
    ):
        attlas.run(
            attlas.Explain(data=texts, model=classifier(), target="label"),
            tmp_path / "none",
            progress=False,
        )
    with pytest.raises(MeasureError, match="the target is 'label', but no text has one"):
        attlas.run(
            attlas.Explain(data=["a cat"], model=classifier(), target="label"), progress=False
        )
    done = attlas.run(
        attlas.Explain(data=texts, model=classifier(), methods="saliency"),
        tmp_path / "none",
        progress=False,
    )
    assert done.result["texts"] == 2, "a failed run has no claim on its folder"


def test_a_first_part_of_which_nothing_can_be_explained(tmp_path: Path) -> None:
    texts = [Text(f"bad{number}", "a cat") for number in range(70)]
    texts += [Text("good", "a dog sat", label="LABEL_1")]
    study = attlas.study(
        classifier(),
        texts,
        [Explanations(methods=("saliency",), target="label")],
        tmp_path / "study",
    )
    counts = study.manifest["counts"]
    assert (counts["explained"], counts["unexplained"]) == (1, 70)
    assert study.table("attributions")["string"].tolist() == ["[CLS]", "a", "dog", "sat", "[SEP]"]


def test_what_did_not_converge_is_counted(tmp_path: Path) -> None:
    model = classifier("distilbert")
    one = Explanations(methods=("integrated_gradients",), tolerance=1e-3, max_evaluations=20)
    study = attlas.study(model, TEXTS, [one], tmp_path / "study")
    explained = study.table("explanations")
    late = [
        not explain(model, text, tolerance=1e-3, max_evaluations=20).converged for text in TEXTS
    ]
    assert (~explained["converged"]).tolist() == late
    assert study.manifest["counts"]["not_converged"] == sum(late) > 0
    assert explained["evaluations"].max() <= 20


def test_a_text_of_one_token_does_not_stop_a_causal_classifier(tmp_path: Path) -> None:
    """Its only token cannot be taken away."""
    one = Explanations(methods=("saliency",), faithfulness=("remove",))
    study = attlas.study(
        perturbed_model(gpt2_classifier()),
        ["a cat sat", "dog", "the film"],
        [one],
        tmp_path / "study",
    )
    counts = study.manifest["counts"]
    assert counts["explained"] + counts["unexplained"] == 3
    assert counts["explained"] >= 2


# the same bytes


def test_one_worker_and_two_write_the_same_bytes(tmp_path: Path) -> None:
    one = Explanations(
        methods=("integrated_gradients", "gradient_shap", "attention_last", "gradient_rollout"),
        faithfulness=("remove",),
        draws=1,
        permutations=2,
    )
    for workers in (1, 2):
        attlas.study(classifier(), sentences(40), [one], tmp_path / str(workers), workers=workers)
    assert table_bytes(tmp_path / "1") == table_bytes(tmp_path / "2")


def finished(entries: Iterable[Path]) -> int:
    """How many shards are done; an entry that is being written is not."""
    return sum(not is_temporary(path.parent) for path in entries)


def test_stopped_half_way_it_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in this process as a kill would; `make attack` kills the verb itself."""
    folder, data = tmp_path / "model", tmp_path / "texts.txt"
    classifier().save(folder)
    data.write_text("\n".join(sentences(130)))
    one = Explanations(
        methods=("integrated_gradients", "attention_last"),
        tolerance=0.5,
        permutations=1,
        keep=("all",),
    )

    def run(out: str) -> Study:
        return attlas.study(
            attlas.load(folder, task="auto"), data, [one], tmp_path / out, workers=1
        )

    states = tmp_path / "broken" / "states"
    with (
        stopping(monkeypatch, lambda: finished(states.glob("*/entry.json")) == 2),
        pytest.raises(Stopped),
    ):
        run("broken")
    with pytest.raises(StudyError, match="not complete"):
        Study.open(tmp_path / "broken")
    broken, whole = run("broken"), run("whole")
    assert table_bytes(broken.folder) == table_bytes(whole.folder)
    assert broken.manifest["counts"] == whole.manifest["counts"]
    assert broken.quarantine.read_bytes() == whole.quarantine.read_bytes()
    assert whole.manifest["measures"] == {"explanations": repr(one)}
    with pytest.raises(StudyError, match="was made with another set of measures"):
        attlas.study(attlas.load(folder, task="auto"), data, [Explanations()], tmp_path / "broken")


def test_a_stopped_experiment_resumes_by_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 190 texts that are explained, two shards of 64 are done when it is stopped, in this
    process as a kill would; `make attack` kills the verb itself.
    """
    classifier().save(tmp_path / "model")
    (tmp_path / "texts.jsonl").write_text(
        "\n".join(json.dumps({"text": text}) for text in [*sentences(190), " "])
    )
    options = {
        "data": str(tmp_path / "texts.jsonl"),
        "model": str(tmp_path / "model"),
        "methods": "input_x_gradient,attention_all_scaled",
        "keep": "all",
        "permutations": 1,
        "faithfulness": "none",
    }
    states = tmp_path / "broken" / "states"
    with (
        stopping(monkeypatch, lambda: finished(states.glob("*/states/*/entry.json")) == 2),
        pytest.raises(Stopped),
    ):
        attlas.run(attlas.Explain(**options), tmp_path / "broken", workers=1, progress=False)
    whole = attlas.run(attlas.Explain(**options), tmp_path / "whole", progress=False)
    ran: list[tuple[str, int]] = []
    job = attlas.studies.run.ShardJob

    def counting(*given: Any) -> Any:
        ran.append((given[1][0].name, given[3].index))
        return job(*given)

    monkeypatch.setattr(attlas.studies.run, "ShardJob", counting)
    broken = attlas.run(attlas.Explain(**options), tmp_path / "broken", progress=False)
    assert set(ran) <= {("explanations", 2)}, ran
    assert table_bytes(broken.folder) == table_bytes(whole.folder)
    assert broken.quarantine.read_bytes() == whole.quarantine.read_bytes()
    assert broken.manifest["counts"] == whole.manifest["counts"]
    assert (broken.manifest["counts"]["read"], broken.manifest["counts"]["quarantined"]) == (191, 1)
    assert not states.exists()
