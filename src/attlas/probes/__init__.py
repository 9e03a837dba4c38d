"""What linguistic structure attention holds: syntax heads, dependency trees, coreference, semantic relations; each beside its baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attlas.core.lazy import lazily

if TYPE_CHECKING:
    from attlas.probes.coreference import CoreferenceHeads
    from attlas.probes.relations.extractor import RelationExtractor
    from attlas.probes.syntax import SyntaxHeads
    from attlas.probes.tree import TreeProbe

__all__ = ["CoreferenceHeads", "RelationExtractor", "SyntaxHeads", "TreeProbe"]
__getattr__ = lazily(
    __name__,
    {
        "CoreferenceHeads": "attlas.probes.coreference",
        "RelationExtractor": "attlas.probes.relations.extractor",
        "SyntaxHeads": "attlas.probes.syntax",
        "TreeProbe": "attlas.probes.tree",
    },
)
