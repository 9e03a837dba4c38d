"""Attributions by captum, on the same embeddings, baselines and targets: saliency, input x gradient, DeepLIFT, gradient SHAP, occlusion."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from attlas.explain.gradients import Field
from attlas.models import Model

SAMPLES = 50  # of gradient SHAP
_alone = (
    threading.Lock()
)  # captum draws from the one generator there is, and keeps activations on modules for DeepLIFT
_copies: WeakKeyDictionary[nn.Module, Model] = WeakKeyDictionary()


class _Answer(nn.Module):
    """The explained number of each row as a module of its embeddings, for captum; captum may give each text several times, copies side by side."""

    def __init__(self, field: Field) -> None:
        super().__init__()
        self.field, self.network = field, field.model.network

    def forward(self, given: Tensor, rows: Tensor) -> Tensor:
        (name,) = self.field.inputs
        return self.field.values({name: given}, rows)


def captum_scores(
    method: str, field: Field, baseline: dict[str, Tensor], seed: int = 0
) -> tuple[Tensor, int]:
    """The scores of the tokens of a batch by one of captum's methods, [text, token], and how often the model was evaluated for each text."""
    (name,) = field.inputs
    found = []
    if (
        method == "deeplift"
    ):  # captum keeps activations on the modules themselves: nobody else may run them meanwhile
        field = field.on(_apart(field.model))
    answer = _Answer(field)
    with field.open():
        for rows in field.chunks(field.every, 2 if method == "deeplift" else 1):
            found.append(
                METHODS[method](answer, field.inputs[name][rows], baseline[name][rows], rows, seed)
            )
    scores = torch.cat(found).detach().double()
    field.check(scores)
    return scores, EVALUATIONS.get(method, field.batch.n_tokens + 1)


def _saliency(answer: _Answer, inputs: Tensor, baseline: Tensor, rows: Tensor, seed: int) -> Tensor:
    """The size of the gradient, summed over dimensions: always above 0."""
    from captum.attr import Saliency

    return (
        Saliency(answer).attribute(inputs.requires_grad_(), additional_forward_args=(rows,)).sum(-1)
    )


def _input_x_gradient(
    answer: _Answer, inputs: Tensor, baseline: Tensor, rows: Tensor, seed: int
) -> Tensor:
    from captum.attr import InputXGradient

    return (
        InputXGradient(answer)
        .attribute(inputs.requires_grad_(), additional_forward_args=(rows,))
        .sum(-1)
    )


def _deeplift(answer: _Answer, inputs: Tensor, baseline: Tensor, rows: Tensor, seed: int) -> Tensor:
    """DeepLIFT by the rescale rule, for the activations that captum knows (tanh, ReLU, softmax modules); others count by their gradient."""
    from captum.attr import DeepLift

    with _alone, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # captum says that it puts hooks on modules, and takes them off again
        return DeepLift(answer).attribute(inputs, baseline, additional_forward_args=(rows,)).sum(-1)


def _gradient_shap(
    answer: _Answer, inputs: Tensor, baseline: Tensor, rows: Tensor, seed: int
) -> Tensor:
    """Each text alone, so that its draws do not depend on its neighbours."""
    from captum.attr import GradientShap

    out = []
    most = max(1, answer.field.rows)
    sizes = [min(most, SAMPLES - done) for done in range(0, SAMPLES, most)]
    for text, start, row in zip(inputs, baseline, rows, strict=True):
        with _alone, _drawn_from(seed):
            parts = [
                size
                * GradientShap(answer)
                .attribute(
                    text[None],
                    start[None],
                    n_samples=size,
                    stdevs=0.0,
                    additional_forward_args=(row[None],),
                )
                .sum(-1)
                for size in sizes
            ]
        out.append(torch.stack(parts).sum(0) / SAMPLES)
    return torch.cat(out)


def _occlusion(
    answer: _Answer, inputs: Tensor, baseline: Tensor, rows: Tensor, seed: int
) -> Tensor:
    """By how much the value falls when a token's embedding is replaced by the baseline's."""
    from captum.attr import Occlusion

    with torch.no_grad():
        found = Occlusion(answer).attribute(
            inputs,
            sliding_window_shapes=(1, inputs.shape[-1]),
            baselines=baseline,
            additional_forward_args=(rows,),
        )
    return found[..., 0]  # the same in every dimension


def _apart(model: Model) -> Model:
    """The same model with a network of its own, made once; its weights are those of now."""
    with _alone:
        if model.network not in _copies:
            _copies[model.network] = replace(model, network=copy.deepcopy(model.network))
        apart = _copies[model.network]
        apart.network.load_state_dict(model.network.state_dict())
    return apart


@contextmanager
def _drawn_from(seed: int) -> Iterator[None]:
    """captum's randomness from a seed, and the generators as they were afterwards."""
    before = np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)
            yield
    finally:
        np.random.set_state(before)


METHODS: dict[str, Callable[..., Any]] = {
    "saliency": _saliency,
    "input_x_gradient": _input_x_gradient,
    "deeplift": _deeplift,
    "gradient_shap": _gradient_shap,
    "occlusion": _occlusion,
}
EVALUATIONS = {"saliency": 1, "input_x_gradient": 1, "deeplift": 2, "gradient_shap": SAMPLES}
