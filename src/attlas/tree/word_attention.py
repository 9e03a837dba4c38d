"""Weights: attention between the words of sentences, of all heads, cached on disk, read in batches.

A text is one block [word, word + 4, head] in half precision, heads last: the query word, then the
key words and the four ENDS, so that what probes do with it, products over heads, runs along memory.
Blocks stand one after the other in one file per shard; a reader takes the blocks of a batch with
plain reads, not by mapping the file, so that memory stays that of a batch however long the corpus
is.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attlas.core.alignment import Words
from attlas.core.attention import Attention
from attlas.core.text import Text
from attlas.models import Model
from attlas.studies.engines import Task, engine_of
from attlas.studies.folder import States
from attlas.support.errors import CorpusError, StudyError
from attlas.support.files import atomic_write, write_json
from attlas.support.fingerprint import fingerprint, source_digest
from attlas.support.progress import progress_bar

Array = npt.NDArray[Any]
ENDS = ("to [CLS]", "to [SEP]", "from [CLS]", "from [SEP]")
SHARD_TEXTS, SHARD_CELLS = 512, 2**20  # a shard ends at so many texts, or pairs of words
FEW_HEADS = 144  # of all layers: up to so many, shards are as large as that
WHAT = "attention between words"
WEIGHTS, INDEX = "words.f16", "words.json"  # of an entry: blocks one after the other; their sizes


def word_block(layers: Sequence[Attention], words: Words) -> Tensor:
    """Attention between the words of one text from all its layers by word (`Attention.to_words`): [word, word + 4, head], special tokens out.

    Heads go by layer, then head. The last four keys are what a word gives to [CLS] and to [SEP], and what they give to it; 0 where the model has none.
    """
    weights = torch.cat([layer.dense().weights[0] for layer in layers]).permute(1, 2, 0)  # query key head
    batch = layers[0].batch
    marks = torch.stack([batch.cls[0], batch.sep[0]]).to(weights)  # 2 word
    own = torch.tensor([source >= 0 for source in words.source], device=weights.device).nonzero()[:, 0]
    given = torch.einsum("qkh,mk->qmh", weights[own], marks)
    received = torch.einsum("qkh,mq->kmh", weights[:, own], marks)
    return torch.cat([weights[own][:, own], given, received], 1)


@dataclass(frozen=True, eq=False)
class WordAttention:
    """Attention between the words of texts, as `gather` left it in the entries of a cache.

    `words` are how many words of each text the model saw; `missing` are a text's own words that it
    did not see (truncated, or dropped by the tokenizer).
    """

    entries: tuple[Path, ...]  # shard
    n_heads: int  # of all layers
    words: npt.NDArray[np.int64]  # text
    missing: tuple[tuple[int, ...], ...]  # text
    shard: npt.NDArray[np.int64]  # text

    @property
    def unseen(self) -> int:
        """How many words the model did not see."""
        return sum(map(len, self.missing))

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        """Where each text's block begins in its shard, in bytes."""
        sizes = self.words * (self.words + len(ENDS)) * self.n_heads * 2
        before = np.cumsum(sizes) - sizes
        return before - before[np.searchsorted(self.shard, self.shard)]

    def read(self, texts: Sequence[int]) -> Tensor:
        """The blocks of texts that have one number of words: [text, word, word + 4, head], in half precision."""
        n = int(self.words[texts[0]])
        out = np.empty((len(texts), n, n + len(ENDS), self.n_heads), dtype=np.float16)
        for place, text in enumerate(texts):
            self._fill(out[place], text)
        return torch.from_numpy(out)

    def _fill(self, block: Array, text: int) -> None:
        entry = self.entries[int(self.shard[text])]
        path = entry / WEIGHTS
        try:
            with path.open("rb", buffering=0) as file:
                file.seek(int(self._starts[text]))
                whole = file.readinto(block.reshape(-1).view(np.uint8).data) == block.nbytes
        except OSError as error:
            reason = error.strerror or error
            raise StudyError(f"{path} cannot be read: {reason}; run again to replace it") from error
        if not whole:
            raise StudyError(f"{path} is shorter than its index says; run again to replace it")

    @classmethod
    def open(cls, entries: Sequence[Path], n_heads: int) -> WordAttention:
        """Read the index of every shard."""
        parts = [json.loads((entry / INDEX).read_text()) for entry in entries]
        words = [part["words"] for part in parts]
        return cls(
            tuple(entries),
            n_heads,
            np.array([count for part in words for count in part], dtype=np.int64),
            tuple(tuple(places) for part in parts for places in part["missing"]),
            np.repeat(np.arange(len(entries)), [len(part) for part in words]),
        )


def gather(
    model: Model,
    texts: Sequence[Text],
    cache: str | Path,
    *,
    workers: int | None = None,
    progress: bool | None = None,
) -> WordAttention:
    """One pass of texts with words through a model; each shard becomes an entry of `cache`.

    An entry is known by the model, the texts of the shard and the code that made it. One that is
    there and undamaged is not made again, so that an interrupted pass resumes.
    """
    check_words(texts)
    states = States(Path(cache).expanduser())
    heads = model.n_layers * model.n_heads
    known = fingerprint(model)
    cuts = [[texts[place] for place in cut] for cut in _cuts(texts, heads)]
    keys = [fingerprint((WHAT, known, cut, source_digest())) for cut in cuts]
    engine = engine_of("local", workers, model.device)
    with progress_bar("reading attention between words", wanted=progress) as report:
        lock, done = threading.Lock(), 0

        def tell(rows: int) -> None:
            nonlocal done
            with lock:
                done += rows
                report(done, len(texts))

        def tasks() -> Iterator[Task]:
            for key, cut in zip(keys, cuts, strict=True):
                if states.find(key) is None:
                    yield partial(_write_shard, model, states, key, cut, tell)
                else:
                    tell(len(cut))

        engine.run(tasks())
    return WordAttention.open([states.folder / key for key in keys], heads)


def missing_words(model: Model, texts: Sequence[Text]) -> tuple[tuple[int, ...], ...]:
    """The words of each text that the model would not see, cut off or dropped by the tokenizer; no pass is made."""
    found = {place: tuple(range(len(text.words or ()))) for place, text in enumerate(texts)}
    for start in range(0, len(texts), SHARD_TEXTS):
        encoded = model.encode([(place, texts[place]) for place in range(start, min(start + SHARD_TEXTS, len(texts)))])
        for batch in model.batches(text for text in encoded if not all(text.special)):
            found |= {place: words.missing for place, words in zip(batch.places, batch.words, strict=True)}
    return tuple(found[place] for place in range(len(texts)))


def check_words(texts: Sequence[Text]) -> None:
    """Refuse texts that cannot be read word by word."""
    for text in texts:
        if not text.words:
            raise CorpusError(f"text {text.id!r} has no words; give Text(id, words=(...))")
        defect = text.defect()
        if defect:
            raise CorpusError(f"text {text.id!r}: {defect}")


def _cuts(texts: Sequence[Text], heads: int) -> Iterator[range]:
    """Which texts go into which shard; a worker holds one, so that many heads make smaller ones."""
    first, cells, most = 0, 0, SHARD_CELLS * FEW_HEADS // max(FEW_HEADS, heads)
    for place, text in enumerate(texts):
        size = len(text.words or ()) ** 2
        if place > first and (place - first >= SHARD_TEXTS or cells + size > most):
            yield range(first, place)
            first, cells = place, 0
        cells += size
    if first < len(texts):
        yield range(first, len(texts))


def _write_shard(
    model: Model,
    states: States,
    key: str,
    texts: Sequence[Text],
    tell: Callable[[int], None],
    stop: threading.Event,
) -> None:
    """Run the texts of a shard and write their blocks and their index as one entry."""
    blocks: dict[int, Array] = {}
    missing = {place: tuple(range(len(text.words or ()))) for place, text in enumerate(texts)}
    layers: list[Sequence[Attention]] = []
    encoded = [text for text in model.encode(list(enumerate(texts))) if not all(text.special)]
    tell(len(texts) - len(encoded))
    with model.reading(lambda layer: layers.append(layer.to_words())) as read:
        for group in model.encoder.groups(encoded):
            if stop.is_set():
                return
            layers.clear()
            batch = model.encoder.batch(group, model.device)
            read(batch)
            for number, (place, words) in enumerate(zip(batch.places, batch.words, strict=True)):
                block = word_block([layer[number] for layer in layers], words)
                blocks[place] = block.half().cpu().contiguous().numpy()
                missing[place] = words.missing
            tell(len(group))
    counts = [len(blocks[place]) if place in blocks else 0 for place in range(len(texts))]
    with states.make(key) as entry:
        with atomic_write(entry / WEIGHTS) as file:
            for place in sorted(blocks):
                file.write(blocks[place].tobytes())
        unseen = [missing[place] for place in range(len(texts))]
        write_json(entry / INDEX, {"words": counts, "missing": unseen})
