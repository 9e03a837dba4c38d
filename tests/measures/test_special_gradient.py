"""Gradients of attention weights, against a twin and finite differences."""

from __future__ import annotations

import copy
import math
import sys
from contextlib import contextmanager
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

import attlas
from attlas.core.text import Text
from attlas.measures.entropy import Entropy
from attlas.measures.head_distance import HeadDistance
from attlas.measures.importance import Importance
from attlas.measures.special_gradient import COLUMNS, SpecialGradient, special_gradient
from attlas.models.differentiate import differentiate, pseudo_loss
from attlas.support.errors import ModelError
from attlas.testing import check_measure, stream, tiny
from tests.builders.heads import TEXTS, run
from tests.builders.models import perturbed_model
from tests.close import close_tables, terms_of
from tests.twins.measures import sizes_slowly

# gradients of weights


class Twin:
    """A network in float64 whose attention is written out in full, so that something can be added
    to any weight of any layer."""

    def __init__(self, model):
        self.model = model
        self.network = copy.deepcopy(model.network).double()
        self.causal = model.network.config.model_type in ("gpt2", "llama")
        if model.banded:
            for module in self.network.modules():
                if type(module).__name__ == "LongformerSelfAttention":
                    module.forward = lambda *args, module=module, **options: self.longformer(
                        module, *args, **options
                    )
        else:
            self.network.set_attn_implementation("eager")

    def softmax(self, scores, visible):
        return (
            torch.softmax(scores.masked_fill(~visible, -torch.inf), -1)
            + self.added[len(self.visible) - 1]
        )

    def attention(self, module, query, key, value, *_, scaling=None, **__):
        """[text, head, token, dimension] each; as eager attention is called by transformers."""
        n, groups = query.shape[2], query.shape[1] // key.shape[1]
        key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
        visible = torch.ones(n, n, dtype=torch.bool)
        self.visible.append(visible.tril() if self.causal else visible)
        scores = (
            query
            @ key.transpose(-1, -2)
            * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        )
        weights = self.softmax(scores, self.visible[-1])
        return (weights @ value).transpose(1, 2), weights

    def longformer(self, module, states, *_, is_index_global_attn=None, **__):
        texts, n, width = states.shape
        everywhere = is_index_global_attn[0]

        def split(projection):
            return projection(states).view(texts, n, module.num_heads, -1).transpose(1, 2)

        query, key, value = (split(getattr(module, name)) for name in ("query", "key", "value"))
        wide = [split(getattr(module, f"{name}_global")) for name in ("query", "key", "value")]
        near = (
            torch.arange(n)[:, None] - torch.arange(n)
        ).abs() <= module.one_sided_attn_window_size
        self.visible.append(near | everywhere | everywhere[:, None])
        scores = torch.where(
            everywhere[:, None], wide[0] @ wide[1].transpose(-1, -2), query @ key.transpose(-1, -2)
        )
        weights = self.softmax(scores / math.sqrt(module.head_dim), self.visible[-1])
        out = torch.where(everywhere[:, None], weights @ wide[2], weights @ value)
        return (out.transpose(1, 2).reshape(texts, n, width),)

    @contextmanager
    def adding(self, added):
        """While open, `added` [layer, head, query, key] is added to the weights."""
        self.added, self.visible = added, []
        module = sys.modules[type(self.network).__module__]
        kept = getattr(module, "eager_attention_forward", None)
        if kept is not None:
            module.eager_attention_forward = self.attention
        try:
            yield
        finally:
            if kept is not None:
                module.eager_attention_forward = kept

    def loss(self, batch, text, added, label=None):
        """The loss of one text, in plain words."""
        ids = batch.ids[text : text + 1]
        inputs = {name: tensor[text : text + 1] for name, tensor in batch.inputs.items()}
        with self.adding(added):
            output = self.network(input_ids=ids, **inputs)
        ordinary = [token for token in range(batch.n_tokens) if not batch.special[text, token]]
        if self.model.task == "base":
            signs = (
                torch.randint(0, 2, (32,), generator=torch.Generator().manual_seed(0)).double() * 2
                - 1
            )
            states = output.last_hidden_state[0, ordinary]
            return (states * signs / math.sqrt(32)).sum(-1).mean()
        surprise = -torch.log_softmax(output.logits[0], -1)
        if self.model.task == "classify":
            return surprise[int(surprise.argmin()) if label is None else label]
        if self.model.task == "mlm":
            return sum(surprise[token, ids[0, token]] for token in ordinary) / len(ordinary)
        return sum(surprise[token, ids[0, token + 1]] for token in range(batch.n_tokens - 1)) / (
            batch.n_tokens - 1
        )


TASKS = [
    ("bert", "mlm"),
    ("bert", "classify"),
    ("bert", "base"),
    ("gpt2", "lm"),
    ("gpt2", "base"),
    ("llama", "lm"),
    ("longformer", "classify"),
    ("longformer", "base"),
    ("distilbert", "classify"),
]


LEARNT = (
    Text("0", "a cat sat on . ,", label="1"),
    Text("1", "the dog , it . we", label="0"),
    Text("2", "not a bad film of we"),
)  # 8 tokens with marks, so that transformers' Longformer pads nothing


@cache
def learnt(family, task):
    """A model, a batch of several texts after its backward pass, and the twin's gradient of each:
    [text][layer, head, query, key]."""
    model = perturbed_model(tiny(family, task, seed=2))
    if family == "longformer":
        model = attlas.load(model, global_tokens=(0, 3))
    encoder = model.full_encoder
    batch = encoder.batch(encoder.encode(list(enumerate(LEARNT))), model.device)
    backward = differentiate(model, batch, weights=True)
    twin = Twin(model)
    gradients, values = [], []
    for number, text in enumerate(LEARNT):
        added = torch.zeros(
            3, 4, batch.n_tokens, batch.n_tokens, dtype=torch.float64, requires_grad=True
        )
        loss = twin.loss(batch, number, added, None if text.label is None else int(text.label))
        gradients.append(torch.autograd.grad(loss, added)[0])
        values.append(float(loss.detach()))
    visible = torch.stack(twin.visible)  # layer query key
    return model, batch, backward, twin, gradients, values, visible


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_the_gradient_of_each_weight_is_that_of_the_twin_and_a_finite_difference(family, task):
    _, batch, backward, twin, gradients, values, visible = learnt(family, task)
    np.testing.assert_allclose(backward.loss, values, rtol=1e-4, atol=1e-5)
    assert [layer.index for layer in backward.layers] == [0, 1, 2]
    for text, gradient in enumerate(gradients):
        for layer in range(3):
            found = backward.layers[layer].gradient().dense().weights[text].double()
            scale = float(gradient.abs().max())
            torch.testing.assert_close(
                found[:, visible[layer]],
                gradient[layer][:, visible[layer]],
                rtol=2e-3,
                atol=2e-5 * scale,
            )
    random = np.random.default_rng(0)
    step, digits = (
        (1e-2, 2e-2) if family == "llama" else (1e-5, 1e-4)
    )  # Llama's norm is worked out in float32
    label = int(LEARNT[0].label)
    for layer in range(3):
        for head, query, key in [
            (1, 0, 0),
            *(random.integers(0, (4, batch.n_tokens, batch.n_tokens)).tolist() for _ in range(4)),
        ]:
            losses = []
            for sign in (1, -1):
                added = torch.zeros(3, 4, batch.n_tokens, batch.n_tokens, dtype=torch.float64)
                added[layer, head, query, key] = sign * step
                with torch.no_grad():
                    losses.append(float(twin.loss(batch, 0, added, label)))
            slope = (losses[0] - losses[1]) / (2 * step)
            exact = float(gradients[0][layer, head, query, key])
            assert slope == pytest.approx(exact, rel=digits, abs=digits * 1e-2)
            if visible[layer, query, key]:
                found = float(
                    backward.layers[layer].gradient().dense().weights[0, head, query, key]
                )
                assert slope == pytest.approx(
                    found, rel=max(digits, 2e-3), abs=digits * float(gradients[0].abs().max())
                )


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_special_gradient_is_its_twin(family, task):
    model, batch, backward, _, gradients, _, visible = learnt(family, task)
    tokens = [model.tokenizer.convert_ids_to_tokens(ids) for ids in batch.ids.tolist()]
    expected = np.array(
        [
            [
                [
                    sizes_slowly(
                        gradient[layer, head].tolist(), visible[layer].tolist(), tokens[text]
                    )
                    for head in range(4)
                ]
                for layer in range(3)
            ]
            for text, gradient in enumerate(gradients)
        ]
    )
    found = np.stack([special_gradient(layer).numpy() for layer in backward.layers], 1)
    has_marks = family not in ("gpt2", "llama")
    assert np.isnan(expected[0, 0, 0]).tolist() == [
        not has_marks,
        not has_marks,
        False,
        False,
        False,
    ]
    assert np.isnan(expected[2, 0, 0]).tolist() == [
        not has_marks,
        not has_marks,
        True,
        False,
        False,
    ]
    assert np.nanmax(expected) > 1e-4
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-5 * np.nanmax(expected))


@pytest.mark.parametrize("family", ["gemma2", "modernbert", "gpt_neox"])
def test_special_gradient_counts_only_weights_that_windows_let_be_given(family):
    model = tiny(family)
    backward = differentiate(
        model,
        stream_batch(model, Text("a", "a cat sat on the mat , it was not good .")),
        weights=True,
    )
    assert any(layer.visible is not None for layer in backward.layers)
    for layer in backward.layers:
        sizes = layer.gradient().dense().weights[0].abs()
        visible = (
            torch.ones_like(sizes[0], dtype=torch.bool)
            if layer.visible is None
            else layer.visible[0, 0]
        )
        torch.testing.assert_close(
            special_gradient(layer)[0, :, COLUMNS.index("all")],
            sizes[:, visible].mean(-1),
            rtol=1e-4,
            atol=1e-7,
        )


@pytest.mark.parametrize(
    ("family", "task"), [("bert", "mlm"), ("gpt2", "lm"), ("longformer", "classify")]
)
def test_special_gradient_of_a_corpus_is_the_mean_over_texts(family, task, tmp_path):
    model, batch, *_ = learnt(family, task)
    each = np.stack(
        [
            [
                special_gradient(layer)[0].numpy()
                for layer in differentiate(model, batch[one : one + 1], weights=True).layers
            ]
            for one in range(3)
        ]
    ).reshape(3, 12, -1)  # text, head of all layers, column
    together = np.stack(
        [special_gradient(layer) for layer in differentiate(model, batch, weights=True).layers], 1
    )
    np.testing.assert_allclose(together.reshape(3, 12, -1), each, rtol=2e-4, atol=1e-6)
    study = attlas.study(model, list(LEARNT), "special_gradient", tmp_path / "study")
    table = study.table("special_gradient")
    assert table[["layer", "head"]].to_numpy().tolist() == [
        [layer, head] for layer in range(3) for head in range(4)
    ]
    for number, name in enumerate(COLUMNS):
        frame = pd.DataFrame(each[:, :, number])
        np.testing.assert_allclose(table[name], frame.mean(), rtol=2e-4, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(
            table[f"{name}_error"], frame.sem(), rtol=5e-3, atol=1e-6, err_msg=name
        )
        if name != "all":
            np.testing.assert_allclose(table[f"{name}_all"], table["all"], rtol=1e-12)
    assert "all_uniform" not in table
    alone = run(SpecialGradient(), stream(model, LEARNT), model)["special_gradient"]
    pd.testing.assert_frame_equal(alone, table, rtol=2e-4, atol=1e-6)


def test_special_gradient_keeps_the_contract_and_knows_its_punctuation():
    model = tiny("bert", "mlm")
    batches = stream(model, TEXTS)
    check_measure(SpecialGradient(), batches, model, 1e-6)
    bang = run(SpecialGradient(punctuation="!"), batches, model)["special_gradient"]
    (only,) = stream(model, [TEXTS[-1]])
    pd.testing.assert_series_equal(
        bang["punctuation"],
        run(SpecialGradient(punctuation="!"), [only], model)["special_gradient"]["punctuation"],
        rtol=1e-4,
    )
    assert run(SpecialGradient(), [only], model)["special_gradient"]["punctuation"].isna().all()


def test_the_pseudo_loss_is_a_mean_over_ordinary_tokens_along_one_direction():
    states = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(1))
    ordinary = torch.tensor([[False, True, True, False, True], [False] * 5])
    found = pseudo_loss(states, ordinary)
    direction = pseudo_loss(torch.eye(32)[:, None], torch.ones(32, 1, dtype=torch.bool))
    assert float(direction.norm()) == pytest.approx(1, rel=1e-6)
    assert direction.abs().unique().numel() == 1
    assert 4 < (direction > 0).sum() < 28
    assert float(found[0]) == pytest.approx(
        float((states[0, [1, 2, 4]] @ direction).mean()), rel=1e-5
    )
    assert float(found[1]) == 0  # nothing ordinary, no division by nothing
    torch.manual_seed(5)
    assert torch.equal(pseudo_loss(states, ordinary), found)  # whatever the global generator does


def test_nothing_is_left_on_a_model_whose_weights_were_differentiated():
    for family, task in (("bert", "mlm"), ("longformer", "classify"), ("gpt2", "base")):
        model = tiny(family, task)
        before = {
            name: (dict(module.__dict__), module.forward)
            for name, module in model.network.named_modules()
        }
        hooks = [
            (len(one._forward_hooks), len(one._forward_pre_hooks))
            for one in model.network.modules()
        ]
        implementation, digest = model.network.config._attn_implementation, model.weights_sha256()
        attlas.study(model, list(LEARNT), "special_gradient,totals", workers=2)
        model.network.train()
        differentiate(model, stream_batch(model), weights=True)
        assert all(module.training for module in model.network.modules())
        model.network.eval()
        after = {
            name: (dict(module.__dict__), module.forward)
            for name, module in model.network.named_modules()
        }
        assert after == before
        assert [
            (len(one._forward_hooks), len(one._forward_pre_hooks))
            for one in model.network.modules()
        ] == hooks
        assert all(parameter.grad is None for parameter in model.network.parameters())
        assert model.network.config._attn_implementation == implementation
        assert model.weights_sha256() == digest
        assert torch.is_grad_enabled()


def stream_batch(model, *texts):
    encoder = model.full_encoder
    given = texts or (Text("a", "the cat sat"),)
    return encoder.batch(encoder.encode(list(enumerate(given))), model.device)


@pytest.mark.parametrize(
    ("family", "task"), [("bert", "mlm"), ("longformer", "base"), ("gpt2", "lm")]
)
def test_parameters_that_are_frozen_have_special_gradients_too(family, task):
    model = perturbed_model(tiny(family, task))
    expected = run(SpecialGradient(), stream(model, LEARNT), model)["special_gradient"]
    model.network.requires_grad_(False)
    found = run(SpecialGradient(), stream(model, LEARNT), model)["special_gradient"]
    pd.testing.assert_frame_equal(found, expected, rtol=1e-5)
    assert not any(parameter.requires_grad for parameter in model.network.parameters())


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_importance_and_special_gradient_in_one_study_are_as_alone(family, tmp_path):
    model = perturbed_model(tiny(family, "classify"))
    measures = [SpecialGradient(), Importance(accumulate="grad"), Entropy(), HeadDistance()]
    both = attlas.study(model, list(LEARNT), measures, tmp_path / "both")
    for measure in measures:
        alone = attlas.study(model, list(LEARNT), [measure], tmp_path / measure.name)
        for name in set(alone.tables) - {"texts", "head_map"}:
            close_tables(
                both.table(name), alone.table(name), 2 * terms_of(model.network)
            )  # forward and back


@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer", "t5", "bart"])
def test_a_base_model_has_special_gradients_but_no_importance(family, tmp_path):
    model = tiny(family)
    done = attlas.study(
        model, ["a cat sat.", "the dog"], ["special_gradient", "surface"], tmp_path / "study"
    )
    assert done.table("special_gradient")["other"].gt(0).all()
    for asked in ("importance", "special_gradient,importance"):
        with pytest.raises(
            ModelError, match=r"is loaded without a head .* so it has no loss"
        ) as caught:
            attlas.study(model, ["a cat"], asked, tmp_path / "refused")
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "refused").exists()


def test_a_model_in_training_mode_gives_what_it_gives_in_evaluation():
    for task in ("mlm", "base"):
        model = tiny("bert", task)
        expected = differentiate(model, stream_batch(model), weights=True)
        model.network.train()
        found = differentiate(model, stream_batch(model), weights=True)
        assert model.network.training
        for one, other in zip(found.layers, expected.layers, strict=True):
            assert torch.equal(one.gradient().received, other.gradient().received)


def test_only_weights_that_were_asked_for_are_kept():
    model = tiny("bert", "classify")
    taken = []
    found = differentiate(model, stream_batch(model), taken.append)
    assert len(found.layers) == 0
    assert len(taken) == 3
    taken.clear()
    found = differentiate(model, stream_batch(model), taken.append, weights=True)
    assert list(found.layers) == taken
    plain = differentiate(model, stream_batch(model))
    torch.testing.assert_close(found.gates, plain.gates, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found.taylor, plain.taylor, rtol=1e-5, atol=1e-9)
