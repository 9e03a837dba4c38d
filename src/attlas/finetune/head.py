"""The classification head alone: a logistic regression on the inputs of the last layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from attlas.core.text import Text
from attlas.experiments.workspace import Workspace
from attlas.models.model import Model
from attlas.models.predict import head_inputs, last_layer
from attlas.stats.choose import first_best
from attlas.stats.scores import scores_of
from attlas.support.arrays import Array

STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # C of the logistic regression, chosen on dev
SHARD = 512  # texts whose inputs are cached together

Labelled = tuple[list[Text], Array]  # texts, and the numbers of their labels


def fit_head(
    model: Model, fitted: Labelled, dev: Labelled, labels: int, work: Workspace
) -> list[dict[str, float]]:
    """Fit the last layer, with C chosen on dev (of equals the stronger penalty); one row per C."""
    layer, strengths = last_layer(model.network), sorted(STRENGTHS)
    inputs = _inputs(model, [*_shards(fitted[0]), *_shards(dev[0])], work)
    learned, scored = inputs[: len(fitted[0])], inputs[len(fitted[0]) :]
    common = (learned, fitted[1], scored, _has_bias(layer))
    fits = work.map(fit_regression, strengths, common=common, what="fitting the head")
    history = [
        {"C": strength, **scores_of(dev[1], fit["predictions"], labels)}
        for strength, fit in zip(strengths, fits, strict=True)
    ]
    best = fits[first_best([row["mcc"] for row in history])]
    copy_into_layer(layer, best["weight"], best["bias"])
    return history


def _shards(texts: Sequence[Text]) -> list[list[Text]]:
    return [list(texts[start : start + SHARD]) for start in range(0, len(texts), SHARD)]


def _inputs(model: Model, shards: Sequence[list[Text]], work: Workspace) -> Array:
    """The inputs of the last layer, cached by shard: [text, feature]."""
    parts: list[Array] = []
    with work.progress("reading the texts") as report:
        for shard in shards:
            parts.append(work.cached(inputs_of_shard, model, shard)["inputs"])
            report(sum(map(len, parts)), sum(map(len, shards)))
    return np.concatenate(parts)


def inputs_of_shard(model: Model, texts: Sequence[Text]) -> dict[str, Array]:
    """The inputs of the last layer, to be cached."""
    return {"inputs": head_inputs(model, texts)}


def fit_regression(
    strength: float, inputs: Array, labels: Array, dev: Array, bias: bool
) -> dict[str, Array]:
    """A scaled logistic regression as the weights of a layer, and its predictions on dev."""
    fitted = make_pipeline(
        StandardScaler(with_mean=bias),
        LogisticRegression(C=strength, max_iter=1000, fit_intercept=bias),
    ).fit(inputs, labels)
    scaler, regression = fitted[0], fitted[1]
    weight = regression.coef_ / scaler.scale_
    intercept = regression.intercept_ - (weight @ scaler.mean_ if bias else 0)
    if len(weight) == 1:  # two labels: half for one, half against the other
        weight = np.concatenate([-weight, weight]) / 2
        intercept = np.concatenate([-intercept, intercept]) / 2
    return {"weight": weight, "bias": intercept, "predictions": fitted.predict(dev)}


def copy_into_layer(layer: nn.Linear, weight: Array, bias: Array) -> None:
    """Write weights into a linear layer."""
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        if _has_bias(layer):
            layer.bias.copy_(torch.from_numpy(bias))


def _has_bias(layer: nn.Linear) -> bool:
    return isinstance(layer.bias, torch.Tensor)
