"""Measures: the contract on every one of them, their numbers against twins on transformers' own
weights, and a contract that catches what is broken."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from attlas.catalogue import MEASURES, measures_of
from attlas.core.text import Text
from attlas.measures.entropy import BINS, EXAMPLES, Entropy
from attlas.measures.positions import Positions, offset_names
from attlas.measures.surface import COLUMNS, Surface, surface
from attlas.measures.topk import TopK
from attlas.measures.totals import Totals
from attlas.support.errors import MeasureError
from attlas.testing import fold, stream, tiny
from tests.builders.measures import (
    FAMILIES,
    TEXTS,
    seen,
)
from tests.close import close
from tests.twins import attention as attention_twins, measures as measures_twins


def heads_of(values):
    """The mean and standard error over texts (equal weight each, NaN absent) of values [text,
    layer, head, ...], a row a head."""
    table = np.array(values).reshape(len(values), -1)
    frame = pd.DataFrame(table)
    shape = (-1, *np.shape(values)[3:])
    return frame.mean().to_numpy().reshape(shape), frame.sem().to_numpy().reshape(shape)


def by_head(twin, raw, *arguments):
    """A twin on each text, layer and head, and on the uniform pattern in place of each head."""
    given = [[argument(one) for argument in arguments] for one in raw]
    real = [
        [[twin(head, *own) for head in heads] for heads in one.weights.tolist()]
        for one, own in zip(raw, given, strict=True)
    ]
    even = [
        [[twin(attention_twins.uniform(visible), *own)] * 4 for visible in one.visible.tolist()]
        for one, own in zip(raw, given, strict=True)
    ]
    return real, even


def compare(table, columns, values):
    assert table["layer"].tolist() == [layer for layer in range(3) for _ in range(4)]
    assert table["head"].tolist() == [0, 1, 2, 3] * 3
    for number, name in enumerate(columns):
        np.testing.assert_allclose(
            table[name], values[:, number], rtol=1e-5, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_captured_weights_are_transformers_own(family):
    _, batches, raw = seen(family)
    for layers, one in zip(batches, raw, strict=True):
        for layer, weights, visible in zip(layers, one.weights, one.visible, strict=True):
            np.testing.assert_allclose(layer.dense().weights[0], weights, rtol=0, atol=1e-7)
            assert np.array_equal(
                np.ones_like(visible)
                if layer.dense().visible is None
                else layer.dense().visible[0, 0],
                visible,
            )
            assert not weights[:, ~visible].any()


KINDS = ("", "_uniform", "_error", "_difference_error")
DECODERS = {"gemma2", "gpt2", "gpt_neox", "llama", "qwen3"}


@pytest.mark.parametrize("family", FAMILIES)
def test_surface_is_its_twin(family):
    model, batches, raw = seen(family)
    table = Surface().result(fold(Surface(), batches, model))["surface"]
    marks = [
        lambda one, mark=mark: [token in mark for token in one.tokens]
        for mark in (("[CLS]",), ("[SEP]",), (".", ","))
    ]
    real, even = (np.array(one, float) for one in by_head(measures_twins.surface, raw, *marks))
    never = (np.nan_to_num(even) == 0).all((0, 1, 2)) & ~np.isnan(even).all((0, 1, 2))
    real[..., never], even[..., never] = np.nan, np.nan  # no query sees such a token
    assert [name for name, one in zip(COLUMNS, never, strict=True) if one] == (
        ["next"] if family in DECODERS else []
    )
    mean, error = heads_of(real)
    compare(table, COLUMNS, mean)
    compare(table, [f"{name}_error" for name in COLUMNS], error)
    compare(table, [f"{name}_uniform" for name in COLUMNS], heads_of(even)[0])
    apart = heads_of(np.subtract(real, even))[1]
    compare(table, [f"{name}_difference_error" for name in COLUMNS], apart)
    has_marks = family in ("bert", "longformer")
    assert table[["cls", "sep", "sep_from_sep", "sep_from_rest"]].notna().all(None) == has_marks
    assert list(table.columns) == [
        "layer",
        "head",
        *(f"{name}{kind}" for name in COLUMNS for kind in KINDS),
    ]


def test_surface_counts_the_punctuation_it_is_given():
    model, batches, raw = seen("bert")
    table = Surface(punctuation="!").result(fold(Surface(punctuation="!"), batches, model))[
        "surface"
    ]
    real, _ = by_head(
        attention_twins.mass_to, raw, lambda one: [token == "!" for token in one.tokens]
    )
    expected = [[[np.mean(head) for head in heads] for heads in layers] for layers in real]
    np.testing.assert_allclose(table["punctuation"], heads_of(expected)[0], rtol=1e-5, atol=1e-6)
    assert (table["punctuation"] > 0).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_positions_are_their_twin(family):
    model, batches, raw = seen(family)
    for reach in (2, 8):
        table = Positions(reach=reach).result(fold(Positions(reach=reach), batches, model))[
            "positions"
        ]
        real, even = by_head(attention_twins.by_offset, raw, lambda one, reach=reach: reach)
        compare(table, offset_names(reach), heads_of(real)[0])
        compare(table, [f"{name}_uniform" for name in offset_names(reach)], heads_of(even)[0])
        np.testing.assert_allclose(table[offset_names(reach)].sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_entropy_by_length_is_its_twin(family):
    model, batches, raw = seen(family)
    table = Entropy().result(fold(Entropy(), batches, model))["entropy_by_length"]
    names = ["from", "to", "entropy", "uniform", "error", "texts"]
    assert list(table.columns) == ["layer", "head", *names]
    rows, most = by_head(attention_twins.row_entropy, raw)

    def expected(values, layer, head):
        pairs = [
            (len(one.tokens), np.mean(text[layer][head]))
            for text, one in zip(values, raw, strict=True)
        ]
        return measures_twins.by_length(pairs)

    for (layer, head), part in table.groupby(["layer", "head"]):
        twin = pd.DataFrame(
            expected(rows, layer, head), columns=["from", "to", "entropy", "error", "texts"]
        )
        uniform = [row[2] for row in expected(most, layer, head)]
        wanted = twin.assign(uniform=uniform)[names]
        np.testing.assert_allclose(part[names], wanted, rtol=1e-4, atol=1e-6)
    assert len(table) == 12 * len(wanted)
    assert (table["texts"] > 0).sum() >= 24  # texts of several lengths


@pytest.mark.parametrize("family", FAMILIES)
def test_entropy_is_its_twin(family):
    model, batches, raw = seen(family)
    tables = Entropy().result(fold(Entropy(), batches, model))
    rows, most = by_head(attention_twins.row_entropy, raw)

    def of_cls(entropies, one):
        return np.mean(
            [
                entropy
                for entropy, token in zip(entropies, one.tokens, strict=True)
                if token == "[CLS]"
            ]
            or [np.nan]
        )

    def summed(values):
        return heads_of(
            [
                [[(np.mean(head), of_cls(head, one)) for head in heads] for heads in layers]
                for layers, one in zip(values, raw, strict=True)
            ]
        )

    mean, error = summed(rows)
    compare(tables["entropy"], ["entropy", "cls_entropy"], mean)
    compare(tables["entropy"], ["entropy_error", "cls_entropy_error"], error)
    compare(tables["entropy"], ["entropy_uniform", "cls_entropy_uniform"], summed(most)[0])
    below, shares = np.empty((3, 4, len(raw))), [[[] for _ in range(4)] for _ in range(3)]
    for text, (layers, tops) in enumerate(zip(rows, most, strict=True)):
        for layer in range(3):
            for head in range(4):
                below[layer, head, text] = np.mean(tops[layer][head]) - np.mean(layers[layer][head])
                shares[layer][head] += [
                    row / top
                    for row, top in zip(layers[layer][head], tops[layer][head], strict=True)
                    if top > 0
                ]
    counts = [
        np.histogram(np.clip(head, 0, 1), BINS, (0, 1))[0] for heads in shares for head in heads
    ]
    assert tables["entropy_histogram"]["rows"].tolist() == np.concatenate(counts).tolist()
    examples = tables["entropy_examples"]
    assert (
        examples["place"].tolist()
        == np.argsort(-below, kind="stable")[..., :EXAMPLES].reshape(-1).tolist()
    )
    longest, expected = (
        max(len(one.tokens) for one in raw),
        -np.sort(-below)[..., :EXAMPLES].reshape(-1),
    )
    close(
        examples["below_uniform"], expected, longest, magnitude=np.log(longest)
    )  # a difference of entropies


@pytest.mark.parametrize("family", FAMILIES)
def test_totals_are_their_twin(family):
    model, batches, raw = seen(family)
    table = Totals().result(fold(Totals(), batches[::-1], model))[
        "totals"
    ]  # whatever the order of batches
    expected = np.concatenate(
        [measures_twins.totals(one.weights.tolist(), one.visible.tolist()) for one in raw]
    )
    numbers = [
        "all",
        "uniform",
        "all_per_query",
        *(f"L{layer}" for layer in range(3)),
        *(f"L{layer}_per_query" for layer in range(3)),
    ]
    np.testing.assert_allclose(table[numbers], expected, rtol=1e-5, atol=1e-6)
    assert table["text"].tolist() == [
        str(place) for place, one in enumerate(raw) for _ in one.tokens
    ]
    assert table["token"].tolist() == [token for one in raw for token in range(len(one.tokens))]
    for row in table.itertuples():
        assert row.string == (
            TEXTS[int(row.text)][row.start : row.stop]
            if row.start >= 0
            else raw[int(row.text)].tokens[row.token]
        )


def test_measures_are_asked_for_by_name_or_made():
    assert (
        [measure.name for measure in measures_of("all")]
        == [name for name in MEASURES if not (MEASURES[name].costly or MEASURES[name].own)]
        == [
            name
            for name in MEASURES
            if name
            not in ("targets", "head_distance", "special_gradient", "importance", "explanations")
        ]
    )
    assert measures_of("entropy, positions") == [Entropy(), Positions()]
    assert measures_of([Positions(reach=3), "surface"]) == [Positions(reach=3), Surface()]
    assert measures_of(Entropy()) == [Entropy()]
    assert measures_of("topk(k=5, keep=words, layers=0+2, heads=1), positions(reach=3),") == [
        TopK(k=5, keep="words", layers=(0, 2), heads=(1,)),
        Positions(reach=3),
    ]
    assert TopK(keep="keywords:de+fr") != TopK()
    wrong = {
        "entropi": "no measure 'entropi'; the measures are surface, entropy",
        " ,": "no measure was given",
        "topk(k=0)": "k is 0",
        "topk(size=3)": "topk has no parameter 'size'; "
        "its parameters are k, keep, layers, heads, shown",
        "surface, topk(k": "is not a list of measures",
        "positions(reach)": "'reach' of positions has no value",
        "positions(reach=far)": "reach is 'far'; it must be a whole number",
        "topk(keep=nouns)": "nouns",
        "topk(keep=keywords:xx)": "xx",
        "entropy,entropy": "entropy was given twice",
    }
    for wanted, message in wrong.items():
        with pytest.raises(MeasureError, match=message):
            measures_of(wanted)
    with pytest.raises(MeasureError, match="reach is 0; it must be a whole number at least 1"):
        Positions(reach=0)


def test_measures_of_word_level_attention_know_its_marks() -> None:
    model = tiny("bert")
    layer = stream(model, [Text("0", "sitting , unfathomable .")])[0][0]
    words = layer.to_words()[0]
    assert words.batch.surfaces[0] == ("[CLS]", "sitting", ",", "unfathomable", ".", "[SEP]")
    named = dict(zip(COLUMNS, surface(words)[0].mean(0).tolist(), strict=True))
    square = words.dense().weights[0].mean(0)
    assert named["cls"] == pytest.approx(float(square[:, 0].mean()), abs=1e-6)
    assert named["sep"] == pytest.approx(float(square[:, 5].mean()), abs=1e-6)
    assert named["punctuation"] == pytest.approx(float(square[:, [2, 4]].sum(1).mean()), abs=1e-6)
