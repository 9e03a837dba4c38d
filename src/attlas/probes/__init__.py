"""What linguistic structure attention holds: syntax heads, dependency trees, coreference; each beside its baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attlas.core.lazy import lazily

if TYPE_CHECKING:
    from attlas.probes.coreference import CoreferenceHeads
    from attlas.probes.syntax import SyntaxHeads
    from attlas.probes.tree import TreeProbe

__all__ = ["CoreferenceHeads", "SyntaxHeads", "TreeProbe"]
__getattr__ = lazily(
    __name__,
    {
        "CoreferenceHeads": "attlas.probes.coreference",
        "SyntaxHeads": "attlas.probes.syntax",
        "TreeProbe": "attlas.probes.tree",
    },
)
