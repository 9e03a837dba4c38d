"""The shape of attention graphs: Betti numbers, bars, directed invariants, and classifiers built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attlas.core.lazy import lazily

if TYPE_CHECKING:
    from attlas.topology.bars import barcode, rips_features
    from attlas.topology.betti_numbers import betti
    from attlas.topology.directed import digraph

_PLACES = {
    "barcode": "attlas.topology.bars",
    "betti": "attlas.topology.betti_numbers",
    "digraph": "attlas.topology.directed",
    "rips_features": "attlas.topology.bars",
}
__all__ = ["barcode", "betti", "digraph", "rips_features"]
__getattr__ = lazily(__name__, _PLACES)
