"""Weights: attention between the words of sentences, of all heads, kept on disk and read back a batch at a time.

A text is one block [word, word + 4, head] in half precision, heads last: the query word, then the key words and the four ENDS, so that what probes
do with it, products over heads, runs along memory. Blocks stand one after the other in a file a shard; a reader takes the blocks of a batch
with plain reads, not by mapping the file, so that memory stays that of a batch however long the corpus is.
"""

from __future__ import annotations

import hashlib
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

from attlas.core.annotations import dependencies_of
from attlas.core.attention import Attention
from attlas.core.errors import CorpusError, StudyError
from attlas.core.files import claimed, replacing, write_json
from attlas.core.machine import versions
from attlas.core.progress import progress_bar
from attlas.core.text import Text
from attlas.core.words import Words
from attlas.models import Model
from attlas.models.encode import SPANS
from attlas.studies.engines import Task, engine_of

Array = npt.NDArray[Any]
ENDS = ("to [CLS]", "to [SEP]", "from [CLS]", "from [SEP]")
SHARD_TEXTS, SHARD_CELLS = 512, 2**20  # a shard ends at so many texts, or pairs of words
FEW_HEADS = 144  # of all layers: up to so many, shards are as large as that
IDENTITY, FORMAT = "identity.json", "attlas word attention 1"


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
    """Attention between the words of texts, as `gather` left it in a folder.

    `words` are how many words of each text the model saw; `missing` are a text's own words that it did not (cut off, or dropped by the tokenizer).
    """

    folder: Path
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
        path = weights_path(self.folder, int(self.shard[text]))
        with path.open("rb", buffering=0) as file:
            file.seek(int(self._starts[text]))
            if file.readinto(block.reshape(-1).view(np.uint8).data) != block.nbytes:
                raise StudyError(f"{path} is shorter than its index says; delete {self.folder} and run again")

    @classmethod
    def open(cls, folder: Path, n_heads: int, shards: int) -> WordAttention:
        """Read the index of every shard."""
        parts = [json.loads(index_path(folder, shard).read_text()) for shard in range(shards)]
        words = [part["words"] for part in parts]
        return cls(
            folder,
            n_heads,
            np.array([count for part in words for count in part], dtype=np.int64),
            tuple(tuple(places) for part in parts for places in part["missing"]),
            np.repeat(np.arange(shards), [len(part) for part in words]),
        )


def weights_path(folder: Path, shard: int) -> Path:
    """The blocks of a shard, one text after the other."""
    return folder / f"words-{shard:05d}.f16"


def index_path(folder: Path, shard: int) -> Path:
    """The index of a shard; it is written last, so a shard is there if its index is."""
    return folder / f"words-{shard:05d}.json"


def gather(
    model: Model,
    texts: Sequence[Text],
    folder: str | Path,
    *,
    workers: int | None = None,
    progress: bool | None = None,
) -> WordAttention:
    """One pass of texts with words through a model, into `folder`; run again after a crash, it goes on with the shards that are missing."""
    place = Path(folder).expanduser()
    check_words(texts)
    cuts = list(_cuts(texts, model.n_layers * model.n_heads))
    engine = engine_of("local", workers, model.device)
    identity = identity_of(model, texts)
    with claimed(place), progress_bar("reading attention between words", wanted=progress) as report:
        _same_identity(place, identity)
        write_json(place / IDENTITY, identity)
        lock, done = threading.Lock(), 0

        def tell(rows: int) -> None:
            nonlocal done
            with lock:
                done += rows
                report(done, len(texts))

        def tasks() -> Iterator[Task]:
            for shard, cut in enumerate(cuts):
                if index_path(place, shard).is_file():
                    tell(len(cut))
                else:
                    yield partial(_write_shard, model, place, shard, [texts[text] for text in cut], tell)

        engine.run(tasks())
    return WordAttention.open(place, model.n_layers * model.n_heads, len(cuts))


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


def identity_of(model: Model, texts: Sequence[Text]) -> dict[str, Any]:
    """All that the weights of these texts, and what is learnt from them, depend on."""
    digest = hashlib.sha256()
    for text in texts:
        tree = dependencies_of(text.annotations)
        noted = None if tree is None else [tree.heads, tree.relations]
        digest.update(json.dumps([text.words, noted, text.annotations.get(SPANS)], default=str).encode() + b"\n")
    return {"kind": FORMAT, **model.identity(), "texts": digest.hexdigest(), "versions": versions()}


def _same_identity(folder: Path, identity: dict[str, Any]) -> None:
    """Refuse a folder that holds something else."""
    path = folder / IDENTITY
    if not path.is_file():
        if any(other.name != ".lock" for other in folder.iterdir()):
            raise StudyError(f"{folder} holds other files; choose an empty folder")
        return
    try:
        known = json.loads(path.read_text())
    except ValueError:
        known = {}
    other = [name for name in identity if known.get(name) != identity[name]]
    if other:
        raise StudyError(
            f"{folder} holds attention of something else (its {', '.join(other)} differ); choose another folder, or delete it"
        )


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
    model: Model, folder: Path, shard: int, texts: Sequence[Text], tell: Callable[[int], None], stop: threading.Event
) -> None:
    """Run the texts of a shard and write their blocks, then its index."""
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
                blocks[place], missing[place] = block.half().cpu().contiguous().numpy(), words.missing
            tell(len(group))
    with replacing(weights_path(folder, shard)) as file:
        for place in sorted(blocks):
            file.write(blocks[place].tobytes())
    counts = [len(blocks[place]) if place in blocks else 0 for place in range(len(texts))]
    write_json(index_path(folder, shard), {"words": counts, "missing": [missing[place] for place in range(len(texts))]})
