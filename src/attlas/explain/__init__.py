"""Explanations: attributions with a guarantee, attention as an explanation, and what can be said of whether they agree, are faithful and plausible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attlas.core.lazy import lazily

if TYPE_CHECKING:
    from attlas.explain.agreeing import Agreement, agreement
    from attlas.explain.corpus import explain_corpus
    from attlas.explain.erasing import Faithfulness, faithfulness
    from attlas.explain.explanations import Explanation, explain, integrated_gradients
    from attlas.explain.measure import Explanations
    from attlas.explain.methods import METHODS
    from attlas.explain.plausible import Plausibility, plausibility
    from attlas.explain.rankings import rbo

_PLACES = {
    "METHODS": "methods",
    "Agreement": "agreeing",
    "Explanation": "explanations",
    "Explanations": "measure",
    "Faithfulness": "erasing",
    "Plausibility": "plausible",
    "agreement": "agreeing",
    "explain": "explanations",
    "explain_corpus": "corpus",
    "faithfulness": "erasing",
    "integrated_gradients": "explanations",
    "plausibility": "plausible",
    "rbo": "rankings",
}
__all__ = [
    "METHODS",
    "Agreement",
    "Explanation",
    "Explanations",
    "Faithfulness",
    "Plausibility",
    "agreement",
    "explain",
    "explain_corpus",
    "faithfulness",
    "integrated_gradients",
    "plausibility",
    "rbo",
]
__getattr__ = lazily(__name__, {name: f"attlas.explain.{module}" for name, module in _PLACES.items()})
