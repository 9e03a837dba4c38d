"""What people hold in their hands: pipelines, sentence transformers, adapters, compiled models."""

from __future__ import annotations

from typing import Any

from attlas.support.errors import ModelError


def parts_of(held: Any) -> tuple[Any, Any]:
    """The network and the tokenizer in a pipeline or a SentenceTransformer, or of a pair."""
    if isinstance(held, tuple):
        if len(held) != 2:
            raise ModelError(f"expected (model, tokenizer), got a tuple of {len(held)}")
        return held[0], held[1]
    name = type(held).__name__
    if name == "SentenceTransformer":
        return held[0].auto_model, held.tokenizer
    if name.endswith("Pipeline") and hasattr(held, "model"):
        return held.model, held.tokenizer
    raise ModelError(
        f"the model is a {name}; give a Hub ID, a folder, (model, tokenizer), a pipeline, "
        "or a SentenceTransformer"
    )


def plain_network(network: Any) -> Any:
    """The transformer inside what torch.compile or PEFT made of it; others as they are."""
    compiled = getattr(network, "_orig_mod", network)
    if "PeftModel" in (base.__name__ for base in type(compiled).__mro__):
        return compiled.get_base_model()
    return compiled
