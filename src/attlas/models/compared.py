"""Before a model is trusted, its captured weights are compared with transformers' own, once.

The reference is a pass of the same network with eager attention, asked for its attentions, and not
observed. It is made for a text of a few tokens and for one that is longer than every window, chunk
and choice of keys in the configuration, as far as memory allows. What was compared is remembered in
the user's cache, by class, configuration, code of this package and versions of libraries.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import Tensor

from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.models.encode import forward_options
from attlas.models.identity import config_content
from attlas.models.install import installed, sub_configs, use_implementation, without_traces
from attlas.support.errors import CaptureError, ModelError
from attlas.support.files import read_json
from attlas.support.fingerprint import fingerprint, sha256_of
from attlas.support.machine import user_cache

if TYPE_CHECKING:
    from attlas.models.model import Model

SHORT, LONG = 8, 32  # tokens of the two texts, if the configuration has no window
BEYOND = 16  # tokens that the long text has more than the largest window
LARGEST = 2**28  # bytes of one reading of all weights
WORDS = ["the", "cat", "sat", "on", "the", "mat", "and", "saw", "it"]
# in configurations: how many keys a query chooses among or sees at most
WINDOWS = (
    "attention_chunk_size",
    "attention_window",
    "block_size",
    "index_block_size",
    "index_topk",
    "local_attention",
    "sliding_window",
    "sliding_window_size",
    "window_size",
)
_lock = threading.RLock()


def compared_tokens(model: Model, n_maps: int) -> int:
    """The number of tokens up to which weights are those of the library; 0 if it returns none.

    `n_maps` is the number of heads in all layers. Weights that differ are a CaptureError that
    names the class.
    """
    key = fingerprint(_what_is_compared(model))
    path = user_cache() / "compared" / f"{key}.json"
    model = replace(model, lens="weights")
    with _lock:
        known = (read_json(path) or {}).get("tokens")
        if isinstance(known, int):
            return known
        tokens = 0
        for length in _lengths(model, n_maps):
            tokens = max(tokens, _compare(model, length))
        _remember(path, {"tokens": tokens, "class": type(model.network).__name__})
    return tokens


def _remember(path: Path, content: dict[str, Any]) -> None:
    """Write what is known, if this folder can be written; it belongs to no run, and may be lost."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
        Path(name).replace(path)


def _what_is_compared(model: Model) -> Any:
    """What the way in which weights are captured may depend on."""
    own = [sha256_of(path) for path in sorted(Path(__file__).parent.glob("*.py"))]
    versions = transformers.__version__, torch.__version__
    content = config_content(model.network)
    return content, str(model.network.dtype), model.device.type, versions, own


def _lengths(model: Model, n_maps: int) -> list[int]:
    """How many tokens the texts have: a few, and more than any window of the configuration."""
    windows = [
        int(size)
        for config in sub_configs([model.network.config])
        for name in WINDOWS
        for size in _sizes(vars(config).get(name))
    ]
    longest = max([LONG, *(window + BEYOND for window in windows)])
    in_memory = int((LARGEST / (4 * n_maps)) ** 0.5)
    return [SHORT, max(SHORT, min(longest, in_memory))]


def _sizes(value: Any) -> list[int]:
    values = value if isinstance(value, list | tuple) else [value]
    return [one for one in values if isinstance(one, int) and not isinstance(one, bool)]


def _compare(model: Model, length: int) -> int:
    """The number of tokens of a text of at most this length, if the library has weights for it."""
    batch = _batch(model, length)
    if batch is None:
        return 0
    expected = _reference(model, batch)
    if expected is None:
        return 0
    captured: list[Tensor] = []
    with model.reading(lambda layer: captured.append(layer.dense().weights), layers=0) as read:
        read(batch)
    difference = largest_difference(captured, expected)
    if not difference <= 8 * torch.finfo(model.network.dtype).eps:
        raise CaptureError(
            f"the attention of {type(model.network).__name__} that Attlas reads is not the one "
            f"that transformers returns (it differs by {difference:.1e} in a text of "
            f"{batch.n_tokens} tokens); this class cannot be analysed"
        )
    return batch.n_tokens


def _batch(model: Model, length: int) -> Batch | None:
    """A text of at most so many tokens; None if the network has no embeddings for its words."""
    short = replace(model, limit=min(length, model.max_length or length))
    for words in (WORDS, ["a"]):
        text = Text("compared", " ".join(words[at % len(words)] for at in range(length)))
        with suppress(ModelError), _same_truncation(model.tokenizer):
            return next(iter(short.batches(short.encode([(0, text)]))))
    return None


@contextmanager
def _same_truncation(tokenizer: Any) -> Iterator[None]:
    """While open, texts may be truncated: that is a setting of the tokenizer, which is put back."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    before = getattr(backend, "truncation", None)
    try:
        yield
    finally:
        if isinstance(before, dict):
            backend.enable_truncation(**before)
        elif backend is not None:
            backend.no_truncation()


def _reference(model: Model, batch: Batch) -> list[Tensor] | None:
    """The attentions of the network with eager attention, not observed."""
    network, part = model.network, model.part
    options = {**forward_options(part), "output_attentions": True}
    with (
        without_traces(network),
        model.without_dropout(),
        installed(network, "eager", lambda: use_implementation(network, "eager")),
        torch.no_grad(),
        torch.compiler.set_stance("force_eager"),
    ):
        try:
            output = part(input_ids=batch.ids, **batch.inputs, **options)
        except Exception:  # of the library's code, which cannot return attentions
            return None
    return square_weights(output, batch.n_tokens)


def square_weights(output: Any, n_tokens: int) -> list[Tensor] | None:
    """The attentions in an output of transformers; None if they are no square weights."""
    weights = getattr(output, "attentions", None) or []
    kept = [one for one in weights if isinstance(one, Tensor)]
    if not kept or any(one.dim() != 4 or one.shape[-2:] != (n_tokens, n_tokens) for one in kept):
        return None
    if any(bool((one < 0).any()) for one in kept):  # some classes return scores
        kept = [torch.softmax(one, -1) for one in kept]
    return kept if all(bool((one.sum(-1) <= 1.01).all()) for one in kept) else None


def largest_difference(captured: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference of weights; infinite if layers or shapes are not the same."""
    if [one.shape for one in captured] != [one.shape for one in expected]:
        return float("inf")
    pairs = zip(captured, expected, strict=True)
    return max(float((one - other.to(one)).abs().max()) for one, other in pairs)
