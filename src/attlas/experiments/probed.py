"""What a pass would read and truncate, for pipelines whose own passes do not count."""

from __future__ import annotations

from collections.abc import Sequence

from attlas.core.text import Text
from attlas.models import Model

SHARD = 512


def counted(model: Model, texts: Sequence[Text]) -> dict[str, int]:
    """What a pass reads and truncates."""
    out = {
        "read": len(texts),
        "analysed": len(texts),
        "quarantined": 0,
        "truncated": 0,
        "tokens": 0,
        "tokens_cut": 0,
    }
    for start in range(0, len(texts), SHARD):
        for encoded in model.encode(list(enumerate(texts[start : start + SHARD]))):
            out["truncated"] += encoded.cut > 0
            out["tokens"] += len(encoded)
            out["tokens_cut"] += encoded.cut
    return out
