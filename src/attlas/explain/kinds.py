"""The methods by name, and the kind of scores each gives."""

from __future__ import annotations

from dataclasses import dataclass

from attlas.core.registry import Registry
from attlas.support.errors import MeasureError

ANY = "(any)"  # prediction
UNIFORM = "_uniform"  # how the column of a method's scores by uniform attention ends


@dataclass(frozen=True)
class Kind:
    """The kind of scores a method gives.

    `signed`: scores can be negative; `attends`: they are attention; `complete`: they sum to the
    difference between text and baseline.
    """

    signed: bool = False
    attends: bool = False
    complete: bool = False


ATTENTION = Kind(attends=True)
METHODS: Registry[Kind] = Registry("method", MeasureError)
for _name, _kind, _question in (
    (
        "integrated_gradients",
        Kind(signed=True, complete=True),
        "Gradients integrated along the path from baseline to text (Sundararajan et al. 2017)",
    ),
    ("saliency", Kind(), "The size of the gradient at the text (Simonyan et al. 2014)"),
    ("input_x_gradient", Kind(signed=True), "Embedding times gradient (Shrikumar et al. 2016)"),
    (
        "deeplift",
        Kind(signed=True, complete=True),
        "Differences of activations from the baseline's, propagated back (Shrikumar et al. 2017); "
        "captum uses plain gradients for GELU and attention",
    ),
    (
        "gradient_shap",
        Kind(signed=True, complete=True),
        "Integrated gradients at 50 random points of the path (Lundberg and Lee 2017)",
    ),
    (
        "occlusion",
        Kind(signed=True),
        "Drop in the prediction when a token's embedding is replaced (Zeiler and Fergus 2014)",
    ),
    ("attention_last", ATTENTION, "Attention received in the last layer, mean of heads"),
    ("attention_all", ATTENTION, "Attention received in all layers, mean of heads"),
    (
        "attention_last_scaled",
        ATTENTION,
        "Attention received in the last layer, heads weighted by importance",
    ),
    (
        "attention_all_scaled",
        ATTENTION,
        "Attention received in all layers, heads weighted by importance",
    ),
    (
        "cls_row",
        ATTENTION,
        "Attention of [CLS] (in a causal model, of the last token) in the last layer",
    ),
    ("rollout", ATTENTION, "Attention multiplied through all layers (Abnar and Zuidema 2020)"),
    (
        "attention_x_gradient",
        Kind(signed=True, attends=True),
        "Attention times its gradient, summed over queries, heads and layers",
    ),
    ("gradient_rollout", ATTENTION, "Rollout of attention times its gradient (Chefer et al. 2021)"),
    ("random", Kind(), "Random scores: the control"),
):
    METHODS.register(_name, _kind, _question)
