"""Attention between the words of sentences, of all heads: on disk, read in batches.

A text is one block [word, word + 4, head] in half precision: the query word, then the key words and
the four SPECIAL_COLUMNS. Heads are last, so that a probe's products over heads run along memory.
Blocks follow one another in one file per shard; the blocks of a batch are read, the file is not
mapped, so that memory stays that of a batch however long the corpus is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attlas.core.alignment import Words
from attlas.core.attention import Attention
from attlas.core.text import Text
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.studies.shard_job import excluded_row, pass_counts
from attlas.support.errors import CorpusError, StudyError
from attlas.support.files import atomic_write, write_json
from attlas.support.fingerprint import Put, feed

Array = npt.NDArray[Any]
SPECIAL_COLUMNS = ("to [CLS]", "to [SEP]", "from [CLS]", "from [SEP]")
SHARD_TEXTS, SHARD_CELLS = 512, 2**20  # a shard has at most this many texts, or pairs of words
FEW_HEADS = 144  # of all layers: with more, shards are smaller
WEIGHTS, INDEX = "words.f16", "words.json"  # of an entry: blocks one after the other; their sizes


def word_block(layers: Sequence[Attention], words: Words) -> Tensor:
    """Attention between the words of one text: [word, word + 4, head], without special tokens.

    `layers` are all its layers by word (`Attention.to_words`); heads go by layer, then head. The
    last four keys are what a word gives to [CLS] and to [SEP], and what they give to it; 0 where
    the model has none.
    """
    maps = [layer.dense().weights[0] for layer in layers]
    weights = torch.cat(maps).permute(1, 2, 0)  # query key head
    batch = layers[0].batch
    marks = torch.stack([batch.cls[0], batch.sep[0]]).to(weights)  # 2 word
    is_word = torch.tensor([source >= 0 for source in words.source], device=weights.device)
    own = is_word.nonzero()[:, 0]
    given = torch.einsum("qkh,mk->qmh", weights[own], marks)
    received = torch.einsum("qkh,mq->kmh", weights[:, own], marks)
    return torch.cat([weights[own][:, own], given, received], 1)


@dataclass(frozen=True, eq=False)
class WordAttention:
    """Attention between the words of texts, in entries of a cache.

    `words` are how many words of each text the model saw; `missing` are a text's own words that it
    did not see (truncated, or dropped by the tokenizer). `counts` and `quarantine` are those of a
    study's pass: what was read, truncated and excluded.
    """

    entries: tuple[Path, ...]  # shard
    n_heads: int  # of all layers
    words: npt.NDArray[np.int64]  # text
    missing: tuple[tuple[int, ...], ...]  # text
    shard: npt.NDArray[np.int64]  # text
    counts: Mapping[str, int]
    quarantine: tuple[Mapping[str, Any], ...]  # excluded texts, each with its reason

    @property
    def unseen(self) -> int:
        """How many words the model did not see."""
        return sum(map(len, self.missing))

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        """Where each text's block begins in its shard, in bytes."""
        sizes = self.words * (self.words + len(SPECIAL_COLUMNS)) * self.n_heads * 2
        before = np.cumsum(sizes) - sizes
        return before - before[np.searchsorted(self.shard, self.shard)]

    def read(self, texts: Sequence[int]) -> Tensor:
        """The blocks of texts of one word count: [text, word, word + 4, head], half precision."""
        n = int(self.words[texts[0]])
        out = np.empty((len(texts), n, n + len(SPECIAL_COLUMNS), self.n_heads), dtype=np.float16)
        for number, text in enumerate(texts):
            self._fill(out[number], text)
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
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(part["counts"])
        return cls(
            entries=tuple(entries),
            n_heads=n_heads,
            words=np.array([count for part in words for count in part], dtype=np.int64),
            missing=tuple(tuple(indices) for part in parts for indices in part["missing"]),
            shard=np.repeat(np.arange(len(entries)), [len(part) for part in words]),
            counts=dict(counts),
            quarantine=tuple(row for part in parts for row in part["quarantine"]),
        )


@feed.register
def _(attention: WordAttention, put: Put) -> None:
    """The names of its entries, which are the fingerprints of what each was made from."""
    feed(("word attention", [entry.name for entry in attention.entries]), put)


def read_word_attention(work: Workspace, model: Model, texts: list[Text]) -> WordAttention:
    """One pass of texts with words through a model; each shard is an entry of the cache of `work`.

    An interrupted pass resumes with the shards that are missing or damaged.
    """
    check_words(texts)
    heads = model.n_layers * model.n_heads
    folders = work.map_files(
        write_blocks, _shards(texts, heads), common=(model, texts), what="reading attention"
    )
    return WordAttention.open(folders, heads)


def missing_words(model: Model, texts: Sequence[Text]) -> tuple[tuple[int, ...], ...]:
    """The words of each text that the model would not see: truncated, or dropped by the tokenizer.

    No pass is made.
    """
    missing = {index: tuple(range(len(text.words or ()))) for index, text in enumerate(texts)}
    for start in range(0, len(texts), SHARD_TEXTS):
        indices = range(start, min(start + SHARD_TEXTS, len(texts)))
        encoded = model.encode([(index, texts[index]) for index in indices])
        for batch in model.batches(text for text in encoded if not all(text.special)):
            words = zip(batch.indices, batch.words, strict=True)
            missing |= {index: one.missing for index, one in words}
    return tuple(missing[index] for index in range(len(texts)))


def check_words(texts: Sequence[Text]) -> None:
    """Refuse texts that cannot be read word by word."""
    for text in texts:
        if not text.words:
            raise CorpusError(f"text {text.id!r} has no words; give Text(id, words=(...))")
        problem = text.problem()
        if problem:
            raise CorpusError(f"text {text.id!r}: {problem}")


def _shards(texts: Sequence[Text], heads: int) -> Iterator[tuple[int, int]]:
    """The first text of each shard and the one after its last.

    A worker holds one shard in memory, so that many heads make smaller ones.
    """
    first, cells, most = 0, 0, SHARD_CELLS * FEW_HEADS // max(FEW_HEADS, heads)
    for index, text in enumerate(texts):
        size = len(text.words or ()) ** 2
        if index > first and (index - first >= SHARD_TEXTS or cells + size > most):
            yield first, index
            first, cells = index, 0
        cells += size
    if first < len(texts):
        yield first, len(texts)


def write_blocks(folder: Path, shard: tuple[int, int], model: Model, texts: Sequence[Text]) -> None:
    """Run the texts of a shard and write their blocks and the index of these."""
    indices = range(*shard)
    encoded = model.encode([(index, texts[index]) for index in indices])
    kept = [text for text in encoded if not all(text.special)]
    blocks: dict[int, Array] = {}
    missing = {index: tuple(range(len(texts[index].words or ()))) for index in indices}
    layers: list[Sequence[Attention]] = []
    with model.reading(lambda layer: layers.append(layer.to_words())) as read:
        for group in model.encoder.groups(kept):
            layers.clear()
            batch = model.encoder.batch(group, model.device)
            read(batch)
            for number, (index, words) in enumerate(zip(batch.indices, batch.words, strict=True)):
                block = word_block([layer[number] for layer in layers], words)
                blocks[index] = block.half().cpu().contiguous().numpy()
                missing[index] = words.missing
    with atomic_write(folder / WEIGHTS) as file:
        for index in sorted(blocks):
            file.write(blocks[index].tobytes())
    excluded = [excluded_row(text.index, text.text) for text in encoded if all(text.special)]
    about = {
        "words": [len(blocks[index]) if index in blocks else 0 for index in indices],
        "missing": [missing[index] for index in indices],
        "counts": pass_counts(len(indices), kept, len(excluded)),
        "quarantine": excluded,
    }
    write_json(folder / INDEX, about)
