"""Explanations of single texts against captum, autograd by hand, slow twins and closed forms.

Also what they cost, and that they leave nothing on the model.
"""

from __future__ import annotations

import copy
import itertools
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

import captum.attr
import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from scipy.special import expit
from torch import Tensor, nn

import attlas
from attlas.core.text import Text
from attlas.explain import (
    METHODS,
    agreement,
    captum_methods,
    explain,
    faithfulness,
    gradients,
    integrated_gradients,
)
from attlas.explain.gradients import GradientEvaluator, row_bytes
from attlas.explain.integrated import integrate
from attlas.explain.shifts import tau_band
from attlas.explain.target import Target
from attlas.models import Model
from attlas.models.lengthen import lengthen
from attlas.support.errors import AttlasError, CorpusError, MeasureError, ModelError
from attlas.testing import tiny, tiny_tokenizer
from tests.builders.explain import (
    MASK,
    PAD,
    TEXT,
    classifier,
    full_batch_of as batch_of,
    gpt2_classifier,
    not_a_number,
)
from tests.builders.models import perturbed_model
from tests.close import close, terms_of
from tests.twins.explain import attention_slowly

Answer = Callable[[Tensor], Tensor]  # logits -> the explained number of each row
GRADIENTS = ("integrated_gradients", "saliency", "input_x_gradient", "deeplift", "gradient_shap")
PERTURBED = ("saliency", "input_x_gradient", "deeplift", "gradient_shap", "occlusion")
ATTENTION = (
    "attention_last",
    "attention_all",
    "cls_row",
    "rollout",
    "attention_x_gradient",
    "gradient_rollout",
)
SCALED = ("attention_last_scaled", "attention_all_scaled")
EVERY = ("integrated_gradients", *PERTURBED, *ATTENTION)


# models, and what they say when they are run by hand


@cache
def masked() -> Model:
    return perturbed_model(tiny("bert", "mlm"))


@cache
def causal() -> Model:
    return perturbed_model(tiny("gpt2", "lm"))


@pytest.fixture(scope="module")
def real() -> Model:
    """The embedded model with a head for three labels, drawn wide enough to say something."""
    model = attlas.load(task="classify", labels=["bad", "good", "so so"])
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model.network.classifier.weight.normal_(0, 0.5)
    return model


def probability(number: int) -> Answer:
    return lambda logits: logits.softmax(-1)[:, number]


def logit(number: int) -> Answer:
    return lambda logits: logits[:, number]


def token(position: int, number: int) -> Answer:
    return lambda logits: logits[:, position].softmax(-1)[:, number]


def ids_of(model: Model, text: str = TEXT) -> Tensor:
    return torch.tensor([model.tokenizer(text)["input_ids"]])


def is_mark(model: Model, ids: Tensor) -> Tensor:
    """Which tokens are [CLS] and [SEP]."""
    marks = [
        one
        for one in (model.tokenizer.cls_token_id, model.tokenizer.sep_token_id)
        if one is not None
    ]
    return torch.isin(ids, torch.tensor(marks, dtype=ids.dtype))


def blanked(model: Model, ids: Tensor, number: int = PAD) -> Tensor:
    """[CLS] pad ... pad [SEP]; a mask token stays, for it is the question."""
    stays = is_mark(model, ids) | (
        ids == MASK if model.tokenizer.mask_token_id is not None else False
    )
    return torch.where(stays, ids, number)


def other_inputs(model: Model, ids: Tensor) -> dict[str, Tensor]:
    """Inputs that keep positions when ids are padding, and the first token global."""
    kind, out = model.network.config.model_type, {}
    if kind in ("roberta", "longformer"):
        out["position_ids"] = (
            torch.arange(ids.shape[1])[None] + model.network.config.pad_token_id + 1
        )
    if kind == "longformer":
        out["global_attention_mask"] = torch.zeros_like(ids).index_fill_(1, torch.tensor([0]), 1)
    return out


@cache
def plain(model: Model) -> Any:
    """The network to run by hand: a Longformer in squares, because transformers pads texts."""
    return squared(model)[0] if model.banded else model.network


def embedding(network: Any) -> nn.Module:
    """The module whose output enters the first layer; GPT-2 adds positions outside of any."""
    base = network.base_model
    return base.wte if network.config.model_type == "gpt2" else base.embeddings


def embedded(model: Model, ids: Tensor) -> Tensor:
    """The embeddings in a plain pass: [row, token, dimension]."""
    seen: list[Tensor] = []
    network = plain(model)
    handle = embedding(network).register_forward_hook(
        lambda module, args, output: seen.append(output)
    )
    try:
        with torch.no_grad():
            network(input_ids=ids, **other_inputs(model, ids))
    finally:
        handle.remove()
    return seen[0]


class Tail(nn.Module):
    """The network's answer if some modules give these tensors: [row, token, dim] -> [row]."""

    def __init__(self, model: Model, ids: Tensor, answer: Answer, *places: nn.Module) -> None:
        super().__init__()
        self.network, self.ids, self.answer, self.other_inputs = (
            plain(model),
            ids,
            answer,
            other_inputs(model, ids),
        )
        self.places = places or (embedding(self.network),)

    def forward(self, *given: Tensor) -> Tensor:
        rows = len(given[0])
        handles = [
            place.register_forward_hook(lambda module, args, output, one=one: one)
            for place, one in zip(self.places, given, strict=True)
        ]
        try:
            more = {name: one.expand(rows, -1) for name, one in self.other_inputs.items()}
            return self.answer(self.network(input_ids=self.ids.expand(rows, -1), **more).logits)
        finally:
            for handle in handles:
                handle.remove()


@contextmanager
def silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def integrated_by_captum(
    model: Model, text: str, answer: Answer, blank: int = PAD, steps: int = 300, network: Any = None
) -> np.ndarray:
    """captum's integrated gradients from [CLS] pad ... [SEP], summed over dimensions: [token]."""
    ids = ids_of(model, text)
    more, network = other_inputs(model, ids), network or plain(model)

    def forward(ids: Tensor, *given: Tensor) -> Tensor:
        return answer(network(input_ids=ids, **dict(zip(more, given, strict=True))).logits)

    found = captum.attr.LayerIntegratedGradients(forward, embedding(network)).attribute(
        ids,
        blanked(model, ids, blank),
        additional_forward_args=tuple(more.values()) or None,
        n_steps=steps,
        method="gausslegendre",
        internal_batch_size=100,
    )
    return found.sum(-1)[0].detach().double().numpy()


def scale_of(one: Any) -> float:
    return max(
        abs(one.value - one.baseline_value), 1e-5 * max(abs(one.value), abs(one.baseline_value))
    )


def assert_near(one: Any, expected: np.ndarray, tolerance: float) -> None:
    """Every score is within the tolerance, relative to the difference or to all scores."""
    assert one.converged
    whole = max(scale_of(one), float(np.abs(expected).sum()))
    np.testing.assert_allclose(one.scores, expected, rtol=0, atol=tolerance * whole)


class Passes:
    """Counts the passes that reach a network's end: (rows, tokens, whether they can go back)."""

    def __init__(self, model: Model) -> None:
        self.network, self.seen = model.network, []  # type: ignore[var-annotated]

    def __enter__(self) -> Passes:
        def note(module: Any, args: Any, options: dict[str, Any], output: Any) -> None:
            self.seen.append((*options["input_ids"].shape, torch.is_grad_enabled()))

        self.handle = self.network.register_forward_hook(note, with_kwargs=True)
        return self

    def __exit__(self, *error: object) -> None:
        self.handle.remove()

    @property
    def back(self) -> int:
        """Rows of the passes that can go back."""
        return sum(rows for rows, _, back in self.seen if back)


# integrated gradients are captum's


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2"])
@pytest.mark.parametrize(("of", "number"), [("probability", 0), ("probability", 2), ("logit", 1)])
def test_integrated_gradients_are_captums(family: str, of: str, number: int) -> None:
    model = classifier(family)
    answer = (probability if of == "probability" else logit)(number)
    found = explain(model, TEXT, target=number, of=of, tolerance=1e-3, max_evaluations=3000)
    assert_near(found, integrated_by_captum(model, TEXT, answer), 1e-3)
    with torch.no_grad():
        logits = model.network(ids_of(model)).logits
    close(
        found.value, answer(logits)[0], terms_of(model.network), magnitude=float(logits.abs().max())
    )


def test_integrated_gradients_are_captums_on_a_real_model(real: Model) -> None:
    for text, of, number in (
        ("A fine film.", "probability", 2),
        ("It was not the cat that I saw, but its shadow!", "logit", 0),
    ):
        answer = (probability if of == "probability" else logit)(number)
        found = explain(real, text, target=number, of=of, tolerance=3e-3)
        assert_near(found, integrated_by_captum(real, text, answer, steps=60), 3e-3)
        assert abs(found.value - found.baseline_value) > 0.03


def test_integrated_gradients_are_captums_on_a_band() -> None:
    """16 tokens, a multiple of the windows, so that transformers' own Longformer pads nothing."""
    model = classifier("longformer")
    text = TEXT + " and it was a cat"
    assert ids_of(model, text).shape[1] == 16
    found = explain(model, text, target=1, tolerance=1e-3, max_evaluations=3000)
    assert_near(
        found, integrated_by_captum(model, text, probability(1), network=model.network), 1e-3
    )


def test_a_masked_language_model_and_a_causal_one_are_captums() -> None:
    model, text = masked(), "a cat [MASK] on the mat"
    dog = model.tokenizer.convert_tokens_to_ids("dog")
    place = int((ids_of(model, text) == MASK).nonzero()[0, 1])
    found = explain(model, text, target="dog", tolerance=1e-3, max_evaluations=3000)
    assert (found.target, found.of) == ("dog", "probability")
    assert_near(found, integrated_by_captum(model, text, token(place, dog)), 1e-3)
    found = explain(
        model, text, target=dog, position=-3, of="logit", tolerance=1e-3, max_evaluations=3000
    )
    assert_near(found, integrated_by_captum(model, text, lambda logits: logits[:, -3, dog]), 1e-3)
    model = causal()
    found = explain(model, TEXT, target="mat", tolerance=1e-3, max_evaluations=3000)
    mat = model.tokenizer.convert_tokens_to_ids("mat")
    assert_near(found, integrated_by_captum(model, TEXT, token(-1, mat)), 1e-3)
    found = explain(model, TEXT, position=3, tolerance=1e-3, max_evaluations=3000)
    with torch.no_grad():
        best = int(model.network(ids_of(model)).logits[0, 3].argmax())
    assert found.target == found.predicted == model.tokenizer.convert_ids_to_tokens(best)
    assert_near(found, integrated_by_captum(model, TEXT, token(3, best)), 1e-3)
    assert not found.scores[4:].any()  # what comes after cannot matter


def test_the_integral_of_a_name_a_number_a_label_and_of_what_the_model_gives() -> None:
    model = classifier()
    with torch.no_grad():
        logits = model.network(ids_of(model)).logits[0]
    shares, rounding = (
        logits.softmax(-1),
        {"terms": terms_of(model.network), "magnitude": float(logits.abs().max())},
    )
    best = int(shares.argmax())
    explanation = explain(model, TEXT)
    assert (explanation.target, explanation.predicted) == (f"LABEL_{best}", f"LABEL_{best}")
    close(explanation.value, shares[best], **rounding)
    close(explanation.probability, shares[best], **rounding)
    for number in range(3):
        name = f"LABEL_{number}"
        ways = [
            explain(model, TEXT, target=name),
            explain(model, TEXT, target=number),
            explain(model, Text("x", TEXT, label=name), target="label"),
            explain(model, Text("x", TEXT, label=str(number)), target="label"),
        ]
        for one in ways:
            assert (one.target, one.predicted) == (name, f"LABEL_{best}")
            close(one.value, shares[number], **rounding)
            np.testing.assert_array_equal(one.scores, ways[0].scores)
    first, second = (explain(model, TEXT, target=number).scores for number in (0, 1))
    assert np.abs(first - second).max() > 1e-4


def test_each_class_for_itself_and_a_single_number() -> None:
    several = tiny("bert", "classify", num_labels=3, problem_type="multi_label_classification")
    found = explain(several, TEXT, target=1, tolerance=1e-3, max_evaluations=2000)
    assert_near(
        found, integrated_by_captum(several, TEXT, lambda logits: logits.sigmoid()[:, 1]), 1e-3
    )
    with torch.no_grad():
        logits = several.network(ids_of(several)).logits[0]
    rounding = {"terms": terms_of(several.network), "magnitude": float(logits.abs().max())}
    close(found.value, logits[1].sigmoid(), **rounding)
    close(found.probability, logits.max().sigmoid(), **rounding)
    one = tiny("bert", "classify", num_labels=1)
    found = explain(one, TEXT, of="logit", tolerance=1e-3, max_evaluations=2000)
    assert_near(found, integrated_by_captum(one, TEXT, logit(0)), 1e-3)
    with pytest.raises(ModelError, match=r"one number and no probability.*of='logit'"):
        explain(one, TEXT)


# baselines, words and parts


def by_hand(model: Model, ids: Tensor, words: Tensor) -> Tensor:
    """BERT's embeddings of word vectors [row, token, dimension]."""
    own = model.network.bert.embeddings
    positions, types = (
        own.position_embeddings.weight[: ids.shape[1]],
        own.token_type_embeddings.weight[0],
    )
    return own.LayerNorm(words + positions + types)


@pytest.mark.parametrize("baseline", ["padding", "mask", "zero", "mean"])
@pytest.mark.parametrize("at", ["embeddings", "words"])
def test_baselines_are_the_text_without_its_words(baseline: str, at: str) -> None:
    model = classifier()
    ids, table = ids_of(model), model.network.bert.embeddings.word_embeddings.weight.detach()
    blank = {
        "padding": table[PAD],
        "mask": table[MASK],
        "zero": torch.zeros(32),
        "mean": table.mean(0),
    }[baseline]
    words = table[ids]
    away = torch.where(is_mark(model, ids)[..., None], words, blank)
    with torch.no_grad():
        start, stop = (
            (away, words)
            if at == "words"
            else (by_hand(model, ids, away), by_hand(model, ids, words))
        )
    place = (
        model.network.bert.embeddings.word_embeddings if at == "words" else embedding(model.network)
    )
    expected = captum.attr.IntegratedGradients(Tail(model, ids, probability(1), place)).attribute(
        stop, start, n_steps=300, method="gausslegendre", internal_batch_size=100
    )
    found = explain(
        model, TEXT, target=1, baseline=baseline, at=at, tolerance=1e-3, max_evaluations=3000
    )
    assert_near(found, expected.sum(-1)[0].detach().numpy(), 1e-3)
    with torch.no_grad():
        at_baseline = Tail(model, ids, probability(1), place)(start)[0]
    close(found.baseline_value, at_baseline, terms_of(model.network), magnitude=1)
    np.testing.assert_allclose(found.scores[[0, -1]], 0, atol=1e-12)  # special tokens stand in both
    assert found.parts == {}


def test_a_baseline_of_ones_own_is_taken_as_it_is() -> None:
    model = classifier()
    ids = ids_of(model)
    start = embedded(model, ids.flip(1))
    found = explain(model, TEXT, target=0, baseline=start, tolerance=1e-3, max_evaluations=3000)
    expected = captum.attr.IntegratedGradients(Tail(model, ids, probability(0))).attribute(
        embedded(model, ids), start, n_steps=300, method="gausslegendre", internal_batch_size=100
    )
    assert_near(found, expected.sum(-1)[0].detach().numpy(), 1e-3)
    assert abs(found.scores[0]) > 1e-6  # here [CLS] is replaced, too
    for wrong in (start[0], start[:, 1:], start[..., 1:], start.expand(2, -1, -1)):
        with pytest.raises(
            ModelError, match=r"the baseline has the shape .* must be that of the embeddings"
        ):
            explain(model, TEXT, baseline=wrong)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2"])
def test_word_position_and_type_apart_are_captums_of_three_inputs(family: str) -> None:
    model, base = classifier(family), classifier(family).network.base_model
    ids = ids_of(model)
    n = ids.shape[1]
    own = base if family == "gpt2" else base.embeddings
    places = (
        {"word": own.wte, "position": own.wpe}
        if family == "gpt2"
        else {
            "word": own.word_embeddings,
            "position": own.position_embeddings,
            **({} if family == "distilbert" else {"type": own.token_type_embeddings}),
        }
    )
    first = 1 if family == "roberta" else 0  # RoBERTa counts positions from the padding id on
    blank = places["word"].weight[blanked(model, ids)]
    starts = {"word": blank, "position": places["position"].weight[first].expand(1, n, -1)}
    stops = {
        "word": places["word"].weight[ids],
        "position": places["position"].weight[first : first + n][None],
    }
    if "type" in places:
        starts["type"] = stops["type"] = places["type"].weight[0].expand(1, n, -1)
    names = list(places)
    expected = captum.attr.IntegratedGradients(
        Tail(model, ids, probability(1), *places.values())
    ).attribute(
        tuple(stops[name].detach() for name in names),
        tuple(starts[name].detach() for name in names),
        n_steps=300,
        method="gausslegendre",
        internal_batch_size=100,
    )
    found = explain(model, TEXT, target=1, at="parts", tolerance=1e-3, max_evaluations=3000)
    assert found.converged
    assert set(found.parts) == set(names)
    parts = {
        name: one.sum(-1)[0].detach().numpy() for name, one in zip(names, expected, strict=True)
    }
    whole = sum(float(np.abs(one).sum()) for one in parts.values())
    for name, near in parts.items():
        np.testing.assert_allclose(found.parts[name], near, rtol=0, atol=1e-3 * whole, err_msg=name)
    np.testing.assert_allclose(found.scores, sum(found.parts.values()), atol=1e-12)
    assert np.abs(found.parts["position"]).max() > 1e-4
    if "type" in places:
        assert not found.parts["type"].any()  # every token has the first type
    assert list(found.to_frame().columns) == [
        "token",
        "start",
        "stop",
        "string",
        "score",
        *found.parts,
    ]


# how exact they are, and what they cost


def test_a_smaller_tolerance_is_nearer_to_300_points_of_gauss() -> None:
    model = classifier("distilbert")
    expected = integrated_by_captum(model, TEXT, probability(0))
    found = [
        explain(model, TEXT, target=0, tolerance=tolerance, max_evaluations=5000)
        for tolerance in (0.3, 3e-2, 3e-3, 3e-4)
    ]
    assert all(one.converged for one in found)
    off = [float(np.abs(one.scores - expected).sum()) / scale_of(one) for one in found]
    assert off == sorted(off, reverse=True)
    assert len(set(off)) == 4
    assert off[-1] < 1e-3 < off[0]
    used = [one.evaluations for one in found]
    assert used == sorted(used)
    assert len(set(used)) == 4


@pytest.mark.parametrize("family", ["bert", "distilbert", "gpt2", "longformer"])
@pytest.mark.parametrize("tolerance", [0.1, 0.01, 1e-3])
def test_the_gap_is_what_it_says(family: str, tolerance: float) -> None:
    """The value at the text and at the baseline by plain passes, not by the method itself."""
    model = classifier(family)
    for text in (TEXT, "it was not very good !", "dog"):
        one = explain(model, text, target=1, tolerance=tolerance, max_evaluations=300)
        ids = ids_of(model, text)
        words = plain(model).get_input_embeddings()
        with torch.no_grad():
            value = float(
                probability(1)(plain(model)(input_ids=ids, **other_inputs(model, ids)).logits)
            )
            start = float(
                Tail(model, ids, probability(1), words)(words.weight[blanked(model, ids)])
            )
        assert one.value == pytest.approx(value, abs=2e-6)
        assert one.baseline_value == pytest.approx(start, abs=2e-6)
        gap = abs(one.scores.sum() - (value - start)) / max(abs(value - start), 1e-3)
        assert one.gap == pytest.approx(gap, abs=1e-5 / max(abs(value - start), 1e-3))
        assert one.converged == (one.gap <= tolerance and one.error <= tolerance)
        assert one.total == pytest.approx(one.scores.sum())
        if one.converged:
            assert gap <= tolerance + 1e-5 / max(abs(value - start), 1e-3)
        else:
            assert 299 <= one.evaluations <= 300


def test_what_did_not_converge_says_so() -> None:
    model = classifier("distilbert")
    for most in (9, 10, 11, 24, 61):
        one = explain(model, TEXT, target=0, tolerance=1e-5, max_evaluations=most)
        assert most - 1 <= one.evaluations <= most
        assert not one.converged
        assert max(one.error, one.gap) > 1e-5
        assert "not converged" in repr(one)
    assert explain(model, TEXT, target=0, tolerance=0.3).converged


class Curves(GradientEvaluator):
    """Functions of each token's one number, summed: each has its own difference as score."""

    curves: Sequence[Callable[[Tensor], Tensor]] = ()

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        return {"x": torch.ones(self.batch.n_texts, len(self.curves), 1, dtype=torch.float64)}

    def gradients(self, given: Any, rows: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.enable_grad():
            x = given["x"].detach().requires_grad_()
            values = sum(
                (rows + 1) * curve(x[:, place, 0]) for place, curve in enumerate(self.curves)
            )
            return values.detach(), {"x": torch.autograd.grad(values.sum(), x)[0]}  # type: ignore[union-attr]


def curves(*functions: Callable[[Tensor], Tensor], texts: int = 1) -> Curves:
    model = classifier()
    field = Curves(model, batch_of(model, *["a cat"] * texts), Target())
    object.__setattr__(field, "curves", functions)
    return field


def test_cubic_gradients_are_integrated_exactly_with_nine_points() -> None:
    field = curves(lambda x: 3 * x, lambda x: x**2 - x, lambda x: 5 * x**4 - x**3, texts=2)
    paths = integrate(field, {"x": torch.zeros(2, 3, 1, dtype=torch.float64)}, 1e-9)
    for text, path in enumerate(paths):
        assert len(path.points) == 9
        np.testing.assert_allclose(path.total()[0], (text + 1) * np.array([3, 0, 4]), atol=1e-12)


@pytest.mark.parametrize("steep", [5.0, 60.0, 2000.0])
def test_steep_curves_are_followed_and_the_error_is_as_said(steep: float) -> None:
    """A step anywhere on the path: shares are known, and the error is not underestimated."""
    for place in (0.31, 0.5, 0.77):
        exact = np.array([expit(steep * (1 - place)) - expit(-steep * place), -0.4])
        field = curves(
            lambda x, place=place: torch.sigmoid(steep * (x - place)), lambda x: -0.4 * x**3
        )
        for tolerance in (0.1, 1e-3, 1e-6):
            (path,) = integrate(
                field, {"x": torch.zeros(1, 2, 1, dtype=torch.float64)}, tolerance, 4000
            )
            off = path.total()[0] - exact
            assert max(path.error, path.gap) <= tolerance
            assert np.abs(off).sum() <= path.error * path.size + 1e-12
            assert abs(off.sum()) == pytest.approx(path.gap * path.scale, abs=1e-12)
            assert len(path.points) < 4000
            assert abs(path.difference - exact.sum()) < 1e-12


def test_no_gap_hides_behind_another() -> None:
    """A step up and a step down between the points: gaps cancel in the total, errors do not."""
    field = curves(
        lambda x: torch.sigmoid(300 * (x - 0.28)) - torch.sigmoid(300 * (x - 0.78)),
        lambda x: 0.5 * x,
    )
    (path,) = integrate(field, {"x": torch.zeros(1, 2, 1, dtype=torch.float64)}, 1e-3, 9)
    assert abs(path.total().sum() - path.difference) / path.scale == pytest.approx(
        path.gap, abs=1e-12
    )
    assert path.gap < 1e-9 < 0.1 < path.error  # the same error twice, with both signs
    (path,) = integrate(field, {"x": torch.zeros(1, 2, 1, dtype=torch.float64)}, 1e-3, 2000)
    assert max(path.error, path.gap) <= 1e-3
    assert len(path.points) > 30


def test_a_path_that_ends_where_it_began_has_a_floor_to_be_measured_by() -> None:
    """A bump: the difference is 0, so that only the floor keeps the gap finite."""
    field = curves(lambda x: torch.sin(math.pi * x) ** 2, lambda x: 0 * x)
    (path,) = integrate(field, {"x": torch.zeros(1, 2, 1, dtype=torch.float64)}, 1e-4, 2000)
    assert abs(path.difference) < 1e-12
    assert path.scale == pytest.approx(1e-5)  # of the largest value on the way
    assert max(path.error, path.gap) <= 1e-4
    assert abs(path.total().sum()) <= 1e-9


def linear() -> Model:
    """GPT-2 whose layers add nothing, without the last norm: classes are linear in a token."""
    model = gpt2_classifier()
    network: Any = model.network
    network.transformer.ln_f = nn.Identity()
    with torch.no_grad():
        for layer in network.transformer.h:
            for part in (layer.attn.c_proj, layer.mlp.c_proj):
                part.weight.zero_()
                part.bias.zero_()
    return model


def test_a_linear_model_is_explained_exactly() -> None:
    model = linear()
    words, weight = (
        model.network.transformer.wte.weight.detach().double(),
        model.network.score.weight.detach().double(),
    )
    last = words[ids_of(model)[0, -1]]
    way = float(weight[2] @ (last - words[PAD]))
    expected = {
        "integrated_gradients": way,
        "deeplift": way,
        "gradient_shap": way,
        "occlusion": way,
        "input_x_gradient": float(weight[2] @ last),
        "saliency": float(weight[2].abs().sum()),
    }
    for method, number in expected.items():
        one = explain(model, TEXT, method, target=2, of="logit", tolerance=1e-5)
        np.testing.assert_allclose(
            one.scores, [0] * 8 + [number], rtol=1e-5, atol=1e-6, err_msg=method
        )
        if METHODS[method].complete:
            assert one.gap < 1e-5
        if method == "integrated_gradients":
            assert one.evaluations == 9


def test_evaluations_reported_are_those_made() -> None:
    model = classifier("distilbert")
    for method in GRADIENTS:
        with Passes(model) as passes:
            one = explain(model, TEXT, method, target=0)
        assert passes.back == one.evaluations, method
    assert one.evaluations == 50
    totals = []
    for text in (TEXT, TEXT + " and a dog"):
        with Passes(model) as passes:
            one = explain(model, text, "occlusion", target=0)
        assert one.evaluations == ids_of(model, text).shape[1] + 1
        assert passes.back == 0
        totals.append(sum(rows for rows, _, _ in passes.seen))
    assert totals[1] - totals[0] == 3
    texts = [TEXT, TEXT.replace("cat", "dog"), "not very good", "cat"]
    with Passes(model) as passes:
        found = explain(model, texts, target=0)
    assert passes.back == sum(one.evaluations for one in found)


@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer"])
def test_several_texts_are_explained_as_each_alone_and_share_passes(family: str) -> None:
    model, texts = classifier(family), [TEXT, "cat", TEXT.replace("cat", "film"), "it was bad"]
    some = ("integrated_gradients", "gradient_shap", "rollout", "gradient_rollout")
    for method in (*EVERY, "random") if family == "bert" else some:
        with Passes(model) as passes:
            found = explain(model, texts, method, target=2)
        assert [one.text.text for one in found] == texts
        for one, text in zip(found, texts, strict=True):
            alone = explain(model, text, method, target=2)
            np.testing.assert_allclose(one.scores, alone.scores, atol=1e-5, err_msg=method)
            assert one.evaluations == alone.evaluations
            assert one.tokens == alone.tokens
        if method == "integrated_gradients":
            length = len(found[0].tokens)
            first = next(rows for rows, tokens, back in passes.seen if back and tokens == length)
            assert first == 2 * 9  # the first points of both texts of this length at once


# captum's methods


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2"])
def test_saliency_and_the_others_are_captums(family: str) -> None:
    model = classifier(family)
    ids = ids_of(model)
    with torch.no_grad():
        stop = embedded(model, ids)
        words = model.network.get_input_embeddings()
        start = torch.empty_like(stop)

        def take(module: Any, args: Any, output: Tensor) -> None:
            start.copy_(output)

        handle = embedding(model.network).register_forward_hook(take)
        Tail(model, ids, probability(1), words)(words.weight[blanked(model, ids)])
        handle.remove()
        if family == "gpt2":
            start = words.weight[blanked(model, ids)]
        value = probability(1)(model.network(ids).logits)
    tail = Tail(model, ids, probability(1))
    with silent():
        expected = {
            "saliency": captum.attr.Saliency(tail).attribute(stop).abs().sum(-1)[0],
            "input_x_gradient": captum.attr.InputXGradient(tail).attribute(stop).sum(-1)[0],
            "deeplift": captum.attr.DeepLift(tail).attribute(stop, start).sum(-1)[0].detach(),
        }
    (gradient,) = torch.autograd.grad(tail(leaf := stop.clone().requires_grad_()).sum(), leaf)
    torch.testing.assert_close(expected["input_x_gradient"].detach(), (gradient * stop).sum(-1)[0])
    losses = []
    for place in range(ids.shape[1]):  # occlusion in a plain loop
        without = stop.clone()
        without[:, place] = start[:, place]
        with torch.no_grad():
            losses.append(float(value - tail(without)))
    expected["occlusion"] = torch.tensor(losses)
    for method, scores in expected.items():
        one = explain(model, TEXT, method, target=1)
        near = scores.detach().numpy()
        magnitude = max(
            1.0, float(np.abs(near).max())
        )  # the scores of occlusion are differences of probabilities
        close(one.scores, near, 2 * terms_of(model.network), magnitude, method)  # forward and back
        assert np.abs(near).max() > 1e-4


def test_gradient_shap_is_an_unbiased_drawing_of_the_integral() -> None:
    model = classifier()
    exact = explain(model, TEXT, target=1, tolerance=1e-4, max_evaluations=3000).scores
    draws = np.stack(
        [explain(model, TEXT, "gradient_shap", target=1, seed=seed).scores for seed in range(16)]
    )
    error = draws.std(0, ddof=1) / math.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - exact)[1:-1] <= 5 * error[1:-1]).all()
    assert error[1:-1].min() > 0  # another seed is another drawing
    again = explain(model, TEXT, "gradient_shap", target=1, seed=3)
    np.testing.assert_array_equal(again.scores, draws[3])
    assert again.gap == pytest.approx(
        abs(again.total - (again.value - again.baseline_value)) / scale_of(again)
    )


def test_random_scores_are_of_the_text_and_the_seed() -> None:
    model = classifier()
    one, other = (explain(model, [TEXT, "a dog", TEXT], "random", seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(one[0].scores, one[2].scores)
    np.testing.assert_array_equal(
        one[1].scores, explain(classifier("roberta"), "a dog", "random").scores
    )
    assert not np.array_equal(one[0].scores, other[0].scores)
    assert one[0].evaluations == 0


def test_randomness_is_left_as_it_was() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    before, numpys = torch.get_rng_state(), np.random.get_state()[1].copy()
    for method in (*EVERY, "random"):
        explain(classifier(), "a cat", method)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpys)


# attention as an explanation, against square matrices


def squared(model: Model) -> tuple[Any, list[Tensor]]:
    """A Longformer that computes attention in squares, hiding unseen keys, and its weights."""
    network, kept = copy.deepcopy(model.network), []  # type: ignore[var-annotated]

    def forward(
        module: Any,
        states: Tensor,
        attention_mask: Any = None,
        is_index_masked: Any = None,
        is_index_global_attn: Any = None,
        **options: Any,
    ) -> tuple[Tensor]:
        count, size, n = module.num_heads, module.head_dim, states.shape[1]

        def heads(projection: nn.Module) -> Tensor:
            return projection(states).view(len(states), n, count, size).transpose(1, 2)

        place = torch.arange(n)
        near = (place[:, None] - place).abs() <= module.one_sided_attn_window_size
        seen = near | is_index_global_attn[:, None, None, :]
        local = heads(module.query) @ heads(module.key).transpose(-1, -2) / math.sqrt(size)
        whole = (
            heads(module.query_global)
            @ heads(module.key_global).transpose(-1, -2)
            / math.sqrt(size)
        )
        asks_all = is_index_global_attn[:, None, :, None]
        weights = torch.where(asks_all, whole, local.masked_fill(~seen, -math.inf)).softmax(-1)
        kept.append(weights)
        gathered = torch.where(
            asks_all, weights @ heads(module.value_global), weights @ heads(module.value)
        )
        return (gathered.transpose(1, 2).flatten(2),)

    for module in network.modules():
        if type(module).__name__ == "LongformerSelfAttention":
            module.forward = partial(forward, module)
    network.base_model._pad_to_window_size = lambda pad_token_id, **given: (0, *given.values())
    return network, kept


def weights_by_hand(model: Model, text: str, answer: Answer) -> tuple[np.ndarray, np.ndarray]:
    """The weights of every layer and the answer's gradient by each: [layer, head, query, key]."""
    ids = ids_of(model, text)
    if model.banded:
        network, kept = squared(model)
        output = network(input_ids=ids, **other_inputs(model, ids))
    else:
        network = copy.deepcopy(model.network)
        network.set_attn_implementation("eager")
        output = network(input_ids=ids, output_attentions=True)
        kept = list(output.attentions)
    found = torch.autograd.grad(answer(output.logits).sum(), kept)
    return tuple(torch.cat(list(parts)).detach().double().numpy() for parts in (kept, found))  # type: ignore[return-value]


LONG = "a cat sat on the mat with a dog , and it was not a very good film of a cat in the mat ."
CASES: dict[
    str, tuple[Callable[[], Model], str, dict[str, Any], Callable[[Model], Answer], int]
] = {
    "bert": (classifier, TEXT, {"target": 1}, lambda model: probability(1), 0),
    "bert, a logit": (classifier, "dog", {"target": 2, "of": "logit"}, lambda model: logit(2), 0),
    "distilbert": (
        partial(classifier, "distilbert"),
        TEXT,
        {"target": 0},
        lambda model: probability(0),
        0,
    ),
    "gpt2": (partial(classifier, "gpt2"), TEXT, {"target": 1}, lambda model: probability(1), -1),
    "longformer": (
        partial(classifier, "longformer"),
        LONG,
        {"target": 2},
        lambda model: probability(2),
        0,
    ),
    "masked": (masked, "a cat [MASK] on the mat", {"target": 30}, lambda model: token(3, 30), 3),
    "causal": (causal, TEXT, {"target": 30}, lambda model: token(-1, 30), -1),
    "causal, within": (causal, TEXT, {"target": 30, "position": 4}, lambda model: token(4, 30), 4),
}


@pytest.mark.parametrize("case", CASES)
def test_attention_is_its_slow_twin(case: str) -> None:
    make, text, options, answer, reader = CASES[case]
    model = make()
    weights, slopes = weights_by_hand(model, text, answer(model))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    for method, expected in attention_slowly(weights, slopes, reader).items():
        one = explain(model, text, method, **options)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(one.scores, expected, rtol=0, atol=1e-4 * scale, err_msg=method)
        assert np.isnan(one.gap)
        assert one.converged
    importance = np.random.default_rng(0).random(weights.shape[:2])
    for method, chosen in (
        ("attention_last_scaled", slice(-1, None)),
        ("attention_all_scaled", slice(None)),
    ):
        total, expected = 0.0, np.zeros(weights.shape[-1])
        for layer, head in np.ndindex(importance[chosen].shape):
            total += importance[chosen][layer, head]
            expected += importance[chosen][layer, head] * weights[chosen][layer, head].sum(0)
        one = explain(model, text, method, importance=importance, **options)
        np.testing.assert_allclose(one.scores, expected / total, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_uniform_attention_is_that_of_weights_spread_over_what_is_seen(case: str) -> None:
    make, text, options, answer, reader = CASES[case]
    model = make()
    weights, slopes = weights_by_hand(model, text, answer(model))
    spread = (weights > 0) / (weights > 0).sum(-1, keepdims=True)
    for method, expected in attention_slowly(spread, slopes, reader).items():
        one = explain(model, text, method, **options)
        if method in ("attention_x_gradient", "gradient_rollout"):
            assert one.uniform is None
            continue
        np.testing.assert_allclose(one.uniform, expected, rtol=1e-5, atol=1e-7, err_msg=method)
    importance = np.random.default_rng(0).random(weights.shape[:2])
    for method, chosen in zip(SCALED, (slice(-1, None), slice(None)), strict=True):
        one = explain(model, text, method, importance=importance, **options)
        shares = importance[chosen] / importance[chosen].sum()
        expected = np.einsum("lhqk,lh->k", spread[chosen], shares)  # heads may see different keys
        np.testing.assert_allclose(one.uniform, expected, rtol=1e-5)


@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer"])
def test_attention_goes_with_every_explanation(family: str) -> None:
    """Whatever the method, in whichever batch: the attention of all heads, and its control."""
    model = classifier(family)
    expected = explain(model, TEXT, "attention_all")
    texts = [LONG, TEXT, "a cat"]
    for one in (explain(model, TEXT, "saliency"), explain(model, texts, "saliency")[1]):
        np.testing.assert_allclose(one.attention, expected.scores, rtol=1e-5)
        np.testing.assert_allclose(one.attention_uniform, expected.uniform, rtol=1e-5)
        assert one.attention.sum() == pytest.approx(len(one.tokens), rel=1e-4)
        assert one.attention_uniform.sum() == pytest.approx(len(one.tokens), rel=1e-4)
    numbers, chance = one.agreement
    keep = ~one.special
    assert numbers.kept == keep.sum() == chance.shifts + 1
    assert numbers.tau.value == agreement(one.attention, np.abs(one.scores), keep).tau.value
    assert chance == tau_band(one.attention, np.abs(one.scores), keep)


def test_roll_out_is_a_distribution_and_attention_received_one_for_each_query() -> None:
    for family in ("bert", "gpt2", "longformer"):
        one = {method: explain(classifier(family), LONG, method) for method in ATTENTION}
        n = len(one["rollout"].scores)
        assert one["rollout"].total == pytest.approx(1, abs=1e-5)
        assert one["cls_row"].total == pytest.approx(1, abs=1e-5)
        assert one["attention_last"].total == pytest.approx(n, rel=1e-5)
        assert one["attention_all"].total == pytest.approx(n, rel=1e-5)
        assert (one["gradient_rollout"].scores >= 0).all()


def test_a_classifier_that_pools_the_mean_is_read_by_all_tokens() -> None:
    """ModernBERT may pool the mean: then every token answers."""
    config = transformers.ModernBertConfig(
        vocab_size=len(tiny_tokenizer()),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=37,
        max_position_embeddings=520,
        classifier_pooling="mean",
        pad_token_id=0,
        cls_token_id=2,
        sep_token_id=3,
        bos_token_id=2,
        eos_token_id=3,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = transformers.ModernBertForSequenceClassification(config).eval()
    model = attlas.load((network, tiny_tokenizer()), task="classify")
    weights, slopes = weights_by_hand(model, TEXT, probability(1))
    each = [attention_slowly(weights, slopes, reader) for reader in range(weights.shape[-1])]
    for method in ("cls_row", "rollout", "gradient_rollout"):
        expected = np.mean([one[method] for one in each], axis=0)
        np.testing.assert_allclose(
            explain(model, TEXT, method, target=1).scores, expected, rtol=1e-4, atol=1e-6
        )


# bands and squares


def test_a_band_is_integrated_as_squares_are() -> None:
    """A text longer than every window, which transformers would pad."""
    model = classifier("longformer")
    found = explain(model, LONG, target=2, tolerance=1e-3, max_evaluations=3000)
    assert len(found.tokens) % 8
    assert_near(found, integrated_by_captum(model, LONG, probability(2)), 1e-3)


def test_a_lengthened_model_explains_short_texts_as_before() -> None:
    short = classifier()
    long = lengthen(short, length=600, window=32)
    assert long.banded
    for method in (*EVERY, *SCALED):
        if method == "deeplift":
            continue  # Longformer's head calls tanh; captum knows only modules, as BERT's
        options: dict[str, Any] = {"target": 1, "tolerance": 1e-3}
        if method in SCALED:
            options["importance"] = np.arange(12).reshape(3, 4)
        one, other = (explain(model, TEXT, method, **options) for model in (short, long))
        assert one.evaluations == other.evaluations
        scale = np.abs(one.scores).max()
        np.testing.assert_allclose(
            one.scores, other.scores, rtol=0, atol=1e-4 * scale, err_msg=method
        )


# faithfulness


def answers_slowly(model: Model, ids: list[int], place: int | None, number: int) -> float:
    """The probability of a class, or of a token at a place, of one text of these ids."""
    given = torch.tensor([ids])
    with torch.no_grad():
        output = plain(model)(input_ids=given, **other_inputs(model, given))
    return float((probability(number) if place is None else token(place, number))(output.logits))


def erased_slowly(
    model: Model,
    text: str,
    order: Sequence[int],
    share: float,
    how: str,
    place: int | None,
    number: int,
) -> tuple[float, float]:
    """Comprehensiveness and sufficiency of one text in one bin: the ids are edited one by one."""
    ids = ids_of(model, text)[0].tolist()
    marks = is_mark(model, ids_of(model, text))[0].tolist()
    free = [token for token in order if not marks[token] and token != place]
    top = free[: max(1, round(share * len(free)))]
    whole = answers_slowly(model, ids, place, number)
    out = []
    for gone in (top, [token for token in free if token not in top]):
        if how == "mask":
            blank = (
                MASK if model.tokenizer.mask_token_id is not None else model.tokenizer.unk_token_id
            )
            left = [blank if token in gone else id_ for token, id_ in enumerate(ids)]
            out.append(whole - answers_slowly(model, left, place, number))
        else:
            left = [id_ for token, id_ in enumerate(ids) if token not in gone]
            moved = None if place is None else place - sum(token < place for token in gone)
            out.append(whole - answers_slowly(model, left, moved, number))
    return out[0], out[1]


@pytest.mark.parametrize("how", ["remove", "mask"])
@pytest.mark.parametrize("case", ["bert", "roberta", "longformer", "masked", "causal"])
def test_faithfulness_is_its_slow_twin(case: str, how: str) -> None:
    bins, number, place = (0.1, 0.3, 0.6), 1, None
    texts = [TEXT, "it was not very good !", "cat", TEXT.replace("dog", "film")]
    options: dict[str, Any] = {"target": number}
    if case in ("masked", "causal"):
        number, place = 30, 2
        texts = [text for text in texts if text != "cat"]
        options = {"target": number, "position": 2}
    model = {"masked": masked, "causal": causal}.get(case, partial(classifier, case))()
    found = faithfulness(model, texts, "input_x_gradient", how=how, bins=bins, draws=2, **options)
    assert found.by_bin.shape == found.random.shape == (len(texts), 2, 3)
    made = explain(model, texts, "input_x_gradient", **options)
    for row, one in enumerate(made):
        order = sorted(
            range(len(one.scores)), key=lambda token, one=one: (-one.scores[token], token)
        )
        for column, share in enumerate(bins):
            expected = erased_slowly(model, one.text.text, order, share, how, place, number)
            close(found.by_bin[row, :, column], expected, terms_of(model.network), magnitude=1)
    again = faithfulness(
        model,
        texts,
        made,
        how=how,
        bins=bins,
        draws=2,
        **({} if place is None else {"position": 2}),
    )
    np.testing.assert_array_equal(again.by_bin, found.by_bin)
    np.testing.assert_array_equal(again.random, found.random)
    assert found.comprehensiveness == pytest.approx(found.by_bin[:, 0].mean())
    assert found.sufficiency == pytest.approx(found.by_bin[:, 1].mean())
    table = found.to_frame().set_index("measured")
    for measured, values in zip(
        ("comprehensiveness", "sufficiency"), np.moveaxis(found.by_bin, 1, 0), strict=True
    ):
        row, controls = (
            table.loc[measured],
            found.random[:, int(measured == "sufficiency")].mean(-1),
        )
        assert row["value"] == pytest.approx(values.mean())
        assert row["random"] == pytest.approx(controls.mean())
        assert row["difference"] == pytest.approx((values.mean(-1) - controls).mean())


def test_the_control_of_faithfulness_is_the_mean_over_all_orders() -> None:
    model, text, draws = classifier(), "a cat saw dog", 400
    ids = ids_of(model, text)[0].tolist()
    found = faithfulness(model, text, "random", bins=(0.5,), draws=draws, target=1)
    whole = answers_slowly(model, ids, None, 1)
    subsets = list(itertools.combinations(range(1, 5), 2))
    lost = [
        whole
        - answers_slowly(
            model, [one for place, one in enumerate(ids) if place not in gone], None, 1
        )
        for gone in subsets
    ]
    spread = np.std(lost)
    assert spread > 1e-3
    for measured in range(2):  # of two of four, what goes and what stays are alike
        assert abs(found.random[0, measured, 0] - np.mean(lost)) < 4.5 * spread / math.sqrt(draws)
    few = [
        faithfulness(model, text, "random", bins=(0.5,), draws=1, target=1, seed=seed).random
        for seed in range(12)
    ]
    for one in few:
        close(
            min(abs(float(one[0, 0, 0]) - each) for each in lost),
            0,
            terms_of(model.network),
            magnitude=1,
        )
    assert len({float(one[0, 0, 0]) for one in few}) > 1


def test_faithfulness_of_a_text_an_explanation_and_nothing() -> None:
    model = classifier()
    expected = faithfulness(model, [TEXT], "saliency").by_bin
    np.testing.assert_array_equal(faithfulness(model, TEXT, "saliency").by_bin, expected)
    np.testing.assert_array_equal(
        faithfulness(model, TEXT, explain(model, TEXT, "saliency")).by_bin, expected
    )
    np.testing.assert_array_equal(faithfulness(model, Text("x", TEXT), "saliency").by_bin, expected)
    with pytest.raises(AttlasError):
        faithfulness(model, [], "saliency")


def test_a_causal_classifier_without_its_only_token() -> None:
    """Nothing is left to run: that must be a clear error or no number, not a division by zero."""
    try:
        found = faithfulness(classifier("gpt2"), ["cat"], "saliency", target=1)
    except AttlasError:
        return
    assert np.isnan(found.by_bin[0, 0]).all()


def test_a_masked_token_does_not_move_where_a_causal_classifier_reads() -> None:
    """GPT-2 has no mask token, and with padding transformers reads the answer elsewhere."""
    model = classifier("gpt2")
    ids = ids_of(model)[0].tolist()
    one = explain(model, TEXT, "random", target=1)
    one = replace(one, scores=np.arange(len(ids), dtype=float))  # the last token goes first
    try:
        found = faithfulness(model, TEXT, [one], how="mask", bins=(0.1,))
    except AttlasError:
        return
    lost = []
    for blank in (PAD, model.tokenizer.unk_token_id):
        with torch.no_grad():
            states = model.network.transformer(torch.tensor([[*ids[:-1], blank]])).last_hidden_state
            lost.append(one.value - float(probability(1)(model.network.score(states[:, -1]))))
    assert min(abs(found.by_bin[0, 0, 0] - one) for one in lost) < 1e-5


def test_explanations_remember_where_they_were_made() -> None:
    """A token at a position of a causal model: tokens are removed for the same position."""
    model = causal()
    made = explain(model, [TEXT], "saliency", target=30, position=2)
    expected = faithfulness(model, [TEXT], "saliency", target=30, position=2).by_bin
    np.testing.assert_allclose(faithfulness(model, [TEXT], made).by_bin, expected, atol=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "burn"}, "how is 'burn'; it must be remove or mask"),
        ({"bins": ()}, "bins are"),
        ({"bins": (0.0, 0.5)}, "shares between 0 and 1"),
        ({"bins": (1.0,)}, "shares between 0 and 1"),
        ({"draws": 0}, "at least one random order"),
        ({"method": "nothing"}, "there is no method 'nothing'"),
    ],
)
def test_faithfulness_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MeasureError, match=message):
        faithfulness(classifier(), TEXT, **{"method": "saliency", **options})


def test_scores_of_other_tokens_are_refused() -> None:
    made = explain(classifier("gpt2"), [TEXT], "saliency")
    with pytest.raises(MeasureError, match=r"has 9 scores, but the model reads 11 tokens"):
        faithfulness(classifier(), [TEXT], made)


# nothing is left


def traces(model: Model) -> dict[str, Any]:
    """All that could be left on a network, and what it says."""
    network = model.network
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    plain = [
        name
        for name, module in network.named_modules()
        for kind in kinds
        for _ in getattr(module, kind)
    ]
    with torch.no_grad():
        ids = ids_of(model)
        logits = network(input_ids=ids, **other_inputs(model, ids)).logits
    return {
        "hooks": plain,
        "own": [
            (name, key)
            for name, module in network.named_modules()
            for key in vars(module)
            if key in ("forward", "input", "output", "input_ref", "_pad_to_window_size")
        ],
        "gradients": [name for name, one in network.named_parameters() if one.grad is not None],
        "frozen": [name for name, one in network.named_parameters() if not one.requires_grad],
        "implementation": network.config._attn_implementation,
        "says": logits.tolist(),
    }


@pytest.mark.parametrize("family", ["bert", "gpt2", "longformer"])
def test_nothing_is_left_on_the_model(family: str) -> None:
    model = classifier(family)
    before = traces(model)
    assert before["hooks"] == before["own"] == before["gradients"] == []
    for method in EVERY:
        explain(model, TEXT, method)
    explain(model, TEXT, at="parts")
    faithfulness(model, TEXT, "saliency")
    assert traces(model) == before


class Downfall(Exception):  # noqa: N818
    pass


def fallen(model: Model, method: str, place: nn.Module) -> int:
    """Let a module raise in the first pass that reaches it, then the second, up to the fifth."""
    for limit in range(1, 6):
        calls = 0

        def fall(module: Any, args: Any, output: Any, limit: int = limit) -> None:
            nonlocal calls
            calls += 1
            if calls == limit:
                raise Downfall

        handle = place.register_forward_hook(fall)
        try:
            explain(model, "a cat", method)
            return limit - 1
        except Downfall:
            pass
        finally:
            handle.remove()
    return limit


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_nothing_is_left_after_an_exception(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = classifier(family)
    before, last = traces(model), model.network.classifier
    for method in EVERY:
        assert fallen(model, method, last) >= (
            1 if method == "random" else 2
        )  # in every pass that it makes
        assert traces(model) == before, method
    monkeypatch.setattr(
        gradients, "machine_memory", lambda device: 1
    )  # checkpointed, and in the midst of a layer
    place = model.network.base_model.encoder.layer[1].output.dense
    for method in ("integrated_gradients", "input_x_gradient", "attention_last"):
        assert fallen(model, method, place) >= 2
        assert traces(model) == before, method


def test_nothing_is_left_after_wrong_input() -> None:
    model = classifier()
    before = traces(model)
    for wrong in (
        {"target": 9},
        {"target": "x"},
        {"baseline": torch.zeros(1, 2, 3)},
        {"position": 1},
    ):
        with pytest.raises(AttlasError):
            explain(model, TEXT, **wrong)
    assert traces(model) == before


def computing_as_here(workers: int) -> ThreadPoolExecutor:
    """Workers with as many threads as this one, so that sums come in the same order."""
    return ThreadPoolExecutor(
        workers, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)
    )


def test_two_threads_explain_one_model_as_one_does() -> None:
    model = classifier()
    before = traces(model)
    tasks = [
        (text, method, at)
        for text in (TEXT, "it was not very good !")
        for method in EVERY
        if method != "deeplift"  # below
        for at in (
            ("embeddings", "words", "parts")
            if method == "integrated_gradients"
            else ("embeddings",)
        )
    ]

    def run(task: tuple[str, str, str]) -> np.ndarray:
        return explain(model, task[0], task[1], at=task[2], target=1).scores

    alone = [run(task) for task in tasks]
    with computing_as_here(2) as pool:
        together = list(pool.map(run, tasks * 2))
    for one, other in zip(alone * 2, together, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert traces(model) == before


@contextmanager
def meanwhile(model: Model, other: Callable[[], Any]) -> Iterator[list[Any]]:
    """While open, the first pass of this thread with gradients waits for another thread."""
    done: list[Any] = []
    each = torch.get_num_threads()

    def work() -> None:
        torch.set_num_threads(each)
        try:
            done.append(other())
        except BaseException as error:
            done.append(error)

    thread, mine = threading.Thread(target=work), threading.get_ident()

    def hook(module: Any, args: Any, output: Any) -> None:
        if threading.get_ident() == mine and torch.is_grad_enabled() and thread.ident is None:
            thread.start()
            thread.join(2)

    handle = model.network.classifier.register_forward_hook(hook)
    try:
        yield done
    finally:
        handle.remove()
        if thread.ident is not None:
            thread.join()


@pytest.mark.parametrize(
    "other", ["integrated_gradients", "saliency", "gradient_rollout", "deeplift"]
)
def test_deeplift_in_one_thread_does_not_disturb_another(other: str) -> None:
    """captum puts hooks on the activations that all threads share."""
    model = classifier()
    before = traces(model)
    alone = {
        method: explain(model, TEXT, method, target=1).scores for method in ("deeplift", other)
    }
    with meanwhile(
        captum_methods._copy_of(model), lambda: explain(model, TEXT, other, target=1).scores
    ) as done:
        mine = explain(model, TEXT, "deeplift", target=1).scores
    (theirs,) = done
    assert isinstance(theirs, np.ndarray), theirs
    np.testing.assert_allclose(mine, alone["deeplift"], atol=1e-7)
    np.testing.assert_allclose(theirs, alone[other], atol=1e-7)
    assert traces(model) == before


def test_numbers_do_not_depend_on_what_another_thread_does() -> None:
    """To the last bit, as studies with one worker and with two must write the same bytes."""
    model = classifier()

    def integrated() -> np.ndarray:
        return explain(model, LONG, target=1).scores

    with computing_as_here(1) as pool:
        alone, again = pool.map(lambda _: integrated(), range(2))
    np.testing.assert_array_equal(alone, again)
    with meanwhile(model, integrated) as done:
        explain(model, TEXT, "gradient_rollout")
    np.testing.assert_array_equal(done[0], alone)


def test_two_threads_leave_the_filters_of_warnings_as_they_were() -> None:
    """The first to begin is the first to end: each must restore its own state."""
    model = classifier()
    inside, over = threading.Event(), threading.Event()
    first: list[int] = []

    def hook(module: Any, args: Any, output: Any) -> None:
        if torch.is_grad_enabled():
            if not first:
                first.append(threading.get_ident())
                inside.wait(1)
            elif first[0] != threading.get_ident():
                inside.set()
                over.wait(1)

    before = list(warnings.filters)
    handle = model.network.classifier.register_forward_hook(hook)
    try:
        one = threading.Thread(target=lambda: (explain(model, TEXT, "saliency"), over.set()))
        two = threading.Thread(target=lambda: explain(model, TEXT, "saliency"))
        one.start()
        while not first and one.is_alive():
            pass
        two.start()
        one.join()
        two.join()
    finally:
        handle.remove()
    assert inside.is_set()
    assert list(warnings.filters) == before


def test_the_callers_way_with_gradients_does_not_matter() -> None:
    """Under no_grad, and on a network whose parameters are frozen, all is the same."""
    model = tiny("bert", "classify", num_labels=3)
    expected = {method: explain(model, TEXT, method).scores for method in EVERY}
    with torch.no_grad():
        for method, scores in expected.items():
            np.testing.assert_allclose(
                explain(model, TEXT, method).scores, scores, atol=1e-9, err_msg=method
            )
    model.network.requires_grad_(False)
    for method, scores in expected.items():
        np.testing.assert_allclose(
            explain(model, TEXT, method).scores, scores, atol=1e-9, err_msg=method
        )
    assert torch.is_grad_enabled()


# memory


@pytest.mark.parametrize("family", ["bert", "distilbert", "gpt2", "longformer"])
@pytest.mark.parametrize("method", EVERY)
def test_checkpointed_passes_say_the_same(
    family: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = classifier(family)
    expected = explain(model, TEXT, method, target=1)
    monkeypatch.setattr(gradients, "machine_memory", lambda device: 1)
    assert GradientEvaluator(model, batch_of(model, TEXT), Target()).rows == 0
    found = explain(model, TEXT, method, target=1)
    assert found.evaluations == expected.evaluations
    scale = np.abs(expected.scores).max()
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("family", ["bert", "longformer"])
def test_a_row_that_does_not_fit_computes_its_layers_again(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = classifier(family)
    field = GradientEvaluator(model, batch_of(model, LONG), Target())
    layers = model.network.base_model.encoder.layer
    runs = {}
    for memory in (2**40, 1):
        monkeypatch.setattr(gradients, "machine_memory", lambda device, memory=memory: memory)
        calls = [0] * len(layers)

        def count(
            module: Any, args: Any, output: Any, number: int, calls: list[int] = calls
        ) -> None:
            calls[number] += 1

        fresh = GradientEvaluator(model, field.batch, Target())
        with fresh.open():
            inputs = fresh.inputs
            fresh.resolved  # noqa: B018
            handles = [
                layer.attention.register_forward_hook(partial(count, number=number))
                for number, layer in enumerate(layers)
            ]
            kept = kept_bytes(
                model, lambda fresh=fresh, inputs=inputs: fresh.values(leaves(inputs), fresh.every)
            )
            values, found = fresh.gradients(inputs, fresh.every)
            for handle in handles:
                handle.remove()
        runs[memory] = calls, kept, values, found["embeddings"]
    (plain, much, value, gradient), (again, little, same, near) = runs[2**40], runs[1]
    assert plain == [2] * 3
    assert again == [3] * 3  # forward twice, once again on the way back
    assert little < much / 2
    torch.testing.assert_close(same, value)
    torch.testing.assert_close(near, gradient, rtol=1e-5, atol=1e-7)


def leaves(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: one.detach().requires_grad_() for name, one in inputs.items()}


def kept_bytes(model: Model, run: Callable[[], Any]) -> int:
    """How much a pass keeps for its way back: every storage once, parameters not."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.network.parameters()}
    kept: dict[int, Any] = {}

    def note(one: Tensor) -> Tensor:
        storage = one.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage  # held, so that no address comes twice
        return one

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda one: one):
        out = run()
    assert out is not None
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("bert", 10),
        ("bert", 60),
        ("bert", 300),
        ("longformer", 10),
        ("longformer", 300),
        ("real", 60),
        ("real", 250),
        ("real, long", 60),
        ("real, long", 300),
    ],
)
def test_the_memory_of_a_row_is_foretold_within_a_factor_of_three(
    which: str, words: int, real: Model
) -> None:
    model = real if which.startswith("real") else classifier(which)
    model = lengthen(model, length=1024, window=128) if which.endswith("long") else model
    field = GradientEvaluator(model, batch_of(model, "cat " * words), Target())
    with field.open():
        field.resolved  # noqa: B018
        inputs = leaves(field.inputs)
        kept = kept_bytes(model, lambda: field.values(inputs, field.every))
    assert kept / 3 < row_bytes(model, words + 2) < 3 * kept


@pytest.mark.parametrize("method", ["integrated_gradients", *PERTURBED])
def test_no_pass_has_more_rows_than_memory_allows(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = classifier()
    batch = batch_of(model, TEXT)
    fits = 4 * row_bytes(model, batch.n_tokens)
    monkeypatch.setattr(
        gradients, "machine_memory", lambda device: fits * gradients.SHARE * gradients.cores()
    )
    assert GradientEvaluator(model, batch, Target()).rows == 4
    with Passes(captum_methods._copy_of(model) if method == "deeplift" else model) as passes:
        explain(model, [TEXT, TEXT.replace("cat", "film"), TEXT.replace("cat", "bad")], method)
    assert max(rows for rows, _, back in passes.seen if back or method == "occlusion") <= 4


# what cannot be explained


@pytest.mark.parametrize(
    ("model", "text", "options", "error", "message"),
    [
        (
            lambda: tiny("bert"),
            TEXT,
            {},
            ModelError,
            r"without a head .*attlas finetune.*task='classify'",
        ),
        (
            classifier,
            TEXT,
            {"target": "nothing"},
            ModelError,
            r"there is no class 'nothing'.*LABEL_0, LABEL_1, LABEL_2",
        ),
        (
            classifier,
            TEXT,
            {"target": 3},
            ModelError,
            r"there is no class 3; the model has 0 \(LABEL_0\), 1",
        ),
        (classifier, TEXT, {"target": -1}, ModelError, "there is no class -1"),
        (classifier, TEXT, {"position": 1}, ModelError, "a classifier predicts for the whole text"),
        (
            classifier,
            TEXT,
            {"of": "loss"},
            ModelError,
            "of is 'loss'; it must be probability or logit",
        ),
        (
            classifier,
            TEXT,
            {"target": "label"},
            ModelError,
            "has no label to explain; name the column",
        ),
        (
            classifier,
            Text("t", TEXT, label="x"),
            {"target": "label"},
            ModelError,
            r"text 't' has the label 'x', but",
        ),
        (
            classifier,
            TEXT,
            {"baseline": "nothing"},
            MeasureError,
            "there is no baseline 'nothing'; the baselines are padding",
        ),
        (
            classifier,
            TEXT,
            {"at": "nowhere"},
            MeasureError,
            "at is 'nowhere'; it must be embeddings, words, parts",
        ),
        (
            classifier,
            TEXT,
            {"method": "saliency", "at": "parts"},
            MeasureError,
            "saliency has no parts",
        ),
        (
            classifier,
            TEXT,
            {"method": "magic"},
            MeasureError,
            "there is no method 'magic'; the methods are integrated",
        ),
        (
            classifier,
            TEXT,
            {"tolerance": 0.0},
            MeasureError,
            "tolerance is 0.0; it must be above 0",
        ),
        (classifier, TEXT, {"tolerance": math.nan}, MeasureError, "tolerance is nan"),
        (
            classifier,
            TEXT,
            {"max_evaluations": 8},
            MeasureError,
            "max_evaluations is 8; integrated gradients need at least 9",
        ),
        (
            classifier,
            TEXT,
            {"method": "attention_all_scaled"},
            ModelError,
            "needs the importance of heads; give importance=",
        ),
        (
            classifier,
            TEXT,
            {"method": "attention_all_scaled", "importance": np.ones((2, 4))},
            ModelError,
            r"shape \[2, 4\]; the model has 3 layers x 4 heads",
        ),
        (
            classifier,
            TEXT,
            {"method": "attention_all_scaled", "importance": np.zeros((3, 4))},
            ModelError,
            "no head of these layers",
        ),
        (
            classifier,
            TEXT,
            {"method": "attention_all_scaled", "importance": -np.ones((3, 4))},
            ModelError,
            "of at least 0",
        ),
        (classifier, "", {}, CorpusError, "text 'text' cannot be explained: the text is empty"),
        (classifier, " \n ", {}, CorpusError, "the text is empty"),
        (classifier, "\u200b", {}, CorpusError, "the tokenizer produces no tokens for it"),
        (classifier, ["a cat", ""], {}, CorpusError, "item 1: the text is empty"),
        (masked, TEXT, {}, ModelError, r"has no \[MASK\] token to predict; add one to the text"),
        (
            masked,
            TEXT,
            {"position": 11},
            ModelError,
            "there is no token 11 in text 'text'; it has 11",
        ),
        (masked, TEXT, {"position": -12}, ModelError, "there is no token -12"),
        (
            masked,
            TEXT,
            {"position": 1, "target": "label"},
            ModelError,
            "a language model has no labels",
        ),
        (
            causal,
            TEXT,
            {"target": "elephant"},
            ModelError,
            "'elephant' is not a single token of this model",
        ),
        (causal, TEXT, {"target": 169}, ModelError, "there is no token 169; the tokenizer has 169"),
        (
            causal,
            TEXT,
            {"baseline": "mask"},
            ModelError,
            "the tokenizer has no mask token; choose another baseline",
        ),
    ],
)
def test_wrong_input_is_one_clear_line(
    model: Callable[[], Model],
    text: Any,
    options: dict[str, Any],
    error: type[AttlasError],
    message: str,
) -> None:
    with pytest.raises(error, match=message) as raised:
        explain(model(), text, **options)
    assert "\n" not in str(raised.value)


def test_a_text_of_one_token_can_be_explained() -> None:
    for model in (classifier(), classifier("gpt2"), classifier("longformer"), causal()):
        ids = ids_of(model, "cat")
        for method in EVERY:
            one = explain(model, "cat", method)
            assert len(one.scores) == ids.shape[1]
            assert np.isfinite(one.scores).all()
        one = explain(model, "cat", tolerance=1e-3)
        place = int((~is_mark(model, ids))[0].nonzero()[0])
        assert one.scores[place] == pytest.approx(
            one.value - one.baseline_value, abs=1e-3 * scale_of(one)
        )


def test_a_network_in_training_is_explained_as_in_evaluation_and_left_in_training() -> None:
    model = tiny("bert", "classify")
    for method in EVERY:
        expected = explain(model.network.eval() and model, TEXT, method, seed=0).scores
        model.network.train()
        assert explain(model, TEXT, method, seed=0).scores.tolist() == expected.tolist(), method
        assert all(module.training for module in model.network.modules())


def test_what_is_not_a_number_is_an_error() -> None:
    model = not_a_number(tiny("bert", "classify"))
    for method in (*GRADIENTS, "attention_x_gradient", "gradient_rollout"):
        assert np.isfinite(explain(model, "good film", method).scores).all()
        with pytest.raises(ModelError, match="are NaN or infinite"):
            explain(model, "bad film", method)
    for method in ("occlusion", "attention_last", "rollout"):  # these need no gradient
        assert np.isfinite(explain(model, "bad film", method).scores).all()
    model = not_a_number(tiny("bert", "classify"), forward=True)
    for method in EVERY:
        with pytest.raises(AttlasError, match="prediction is NaN or infinite"):
            explain(model, "bad film", method)


# what an explanation is


def test_an_explanation_says_which_token_is_what() -> None:
    model = classifier()
    text = "The dogged cat , it was not dogging"
    one = explain(model, Text("mine", text), "input_x_gradient", target=1)
    assert one.text.id == "mine"
    assert one.method == "input_x_gradient"
    assert one.tokens[0] == "[CLS]"
    assert one.tokens[-1] == "[SEP]"
    frame = one.to_frame()
    for row in frame.itertuples():
        if row.token in (0, len(frame) - 1):
            assert (row.start, row.stop) == (-1, -1)
        else:
            assert text[row.start : row.stop] == row.string
    np.testing.assert_array_equal(frame["score"], one.scores)
    expected = [0.0] * len(one.words)
    for score, word in zip(one.scores, one.word_of, strict=True):
        expected[word] += score
    np.testing.assert_allclose(one.by_word(), expected, atol=1e-12)
    assert list(one.words) == ["[CLS]", *text.split(), "[SEP]"]
    assert isinstance(frame, pd.DataFrame)


def test_integrated_gradients_are_explains() -> None:
    one, other = (
        integrated_gradients(classifier(), TEXT, target=1),
        explain(classifier(), TEXT, target=1),
    )
    assert one.method == "integrated_gradients"
    np.testing.assert_array_equal(one.scores, other.scores)


def test_a_model_in_double_precision_gives_nearly_the_same() -> None:
    single, double = tiny("bert", "classify"), tiny("bert", "classify")
    double.network.double()
    for method in EVERY:
        one, other = (explain(model, TEXT, method, tolerance=1e-3) for model in (single, double))
        scale = np.abs(other.scores).max()
        np.testing.assert_allclose(
            one.scores, other.scores, rtol=0, atol=1e-3 * scale, err_msg=method
        )


def test_two_explanations_are_compared_by_their_sizes_on_ordinary_tokens() -> None:
    model = classifier()
    one, other = (
        explain(model, TEXT, method, target=1) for method in ("input_x_gradient", "rollout")
    )
    by_hand = agreement(np.abs(one.scores), np.abs(other.scores), ~one.special)
    assert agreement(one, other) == by_hand
    assert agreement([one, one], [other, other])["tau"].value == by_hand["tau"].value
    all_tokens = agreement(one, other, keep=np.ones(len(one.tokens), dtype=bool))
    assert all_tokens.kept == len(one.tokens) > by_hand.kept
    with pytest.raises(MeasureError, match="not of the same tokens"):
        agreement(one, explain(model, "a cat", "rollout"))


def test_an_answer_is_not_asked_for_twice() -> None:
    """One pass for the target and its number, none for a baseline whose number nobody needs."""
    model = classifier()
    for method, passes_made in (("saliency", 2), ("attention_last", 2), ("random", 1)):
        with Passes(model) as passes:
            explain(model, TEXT, method)
        assert len(passes.seen) == passes_made, method
