"""Attention classifiers against plain torch, loops and the formulas of Sun and Lu (2020)."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import load_file, save
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from attlas.core.text import Text
from attlas.corpora import read
from attlas.corpora.synthetic import synthetic, synthetic_named
from attlas.dynamics import AttentionClassifier, kernels, training
from attlas.dynamics.flow import Parameters, autograd_flow, check_flow, flow_terms
from attlas.dynamics.inputs import MappedVectors, model_of
from attlas.dynamics.layers import LSTM, Network, Pool, Shape, Steps
from attlas.dynamics.ragged import RaggedTexts, starts_of, to_ragged, tokens_of, vocabulary_of
from attlas.dynamics.scores import class_polarity, gammas, gap, kind_means, separation, token_kinds
from attlas.dynamics.training import Rows, Settings, Table
from attlas.models.vectors import GloveVectors, ModelVectors
from attlas.stats.intervals import Z, auc, wilson
from attlas.support import saving
from attlas.support.errors import AttlasError, CorpusError, MeasureError
from attlas.support.fingerprint import fingerprint
from attlas.testing import tiny
from tests import strategies
from tests.builders.dynamics import BAD, GOOD, REST, TINY, fitted, reviews
from tests.close import close
from tests.twins.dynamics import (
    auc_slowly,
    kind_slowly,
    many_slowly,
    states_slowly,
    terms_slowly,
    texts_of,
)

MODELS = list(product(("dot", "additive"), ("none", "affine", "lstm")))


def drawn_bags(
    rng: np.random.Generator, texts: int = 6, words: int = 5, longest: int = 6
) -> RaggedTexts:
    """Texts of few words, so that words repeat; the first has one token."""
    lengths = rng.integers(1, longest + 1, texts)
    lengths[0] = 1
    return RaggedTexts(
        rng.integers(0, words, lengths.sum()),
        starts_of(lengths),
        tuple(f"w{number}" for number in range(words)),
    )


def parts_of(classifier: AttentionClassifier) -> dict[str, np.ndarray]:
    """All numbers of a fitted classifier by name, the vectors of words first."""
    network = {
        name: part.numpy() for name, part in classifier.best_snapshot_.network.state_dict().items()
    }
    return {"table": classifier.best_snapshot_.table.rows, **network}


def same_parts(one: AttentionClassifier, other: AttentionClassifier) -> bool:
    ours, theirs = parts_of(one), parts_of(other)
    return ours.keys() == theirs.keys() and all(
        np.array_equal(ours[name], theirs[name]) for name in ours
    )


# ragged


@given(strategies.generators)
@settings(max_examples=30)
def test_bags_are_lists_of_lists(rng):
    ragged = drawn_bags(rng)
    texts, codes = texts_of(ragged), rng.integers(0, 3, len(ragged))
    chosen = rng.integers(0, len(ragged), 4)
    assert texts_of(ragged.take(chosen)) == [texts[place] for place in chosen]
    assert ragged.text_of.tolist() == [place for place, text in enumerate(texts) for _ in text]
    counts = Counter(
        (word, code) for text, code in zip(texts, codes.tolist(), strict=True) for word in text
    )
    assert ragged.counts(codes, 3).tolist() == [
        [counts[word, code] for code in range(3)] for word in range(5)
    ]
    states = rng.normal(size=(len(ragged.ids), 2)).astype(np.float32)
    taken = RaggedTexts(ragged.ids, ragged.starts, ragged.words, states).take(chosen)
    assert taken.states.tolist() == [
        row
        for place in chosen
        for row in states[ragged.starts[place] : ragged.starts[place + 1]].tolist()
    ]


def test_tokens_are_numbered_by_frequency_and_unknown_ones_behind_the_last():
    tokens = [["b", "a", "b"], ["c", "a", "b"], ["d"]]
    assert vocabulary_of(tokens) == ("b", "a", "c", "d")
    assert vocabulary_of(tokens, 2) == ("b", "a")
    ragged = to_ragged(tokens, ("b", "a"))
    assert texts_of(ragged) == [[0, 1, 0], [2, 1, 0], [2]]
    assert ragged.counts(np.array([0, 1, 1]), 2).tolist() == [[2, 1], [1, 1]]


def test_texts_are_strings_texts_or_lists_of_tokens():
    given_words = Text("t", words=("Not", "SPLIT-up"))
    found = tokens_of(
        ["It isn't bad!", Text("s", "A day"), given_words, ["As", "it IS"], np.array(["x", "y"])],
        str.split,
    )
    assert found == [
        ["It", "isn't", "bad!"],
        ["A", "day"],
        ["not", "split-up"],
        ["As", "it IS"],
        ["x", "y"],
    ]
    for wrong, message in (
        (["a", ""], "text 1"),
        ([Text("seven", " ")], "'seven'"),
        ([["a"], []], "text 1"),
        ([3], "int"),
        ([["a", 3]], "text 0"),
        ([], "no texts"),
        ("a text", "list"),
        (Text("t", "a"), "list"),
    ):
        with pytest.raises(CorpusError, match=message):
            tokens_of(wrong, str.split)


# kernels


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_everywhere_and_scales_the_rest(rate):
    table = np.ones((3, 37), dtype=np.float32)
    ids = np.random.default_rng(0).integers(0, 3, 800)
    first, again, other = (np.empty((len(ids), 37), dtype=np.float32) for _ in range(3))
    kernels.gather_rows(table, ids, rate, 4_000_000_000, first)
    kernels.gather_rows(table, ids, rate, 4_000_000_000, again)
    kernels.gather_rows(table, ids, rate, 4_000_000_001, other)
    assert np.array_equal(first, again)
    assert {0.0, float(np.float32(1 / (1 - rate)))} == {*first.ravel().tolist()}
    kept, also = first > 0, other > 0
    deviation = np.sqrt(rate * (1 - rate))
    assert abs(kept.mean() - (1 - rate)) < 5 * deviation / np.sqrt(kept.size)
    for axis in (0, 1):
        assert np.abs(kept.mean(axis) - (1 - rate)).max() < 5 * deviation / np.sqrt(
            kept.shape[axis]
        )
    for one, two in (
        (kept, also),
        (kept[1:], kept[:-1]),
        (kept[:, 1:], kept[:, :-1]),
    ):  # as independent as coins
        both = ((one - (1 - rate)) * (two - (1 - rate))).mean()
        assert abs(both) < 5 * deviation**2 / np.sqrt(one.size)


@given(strategies.generators, st.sampled_from([0.0, 0.3, 0.8]))
@settings(max_examples=30)
def test_scatter_sums_by_word_what_gather_let_through(rng, rate):
    ragged, seed = drawn_bags(rng, words=4), int(rng.integers(1 << 32))
    passed = np.empty((len(ragged.ids), 3), dtype=np.float32)
    kernels.gather_rows(np.ones((5, 3), dtype=np.float32), ragged.ids, rate, seed, passed)
    grad = rng.normal(size=passed.shape).astype(np.float32)
    slots, rows, sums = (
        np.full(5, -1, dtype=np.int32),
        np.empty(5, dtype=np.int64),
        np.empty((5, 3), dtype=np.float32),
    )
    used = kernels.scatter(grad, ragged.ids, rate, seed, slots, rows, sums)
    assert sorted(rows[:used].tolist()) == sorted({*ragged.ids.tolist()})
    assert (slots == -1).all()
    for row, found in zip(rows[:used], sums[:used], strict=True):
        assert found == pytest.approx((grad * passed)[ragged.ids == row].sum(0), abs=1e-5)


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd", "adam"])
def test_rows_learn_as_torch_optimizers(optimizer):
    rng = np.random.default_rng(3)
    start = rng.normal(size=(8, 4)).astype(np.float32)
    embedding = nn.Embedding.from_pretrained(
        torch.from_numpy(start.copy()), freeze=False, sparse=optimizer == "adam"
    )
    theirs = {
        "adagrad": lambda: torch.optim.Adagrad(embedding.parameters(), lr=0.3, lr_decay=0.2),
        "sgd": lambda: torch.optim.SGD(embedding.parameters(), lr=0.3),
        "adam": lambda: torch.optim.SparseAdam(embedding.parameters(), lr=0.3),
    }[optimizer]()
    table = Table(start.copy())
    ours = Rows(table, Settings(optimizer, 0.3, lr_decay=0.2))
    for _ in range(5):
        ragged = drawn_bags(rng, words=6)  # words 6 and 7 never occur, others not in every step
        grad = torch.from_numpy(rng.normal(size=(len(ragged.ids), 4)).astype(np.float32))
        theirs.zero_grad()
        (embedding(torch.from_numpy(ragged.ids)) * grad).sum().backward()
        theirs.step()
        ours.learn(grad, ragged, 0.0, 0)
        np.testing.assert_allclose(table.rows, embedding.weight.detach().numpy(), rtol=0, atol=1e-5)
    assert np.array_equal(table.rows[6:], start[6:])
    assert not np.allclose(table.rows[:6], start[:6])


@given(strategies.generators, st.booleans())
@settings(max_examples=10)
def test_pool_has_the_right_gradient(rng, ties):
    ragged = drawn_bags(rng, texts=4)
    vectors = torch.from_numpy(rng.normal(size=(len(ragged.ids), 3))).requires_grad_()
    scores = torch.from_numpy(
        np.zeros(len(ragged.ids)) if ties else rng.normal(0, 3, len(ragged.ids))
    ).requires_grad_()
    starts = torch.from_numpy(ragged.starts)
    assert torch.autograd.gradcheck(
        lambda *inputs: Pool.apply(*inputs, starts)[0], (vectors, scores)
    )
    out, weights = Pool.apply(vectors, scores, starts)
    for text, (start, stop) in enumerate(pairwise(ragged.starts)):
        np.testing.assert_allclose(
            weights[start:stop].numpy(), softmax(scores[start:stop].detach().numpy())
        )
        np.testing.assert_allclose(
            out[text].detach(), weights[start:stop] @ vectors[start:stop].detach()
        )


def test_weights_of_far_scores_stay_numbers():
    scores, weights = (
        np.array([2e4, -2e4, 0, -3e4], dtype=np.float32),
        np.empty(4, dtype=np.float32),
    )
    kernels.softmax(scores, np.array([0, 3, 4]), weights)
    assert weights.tolist() == [1, 0, 0, 1]


# layers


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [4, 4], [3, 1, 5, 1, 5], [1, 2, 3], [3, 2, 1]])
def test_steps_walk_all_texts_at_once(lengths):
    starts = starts_of(np.array(lengths))
    steps = Steps.of(starts)
    longest = sorted(range(len(lengths)), key=lambda text: -lengths[text])
    walked = [
        [starts[text] + step for text in longest if lengths[text] > step]
        for step in range(max(lengths))
    ]
    assert steps.order.tolist() == [token for step in walked for token in step]
    assert list(steps.sizes) == [len(step) for step in walked]


def gates_of_torch(part: torch.Tensor) -> torch.Tensor:
    """Gates in torch's order (input, forget, candidate, output) from ours."""
    inlet, forget, outlet, fresh = part.chunk(4)
    return torch.cat([inlet, forget, fresh, outlet])


@given(strategies.generators, st.sampled_from(["any", "one", "equal"]))
@settings(max_examples=12)
def test_the_recurrent_layer_is_that_of_torch_text_by_text(rng, kind):
    lengths = {"any": rng.integers(1, 6, 4), "one": np.ones(3, dtype=int), "equal": np.full(3, 4)}[
        kind
    ]
    starts, width = starts_of(lengths), 3
    ours, theirs = LSTM(width).double(), nn.LSTM(width, width, batch_first=True).double()
    vectors, wanted = (torch.from_numpy(rng.normal(size=(lengths.sum(), width))) for _ in range(2))
    with torch.no_grad():
        ours.bias.copy_(torch.from_numpy(rng.normal(size=4 * width)))
        for own, other in (
            (ours.by_input, theirs.weight_ih_l0),
            (ours.by_state, theirs.weight_hh_l0),
            (ours.bias, theirs.bias_ih_l0),
        ):
            other.copy_(gates_of_torch(own))
        theirs.bias_hh_l0.zero_()
    one, two = vectors.clone().requires_grad_(), vectors.clone().requires_grad_()
    found = ours(one, starts)
    plain = torch.cat([theirs(two[None, start:stop])[0][0] for start, stop in pairwise(starts)])
    torch.testing.assert_close(found, plain)
    (found * wanted).sum().backward()
    (plain * wanted).sum().backward()
    torch.testing.assert_close(one.grad, two.grad)
    for own, other in (
        (ours.by_input, theirs.weight_ih_l0),
        (ours.by_state, theirs.weight_hh_l0),
        (ours.bias, theirs.bias_ih_l0),
    ):
        torch.testing.assert_close(gates_of_torch(own.grad), other.grad)


@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
def test_the_recurrent_layer_in_single_precision_is_near_that_in_double(size):
    rng, starts = np.random.default_rng(0), starts_of(np.array([7, 1, 7, 3]))
    torch.manual_seed(0)
    single = LSTM(5)
    with torch.no_grad():
        single.bias.normal_()
    double = copy.deepcopy(single).double()
    vectors, wanted = (
        rng.normal(0, size, (18, 5)).astype(np.float32),
        rng.normal(size=(18, 5)).astype(np.float32),
    )
    found = []
    for layer, of in ((single, torch.float32), (double, torch.float64)):
        inputs = torch.from_numpy(vectors).to(of).requires_grad_()
        states = layer(inputs, starts)
        (states * torch.from_numpy(wanted).to(of)).sum().backward()
        found.append([states.detach(), inputs.grad, *(part.grad for part in layer.parameters())])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() < 3e-6 * max(1, float(theirs.abs().max()))


class Padded(nn.Module):
    """The model in plain torch: padded batches, scores of padding set to minus infinity."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.attention, self.encoder, self.scale = (
            network.shape.attention,
            network.shape.encoder,
            network.shape.scale,
        )
        width = network.shape.dim
        self.layer = (
            nn.LSTM(width, width, batch_first=True)
            if self.encoder == "lstm"
            else nn.Linear(width, width, bias=False)
        )
        self.key, self.query = (
            nn.Linear(width, width, bias=False),
            nn.Parameter(network.query.detach().clone()),
        )
        self.output = nn.Linear(width, network.shape.outputs, bias=False)
        self.to(network.query.dtype)
        with torch.no_grad():
            self.output.weight.copy_(network.output)
            if network.key is not None:
                self.key.weight.copy_(network.key)
            if isinstance(network.layer, LSTM):
                self.layer.weight_ih_l0.copy_(gates_of_torch(network.layer.by_input))
                self.layer.weight_hh_l0.copy_(gates_of_torch(network.layer.by_state))
                self.layer.bias_ih_l0.copy_(gates_of_torch(network.layer.bias))
                self.layer.bias_hh_l0.zero_().requires_grad_(False)
            elif network.layer is not None:
                self.layer.weight.copy_(network.layer)

    def forward(self, texts: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [text, output] and weights [text, place]."""
        vectors = pad_sequence(texts, batch_first=True)
        mask = torch.arange(vectors.shape[1]) < torch.tensor([len(text) for text in texts])[:, None]
        states = vectors if self.encoder == "none" else self.layer(vectors)
        states = states[0] if self.encoder == "lstm" else states
        keys = torch.tanh(self.key(states)) if self.attention == "additive" else states
        weights = torch.softmax((keys @ self.query / self.scale).masked_fill(~mask, -torch.inf), -1)
        return self.output((weights[:, None] @ states)[:, 0]), weights

    def by_name(self, gradients: bool = False) -> dict[str, torch.Tensor]:
        """Parameters, or their gradients, under the names and in the order of gates of ours."""
        names = {"query": self.query, "output": self.output.weight}
        if self.attention == "additive":
            names["key"] = self.key.weight
        if self.encoder == "affine":
            names["layer"] = self.layer.weight
        if self.encoder == "lstm":
            names |= {
                "layer.by_input": self.layer.weight_ih_l0,
                "layer.by_state": self.layer.weight_hh_l0,
                "layer.bias": self.layer.bias_ih_l0,
            }
        found = {name: part.grad if gradients else part.detach() for name, part in names.items()}
        return {
            name: gates_of_torch(part) if "." in name else part for name, part in found.items()
        }  # it undoes itself


@pytest.mark.parametrize(("attention", "encoder"), MODELS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_network_is_the_padded_one(attention, encoder, outputs):
    rng = np.random.default_rng(7)
    ragged = drawn_bags(rng, texts=5)
    torch.manual_seed(1)
    network = Network(Shape(5, 4, outputs, attention, encoder, 0.5, 0.3)).double().eval()
    if isinstance(network.layer, LSTM):
        nn.init.normal_(network.layer.bias)
    plain = Padded(network)
    vectors = torch.from_numpy(rng.normal(size=(len(ragged.ids), 4)))
    one, two = vectors.clone().requires_grad_(), vectors.clone().requires_grad_()
    logits, weights = network(one, ragged.starts)
    theirs, padded = plain([two[start:stop] for start, stop in pairwise(ragged.starts)])
    torch.testing.assert_close(logits, theirs)
    torch.testing.assert_close(
        weights,
        torch.cat([row[:length] for row, length in zip(padded, ragged.lengths, strict=True)]),
    )
    codes = torch.from_numpy(rng.integers(0, max(outputs, 2), len(ragged)))
    training.loss_of(logits, codes).backward()
    pairs = (
        torch.cat([torch.zeros_like(theirs), theirs], 1) if outputs == 1 else theirs
    )  # two, as if they were many
    nn.functional.cross_entropy(pairs, codes).backward()
    torch.testing.assert_close(one.grad, two.grad)
    gradients = plain.by_name(gradients=True)
    assert {name for name, _ in network.named_parameters()} == {*gradients}
    for name, part in network.named_parameters():
        torch.testing.assert_close(part.grad, gradients[name])


def test_the_sum_is_dropped_out_in_training_only():
    network = Network(Shape(1, 50, 50, "dot", "none", 1.0, 0.4))
    with torch.no_grad():
        network.output.copy_(torch.eye(50))
    vectors, starts = torch.ones(200, 50), starts_of(np.ones(200, dtype=np.int64))
    dropped, _ = network.train()(vectors, starts)
    assert {*dropped.detach().ravel().tolist()} == {0.0, float(np.float32(1 / 0.6))}
    assert abs(float((dropped == 0).float().mean()) - 0.4) < 5 * np.sqrt(0.24 / 10_000)
    assert network.eval()(vectors, starts)[0].unique().tolist() == [1.0]


def test_vectors_are_dropped_out_in_training_and_the_sum_again():
    still = {"optimizer": "sgd", "dropout": 0.5, "epochs": 1, "dim": 2000, "progress": False}
    start, made = (
        parts_of(
            AttentionClassifier(learning_rate=rate, **still).fit(["up", "down"], [1, 0], dev=False)
        )
        for rate in (1e-30, 1.0)
    )
    for part, share in (
        (made["table"][:2] != start["table"][:2], 1 / 4),
        (made["output"] != start["output"], 1 - (3 / 4) ** 2),
    ):
        assert abs(part.mean() - share) < 5 * np.sqrt(share * (1 - share) / part.size)


# gradient flow


def drawn_parameters(
    rng: np.random.Generator,
    words: int = 5,
    outputs: int = 1,
    affine: bool = False,
    additive: bool = False,
    frozen: bool = False,
    dim: int = 4,
) -> Parameters:
    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape)

    return Parameters(
        normal(words, dim),
        normal(dim),
        normal(outputs, dim),
        float(rng.uniform(0.3, 4)),
        normal(dim, dim) if affine else None,
        normal(dim, dim) if additive else None,
        frozen,
    )


@given(
    strategies.generators,
    st.sampled_from([1, 3, 4]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(1, 9),
    st.integers(1, 7),
    st.integers(6, 7),
)
@settings(max_examples=80)
def test_the_flow_is_what_automatic_differentiation_finds(
    rng, outputs, affine, additive, frozen, texts, longest, words
):
    parameters = drawn_parameters(rng, 6, outputs, affine, additive, frozen)
    ragged = drawn_bags(rng, texts, words, longest)  # the seventh is not known
    codes = rng.integers(0, max(outputs, 2), len(ragged))
    assert check_flow(parameters, ragged, codes) < 1e-8
    found, (polarity, attention) = (
        flow_terms(parameters, ragged, codes),
        autograd_flow(parameters, ragged, codes),
    )
    np.testing.assert_allclose(found.polarity_rate, polarity, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.attention_rate, attention, rtol=0, atol=1e-8)


def moved(
    parameters: Parameters, ragged: RaggedTexts, codes: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Polarity [word, output] and attention scores [word] after one step, in plain torch."""
    names = [
        name
        for name in ("vectors", "query", "output", "layer", "key")
        if getattr(parameters, name) is not None
    ]
    leaves = {name: torch.tensor(getattr(parameters, name), requires_grad=True) for name in names}

    def scores(parts: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        states = parts["vectors"] if "layer" not in parts else parts["vectors"] @ parts["layer"].T
        keys = torch.tanh(states @ parts["key"].T) if "key" in parts else states
        return states @ parts["output"].T, keys @ parts["query"] / parameters.scale

    polarity, attention = (
        torch.cat([part, 0 * part[:1]]) for part in scores(leaves)
    )  # the last is not known
    loss = torch.zeros((), dtype=torch.float64)
    for text, code in zip(texts_of(ragged), codes.tolist(), strict=True):
        logits = torch.softmax(attention[text], 0) @ polarity[text]
        logits = torch.stack([torch.zeros(()), logits[0]]) if len(logits) == 1 else logits
        loss = loss - torch.log_softmax(logits, 0)[code] / len(ragged)
    gradients = torch.autograd.grad(loss, [leaves[name] for name in names])
    with torch.no_grad():
        after = {
            name: leaves[name] - step * gradient * (name != "vectors" or not parameters.frozen)
            for name, gradient in zip(names, gradients, strict=True)
        }
        return tuple(part.numpy() for part in scores(after))


@given(
    strategies.generators,
    st.sampled_from([1, 3]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(5, 6),
)
@settings(max_examples=25)
def test_the_flow_is_what_a_small_step_does(rng, outputs, affine, additive, frozen, words):
    parameters = drawn_parameters(rng, 5, outputs, affine, additive, frozen)
    ragged = drawn_bags(rng, words=words)
    codes = rng.integers(0, max(outputs, 2), len(ragged))
    found, step = flow_terms(parameters, ragged, codes), 1e-5
    there, back = moved(parameters, ragged, codes, step), moved(parameters, ragged, codes, -step)
    for rate, ahead, behind in (
        (found.polarity_rate, there[0], back[0]),
        (found.attention_rate, there[1], back[1]),
    ):
        np.testing.assert_allclose((ahead - behind) / (2 * step), rate, rtol=1e-5, atol=1e-6)


@given(strategies.generators, st.booleans())
@settings(max_examples=20)
def test_every_term_is_the_papers(rng, affine):
    parameters, ragged = drawn_parameters(rng, affine=affine), drawn_bags(rng)
    codes = rng.integers(0, 2, len(ragged))
    found = flow_terms(parameters, ragged, codes)
    for ours, theirs in zip(
        (found.polarity, found.attention), terms_slowly(parameters, ragged, codes), strict=True
    ):
        assert ours.keys() == theirs.keys()
        for name, values in theirs.items():
            np.testing.assert_allclose(ours[name].reshape(-1), values, rtol=1e-9, atol=1e-12)


@given(strategies.generators, st.integers(3, 4))
@settings(max_examples=20)
def test_every_term_of_many_classes_is_the_papers_without_its_slips(rng, classes):
    parameters, ragged = drawn_parameters(rng, outputs=classes), drawn_bags(rng)
    codes = rng.integers(0, classes, len(ragged))
    found = flow_terms(parameters, ragged, codes)
    for ours, theirs in zip(
        (found.polarity, found.attention), many_slowly(parameters, ragged, codes), strict=True
    ):
        assert ours.keys() == theirs.keys()
        for name, values in theirs.items():
            np.testing.assert_allclose(ours[name], values, rtol=1e-9, atol=1e-12)


def test_the_appendix_as_printed_is_not_the_flow():
    rng = np.random.default_rng(5)
    parameters, ragged = drawn_parameters(rng, outputs=3), drawn_bags(rng)
    codes = rng.integers(0, 3, len(ragged))
    for side, exact in enumerate(autograd_flow(parameters, ragged, codes)):
        right, wrong = (
            sum(many_slowly(parameters, ragged, codes, slips)[side].values())
            for slips in (False, True)
        )
        assert np.abs(right - exact).max() < 1e-10
        assert np.abs(wrong - exact).max() > 1e-2


def test_what_does_not_learn_has_no_terms_of_its_own():
    rng = np.random.default_rng(5)
    found = flow_terms(drawn_parameters(rng, frozen=True), drawn_bags(rng), rng.integers(0, 2, 6))
    for terms in (found.polarity, found.attention):
        assert [name for name, term in terms.items() if term.any()] == [[*terms][-1]]


def test_the_flow_needs_vectors_of_words():
    with pytest.raises(MeasureError, match="lstm"):
        fitted(encoder="lstm", epochs=1).flow()


@pytest.mark.parametrize(
    ("attention", "encoder", "classes"),
    [
        ("dot", "none", 2),
        ("dot", "affine", 2),
        ("additive", "none", 3),
        ("additive", "affine", 2),
        ("dot", "none", 3),
        ("dot", "vectors", 2),
    ],
)
def test_a_step_of_training_goes_where_the_flow_says(attention, encoder, classes):
    rng = np.random.default_rng(0)
    source = {word: rng.normal(size=5) for word in (*GOOD, *BAD, *REST, "so", "odd", "meh", "eh")}
    still = {
        "optimizer": "sgd",
        "dropout": 0.0,
        "l2": 0.0,
        "epochs": 1,
        "batch_size": 1000,
        "init": 0.5,
        "scale": 2.0,
        "source": source if encoder == "vectors" else None,
    }
    start = fitted(attention, encoder, classes, learning_rate=1e-30, **still)
    rates, before, step = start.flow(), start.tokens(), 0.1
    for score in ("polarity", "attention_score"):
        assert before[score].tolist() == start.untrained_[score].tolist()
    near, far = (
        fitted(attention, encoder, classes, learning_rate=rate, **still).tokens()
        for rate in (step, 2 * step)
    )
    for score, rate in (("polarity", "polarity_rate"), ("attention_score", "attention_rate")):
        short, long = (
            (after[score] - before[score]) / length
            for after, length in ((near, step), (far, 2 * step))
        )
        wanted = rates[rate].to_numpy()
        assert np.abs(wanted).max() > 1e-3
        assert (
            np.abs(2 * short - long - wanted).max() < 0.01 * np.abs(wanted).max()
        )  # to second order


def test_flow_and_scores_are_recorded_along_the_way():
    made = fitted(record=2, epochs=5, count=80)
    assert sorted(set(made.flow_["epoch"])) == sorted(set(made.kinds_["epoch"])) == [0, 2, 4, 5]
    assert made.history_.loc[made.history_["separation"].notna(), "epoch"].tolist() == [0, 2, 4, 5]
    terms, tokens = made.flow(), made.tokens()
    kinds = [kind for kind in ("negative", "neutral", "positive") if (tokens["kind"] == kind).any()]
    assert {"negative", "positive"} <= {*kinds}
    last = made.flow_[made.flow_["epoch"] == 5].set_index(["kind", "side", "term"])["mean"]
    for kind, (side, names) in product(kinds, {"polarity": "ABC", "attention": "DEF"}.items()):
        mine = terms[(tokens["kind"] == kind).to_numpy()]
        for name, column in [*((name, name) for name in names), ("sum", f"{side}_rate")]:
            assert last[kind, side, name] == pytest.approx(mine[column].mean(), rel=1e-6)
    means = made.kinds_[made.kinds_["epoch"] == 5].set_index("kind")
    for kind in kinds:
        mine = tokens[tokens["kind"] == kind]
        assert means.loc[kind, "tokens"] == len(mine)
        assert means.loc[kind, "polarity"] == pytest.approx(mine["polarity"].mean())
        assert means.loc[kind, "attention_score"] == pytest.approx(mine["attention_score"].mean())
        assert means.loc[kind, "attention_low"] <= means.loc[kind, "attention_high"]
    assert made.history_["separation"].iloc[-1] == pytest.approx(
        made.interpretability()["separation"], nan_ok=True
    )
    assert fitted(epochs=2).flow_.empty


# training


def trained_by_torch(start: AttentionClassifier, epochs: int) -> dict[str, torch.Tensor]:
    """The same training in plain torch: dense gradients, padded texts, torch's optimizers."""
    ragged, codes = start.training_texts()
    plain = Padded(start.best_snapshot_.network)
    embedding = nn.Embedding.from_pretrained(
        torch.from_numpy(start.best_snapshot_.table.rows.copy()),
        freeze=False,
        sparse=start.optimizer == "adam",
    )
    held = [
        part
        for name, part in plain.named_parameters()
        if name.split(".")[0] in ("layer", "key") and "bias" not in name
    ]
    free = [
        plain.query,
        plain.output.weight,
        *([plain.layer.bias_ih_l0] if plain.encoder == "lstm" else []),
    ]
    words, groups = (
        list(embedding.parameters()),
        [{"params": free}, {"params": held, "weight_decay": start.l2}],
    )
    rate, penalty = start.learning_rate, start.vw_penalty
    optimizers = {
        "adagrad": lambda: [
            torch.optim.Adagrad(part, lr=rate, lr_decay=start.lr_decay) for part in (groups, words)
        ],
        "sgd": lambda: [torch.optim.SGD(part, lr=rate) for part in (groups, words)],
        "adam": lambda: [torch.optim.Adam(groups, lr=rate), torch.optim.SparseAdam(words, lr=rate)],
    }[start.optimizer]()
    for _ in range(epochs):
        logits, _ = plain([embedding(torch.tensor(text)) for text in texts_of(ragged)])
        logits = (
            torch.cat([torch.zeros_like(logits), logits], 1) if logits.shape[1] == 1 else logits
        )
        loss = nn.functional.cross_entropy(logits, torch.from_numpy(codes))
        ahead = plain.key.weight.T @ plain.query if plain.attention == "additive" else plain.query
        loss = loss + penalty * sum((ahead @ row).abs() for row in plain.output.weight)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return {"table": embedding.weight.detach(), **plain.by_name()}


@pytest.mark.parametrize(  # each encoder and optimizer with two sizes or numbers of classes
    ("attention", "encoder", "optimizer", "classes"),
    [
        (*model, *how)
        for model in MODELS
        for how in (
            (("sgd", 2), ("sgd", 3)) if model[1] == "none" else (("adagrad", 2), ("adam", 3))
        )
    ],
)
def test_training_is_that_of_torch(attention, encoder, optimizer, classes):
    how = {
        "optimizer": optimizer,
        "dropout": 0.0,
        "l2": 0.3,
        "vw_penalty": 0.05,
        "batch_size": 100,
        "scale": 1.0,
        "lr_decay": 0.3,
        "init": 0.5,
    }
    start = fitted(attention, encoder, classes, learning_rate=1e-30, epochs=1, **how)
    start.learning_rate = {"sgd": 0.5, "adagrad": 0.05, "adam": 0.02}[optimizer]
    theirs = trained_by_torch(start, 4)
    made = fitted(attention, encoder, classes, learning_rate=start.learning_rate, epochs=4, **how)
    ours, before = parts_of(made), parts_of(start)
    assert ours.keys() == theirs.keys()
    for name, part in theirs.items():
        known = slice(None, -1) if name == "table" else slice(None)
        assert np.abs(part.numpy()[known] - before[name][known]).max() > 1e-3
        np.testing.assert_allclose(
            ours[name][known], part.numpy()[known], rtol=0, atol=2e-4, err_msg=name
        )


def test_every_text_is_learnt_from_once_an_epoch():
    still = {"optimizer": "sgd", "dropout": 0.0, "epochs": 1, "init": 0.5, "count": 60}
    start = fitted(learning_rate=1e-30, **still)
    before, rates = start.tokens()["polarity"], start.flow()["polarity_rate"]
    for size, batches in ((60, 1), (20, 3), (1, 60)):
        after = fitted(learning_rate=0.01 / batches, batch_size=size, **still).tokens()["polarity"]
        assert np.abs((after - before) / 0.01 - rates).max() < 0.03 * np.abs(rates).max()
    for size in (59, 7, 1000):  # one text is left for the last batch, or some, or there are fewer
        assert np.isfinite(fitted(batch_size=size, **still).tokens()["polarity"]).all()


def test_the_loss_told_is_the_mean_over_texts():
    made = fitted(
        learning_rate=1e-30, optimizer="sgd", dropout=0.0, epochs=2, batch_size=7, classes=3
    )
    texts, labels = reviews(60, 3)
    chosen = made.predict_proba(texts)[np.arange(60), np.searchsorted(made.classes_, labels)]
    assert made.history_["loss"].iloc[1:].to_numpy() == pytest.approx(
        -np.log(chosen).mean(), rel=1e-5
    )
    assert np.isnan(made.history_["loss"].iloc[0])


@pytest.mark.parametrize("encoder", ["none", "lstm"])
def test_the_first_of_the_best_epochs_on_dev_is_kept_as_it_was(encoder):
    dev = reviews(31, seed=9)
    made = fitted(encoder=encoder, dev=dev, epochs=12, learning_rate=0.2)
    reached = made.history_["dev_accuracy"].to_numpy(dtype=float)[1:]
    assert made.epoch_ == 1 + reached.argmax() < 12
    assert made.score(*dev) == reached.max()
    assert same_parts(made, fitted(encoder=encoder, epochs=made.epoch_, learning_rate=0.2))
    last = fitted(encoder=encoder, epochs=12, learning_rate=0.2)
    assert last.epoch_ == 12
    assert not same_parts(made, last)
    assert last.history_["dev_accuracy"].isna().all()


def test_patience_ends_training_after_so_many_epochs_that_are_no_better():
    dev = reviews(31, seed=9)
    long = fitted(dev=dev, epochs=40, learning_rate=0.2)
    short = fitted(dev=dev, epochs=40, learning_rate=0.2, patience=3)
    reached = long.history_["dev_accuracy"].to_numpy(dtype=float)
    best, since = 0, 0
    for epoch in range(1, 41):
        best, since = (
            (epoch, 0) if epoch == 1 or reached[epoch] > reached[best] else (best, since + 1)
        )
        if since == 3:
            break
    assert epoch < 40
    assert (short.epoch_, short.history_["epoch"].iloc[-1]) == (best, epoch)
    assert (
        len(fitted(epochs=6, patience=1).history_) == 7
    )  # without dev there is nothing to wait for


@pytest.mark.parametrize("patience", [0, -1, 1.5, "two"])
def test_patience_must_be_a_whole_number_above_zero(patience):
    with pytest.raises(MeasureError, match="patience"):
        fitted(patience=patience)


def test_seeds_decide_everything_and_nothing_else_does():
    made = fitted(dropout=0.5, attention="additive", encoder="affine")
    torch.manual_seed(1234)
    np.random.seed(1234)
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    again = fitted(dropout=0.5, attention="additive", encoder="affine")
    assert same_parts(made, again)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numbers)
    assert not same_parts(made, fitted(dropout=0.5, attention="additive", encoder="affine", seed=1))
    other = fitted(dropout=0.4, attention="additive", encoder="affine")
    assert not same_parts(made, other)
    pd.testing.assert_frame_equal(made.untrained_, other.untrained_)


def test_a_penalty_on_vw_keeps_it_small():
    free, held = (
        fitted(vw_penalty=penalty, epochs=30, scale=50.0, count=120) for penalty in (0.0, 0.05)
    )
    assert abs(held.history_["vw"].iloc[-1]) < 0.2 * abs(free.history_["vw"].iloc[-1])
    parts = parts_of(held)
    assert held.history_["vw"].iloc[-1] == pytest.approx(
        float(parts["output"][0] @ parts["query"]), rel=1e-5
    )
    assert held.history_["v_norm"].iloc[-1] == pytest.approx(
        np.linalg.norm(parts["query"]), rel=1e-5
    )
    assert held.history_["w_norm"].iloc[-1] == pytest.approx(
        np.linalg.norm(parts["output"]), rel=1e-5
    )


@pytest.mark.parametrize("encoder", ["affine", "lstm"])
def test_l2_holds_the_matrices_of_encoders_and_nothing_else(encoder):
    how = {
        "attention": "additive",
        "encoder": encoder,
        "optimizer": "sgd",
        "dropout": 0.0,
        "epochs": 1,
        "batch_size": 100,
    }
    start, free, held = (
        parts_of(fitted(learning_rate=rate, l2=l2, **how))
        for rate, l2 in ((1e-30, 0.0), (0.5, 0.0), (0.5, 0.4))
    )
    for name, part in held.items():
        matrix = name in ("key", "layer", "layer.by_input", "layer.by_state")
        np.testing.assert_allclose(
            part - free[name],
            -0.5 * 0.4 * start[name] if matrix else 0 * part,
            atol=1e-6,
            err_msg=name,
        )


def test_a_learning_rate_that_is_too_high_is_one_clear_error():
    with (
        pytest.raises(MeasureError, match="smaller learning rate than 1e"),
        np.errstate(all="ignore"),
    ):
        fitted(optimizer="sgd", learning_rate=1e30, dropout=0.0, epochs=8)


@pytest.mark.parametrize("encoder", ["none", "affine", "vectors"])
def test_tokens_that_are_not_known_have_zeros_and_never_learn(encoder):
    texts, labels = reviews(60)
    texts = [[*text, f"once{number}"] for number, text in enumerate(texts)]
    source = {
        word: np.random.default_rng(3).normal(size=4) * (1 + number)
        for number, word in enumerate((*GOOD, *BAD, *REST))
    }
    made = AttentionClassifier(encoder=encoder, min_count=2, source=source, **TINY).fit(
        texts, labels, dev=False
    )
    assert not any(word.startswith("once") for word in made.vocabulary_)
    assert not made.best_snapshot_.table.rows[-1].any()
    assert made.decision_function([["never", "seen"]]).tolist() == [0]
    assert made.predict([["never", "seen"]]).tolist() == ["bad"]  # the first class


@pytest.mark.parametrize("encoder", ["none", "affine"])
def test_the_flow_is_right_where_some_tokens_are_not_known(encoder):
    texts, labels = reviews(60)
    texts = [[*text, f"once{number}"] for number, text in enumerate(texts)]
    still = {
        **TINY,
        "optimizer": "sgd",
        "dropout": 0.0,
        "l2": 0.0,
        "epochs": 1,
        "batch_size": 100,
        "init": 0.5,
        "scale": 2.0,
        "min_count": 2,
        "record": 1,
    }
    start, near, far = (
        AttentionClassifier(encoder=encoder, learning_rate=rate, **still).fit(
            texts, labels, dev=False
        )
        for rate in (1e-30, 0.1, 0.2)
    )
    rates, before = start.flow(), start.tokens()
    assert rates["token"].tolist() == list(start.vocabulary_)
    assert len(start.flow_)
    for score, rate in (("polarity", "polarity_rate"), ("attention_score", "attention_rate")):
        short, long = (
            (made.tokens()[score] - before[score]) / made.learning_rate for made in (near, far)
        )
        assert np.abs(2 * short - long - rates[rate]).max() < 0.01 * np.abs(rates[rate]).max()


# what a fitted classifier makes of texts


def read_slowly(
    classifier: AttentionClassifier, text: list[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Attention scores [token], polarity [token, output] and weights [token] of one text."""
    parts, words = parts_of(classifier), list(classifier.vocabulary_)
    vectors = torch.from_numpy(
        np.stack([parts["table"][words.index(token) if token in words else -1] for token in text])
    ).double()
    plain = Padded(classifier.best_snapshot_.network).double()
    with torch.no_grad():
        states = (
            plain.layer(vectors[None])[0][0]
            if plain.encoder == "lstm"
            else plain.layer(vectors)
            if plain.encoder == "affine"
            else vectors
        )
        keys = torch.tanh(plain.key(states)) if plain.attention == "additive" else states
        scores = (keys @ plain.query / plain.scale).numpy()
        return scores, plain.output(states).numpy(), softmax(scores)


@pytest.fixture(
    scope="module",
    params=[(*model, classes) for model, classes in zip(MODELS, (2, 3, 2, 3, 2, 3), strict=True)],
    ids=str,
)
def made(request) -> AttentionClassifier:
    """A fitted classifier of each attention and encoder, of two classes or three."""
    return fitted(*request.param, scale=1.0, epochs=8, learning_rate=0.1)


def test_predictions_are_the_papers_formulas(made, monkeypatch):
    texts, _ = reviews(12, 3, seed=5)
    texts += [["good"], ["never"], ["never", "good", "seen"]]
    logits = []
    for text, table in zip(texts, made.weights(texts), strict=True):
        scores, polarity, weights = read_slowly(made, text)
        logits.append(weights @ polarity)
        assert table["token"].tolist() == text
        assert table["known"].tolist() == [token in made.vocabulary_ for token in text]
        np.testing.assert_allclose(table["weight"], weights, atol=1e-5)
        np.testing.assert_allclose(table["attention_score"], scores, atol=1e-5)
        columns = (
            ["polarity"]
            if polarity.shape[1] == 1
            else [f"polarity:{name}" for name in made.classes_]
        )
        np.testing.assert_allclose(table[columns], polarity, atol=1e-5)
    wanted = np.stack(logits)
    found = made.decision_function(texts)
    assert found.shape == ((15,) if len(made.classes_) == 2 else (15, 3))
    np.testing.assert_allclose(found.reshape(15, -1), wanted, atol=1e-5)
    wanted = np.concatenate([0 * wanted, wanted], 1) if wanted.shape[1] == 1 else wanted
    np.testing.assert_allclose(made.predict_proba(texts), softmax(wanted, -1), atol=1e-5)
    sure = (
        np.sort(softmax(wanted, -1), -1)[:, -1] > 0.501
        if wanted.shape[1] == 2
        else np.full(15, True)
    )
    assert np.array_equal(made.predict(texts)[sure], made.classes_[wanted.argmax(-1)][sure])
    monkeypatch.setattr(training, "EVALUATED", 3)  # alone, or together with others: all the same
    terms = max(map(len, texts)) * made.dim  # a text's words, each a product of vectors
    close(made.decision_function(texts), found, terms)
    close(np.concatenate([made.decision_function([text]) for text in texts]), found, terms)


def test_the_table_of_words_is_what_loops_find(made):
    texts, labels = reviews(60, len(made.classes_))
    test, _ = reviews(5, seed=8)
    table = made.tokens(test).set_index("token")
    assert table.index.tolist() == list(made.vocabulary_) == [*vocabulary_of(texts)]
    occurrences = {word: Counter() for word in made.vocabulary_}
    local = {word: [] for word in made.vocabulary_}
    weights = {word: [] for word in made.vocabulary_}
    for text, label in zip(texts, labels, strict=True):
        scores, polarity, _ = read_slowly(made, text)
        for place, token in enumerate(text):
            occurrences[token][label] += 1
            local[token].append((scores[place], polarity[place]))
    for text in test:
        for token, weight in zip(text, read_slowly(made, text)[2], strict=True):
            if token in weights:
                weights[token].append(weight)
    assert any(not found for found in weights.values())
    two = len(made.classes_) == 2
    for word, counts in occurrences.items():
        row, total = table.loc[word], counts.total()
        assert row["count"] == total
        assert [row[f"count:{name}"] for name in made.classes_] == [
            counts[name] for name in made.classes_
        ]
        assert row["share"] == max(counts.values()) / total
        assert row["gamma"] == pytest.approx(
            (counts["good"] - counts["bad"]) / total if two else np.nan, nan_ok=True
        )
        top = [counts[name] for name in made.classes_].index(max(counts.values()))
        own = (
            (lambda of: of[0]) if two else (lambda of, top=top: of[top] - np.delete(of, top).mean())
        )
        scores, polarity, _ = read_slowly(made, [word])
        assert row["attention_score"] == pytest.approx(scores[0], abs=1e-5)
        assert row["polarity"] == pytest.approx(own(polarity[0]), abs=1e-5)
        if not two:
            assert [row[f"polarity:{name}"] for name in made.classes_] == pytest.approx(
                polarity[0], abs=1e-5
            )
        contextual = made.encoder == "lstm"
        means = (
            np.mean([one for one, _ in local[word]]),
            own(np.mean([one for _, one in local[word]], 0)),
        )
        for name, mean in zip(("attention_local", "polarity_local"), means, strict=True):
            assert row[name] == pytest.approx(mean if contextual else np.nan, abs=1e-5, nan_ok=True)
        assert row["weight"] == pytest.approx(
            np.mean(weights[word]) if weights[word] else np.nan, abs=1e-5, nan_ok=True
        )
    if made.encoder == "lstm":  # a word in its texts is not the word alone
        assert np.abs(table["attention_local"] - table["attention_score"]).max() > 1e-3


def test_saved_and_loaded_it_predicts_the_same_bit_for_bit(made, tmp_path):
    texts, _ = reviews(30, 3, seed=5)
    folder = made.save(tmp_path / "there" / "kept")
    again = AttentionClassifier.load(folder)
    assert np.array_equal(again.decision_function(texts), made.decision_function(texts))
    assert again.predict(texts).tolist() == made.predict(texts).tolist()
    assert again.classes_.tolist() == made.classes_.tolist()
    assert again.get_params() == made.get_params()
    assert same_parts(again, made)
    assert (again.epoch_, again.counts_.tolist()) == (made.epoch_, made.counts_.tolist())
    with pytest.raises(AttlasError, match="fit it again"):
        again.flow()
    ours, theirs = again.tokens(), made.tokens()
    texts_only = [
        "attention_local",
        "polarity_local",
        "weight",
    ]  # what only the texts learnt from tell
    assert ours[texts_only].isna().all(axis=None)
    pd.testing.assert_frame_equal(ours.drop(columns=texts_only), theirs.drop(columns=texts_only))
    scores, alone = made.interpretability(), again.interpretability()
    assert np.isnan(alone.pop("separation_untrained"))
    assert alone == pytest.approx({name: scores[name] for name in alone}, nan_ok=True)
    thawed = pickle.loads(pickle.dumps(made))
    np.testing.assert_allclose(
        thawed.decision_function(texts), made.decision_function(texts), atol=1e-6
    )
    pd.testing.assert_frame_equal(thawed.tokens(), made.tokens())


# kinds of words, and how well attention tells them apart


def test_classes_of_unequal_size_are_weighed_as_if_they_were_equal():
    counts = np.array(
        [[12, 3], [40, 1], [4, 8], [9, 4], [0, 0], [55, 24]]
    )  # 120 and 40: a third as many
    weights = 80 / 120, 80 / 40
    rows = [[minus * weights[0], plus * weights[1]] for minus, plus in counts.tolist()]
    for classes, of in (
        (["bad", "good"], counts),
        (["a", "b", "c"], np.column_stack([counts, counts[:, 1]])),
    ):
        weighed = rows if len(classes) == 2 else (of * (of.sum() / 3 / of.sum(0))).tolist()
        assert token_kinds(of, classes, "balanced").tolist() == [
            kind_slowly(row, classes, "code") for row in weighed
        ]
    assert token_kinds(counts, ["bad", "good"], "balanced").tolist()[:4] == [
        "",
        "negative",
        "positive",
        "",
    ]
    assert token_kinds(counts, ["bad", "good"], "code").tolist()[:2] == ["negative", "negative"]
    texts, labels = reviews(120)
    few = [place for place, label in enumerate(labels) if label == "bad" or place % 3 == 1]
    made = AttentionClassifier(rule="balanced", **TINY).fit(
        [texts[at] for at in few], [labels[at] for at in few], dev=False
    )
    sizes = made.counts_.sum(0)
    for row, (minus, plus) in zip(made.tokens().itertuples(), made.counts_.tolist(), strict=True):
        assert row.count == minus + plus
        assert row.gamma == pytest.approx(
            (plus / sizes[1] - minus / sizes[0]) / (plus / sizes[1] + minus / sizes[0])
        )


@pytest.mark.parametrize("rule", ["code", "paper"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_kinds_of_words_follow_the_rules(size, rule):
    classes = ["bad", "good", "odd", "even"][:size]
    few = product(range({2: 30, 3: 10, 4: 5}[size]), repeat=size)
    many = np.random.default_rng(0).integers(0, 70, (500, size)) // np.random.default_rng(
        1
    ).integers(1, 5, (500, 1))
    rows = [
        *map(list, few),
        *many.tolist(),
        [60, 20, *[0] * (size - 2)],
        *(20 * np.eye(size, dtype=int) + 1).tolist(),
        *(20 * np.eye(size, dtype=int)).tolist(),
    ]
    rows = [row for row in rows if 10 * max(row) * size != 11 * sum(row)]  # there rounding decides
    found = token_kinds(np.array(rows), classes, rule)
    assert found.tolist() == [kind_slowly(row, classes, rule) for row in rows]
    assert {*found.tolist()} == {
        "",
        "neutral",
        *(("negative", "positive") if size == 2 else classes),
    }
    if size == 2:
        wanted = [
            (plus - minus) / (plus + minus) if plus + minus else np.nan for minus, plus in rows
        ]
        assert gammas(np.array(rows)).tolist() == pytest.approx(wanted, nan_ok=True)


def test_a_class_may_be_called_neutral():
    """Sentiment labels often include neutral; a word of that class is not a neutral word."""
    counts = np.array([[9, 0, 0], [0, 9, 0], [0, 0, 9], [3, 3, 3]])
    kinds = token_kinds(counts, ["negative", "neutral", "positive"]).tolist()
    assert len({*kinds}) == 4
    assert kinds[1] != kinds[3]


def test_a_class_may_be_called_local():
    texts, _ = reviews(60, 3)
    made = AttentionClassifier(**TINY).fit(texts, ["local", "sport", "world"] * 20, dev=False)
    table = made.tokens()
    assert table["attention_local"].isna().all()
    assert table["polarity_local"].isna().all()


def test_three_classes_have_no_positive_against_negative():
    tokens = pd.DataFrame(
        {
            "kind": ["positive", "positive", "negative", "negative", "mixed", "neutral"],
            "count": 9,
            "polarity": np.arange(6.0),
            "attention_score": np.arange(6.0),
        }
    )
    assert gap(tokens) == pytest.approx(
        (4 - 0.5) / np.sqrt(0.5)
    )  # the largest mean less the smallest


def test_of_many_polarities_a_words_own_counts():
    polarity = np.array([[3.0, 1.0, -1.0], [0.0, 4.0, 2.0]])
    assert class_polarity(polarity, np.array([0, 2])).tolist() == [3.0 - 0.0, 2.0 - 2.0]
    assert class_polarity(polarity[:, :1], np.array([1, 0])).tolist() == [3.0, 0.0]


@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=12),
    st.lists(st.integers(0, 6), min_size=2, max_size=12),
)
@settings(max_examples=80)
def test_the_area_is_scikit_learns_with_delongs_interval(above, below):
    found = auc(np.array(above), np.array(below))
    area, variance = auc_slowly(above, below)
    assert found.auc == pytest.approx(area)
    assert found.auc == pytest.approx(
        roc_auc_score([1] * len(above) + [0] * len(below), above + below)
    )
    if variance > 1e-12:
        ends = max(0, area - Z * np.sqrt(variance)), min(1, area + Z * np.sqrt(variance))
        assert (found.low, found.high) == pytest.approx(ends)
    else:
        assert (found.low, found.high) == pytest.approx(wilson(area, min(len(above), len(below))))
    assert 0 <= found.low <= found.auc <= found.high <= 1


@pytest.mark.parametrize(("first", "second"), [(40, 40), (12, 60), (1, 200), (200, 1)])
def test_intervals_hold_the_true_area_nearly_always(first, second):
    rng, true = np.random.default_rng(0), 0.7602499  # of two normals, one deviation apart
    found = [auc(rng.normal(1, 1, first), rng.normal(0, 1, second)) for _ in range(300)]
    held = np.mean([one.low <= true <= one.high for one in found])
    assert held > 0.88
    if min(first, second) > 20:
        assert held < 0.985
        assert np.mean([one.high - one.low for one in found]) < 0.25


def test_no_area_of_nothing():
    assert np.isnan(auc(np.array([]), np.array([1.0]))).all()
    assert np.isnan(auc(np.array([1.0]), np.array([]))).all()


def test_separation_gap_and_controls_by_hand():
    made = fitted(count=200, epochs=30, learning_rate=0.1)
    table, found = made.tokens(), made.interpretability()
    polar, neutral = table["kind"].isin(["positive", "negative"]), table["kind"] == "neutral"
    assert polar.sum() > 4
    assert neutral.sum() > 1
    chosen = table[polar | neutral]
    for name, column, of in (
        ("separation", "attention_score", chosen),
        ("separation_count", "count", chosen),
        ("separation_untrained", "attention_score", made.untrained_.loc[chosen.index]),
    ):
        assert found[name] == pytest.approx(roc_auc_score(polar[chosen.index], of[column])), name
    ranked = separation(table)
    assert (ranked.auc, ranked.low, ranked.high) == tuple(
        found[f"separation{end}"] for end in ("", "_low", "_high")
    )
    least = [
        roc_auc_score(
            *zip(
                *[
                    (row.kind == kind, row.attention_score)
                    for row in chosen.itertuples()
                    if row.kind in (kind, "neutral")
                ],
                strict=True,
            )
        )
        for kind in ("positive", "negative")
    ]
    assert found["separation_least"] == pytest.approx(min(least))
    frequent = chosen[polar[chosen.index] | (chosen["count"] > 5)]
    assert found["separation_frequent"] == pytest.approx(
        roc_auc_score(polar[frequent.index], frequent["attention_score"])
    )
    plus, minus = (
        table.loc[table["kind"] == kind, "attention_score"] for kind in ("positive", "negative")
    )
    pooled = np.sqrt(
        ((len(plus) - 1) * plus.var() + (len(minus) - 1) * minus.var())
        / (len(plus) + len(minus) - 2)
    )
    assert found["gap"] == pytest.approx((plus.mean() - minus.mean()) / pooled)
    signs = table[table["kind"].isin(["positive", "negative"])]
    assert (
        found["polarity_auc"] == roc_auc_score(signs["kind"] == "positive", signs["polarity"]) == 1
    )
    for row in kind_means(table):
        mine = table[table["kind"] == row["kind"]]
        assert row["tokens"] == len(mine)
        assert row["attention_score"] == pytest.approx(mine["attention_score"].mean())
        assert (row["polarity_low"], row["polarity_high"]) == pytest.approx(
            tuple(mine["polarity"].quantile([0.25, 0.75]))
        )
    rare = pd.DataFrame(
        {
            "kind": ["positive", "negative", "neutral", "neutral", ""],
            "count": [9, 9, 5, 6, 3],
            "attention_score": [2.0, 3.0, 5.0, 1.0, 9.0],
        }
    )
    assert (separation(rare).auc, separation(rare, least=6).auc) == (0.5, 1.0)
    alone = table.assign(kind=np.where(table["kind"] == "positive", "", table["kind"]))
    assert np.isnan(gap(alone))


def test_separation_leaves_out_words_without_a_value():
    made = fitted(count=200, epochs=10)
    table = made.tokens([["good", "bad", "a"], ["fine", "b", "c"], ["poor", "d", "never"]])
    assert table["weight"].isna().any()
    known = table[table["weight"].notna()]
    assert np.allclose(separation(table, "weight"), separation(known, "weight"))
    assert np.isfinite(separation(table, "weight")).all()


# the classifier as an estimator


@pytest.mark.parametrize(
    "names",
    [
        ("bad", "good"),
        (0, 1),
        (-1, 1),
        (False, True),
        (1.0, 2.0),
        ("10", "9"),
        ("a", "b", "c"),
        (3, 1, 2),
    ],
    ids=str,
)
def test_labels_are_what_they_were(names, tmp_path):
    texts, words = reviews(90, len(names))
    by_word = dict(zip(("bad", "good", "odd"), names, strict=False))
    labels = [by_word[word] for word in words]
    made = AttentionClassifier(**{**TINY, "epochs": 20}).fit(texts, labels)
    assert made.classes_.tolist() == sorted(
        names, key=lambda name: float(name) if str(name).isdecimal() else name
    )
    found = made.predict(texts)
    assert {type(one) for one in found.tolist()} == {type(names[0])}
    assert (
        made.score(texts, labels)
        == np.mean([one == other for one, other in zip(found, labels, strict=True)])
        > 0.7
    )
    again = AttentionClassifier.load(made.save(tmp_path / "kept"))
    assert again.predict(texts).tolist() == found.tolist()
    assert again.classes_.dtype.kind == made.classes_.dtype.kind
    assert {f"count:{name}" for name in names} <= {*made.tokens().columns}


def test_texts_may_bring_their_labels():
    texts, labels = reviews(60)
    brought = [
        Text(str(place), words=tuple(text), label=label)
        for place, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    dev = brought[:20]
    made, plain = (
        AttentionClassifier(**TINY).fit(brought, dev=dev),
        fitted(dev=(texts[:20], labels[:20])),
    )
    assert same_parts(made, plain)
    assert made.epoch_ == plain.epoch_
    strings = AttentionClassifier(**TINY).fit(
        [" ".join(text).upper() for text in texts], np.array(labels), dev=False
    )
    assert same_parts(strings, fitted())


def test_a_tenth_is_set_aside_for_dev_and_not_learnt_from():
    texts, labels = reviews(100)
    made = AttentionClassifier(**TINY).fit(texts, labels)
    assert len(made.training_texts()[0]) == 90
    assert made.counts_.sum() == sum(map(len, texts_of(made.training_texts()[0])))
    assert made.history_["dev_accuracy"].notna().all()
    assert set(np.round(made.history_["dev_accuracy"].astype(float) * 10, 6) % 1) == {0.0}
    few = AttentionClassifier(**TINY).fit(texts[:10], labels[:10])
    assert len(few.training_texts()[0]) == 10
    assert few.epoch_ == TINY["epochs"]


def test_it_is_an_estimator():
    made = fitted(scale=3.0)
    other = clone(made)
    assert other.get_params() == made.get_params()
    assert not hasattr(other, "best_snapshot_")
    with pytest.raises(NotFittedError):
        other.predict(["a"])
    assert same_parts(other.set_params(scale=3.0).fit(*reviews(60), dev=False), made)
    texts, labels = reviews(90)
    scores = cross_val_score(AttentionClassifier(**{**TINY, "epochs": 20}), texts, labels, cv=3)
    assert scores.mean() > 0.7
    assert made.score(texts, labels) == np.mean(made.predict(texts) == np.array(labels))


def test_numbers_of_numpy_are_numbers(tmp_path):
    texts, labels = reviews(60)
    search = GridSearchCV(
        AttentionClassifier(**TINY),
        {
            "scale": np.array([1, 10]),
            "dropout": np.array([0.0, 0.5], dtype=np.float32),
            "seed": np.arange(1),
        },
        cv=2,
    )
    found = search.fit(texts, labels).best_estimator_
    again = AttentionClassifier.load(found.save(tmp_path / "kept"))
    assert np.array_equal(again.decision_function(texts), found.decision_function(texts))


def test_the_package_offers_what_it_names():
    import attlas.dynamics

    for name in attlas.dynamics.__all__:
        assert callable(getattr(attlas.dynamics, name)), name


PLAIN = (["good a", "bad b"] * 15, ["up", "down"] * 15)


@pytest.mark.parametrize(
    ("options", "texts", "labels", "message"),
    [
        ({}, PLAIN[0], ["up"] * 30, "'up'.*two classes"),
        ({}, PLAIN[0][:2], ["up"] * 2, "two classes"),
        ({}, PLAIN[0], list(range(30)), "as many classes as texts"),
        ({}, [*PLAIN[0][:-1], " "], PLAIN[1], "text .* has no tokens"),
        ({}, [*PLAIN[0][:-1], []], PLAIN[1], "text .* has no tokens"),
        ({}, [], [], "no texts"),
        ({}, PLAIN[0], PLAIN[1][:-1], "30 texts.*29"),
        ({}, PLAIN[0], [[label] for label in PLAIN[1]], "one label per text"),
        ({}, PLAIN[0], None, "needs labels"),
        ({}, PLAIN[0], [None, *PLAIN[1][1:]], "label"),
        ({}, PLAIN[0], [np.nan, *[0.0, 1.0, 1.0] * 9, 0.0, 1.0], "label"),
        ({}, PLAIN[0], [1, *PLAIN[1][1:]], "label"),
        ({"scale": True}, *PLAIN, "scale is .*above 0"),
        ({}, "good a", ["up"], "list"),
        ({}, [3, 4], ["up", "down"], "text 0 is a int"),
        ({"scale": 0}, *PLAIN, "scale is .*above 0"),
        ({"scale": -1.0}, *PLAIN, "scale is .*above 0"),
        ({"scale": float("nan")}, *PLAIN, "scale is .*above 0"),
        ({"scale": "ten"}, *PLAIN, "scale is .*above 0"),
        ({"attention": "dots"}, *PLAIN, "dot or additive"),
        ({"encoder": "gru"}, *PLAIN, "none or affine or lstm or vectors or model"),
        ({"optimizer": "rmsprop"}, *PLAIN, "adagrad or sgd or adam"),
        ({"rule": "mine"}, *PLAIN, "code or paper"),
        ({"tokenize": "letters"}, *PLAIN, "words, blanks"),
        ({"dropout": 1.0}, *PLAIN, "below 1"),
        ({"dropout": -0.1}, *PLAIN, "dropout"),
        ({"epochs": 0}, *PLAIN, "epochs"),
        ({"dim": 2.5}, *PLAIN, "dim"),
        ({"batch_size": 0}, *PLAIN, "batch_size"),
        ({"min_count": 99}, *PLAIN, "min_count"),
        ({"learning_rate": 0.0}, *PLAIN, "learning_rate"),
        ({"l2": -1.0}, *PLAIN, "l2"),
        ({"vw_penalty": float("nan")}, *PLAIN, "vw_penalty"),
        ({"seed": -1}, *PLAIN, "seed"),
        ({"record": -1}, *PLAIN, "record"),
        (
            {"encoder": "vectors", "source": {"zebra": [1, 2], "lion": [3, 1]}},
            *PLAIN,
            "none of the words",
        ),
        ({"encoder": "vectors", "source": {"good": [1, 2], "bad": [3]}}, *PLAIN, "vector"),
        ({"encoder": "vectors", "source": {}}, *PLAIN, "vector"),
        ({"encoder": "model", "source": "/no/such/model"}, *PLAIN, "/no/such/model"),
    ],
)
def test_bad_input_is_one_clear_error(options, texts, labels, message):
    with pytest.raises(AttlasError, match=message) as error:
        AttentionClassifier(**{**TINY, **options}).fit(texts, labels)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("dev", "message"),
    [
        ((PLAIN[0][:4], ["up", "sideways"] * 2), "sideways"),
        ((PLAIN[0][:4], ["up"]), "4 texts"),
        (True, "pair"),
        (PLAIN[0], "pair"),
        (([], []), "no texts"),
        ((["good", ""], ["up", "down"]), "no tokens"),
    ],
)
def test_a_bad_dev_is_one_clear_error(dev, message):
    with pytest.raises(AttlasError, match=message):
        AttentionClassifier(**TINY).fit(*PLAIN, dev=dev)


@pytest.mark.parametrize(
    "ask", ["predict", "predict_proba", "decision_function", "weights", "tokens"]
)
def test_one_text_alone_is_no_list_of_texts(ask):
    made = AttentionClassifier(**TINY).fit(*PLAIN, dev=False)
    for wrong, message in (
        ("good", "list"),
        (Text("t", "good"), "list"),
        (["good", ""], "text 1 has no tokens"),
        ([], "no texts"),
    ):
        with pytest.raises(AttlasError, match=message):
            getattr(made, ask)(wrong)


def changed_number(path: Path, value: float) -> str:
    """Change one number of saved arrays; the fingerprint of the file."""
    arrays = load_file(path)
    arrays["table"].view(-1)[3] = value
    path.write_bytes(save(arrays))
    return fingerprint(path.read_bytes())


def broken(folder: Path, how: str) -> None:
    about, arrays = folder / "classifier.json", folder / "classifier.safetensors"
    content = json.loads(about.read_text())
    if how == "cut":
        about.write_text(about.read_text()[:-40])
    elif how == "list":
        about.write_text("[1, 2]")
    elif how == "arrays":
        arrays.write_bytes(arrays.read_bytes()[:200])
    elif how.startswith("no "):
        (folder / how.removeprefix("no ")).unlink()
    elif how.startswith("without "):
        del content[how.removeprefix("without ")]
        about.write_text(json.dumps(content))
    elif how == "changed number":
        changed_number(arrays, 0.125)
    elif how == "not finite":
        content["arrays"] = changed_number(arrays, float("nan"))
        about.write_text(json.dumps(content))
    elif how == "other arrays":
        few = AttentionClassifier(**TINY).fit(*PLAIN, dev=False).save(folder.parent / "few")
        arrays.write_bytes((few / "classifier.safetensors").read_bytes())
    else:
        content["parameters" if how == "parameter" else how] = {
            "format": "attlas attention classifier 0",
            "classes": ["a", "b", "c"],
            "vocabulary": content["vocabulary"][:-1],
            "epoch": "last",
            "parameter": {**content["parameters"], "depth": 3},
        }[how]
        about.write_text(json.dumps(content))


BREAKS = [
    "cut",
    "list",
    "arrays",
    "no classifier.json",
    "no classifier.safetensors",
    "other arrays",
    "changed number",
    "not finite",
    "format",
    "classes",
    "vocabulary",
    "epoch",
    "parameter",
]


@pytest.mark.parametrize(
    "how",
    [
        *BREAKS,
        *(f"without {name}" for name in ("format", "classes", "epoch", "parameters", "vocabulary")),
    ],
)
def test_a_broken_folder_is_one_clear_error(tmp_path, how):
    made = fitted(epochs=1)
    folder = made.save(tmp_path / "kept")
    broken(folder, how)
    with pytest.raises(AttlasError, match="kept"):
        AttentionClassifier.load(folder)
    if how != "changed number":  # files without a checksum, as they were written before
        folder = old_form(made.save(tmp_path / "kept before"))
        broken(folder, how)
        with pytest.raises(AttlasError, match="kept before"):
            AttentionClassifier.load(folder)


def test_what_cannot_be_written_says_so(tmp_path):
    made = AttentionClassifier(tokenize=str.split, **TINY).fit(*PLAIN, dev=False)
    with pytest.raises(AttlasError, match="by name or path"):
        made.save(tmp_path / "kept")
    (tmp_path / "file").write_text("")
    with pytest.raises(AttlasError, match="cannot be written"):
        AttentionClassifier(**TINY).fit(*PLAIN, dev=False).save(tmp_path / "file")
    with pytest.raises(AttlasError, match="nowhere"):
        AttentionClassifier.load(tmp_path / "nowhere")


def test_a_folder_of_something_else_is_not_written_to(tmp_path):
    made = fitted(epochs=1)
    mine = tmp_path / "mine"
    mine.mkdir()
    files = {"classifier.safetensors": "mine", "classifier.json": '{"format": "mine"}'}
    for name, content in files.items():
        (mine / name).write_text(content)
        with pytest.raises(AttlasError, match="is not empty"):
            made.save(mine)
        assert (mine / name).read_text() == content
    folder = made.save(tmp_path / "kept")
    (folder / "notes.txt").write_text("precious")
    other = fitted(epochs=2)
    again = AttentionClassifier.load(other.save(folder))
    assert same_parts(again, other)
    assert (folder / "notes.txt").read_text() == "precious"
    assert sorted(path.name for path in folder.iterdir()) == [*sorted(files), "notes.txt"]


def test_a_save_that_was_stopped_gives_the_earlier_one_or_none_and_can_be_repeated(
    tmp_path, monkeypatch
):
    first, second = fitted(epochs=1), fitted(epochs=2)
    for name, old in (
        ("write_bytes", False),
        ("write_bytes", True),
        ("sha256", False),
        ("sha256", True),
    ):
        folder = tmp_path / f"{name} {old}"
        if old:
            first.save(folder)
        with monkeypatch.context() as context:
            context.setattr(saving, name, stopped)  # before the arrays, and after them
            with pytest.raises(KeyboardInterrupt):
                second.save(folder)
        if old and name == "write_bytes":
            assert same_parts(AttentionClassifier.load(folder), first)
        else:
            with pytest.raises(
                AttlasError, match=folder.name
            ):  # never half of one and half of another
                AttentionClassifier.load(folder)
        assert same_parts(AttentionClassifier.load(second.save(folder)), second)


def stopped(*_: object) -> None:
    raise KeyboardInterrupt


# vectors that are given


@pytest.fixture(scope="module")
def vectors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    return {word: rng.normal(3, 2, 5).round(4) for word in (*GOOD, *BAD[:2], *REST, "elsewhere")}


def test_static_vectors_stay_as_they_are_standardised(vectors, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(
        "".join(
            f"{word} {' '.join(f'{number:.4f}' for number in vector)}\n"
            for word, vector in vectors.items()
        )
    )
    by_map = fitted(encoder="vectors", source=vectors, epochs=10)
    by_file = fitted(encoder="vectors", source=str(path), epochs=10)
    known = np.stack(list(vectors.values()))
    known = (known - known.mean(0)) / known.std(0)
    places = list(vectors)
    for made in (by_map, by_file):
        for word, row in zip(made.vocabulary_, made.best_snapshot_.table.rows, strict=False):
            np.testing.assert_allclose(
                row, known[places.index(word)] if word in vectors else np.zeros(5), atol=1e-5
            )
        assert not made.best_snapshot_.table.rows[-1].any()
        strange = made.tokens().set_index("token").loc[list(BAD[2:])]
        assert not strange[["polarity", "attention_score"]].to_numpy().any()
        assert made.decision_function([["elsewhere"]]).tolist() == [0]  # not learnt from
        assert made.epoch_ == 10
    np.testing.assert_allclose(
        by_map.decision_function(reviews(9)[0]), by_file.decision_function(reviews(9)[0]), atol=1e-4
    )
    again = AttentionClassifier.load(by_file.save(tmp_path / "kept"))
    assert np.array_equal(
        again.decision_function(reviews(9)[0]), by_file.decision_function(reviews(9)[0])
    )
    with pytest.raises(AttlasError, match="vectors in memory cannot be saved"):
        by_map.save(tmp_path / "other")


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_frozen_model_is_read_as_transformers_does(family):
    model = tiny(family)
    texts, labels = reviews(24)
    texts = [
        [*text, "kitten's", "世", "sat"] for text in texts
    ]  # in pieces, and one that it does not know
    made = AttentionClassifier(encoder="model", source=model, record=2, **TINY).fit(
        texts, labels, dev=False
    )
    ragged, _ = made.training_texts()
    assert len(ragged) == 24
    assert made.flow_.empty  # a word has no vector of its own
    slow = [states_slowly(model, text) for text in texts]
    np.testing.assert_allclose(ragged.states, np.concatenate(slow), atol=2e-5)
    parts = parts_of(made)
    table, places = made.tokens().set_index("token"), list(made.vocabulary_)
    for word in ("good", "a", "kitten's"):
        alone = states_slowly(model, [word])[0]
        np.testing.assert_allclose(parts["table"][places.index(word)], alone, atol=2e-5)
        assert table.loc[word, "polarity"] == pytest.approx(
            float(alone @ parts["output"][0]), abs=1e-4
        )
        local = np.stack(
            [
                state
                for text, states in zip(texts, slow, strict=True)
                for token, state in zip(text, states, strict=True)
                if token == word
            ]
        )
        assert table.loc[word, "polarity_local"] == pytest.approx(
            (local @ parts["output"][0]).mean(), abs=1e-4
        )
        assert table.loc[word, "attention_local"] == pytest.approx(
            (local @ parts["query"]).mean() / 10, abs=1e-4
        )
    assert not np.allclose(table["polarity_local"], table["polarity"], atol=1e-2)
    unseen = [["a", "zebra", "sat"]]
    states = states_slowly(model, unseen[0])
    weights = softmax(states @ parts["query"] / 10)
    assert made.decision_function(unseen)[0] == pytest.approx(
        float(weights @ states @ parts["output"][0]), abs=1e-4
    )


def test_a_model_by_its_folder_is_saved_by_its_folder(tiny_folder, tmp_path):
    made = fitted(encoder="model", source=tiny_folder, count=24, classes=3)
    again = AttentionClassifier.load(made.save(tmp_path / "kept"))
    texts, _ = reviews(6, seed=4)
    assert np.array_equal(again.decision_function(texts), made.decision_function(texts))
    assert clone(made).fit(*reviews(24, 3), dev=False).score(texts, ["bad"] * 6) == made.score(
        texts, ["bad"] * 6
    )


def old_form(folder: Path) -> Path:
    """A saved classifier without what was added since."""
    about = json.loads((folder / "classifier.json").read_text())
    for name in ("source", "arrays"):
        about.pop(name, None)
    (folder / "classifier.json").write_text(json.dumps(about))
    return folder


def test_a_classifier_whose_frozen_model_was_replaced_is_refused(tmp_path):
    folder, texts = tmp_path / "model", reviews(6, seed=4)[0]
    tiny("bert").save(folder)
    made = fitted(encoder="model", source=str(folder), count=24)
    kept, thawed = made.save(tmp_path / "kept"), pickle.loads(pickle.dumps(made))
    before = made.decision_function(texts)
    assert np.array_equal(AttentionClassifier.load(kept).decision_function(texts), before)
    old = old_form(made.save(tmp_path / "old"))
    assert np.array_equal(AttentionClassifier.load(old).decision_function(texts), before)
    shutil.rmtree(folder)
    tiny("bert", seed=9).save(folder)
    assert np.array_equal(made.decision_function(texts), before)  # with the model of its fit
    for again in (lambda: AttentionClassifier.load(kept), lambda: thawed.predict(texts)):
        with pytest.raises(AttlasError, match=r"another model.*changed: weights\)") as raised:
            again()
        assert "\n" not in str(raised.value)
    assert AttentionClassifier.load(old).predict(texts).shape == (6,)  # it cannot know
    tiny("bert").save(folder)
    tokens = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**tokens, "truncation_side": "left"}))
    with pytest.raises(AttlasError, match=r"changed: tokenizer\)"):
        AttentionClassifier.load(kept)
    refitted = made.fit(*reviews(24), dev=False)
    again = AttentionClassifier.load(refitted.save(kept))
    assert np.array_equal(again.decision_function(texts), refitted.decision_function(texts))
    shutil.rmtree(folder)
    with pytest.raises(AttlasError, match="model"):
        AttentionClassifier.load(kept)


def test_a_classifier_of_static_vectors_needs_no_file_to_predict(vectors, tmp_path):
    path, texts = tmp_path / "vectors.txt", reviews(9)[0]
    lines = [" ".join(map(str, (word, *vector))) for word, vector in vectors.items()]
    path.write_text("\n".join(lines))
    made = fitted(encoder="vectors", source=path, epochs=2)
    kept = made.save(tmp_path / "kept")
    about = json.loads((kept / "classifier.json").read_text())
    assert about["source"] == {"content": fingerprint(GloveVectors(path))}
    path.unlink()
    again = AttentionClassifier.load(kept)
    assert np.array_equal(again.decision_function(texts), made.decision_function(texts))


def test_a_model_is_loaded_anew(tmp_path):
    tiny("bert").save(tmp_path / "m")
    first = model_of(tmp_path / "m")
    shutil.rmtree(tmp_path / "m")
    tiny("bert", seed=9).save(tmp_path / "m")
    second = fingerprint(model_of(tmp_path / "m"))
    assert second == fingerprint(tiny("bert", seed=9)) != fingerprint(first)
    assert model_of(first) is first


def test_vectors_are_known_by_words_and_numbers(tmp_path):
    rows = {"cat": "1 2", "dog": "3 5", "mat": "4 4"}

    def glove(name: str, content: dict[str, str]) -> GloveVectors:
        (tmp_path / name).write_text("".join(f"{word} {row}\n" for word, row in content.items()))
        return GloveVectors(tmp_path / name)

    def mapped(content: dict[str, str]) -> MappedVectors:
        return MappedVectors({word: [*map(float, row.split())] for word, row in content.items()})

    other_words = dict(zip(("dog", "mat", "cat"), rows.values(), strict=True))
    changed = {**rows, "mat": "4 5"}
    for made in (lambda name, content: glove(name, content), lambda _, content: mapped(content)):
        first, same = made("a.txt", rows), made("b.txt", rows)
        assert first.digest == same.digest
        assert fingerprint(first) == fingerprint(same)
        others = (other_words, changed, {**rows, "rat": "0 1"})
        assert len({first.digest, *(made("c.txt", content).digest for content in others)}) == 4
    assert glove("d.txt", rows).digest != mapped(rows).digest  # words of a file are lower-cased
    assert mapped({"Cat": "1 2", "dog": "3 5", "mat": "4 4"}).digest != mapped(rows).digest
    model, left = tiny("bert"), tiny("bert")
    left.tokenizer.truncation_side = "left"
    assert ModelVectors(model).digest == ModelVectors(tiny("bert")).digest
    assert len({ModelVectors(one).digest for one in (model, left, tiny("bert", seed=2))}) == 3


def test_a_model_at_hand_can_be_cloned():
    made = fitted(encoder="model", source=tiny("bert"), count=24, epochs=1)
    assert same_parts(clone(made).fit(*reviews(24), dev=False), made)


# corpora made to order


def word_kinds(text: Text) -> Counter[str]:
    return Counter(word.split("_")[0] if "_" in word else word[0] for word in text.words)


@pytest.fixture(scope="module")
def papers() -> list[Text]:
    """The corpus of the paper."""
    return synthetic_named("")


def test_the_papers_corpus_is_the_default(papers):
    texts = papers
    assert texts[:100] == synthetic()[:100]
    assert len(texts) == 12_000
    assert Counter(text.label for text in texts) == {"negative": 6000, "positive": 6000}
    assert len({text.id for text in texts}) == 12_000
    for text in texts:
        assert word_kinds(text) == {"n": 10, "p" if text.label == "positive" else "g": 2}
        assert len({*text.words}) == 12
    counts = Counter(word for text in texts for word in text.words)
    assert len(counts) == 1100
    assert {word for word in counts if word[0] == "p"} == {f"p{number}" for number in range(50)}
    neutral = [count for word, count in counts.items() if word[0] == "n"]
    assert np.std(neutral) < 1.2 * np.sqrt(120)  # each as likely as any
    places = [text.words.index(word) for text in texts for word in text.words if word[0] != "n"]
    assert np.bincount(places, minlength=12).min() > 0.9 * 2000  # and anywhere
    assert synthetic(50) == synthetic(50) != synthetic(50, seed=3)


@given(st.integers(2, 5), st.integers(0, 40), st.data())
@settings(max_examples=60)
def test_corpora_have_their_sizes_and_ratios(classes, more, data):
    ratio = data.draw(
        st.lists(
            st.one_of(st.integers(1, 9), st.floats(0.01, 100)), min_size=classes, max_size=classes
        )
    )
    size, noise = classes + more, data.draw(st.sampled_from([0.0, 0.3, 1.0]))
    texts = synthetic(
        size,
        classes=classes,
        class_words=3,
        neutral_words=4,
        words=2,
        neutral=3,
        noise=noise,
        ratio=ratio,
    )
    assert len(texts) == size
    names = (
        ["negative", "positive"]
        if classes == 2
        else [f"class{number}" for number in range(classes)]
    )
    letters = "gp" if classes == 2 else [f"c{number}" for number in range(classes)]
    counts = Counter(text.label for text in texts)
    assert {*counts} == {*names}  # at least one of each
    shares = np.array(ratio) / sum(ratio)
    if (shares * size >= 1).all():
        assert all(
            abs(counts[name] - share * size) <= 1.001
            for name, share in zip(names, shares, strict=True)
        )
    for text in texts:
        found, own = word_kinds(text), names.index(text.label)
        assert found.pop("n") == 3
        chosen = (
            {letters[own], letters[(own + 1) % classes]}
            if noise == 0.3
            else {letters[(own + int(noise)) % classes]}
        )
        assert {*found} <= chosen
        assert [*found.values()] == [2]
        assert len({*text.words}) == 5


@pytest.mark.parametrize(
    ("size", "ratio"),
    [(4, (1, 1, 9, 9)), (7, (1, 1, 1, 1, 1, 100, 130)), (5, (1, 1, 1, 1, 1000)), (3, (5, 1, 1))],
)
def test_every_class_has_a_text_however_few_there_are(size, ratio):
    counts = Counter(text.label for text in synthetic(size, classes=len(ratio), ratio=ratio))
    assert counts.total() == size
    assert len(counts) == len(ratio)


def test_noise_is_the_share_of_texts_with_words_of_another_class():
    texts = synthetic(4000, noise=0.1)
    swapped = np.mean([("p" in word_kinds(text)) != (text.label == "positive") for text in texts])
    assert abs(swapped - 0.1) < 5 * np.sqrt(0.09 / 4000)


def test_corpora_by_name():
    asked = "texts=30, classes=3,ratio=1:2:3 ,noise=0.5,seed=7,words=1,neutral=2,class_words=4"
    asked += ",neutral_words=9"
    wanted = synthetic(
        30,
        classes=3,
        ratio=[1, 2, 3],
        noise=0.5,
        seed=7,
        words=1,
        neutral=2,
        class_words=4,
        neutral_words=9,
    )
    assert synthetic_named(asked) == list(read(f"synthetic:{asked}")) == wanted


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("size=3", "no option 'size'.*texts"),
        ("texts=many", "'many'"),
        ("texts", "texts"),
        ("texts=1", "at least two classes and a text of each"),
        ("classes=1", "at least two classes"),
        ("texts=30,noise=2", "noise"),
        ("texts=30,noise=nan", "noise"),
        ("texts=30,words=9,class_words=8", "9 of 8 class words"),
        ("texts=30,words=0", "0 of 50 class words"),
        ("texts=30,neutral=5,neutral_words=4", "5 of 4 neutral words"),
        ("texts=30,ratio=1:2:3", "ratio"),
        ("texts=30,ratio=1:0", "ratio"),
        ("texts=30,ratio=1:nan", "ratio"),
        ("texts=30,ratio=inf:1", "ratio"),
        ("texts=30,ratio=1:b", "ratio"),
        ("texts=30,seed=-1", "seed"),
    ],
)
def test_corpora_that_cannot_be(asked, message):
    with pytest.raises(CorpusError, match=message):
        synthetic_named(asked)


def test_a_corpus_made_to_order_is_learnt_and_its_words_found():
    texts = synthetic(600, class_words=6, neutral_words=40, neutral=4)
    made = AttentionClassifier(dim=16, epochs=60, learning_rate=0.1, progress=False).fit(
        texts[:500], dev=False
    )
    assert made.score(texts[500:], [text.label for text in texts[500:]]) > 0.97
    table = made.tokens().set_index("token")
    for word, kind in table["kind"].items():
        assert kind in ({"p": ["positive"], "g": ["negative"]}.get(word[0], ["neutral", ""])), word
    found = made.interpretability()
    assert found["polarity_auc"] == 1
    assert found["separation"] > 0.98 > 0.8 > found["separation_untrained"]
