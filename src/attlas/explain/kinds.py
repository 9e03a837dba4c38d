"""The methods by name, and what sort of scores each gives."""

from __future__ import annotations

from dataclasses import dataclass

from attlas.core.registry import Registry
from attlas.support.errors import MeasureError

ANY = "(any)"  # whatever the model answered


@dataclass(frozen=True)
class Kind:
    """What sort of scores a method gives.

    `signed`: for and against, not only how much; `attends`: it is attention; `complete`: its scores
    add up to a difference.
    """

    signed: bool = False
    attends: bool = False
    complete: bool = False


METHODS: Registry[Kind] = Registry("method", MeasureError)
METHODS.register(
    "integrated_gradients",
    Kind(signed=True, complete=True),
    "Each token's share of the way from baseline to answer, along a path of gradients (Sundararajan et al. 2017)",
)
METHODS.register(
    "saliency",
    Kind(),
    "The size of the gradient at the text (Simonyan et al. 2014)",
)
METHODS.register(
    "input_x_gradient",
    Kind(signed=True),
    "Embedding times gradient (Shrikumar et al. 2016)",
)
METHODS.register(
    "deeplift",
    Kind(signed=True, complete=True),
    "Differences of activations from the baseline's, handed back (Shrikumar et al. 2017); "
    "by captum, for which GELU and attention are plain gradients",
)
METHODS.register(
    "gradient_shap",
    Kind(signed=True, complete=True),
    "Integrated gradients at 50 random points of the path (Lundberg and Lee 2017)",
)
METHODS.register(
    "occlusion",
    Kind(signed=True),
    "What the answer loses when a token's embedding becomes the baseline's (Zeiler and Fergus 2014)",
)
METHODS.register(
    "attention_last",
    Kind(attends=True),
    "Attention received in the last layer, mean of heads",
)
METHODS.register(
    "attention_all",
    Kind(attends=True),
    "Attention received in all layers, mean of heads",
)
METHODS.register(
    "attention_last_scaled",
    Kind(attends=True),
    "Attention received in the last layer, heads weighed by importance",
)
METHODS.register(
    "attention_all_scaled",
    Kind(attends=True),
    "Attention received in all layers, heads weighed by importance",
)
METHODS.register(
    "cls_row",
    Kind(attends=True),
    "What the answering token ([CLS], or the last of a causal model) attends to in the last layer",
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
    "Roll-out of attention times its gradient (Chefer et al. 2021)",
)
METHODS.register(
    "random",
    Kind(),
    "Random scores, the control of all others",
)
