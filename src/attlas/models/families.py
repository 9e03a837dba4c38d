"""Model families whose attention needs special handling: one row per family."""

from __future__ import annotations

# class that returns the weights -> its part whose input is the heads side by side
PROJECTION = {
    "MPNetSelfAttention": "o",
    "DebertaAttention": "output.dense",
    "DebertaV2Attention": "output.dense",
    "BigBirdAttention": "output.dense",
}
