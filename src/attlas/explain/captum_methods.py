"""Captum's saliency, input x gradient, DeepLIFT, gradient SHAP and occlusion on our embeddings."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from attlas.explain.gradients import GradientEvaluator
from attlas.models import Model

SAMPLES = 50  # of gradient SHAP
# captum uses the global random generators, and keeps activations on modules for DeepLIFT
_lock = threading.Lock()
_copies: WeakKeyDictionary[nn.Module, Model] = WeakKeyDictionary()


class _Answer(nn.Module):
    """The explained number of each row as a module of its embeddings.

    Captum may pass each text several times, copies next to each other.
    """

    def __init__(self, evaluator: GradientEvaluator) -> None:
        super().__init__()
        self.evaluator, self.network = evaluator, evaluator.model.network

    def forward(self, given: Tensor, rows: Tensor) -> Tensor:
        (name,) = self.evaluator.inputs
        return self.evaluator.values({name: given}, rows)


def captum_scores(
    method: str, evaluator: GradientEvaluator, baseline: dict[str, Tensor], seed: int = 0
) -> tuple[Tensor, int]:
    """The scores of the tokens of a batch, [text, token], and the evaluations per text."""
    (name,) = evaluator.inputs
    deeplift = method == "deeplift"
    if deeplift:  # captum keeps activations on modules, so it gets a network of its own
        evaluator = evaluator.with_model(_copy_of(evaluator.model))
    answer = _Answer(evaluator)
    with evaluator.open():
        parts = [
            METHODS[method](answer, evaluator.inputs[name][rows], baseline[name][rows], rows, seed)
            for rows in evaluator.chunks(evaluator.every, 2 if deeplift else 1)
        ]
    scores = torch.cat(parts).detach().double()
    evaluator.check(scores)
    return scores, EVALUATIONS.get(method, evaluator.batch.n_tokens + 1)


def _gradient(
    name: str, answer: _Answer, inputs: Tensor, baseline: Tensor, rows: Tensor, seed: int
) -> Tensor:
    """By a class of captum that takes one gradient, summed over dimensions."""
    from captum import attr

    method = getattr(attr, name)(answer)
    return method.attribute(inputs.requires_grad_(), additional_forward_args=(rows,)).sum(-1)


def _deeplift(answer: _Answer, inputs: Tensor, baseline: Tensor, rows: Tensor, seed: int) -> Tensor:
    """DeepLIFT by the rescale rule for the activations that captum knows.

    These are tanh, ReLU and softmax modules; others count by their gradient.
    """
    from captum.attr import DeepLift

    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captum warns that it sets hooks, which it removes again
        return DeepLift(answer).attribute(inputs, baseline, additional_forward_args=(rows,)).sum(-1)


def _gradient_shap(
    answer: _Answer, inputs: Tensor, baseline: Tensor, rows: Tensor, seed: int
) -> Tensor:
    """Each text alone, so that its random draws do not depend on its neighbours."""
    from captum.attr import GradientShap

    scores = []
    most = max(1, answer.evaluator.rows)
    sizes = [min(most, SAMPLES - start) for start in range(0, SAMPLES, most)]
    for text, start, row in zip(inputs, baseline, rows, strict=True):
        options = {"stdevs": 0.0, "additional_forward_args": (row[None],)}
        with _lock, _seeded(seed):
            means = [
                GradientShap(answer).attribute(text[None], start[None], n_samples=size, **options)
                for size in sizes
            ]
        parts = [size * mean.sum(-1) for size, mean in zip(sizes, means, strict=True)]
        scores.append(torch.stack(parts).sum(0) / SAMPLES)
    return torch.cat(scores)


def _occlusion(
    answer: _Answer, inputs: Tensor, baseline: Tensor, rows: Tensor, seed: int
) -> Tensor:
    """By how much the value falls when a token's embedding is replaced by the baseline's."""
    from captum.attr import Occlusion

    with torch.no_grad():
        scores = Occlusion(answer).attribute(
            inputs,
            sliding_window_shapes=(1, inputs.shape[-1]),
            baselines=baseline,
            additional_forward_args=(rows,),
        )
    return scores[..., 0]  # the same in every dimension


def _copy_of(model: Model) -> Model:
    """The same model with a network of its own, copied once; its weights are the current ones."""
    with _lock:
        if model.network not in _copies:
            _copies[model.network] = replace(model, network=copy.deepcopy(model.network))
        other = _copies[model.network]
        other.network.load_state_dict(model.network.state_dict())
    return other


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators that captum uses, and restore them afterwards."""
    before = np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)
            yield
    finally:
        np.random.set_state(before)


METHODS: dict[str, Callable[..., Any]] = {
    "saliency": partial(_gradient, "Saliency"),  # the size of the gradient: never negative
    "input_x_gradient": partial(_gradient, "InputXGradient"),
    "deeplift": _deeplift,
    "gradient_shap": _gradient_shap,
    "occlusion": _occlusion,
}
EVALUATIONS = {"saliency": 1, "input_x_gradient": 1, "deeplift": 2, "gradient_shap": SAMPLES}
