"""One file, one question about heads or tokens; MEASURES maps names to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from attlas.core.errors import MeasureError
from attlas.core.registry import Registry

if TYPE_CHECKING:
    from attlas.core.measure import Measure

MEASURES: Registry[type[Measure[Any]]] = Registry("measure", MeasureError)
MEASURES.register(
    "surface",
    "attlas.measures.surface:Surface",
    "How much does each head attend to itself, its neighbours, [CLS], [SEP] and punctuation?",
)
MEASURES.register("entropy", "attlas.measures.entropy:Entropy", "Does each head attend to few tokens or to many?")
MEASURES.register(
    "positions", "attlas.measures.positions:Positions", "How far away, and on which side, does each head look?"
)
MEASURES.register("totals", "attlas.measures.totals:Totals", "How much attention does each token of each text receive?")
MEASURES.register(
    "topk",
    "attlas.measures.topk:TopK",
    "Which tokens are attended to most, and which attend most, in all heads together?",
)
MEASURES.register(
    "heatmap",
    "attlas.measures.heatmap:Heatmap",
    "Which pattern does each head's attention make, over whole texts of any length?",
)
MEASURES.register(
    "position_bias",
    "attlas.measures.position_bias:PositionBias",
    "Do tokens receive attention for where they stand rather than for what they are?",
)
MEASURES.register("importance", "attlas.measures.importance:Importance", "Which heads matter for what the model says?")
MEASURES.register(
    "betti",
    "attlas.topology.betti_numbers:Betti",
    "How many pieces and cycles has each head's attention graph, at several thresholds?",
)
MEASURES.register(
    "digraph",
    "attlas.topology.directed:DigraphMeasure",
    "How many strong components, edges and directed cycles has each head's attention graph?",
)
MEASURES.register(
    "barcode",
    "attlas.topology.bars:BarcodeMeasure",
    "At which distances do the pieces of each head's attention graph join, and its holes open and close?",
)
MEASURES.register(
    "templates", "attlas.topology.templates:Templates", "How near is each head to a simple pattern of attention?"
)


def measures_of(wanted: str | Measure[Any] | Iterable[str | Measure[Any]] = "all") -> list[Measure[Any]]:
    """Measures from names, measures or both; a string may list names with commas.

    `"all"` is every registered one, without what costs more than the model's own pass (holes of `barcode`, and `importance`, which goes backward): name
    them to get them.
    """
    if isinstance(wanted, str) and wanted.strip() == "all":
        wanted = [MEASURES[name].among_all() for name in MEASURES if not MEASURES[name].needs_loss]
    elif isinstance(wanted, str):
        wanted = [name.strip() for name in wanted.split(",") if name.strip()]
    elif not isinstance(wanted, Iterable):
        wanted = [wanted]
    chosen = [MEASURES[measure]() if isinstance(measure, str) else measure for measure in wanted]
    names = [measure.name for measure in chosen]
    if not chosen:
        raise MeasureError(f"no measure was asked for; the measures are {', '.join(MEASURES)}")
    if len(set(names)) < len(names):
        raise MeasureError(
            f"a measure was asked for twice: {', '.join(sorted({name for name in names if names.count(name) > 1}))}"
        )
    return chosen
