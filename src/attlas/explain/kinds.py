"""The methods by name, and the kind of scores each gives."""

from __future__ import annotations

from dataclasses import dataclass

from attlas.core.registry import Registry
from attlas.support.errors import MeasureError

ANY = "(any)"  # prediction


@dataclass(frozen=True)
class Kind:
    """The kind of scores a method gives.

    `signed`: scores can be negative; `attends`: they are attention; `complete`: they sum to the
    difference between text and baseline.
    """

    signed: bool = False
    attends: bool = False
    complete: bool = False


METHODS: Registry[Kind] = Registry("method", MeasureError)
METHODS.register(
    "integrated_gradients",
    Kind(signed=True, complete=True),
    "Gradients integrated along the path from baseline to text (Sundararajan et al. 2017)",
)
METHODS.register("saliency", Kind(), "The size of the gradient at the text (Simonyan et al. 2014)")
METHODS.register(
    "input_x_gradient", Kind(signed=True), "Embedding times gradient (Shrikumar et al. 2016)"
)
METHODS.register(
    "deeplift",
    Kind(signed=True, complete=True),
    "Differences of activations from the baseline's, propagated back (Shrikumar et al. 2017); "
    "captum uses plain gradients for GELU and attention",
)
METHODS.register(
    "gradient_shap",
    Kind(signed=True, complete=True),
    "Integrated gradients at 50 random points of the path (Lundberg and Lee 2017)",
)
METHODS.register(
    "occlusion",
    Kind(signed=True),
    "Drop in the prediction when a token's embedding is replaced (Zeiler and Fergus 2014)",
)
METHODS.register(
    "attention_last", Kind(attends=True), "Attention received in the last layer, mean of heads"
)
METHODS.register(
    "attention_all", Kind(attends=True), "Attention received in all layers, mean of heads"
)
METHODS.register(
    "attention_last_scaled",
    Kind(attends=True),
    "Attention received in the last layer, heads weighted by importance",
)
METHODS.register(
    "attention_all_scaled",
    Kind(attends=True),
    "Attention received in all layers, heads weighted by importance",
)
METHODS.register(
    "cls_row",
    Kind(attends=True),
    "Attention of [CLS] (in a causal model, of the last token) in the last layer",
)
METHODS.register(
    "rollout",
    Kind(attends=True),
    "Attention multiplied through all layers (Abnar and Zuidema 2020)",
)
METHODS.register(
    "attention_x_gradient",
    Kind(signed=True, attends=True),
    "Attention times its gradient, summed over queries, heads and layers",
)
METHODS.register(
    "gradient_rollout",
    Kind(attends=True),
    "Rollout of attention times its gradient (Chefer et al. 2021)",
)
METHODS.register("random", Kind(), "Random scores: the control")
