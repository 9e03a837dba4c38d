"""The shape of attention graphs: Betti numbers, barcodes, directed invariants, classifiers."""

import lazy_loader

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="topology",
    package=__name__,
    measures={
        "betti": (
            "betti:Betti",
            "How many connected components and cycles does each head's attention graph have "
            "at several thresholds?",
        ),
        "digraph": (
            "directed:DigraphMeasure",
            "How many strong components, edges and directed cycles does each head's attention "
            "graph have?",
        ),
        "barcode": (
            "barcode:BarcodeMeasure",
            "At which distances do components of each head's attention graph merge, and holes "
            "appear and disappear?",
        ),
        "templates": (
            "templates:Templates",
            "How close is each head to a simple pattern of attention?",
        ),
    },
    experiments={"Topology": "experiment"},
    verb="topology",
    section="section",
    tour={
        "Topology": {
            "train": "tour:train",
            "dev": "tour:dev",
            "test": "tour:test",
            "model": "part:finetune",
            "thresholds": (0.05, 0.25),
        }
    },
    full={
        "Topology": {
            "features": ("betti", "digraph", "barcode", "templates"),
            "thresholds": (0.025, 0.05, 0.1, 0.25, 0.5, 0.75),
        }
    },
)
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
