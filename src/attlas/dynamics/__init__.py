"""Dynamics: how attention comes to be interpretable, in small classifiers trained from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attlas.core.lazy import lazily

if TYPE_CHECKING:
    from attlas.dynamics.classifier import AttentionClassifier
    from attlas.dynamics.flow import Flow, Parameters, check_flow, flow_terms
    from attlas.dynamics.pipeline import run_dynamics
    from attlas.dynamics.scores import separation, token_kinds

__all__ = [
    "AttentionClassifier",
    "Flow",
    "Parameters",
    "check_flow",
    "flow_terms",
    "run_dynamics",
    "separation",
    "token_kinds",
]

__getattr__ = lazily(
    __name__,
    {
        "AttentionClassifier": "attlas.dynamics.classifier",
        "Flow": "attlas.dynamics.flow",
        "check_flow": "attlas.dynamics.flow",
        "flow_terms": "attlas.dynamics.flow",
        "Parameters": "attlas.dynamics.flow",
        "run_dynamics": "attlas.dynamics.pipeline",
        "separation": "attlas.dynamics.scores",
        "token_kinds": "attlas.dynamics.scores",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
