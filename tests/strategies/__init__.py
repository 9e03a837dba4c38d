"""Hypothesis strategies: what tests are run on."""

from __future__ import annotations

from tests.strategies.attention import (
    Graphs,
    Layer,
    banded_layers,
    dense_layers,
    generators,
    graphs,
    make_batch,
    matrices,
    stochastic,
)
from tests.strategies.texts import texts

__all__ = [
    "Graphs",
    "Layer",
    "banded_layers",
    "dense_layers",
    "generators",
    "graphs",
    "make_batch",
    "matrices",
    "stochastic",
    "texts",
]
