"""What heads contribute: Taylor, gates and ablation."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import attlas
from attlas.catalogue import MEASURES
from attlas.core.batch import Batch
from attlas.core.importance import importance_of, scaled
from attlas.core.text import Text
from attlas.measures.importance import Importance
from attlas.measures.section.findings import importance_claims
from attlas.models import Model
from attlas.models.differentiate import differentiate
from attlas.support.errors import MeasureError, ModelError
from attlas.testing import tiny
from tests.builders.long_texts import HEADS, result
from tests.builders.models import perturbed_model

# importance


LABELLED = [
    Text("a", "it was a good film", label="LABEL_1"),
    Text("b", "it was a very bad film , not good", label="LABEL_0"),
    Text("c", "the dog was a good film", label="LABEL_0"),
    Text("d", "a cat sat on the mat and it was not bad", label="1"),
    Text("e", "the cat was a bad film"),  # its own answer
]


def own_labels(model: Model, texts: Sequence[Text]) -> list[int]:
    """The label of each text as a number; the model's own answer where there is none."""
    wanted = []
    for text in texts:
        ids, inputs = inputs_of(model, text)
        with torch.no_grad():
            answer = int(copy.deepcopy(model.network)(ids, **inputs).logits.argmax())
        wanted.append(answer if text.label is None else int(text.label[-1]))
    return wanted


def inputs_of(model: Model, text: Text) -> tuple[Tensor, dict[str, Tensor]]:
    batch = batch_of(model, text)
    return batch.ids, {
        name: value
        for name, value in batch.inputs.items()
        if name in ("token_type_ids", "global_attention_mask")
    }


def batch_of(model: Model, *texts: Text) -> Batch:
    encoder = model.full_encoder
    return encoder.batch(encoder.encode(list(enumerate(texts))), model.device)


def head_products(model: Model, text: Text, label: int, whole: bool = True) -> list[list[Tensor]]:
    """Gradient times parameter of one text by transformers' own code and `param.grad`:
    [layer][head], all its parameters in a row.

    The `whole` of them has Longformer's projections of global tokens too, which the published code
    leaves out.
    """
    network: Any = copy.deepcopy(model.network)
    ids, inputs = inputs_of(model, text)
    network.zero_grad()
    nn.functional.cross_entropy(network(ids, **inputs).logits, torch.tensor([label])).backward()
    out = []
    for layer in network.base_model.encoder.layer:
        heads = []
        for head in range(HEADS):
            rows = slice(head * 8, (head + 1) * 8)
            parts = []
            own = layer.attention.self
            names = ["query", "key", "value"]
            names += [
                f"{name}_global" for name in names if whole and hasattr(own, f"{name}_global")
            ]
            for projection in (getattr(own, name) for name in names):
                parts += [
                    (projection.weight.grad * projection.weight)[rows],
                    (projection.bias.grad * projection.bias)[rows],
                ]
            dense = layer.attention.output.dense
            parts.append((dense.weight.grad * dense.weight)[:, rows])
            heads.append(torch.cat([part.detach().flatten() for part in parts]))
        out.append(heads)
    return out


@pytest.fixture(scope="module", params=["bert", "roberta", "longformer"])
def classifier(request: pytest.FixtureRequest) -> Model:
    return perturbed_model(tiny(request.param, "classify", seed=4))


def test_taylor_is_what_the_gradients_of_each_text_give(classifier: Model) -> None:
    products = [
        head_products(classifier, text, label)
        for text, label in zip(LABELLED, own_labels(classifier, LABELLED), strict=True)
    ]
    each = np.array(
        [[[float(head.square().sum()) for head in heads] for heads in text] for text in products]
    )
    found = result(Importance(), classifier, LABELLED)["importance"]
    assert "taylor_grad" not in found
    np.testing.assert_allclose(importance_of(found, "taylor"), each.mean(0), rtol=2e-3)
    np.testing.assert_allclose(
        importance_of(found, "taylor_error"), each.std(0, ddof=1) / math.sqrt(len(each)), rtol=5e-3
    )
    mean = each.mean(0)
    np.testing.assert_allclose(
        importance_of(found), (mean - mean.min()) / (mean.max() - mean.min()), atol=2e-3
    )
    assert found["importance"].min() == 0
    assert found["importance"].max() == 1

    published = [
        head_products(classifier, text, label, whole=False)
        for text, label in zip(LABELLED, own_labels(classifier, LABELLED), strict=True)
    ]
    summed = [
        [torch.stack([text[layer][head] for text in published]).mean(0) for head in range(HEADS)]
        for layer in range(3)
    ]
    expected = np.array([[float(head.square().sum()) for head in heads] for heads in summed])
    found = result(Importance(accumulate="grad"), classifier, LABELLED)["importance"]
    np.testing.assert_allclose(importance_of(found, "taylor_grad"), expected, rtol=5e-3)
    np.testing.assert_allclose(importance_of(found, "taylor"), each.mean(0), rtol=2e-3)
    np.testing.assert_allclose(
        importance_of(found),
        (expected - expected.min()) / (expected.max() - expected.min()),
        atol=5e-3,
    )


def test_what_one_text_teaches_does_not_depend_on_its_batch(classifier: Model) -> None:
    texts = [
        Text(str(number), f"the cat was {word} film", label="0")
        for number, word in enumerate(("bad", "good", "very"))
    ]
    together = differentiate(classifier, batch_of(classifier, *texts))
    assert together.taylor is not None
    for number, text in enumerate(texts):
        alone = differentiate(classifier, batch_of(classifier, text))
        assert alone.taylor is not None
        torch.testing.assert_close(together.loss[number], alone.loss[0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(together.gates[number], alone.gates[0], atol=1e-5, rtol=1e-3)
        torch.testing.assert_close(together.taylor[number], alone.taylor[0], atol=1e-7, rtol=1e-3)


def test_a_gate_is_the_slope_of_the_loss(classifier: Model) -> None:
    exact = attlas.load(
        (copy.deepcopy(classifier.network).double(), classifier.tokenizer), task="classify"
    )
    texts, step = LABELLED[:2], 5e-3
    wanted = own_labels(classifier, texts)
    slopes = np.zeros((len(texts), 3, HEADS))
    for number, text in enumerate(texts):
        batch = batch_of(exact, text)
        for layer in range(3):
            for head in range(HEADS):
                loss = []
                for gate in (1 + step, 1 - step):
                    gates = torch.ones(3, HEADS, dtype=torch.float64)
                    gates[layer, head] = gate
                    logits = exact.forward(batch, gates=gates, with_head=True).logits
                    loss.append(
                        float(nn.functional.cross_entropy(logits, torch.tensor([wanted[number]])))
                    )
                slopes[number, layer, head] = (loss[0] - loss[1]) / (2 * step)
    found = result(Importance(), classifier, texts)["importance"]
    np.testing.assert_allclose(
        importance_of(found, "gate"), abs(slopes).mean(0), rtol=2e-3, atol=2e-4
    )
    np.testing.assert_allclose(
        importance_of(found, "gate_signed"), slopes.mean(0), rtol=2e-3, atol=2e-4
    )


def test_ablation_is_a_head_cut_out_of_the_output_projection(classifier: Model) -> None:
    texts = LABELLED[:3]
    network: Any = copy.deepcopy(classifier.network)

    def loss(text: Text, label: int) -> float:
        ids, inputs = inputs_of(classifier, text)
        with torch.no_grad():
            return float(
                nn.functional.cross_entropy(network(ids, **inputs).logits, torch.tensor([label]))
            )

    known = list(zip(texts[:2], own_labels(classifier, texts[:2]), strict=True))
    grown = np.array([[[-loss(*one)] * HEADS] * 3 for one in known])
    for layer, module in enumerate(network.base_model.encoder.layer):
        weight = module.attention.output.dense.weight
        whole = weight.detach().clone()
        for head in range(HEADS):
            with torch.no_grad():
                weight[:, head * 8 : (head + 1) * 8] = 0
                grown[:, layer, head] += [loss(*one) for one in known]
                weight.copy_(whole)
    found = result(Importance(ablation=2), classifier, texts)["importance"]
    np.testing.assert_allclose(importance_of(found, "ablation"), grown.mean(0), atol=1e-4)
    np.testing.assert_allclose(
        importance_of(found, "ablation_error"), grown.std(0, ddof=1) / math.sqrt(2), atol=1e-4
    )
    medians = [np.median(one) for one in grown]  # of all heads of a text
    apart = grown - np.array(medians)[:, None, None]
    np.testing.assert_allclose(
        importance_of(found, "ablation_median"), np.full((3, HEADS), np.mean(medians)), atol=1e-4
    )
    np.testing.assert_allclose(
        importance_of(found, "ablation_difference_error"),
        apart.std(0, ddof=1) / math.sqrt(2),
        atol=1e-4,
    )
    assert (found["ablation_texts"] == 2).all()
    without = result(Importance(), classifier, texts)["importance"]
    assert without["ablation"].isna().all()
    assert without["ablation_median"].isna().all()
    assert (without["ablation_texts"] == 0).all()


def test_a_share_of_texts_is_ablated_whatever_their_order(classifier: Model) -> None:
    texts = [Text(f"t{n}", f"a {'very ' * (n % 4)}good film", label="LABEL_0") for n in range(8)]
    keys = sorted(text.key for text in texts)
    share = (keys[2] + keys[3]) / 2**64  # three texts are below
    tables = [
        result(Importance(ablation_share=share), classifier, order)["importance"]
        for order in (texts, texts[::-1])
    ]
    assert (tables[0]["ablation_texts"] == 3).all()
    pd.testing.assert_frame_equal(*tables, rtol=1e-4, atol=1e-5)
    chosen = [text for text in texts if text.key < share * 2**63]
    alone = result(Importance(ablation=3), classifier, chosen)["importance"]
    np.testing.assert_allclose(tables[0]["ablation"], alone["ablation"], rtol=1e-4, atol=1e-5)


def test_claims_about_ablation_count_the_texts_that_were_ablated(classifier: Model) -> None:
    """Not those of the study: three texts are never a signal."""
    texts = [Text(f"t{n}", f"a {'very ' * (n % 4)}good film", label="LABEL_0") for n in range(40)]
    study = attlas.study(classifier, texts, [Importance(ablation=3)], progress=False)
    claims = importance_claims(study)
    assert {claim.texts for claim in claims} == {3}
    table = study.table("importance")
    assert [claim.control for claim in claims] == table["ablation_median"].tolist()
    rows = study.head(1, 2).rows["Head importance"]
    row = next(one for one in rows if one.control_name == "median head" and one.verdict)
    assert (row.label, row.n) == ("growth of the loss without the head", 3)
    assert row.verdict != "signal"


def test_ablation_of_a_text_without_label_asks_for_the_whole_models_answer() -> None:
    """Without a head the model may answer otherwise; its loss is still that of what it said as a
    whole."""
    model = perturbed_model(tiny("bert", "classify", seed=1))
    text = Text("a", "a dog was very bad")
    (answer,) = own_labels(model, [text])
    table, same = (
        result(Importance(ablation=1), model, [Text("a", text.text, label=label)])["importance"]
        for label in (None, f"LABEL_{answer}")
    )
    pd.testing.assert_frame_equal(table, same, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "roberta", "longformer"])
def test_base_models_have_no_importance(family: str) -> None:
    model = tiny(family)
    for asked in ("importance", ["totals", "importance"], Importance(ablation=1)):
        with pytest.raises(
            ModelError, match=r"is loaded without a head .* so it has no loss;"
        ) as caught:
            attlas.study(model, ["a cat"], asked)
        assert "\n" not in str(caught.value)
    if family == "bert":
        assert "importance" in MEASURES
        assert "importance" not in attlas.study(model, ["a cat", "the dog"], "all").tables
    learned = differentiate(
        model, batch_of(model, Text("a", "a cat"))
    )  # a pseudo-loss, for measures that need no real one
    assert learned.loss.isfinite().all()


def named(**labels: int) -> Model:
    model = tiny("bert", "classify")
    model.network.config.label2id = dict(labels)
    model.network.config.id2label = {number: name for name, number in labels.items()}
    return model


@pytest.mark.parametrize(
    ("labels", "given"),
    [
        ({"bad": 0, "good": 1}, "so"),
        ({"bad": 0, "good": 1}, "2"),
        ({"bad": 0, "good": 1}, "-1"),
        ({"1": 0, "2": 1}, "0"),
        ({"2": 0, "3": 1}, "1"),
    ],
)
def test_a_label_that_the_model_does_not_know(labels: dict[str, int], given: str) -> None:
    model = named(**labels)
    known = ", ".join(labels)
    with pytest.raises(
        ModelError, match=f"some texts have the label '{given}', but the model knows {known}"
    ):
        attlas.study(model, [Text("x", "a cat", label=given)], "importance")
    with pytest.raises(
        ModelError, match=f"text 'x' has the label '{given}', but the model knows {known}"
    ):
        differentiate(model, batch_of(model, Text("x", "a cat", label=given)))


def test_labels_are_names_or_numbers() -> None:
    text = "the cat was a bad film"
    model = named(bad=0, good=1)
    losses = {
        label: float(differentiate(model, batch_of(model, Text("x", text, label=label))).loss[0])
        for label in ("bad", "good", "0", "1", None)
    }
    assert losses["bad"] == losses["0"] != losses["good"] == losses["1"]
    assert losses[None] == min(losses.values())
    turned = named(**{"1": 0, "0": 1})
    for name, number in (("1", "bad"), ("0", "good")):
        assert (
            float(differentiate(turned, batch_of(turned, Text("x", text, label=name))).loss[0])
            == losses[number]
        )


@pytest.mark.parametrize(
    ("family", "task"),
    [
        ("bert", "mlm"),
        ("gpt2", "lm"),
        ("llama", "lm"),
        ("distilbert", "classify"),
        ("bart", "classify"),
    ],
)
def test_other_heads_have_importance(family: str, task: str) -> None:
    model = tiny(family, task)
    table = result(Importance(ablation=1), model, ["the cat sat on it", "a dog"])["importance"]
    assert table["gate"].gt(0).all()
    assert table["ablation"].abs().gt(0).any()
    assert table["importance"].between(0, 1).all()
    assert table["taylor"].notna().all() or family == "gpt2"


def test_the_loss_of_language_models_is_transformers_own() -> None:
    for family, task in (("gpt2", "lm"), ("llama", "lm"), ("bert", "mlm")):
        model = tiny(family, task)
        batch = batch_of(model, Text("a", "the cat sat on a mat"))
        wanted = batch.ids.clone()
        wanted[torch.from_numpy(batch.special)] = -100
        with torch.no_grad():
            expected = model.network(batch.ids, labels=wanted).loss
        torch.testing.assert_close(
            differentiate(model, batch).loss[0], expected, atol=1e-5, rtol=1e-5
        )


def test_parameters_that_are_frozen_have_importance_too() -> None:
    model = perturbed_model(tiny("bert", "classify"))
    expected = result(Importance(), model, LABELLED)["importance"]
    model.network.requires_grad_(False)
    pd.testing.assert_frame_equal(result(Importance(), model, LABELLED)["importance"], expected)


def test_nothing_is_written_on_the_model() -> None:
    model = tiny("longformer", "classify")
    before = {
        name: (dict(module.__dict__), module.forward)
        for name, module in model.network.named_modules()
    }
    digest = model.weights_sha256()
    attlas.study(model, LABELLED, ["importance", "totals"], workers=2)
    assert all(parameter.grad is None for parameter in model.network.parameters())
    assert {
        name: (dict(module.__dict__), module.forward)
        for name, module in model.network.named_modules()
    } == before
    assert model.weights_sha256() == digest
    with pytest.raises(ModelError, match="have the label"):
        attlas.study(model, [Text("x", "a cat", label="so")], "importance")
    assert all(parameter.grad is None for parameter in model.network.parameters())


def test_importance_weighs_heads() -> None:
    table = pd.DataFrame(
        {"layer": [1, 0, 0, 1], "head": [0, 1, 0, 1], "importance": [3.0, 2.0, 1.0, 0.0]}
    )
    assert importance_of(table).tolist() == [[1, 2], [3, 0]]
    values = np.arange(12.0).reshape(2, 2, 3)
    assert scaled(values, importance_of(table)).tolist() == pytest.approx(
        [(1 * values[0, 0, i] + 2 * values[0, 1, i] + 3 * values[1, 0, i]) / 6 for i in range(3)]
    )
    with pytest.raises(MeasureError, match="nothing to scale by"):
        scaled(values, np.zeros((2, 2)))
    for wrong in ({"accumulate": "sum"}, {"ablation": -1}):
        with pytest.raises(MeasureError):
            Importance(**wrong)
