"""For tests and plug-in authors: tiny models of every family, and the laws of what Attlas runs.

>>> model = tiny("bert")
>>> from attlas.measures.entropy import Entropy
>>> check_measure(Entropy(), stream(model, ["a cat sat", "a dog", "the cat saw a dog"]), model)
"""

from __future__ import annotations

from attlas.testing.contracts import assert_same, check_measure, fold, stream
from attlas.testing.experiments import Case, experiment_checks
from attlas.testing.models import FAMILIES, tiny, tiny_tokenizer
from attlas.testing.sections import check_drawing_is_light, section_checks
from attlas.testing.verbs import VerbCase, verb_checks

__all__ = [
    "FAMILIES",
    "Case",
    "VerbCase",
    "assert_same",
    "check_drawing_is_light",
    "check_measure",
    "experiment_checks",
    "fold",
    "section_checks",
    "stream",
    "tiny",
    "tiny_tokenizer",
    "verb_checks",
]
