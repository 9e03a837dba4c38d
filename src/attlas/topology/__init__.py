"""The shape of attention graphs: Betti numbers, bars, directed invariants, and classifiers built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attlas.core.lazy import lazily

if TYPE_CHECKING:
    from attlas.topology.bars import barcode, rips_features
    from attlas.topology.betti_numbers import betti
    from attlas.topology.classifier import TopologyClassifier
    from attlas.topology.directed import digraph
    from attlas.topology.extractor import TopologyFeatures
    from attlas.topology.heads import best_heads, likeness, score_heads
    from attlas.topology.pipeline import experiment
    from attlas.topology.scores import score
    from attlas.topology.templates import template_distances

_PLACES = {
    "TopologyClassifier": "classifier",
    "TopologyFeatures": "extractor",
    "barcode": "bars",
    "best_heads": "heads",
    "betti": "betti_numbers",
    "digraph": "directed",
    "experiment": "pipeline",
    "likeness": "heads",
    "rips_features": "bars",
    "score": "scores",
    "score_heads": "heads",
    "template_distances": "templates",
}
__all__ = [
    "TopologyClassifier",
    "TopologyFeatures",
    "barcode",
    "best_heads",
    "betti",
    "digraph",
    "experiment",
    "likeness",
    "rips_features",
    "score",
    "score_heads",
    "template_distances",
]
__getattr__ = lazily(__name__, {name: f"attlas.topology.{module}" for name, module in _PLACES.items()})
