"""Models of the Hub: checked and downloaded without importing a model library."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from attlas.support.errors import ModelError

# configurations, tokenizers and weights with the usual names
FETCHED = (
    "*.json",
    "*.txt",
    "*.model",
    "*.tiktoken",
    "*.vocab",
    "*.bpe",
    "model.safetensors",
    "model-*.safetensors",
)
FETCHED_PICKLES = ("pytorch_model.bin", "pytorch_model-*.bin")


@cache
def check_hub_name(name: str) -> None:
    """Refuse a name whose configuration can neither be downloaded nor is in the local cache."""
    _snapshot(name, ["config.json"])


def downloaded(name: str, allow_pickle: bool) -> Path:
    """The folder of a model downloaded from the Hub, or of its local copy."""
    return _snapshot(name, [*FETCHED, *(FETCHED_PICKLES if allow_pickle else ())])


def _snapshot(name: str, patterns: list[str]) -> Path:
    """Download the files of a model; the client raises many kinds of errors."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError

    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except GatedRepoError as error:
        raise ModelError(
            f"{name!r} is gated on the Hub; request access there and log in, or give a local folder"
        ) from error
    except Exception as error:
        raise ModelError(
            f"{name!r} is neither a local folder nor a model that could be downloaded from the "
            "Hub; check the name and the network, or give a local folder"
        ) from error
