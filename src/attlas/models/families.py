"""Special properties of model families: one row per family, by its model type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Names = tuple[tuple[str, str], ...]  # beginnings of the names of weights, theirs and ours


@dataclass(frozen=True)
class Family:
    """One family. Most families of transformers need no row."""

    relative: bool = False  # positions are relative, so that texts may have any length
    longest: Callable[[Any], int | None] = lambda config: None  # from the configuration
    model_class: str = ""  # beginning of the names of its classes, where it can be lengthened
    longformer: Names = ()  # names of its weights in a Longformer; the first that fits counts


def _whole_rows(config: Any) -> int | None:
    """The longest text for which BigBird returns whole rows, not blocks."""
    if config.attention_type != "block_sparse":
        return None
    return int((5 + 2 * config.num_random_blocks) * config.block_size)


# BERT's pooler and last layer are Longformer's classifier: dense layer and projection
_OF_BERT = (
    ("bert.pooler.", "classifier."),
    ("classifier.", "classifier.out_proj."),
    ("cls.predictions.transform.dense.", "lm_head.dense."),
    ("cls.predictions.transform.LayerNorm.", "lm_head.layer_norm."),
    ("cls.predictions.decoder.", "lm_head.decoder."),
    ("cls.predictions.", "lm_head."),
    ("bert.", "longformer."),
)
_OF_ROBERTA = (("roberta.", "longformer."),)

FAMILIES = {
    "bert": Family(model_class="Bert", longformer=_OF_BERT),
    "roberta": Family(model_class="Roberta", longformer=_OF_ROBERTA),
    "xlm-roberta": Family(model_class="XLMRoberta", longformer=_OF_ROBERTA),
    "camembert": Family(model_class="Camembert", longformer=_OF_ROBERTA),
    "big_bird": Family(longest=_whole_rows),
    "t5": Family(relative=True),
    "mt5": Family(relative=True),
    "umt5": Family(relative=True),
}
OTHER = Family()

# which of several softmax matrices in a module is the attention between tokens
WHICH_SOFTMAX = {"LiltSelfAttention": 1}  # the first is that of the layout

# methods that replace eager attention without being looked up (GPT-2 with scores in float32)
AROUND = ("_upcast_and_reordered_attn",)
