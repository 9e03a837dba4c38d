"""Triple vectors: attention between head, tail and relation words in every direction on every map (Chizhikova et al. 2022).

A text goes through the model once, however many cases it has: attention is pooled to its distinct phrases, and cases are gathered from that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.between import between_units
from attlas.core.text import Text
from attlas.language.words import Span
from attlas.models import Model
from attlas.relations.candidates import Case
from attlas.studies.engines import Task, engine_of
from attlas.studies.folder import States
from attlas.support.files import atomic_write
from attlas.support.fingerprint import fingerprint, source_digest
from attlas.support.progress import progress_bar

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
DIRECTIONS = ("h-r", "r-t", "h-t", "r-h", "t-r", "t-h")  # x-y: x attends to y; the paper's order
PAIR_DIRECTIONS = ("h-t", "t-h")  # without relation words
PARTS = {"h": 0, "t": 1, "r": 2}  # of a case's spans
SHARD = 256  # texts that are read, and written, together
WHAT = "attention between phrases"
VECTORS = "vectors.npz"  # of an entry


def directions_of(worded: bool) -> tuple[str, ...]:
    """The directions of cases with relation words, or without."""
    return DIRECTIONS if worded else PAIR_DIRECTIONS


@dataclass(frozen=True, eq=False)
class Units:
    """Phrases of one text as the model saw them. One that was cut off, even in part, is not `seen`, and its weights are 0."""

    place: int
    spans: tuple[Span, ...]  # unit
    seen: Bools  # unit
    weights: Floats  # unit unit map: the first attends to the second; maps go by layer, then head
    states: Floats | None = None  # unit layer size: the mean over its tokens, the embeddings first


def token_members(batch: Batch, text: int, spans: Sequence[Span]) -> Bools:
    """Which tokens of a text are each span's, by characters, special ones never; none if the text was cut before the span's end: [unit, token]."""
    offsets, own = batch.offsets[text], ~batch.special[text]
    start, stop = np.array(spans, dtype=np.int64).reshape(-1, 2).T[..., None]
    last = int(offsets[own, 1].max(initial=0))
    reach = _reach(batch.texts[text].text, last) if batch.cut[text] else np.iinfo(np.int64).max
    inside: Bools = own & (offsets[:, 0] < stop) & (offsets[:, 1] > start) & (stop <= reach)
    return inside


def _reach(string: str, stop: int) -> int:
    """Where the first character stands that a truncated text no longer has: spaces after its last token are no tokens.

    >>> _reach("a cat sat", 5)
    6
    """
    return stop + len(string[stop:]) - len(string[stop:].lstrip())


def read_units(
    model: Model,
    texts: Iterable[tuple[int, Text]],
    spans: Mapping[int, Sequence[Span]],
    *,
    mean: bool = True,
    states: bool = False,
    stop: threading.Event | None = None,
) -> Iterator[Units]:
    """Attention between phrases, from one pass of each text; `spans` are those of the text at each place. In batches of one length, short texts first."""
    kept: list[Tensor] = []
    encoded = [text for text in model.encode(list(texts)) if not all(text.special)]
    members: Tensor = torch.zeros(0)

    def take(layer: Attention) -> None:
        kept.append(between_units(layer, members, mean).permute(0, 2, 3, 1))  # text unit unit head

    with model.reading(take, states=states) as read:
        for group in model.encoder.groups(encoded):
            if stop is not None and stop.is_set():
                return
            batch = model.encoder.batch(group, model.device)
            mine = [tuple(spans[place]) for place in batch.places]
            most = max(map(len, mine))
            if not most:
                yield from (Units(place, (), np.zeros(0, bool), np.zeros((0, 0, 0), np.float32)) for place in batch.places)  # fmt: skip
                continue
            inside = np.zeros((len(mine), most, batch.ids.shape[1]), dtype=bool)
            for text, parts in enumerate(mine):
                inside[text, : len(parts)] = token_members(batch, text, parts)
            members = torch.from_numpy(inside).to(model.device)
            kept.clear()
            output = read(batch)
            weights = torch.cat(kept, -1).detach().float().cpu().numpy()  # text unit unit map
            hidden = _pooled_states(output.hidden_states, members) if states else None
            for text, (place, parts) in enumerate(zip(batch.places, mine, strict=True)):
                n = len(parts)
                yield Units(
                    place,
                    parts,
                    np.asarray(inside[text, :n].any(-1)),
                    weights[text, :n, :n],
                    None if hidden is None else hidden[text, :n],
                )


def _pooled_states(hidden: Sequence[Tensor], members: Tensor) -> Floats:
    """The mean hidden state of each unit at the embeddings and after every layer: [text, unit, layer, size]."""
    share = members.float() / members.sum(-1, keepdim=True).clamp(min=1)
    pooled: Floats = torch.stack([share @ layer.float() for layer in hidden], 2).detach().cpu().numpy()
    return pooled


def case_vectors(weights: Floats, places: npt.NDArray[np.int64]) -> Floats:
    """Attention between the parts of cases: [unit, unit, map], [case, part] as units (head, tail and perhaps words) -> [case, direction, map].

    >>> weights = np.arange(9, dtype=np.float32).reshape(3, 3, 1)
    >>> case_vectors(weights, np.array([[0, 1, 2]]))[0, :, 0]
    array([2., 7., 1., 6., 5., 3.], dtype=float32)
    """
    names = directions_of(places.shape[1] == 3)
    pairs = np.array([[PARTS[name[0]], PARTS[name[2]]] for name in names])
    found: Floats = weights[places[:, pairs[:, 0]], places[:, pairs[:, 1]]]
    return found


@dataclass(frozen=True, eq=False)
class CaseVectors:
    """What a model gives for cases, in their order; a case with a phrase that was not seen is all 0."""

    attention: Floats  # case direction map
    seen: Bools  # case
    states: npt.NDArray[np.float16] | None = None  # case part layer size

    @property
    def unseen(self) -> int:
        return int((~self.seen).sum())


Shard = dict[str, npt.NDArray[Any]]


def gather(
    model: Model,
    texts: Sequence[Text],
    cases: Sequence[Case],
    *,
    mean: bool = True,
    states: bool = False,
    cache: str | Path | None = None,
    workers: int | None = None,
    progress: bool | None = None,
    what: str = "reading attention between phrases",
) -> CaseVectors:
    """The vectors of cases, from one pass of each text that has any.

    With a `cache`, each shard of texts becomes an entry of it, known by the model, its texts, their
    phrases and the code that made it; one that is there and undamaged is not made again.
    """
    by_text: dict[int, list[int]] = {}
    for number, case in enumerate(cases):
        by_text.setdefault(case.text, []).append(number)
    places = list(by_text)
    cuts = [places[start : start + SHARD] for start in range(0, len(places), SHARD)]
    kept: dict[int, Shard] = {}
    entries = None
    if cache is not None:
        spans = {place: [cases[one].spans for one in mine] for place, mine in by_text.items()}
        entries = _Entries.of(cache, model, texts, cuts, spans, (mean, states))
    lock, done = threading.Lock(), 0
    with progress_bar(what, wanted=progress) as report:

        def tell(rows: int) -> None:
            nonlocal done
            with lock:
                done += rows
                report(done, len(places))

        def work(shard: int, cut: Sequence[int], stop: threading.Event) -> None:
            found = _read_shard(model, texts, cases, by_text, cut, mean, states, stop)
            if found is None:
                return
            if entries is None:
                kept[shard] = found
            else:
                entries.write(shard, found)
            tell(len(cut))

        def tasks() -> Iterator[Task]:
            for shard, cut in enumerate(cuts):
                if entries is not None and entries.has(shard):
                    tell(len(cut))
                else:
                    yield partial(work, shard, cut)

        engine_of("local", workers, model.device).run(tasks())
    shards = [kept[n] if entries is None else entries.read(n) for n in range(len(cuts))]
    return _joined(model, cases, by_text, cuts, shards, states)


@dataclass(frozen=True)
class _Entries:
    """The shards of one pass in a cache."""

    states: States
    keys: Sequence[str]  # shard

    @classmethod
    def of(
        cls,
        cache: str | Path,
        model: Model,
        texts: Sequence[Text],
        cuts: Sequence[Sequence[int]],
        spans: Mapping[int, Sequence[tuple[Span, ...]]],
        options: tuple[bool, bool],
    ) -> _Entries:
        """Entries under what each is made from; `spans` are the phrases of each text's cases."""
        known = fingerprint(model)
        asked = [[(texts[place], spans[place]) for place in cut] for cut in cuts]
        keys = [fingerprint((WHAT, known, one, options, source_digest())) for one in asked]
        return cls(States(Path(cache).expanduser()), keys)

    def has(self, shard: int) -> bool:
        return self.states.find(self.keys[shard]) is not None

    def write(self, shard: int, found: Shard) -> None:
        with self.states.make(self.keys[shard]) as entry, atomic_write(entry / VECTORS) as file:
            np.savez(file, **found)  # type: ignore[arg-type]

    def read(self, shard: int) -> Shard:
        with np.load(self.states.folder / self.keys[shard] / VECTORS, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}


def _read_shard(
    model: Model,
    texts: Sequence[Text],
    cases: Sequence[Case],
    by_text: Mapping[int, Sequence[int]],
    cut: Sequence[int],
    mean: bool,
    states: bool,
    stop: threading.Event,
) -> Shard | None:
    """The vectors of the cases of some texts, in the order of the texts and their cases; None if stopped."""
    spans = {place: sorted({span for number in by_text[place] for span in cases[number].spans}) for place in cut}
    found: dict[int, Shard] = {}
    for units in read_units(
        model, [(place, texts[place]) for place in cut], spans, mean=mean, states=states, stop=stop
    ):
        index = {span: unit for unit, span in enumerate(units.spans)}
        parts = np.array([[index[span] for span in cases[number].spans] for number in by_text[units.place]])
        seen = units.seen[parts].all(1)
        shard = {"attention": case_vectors(units.weights, parts) * seen[:, None, None], "seen": seen}
        if units.states is not None:
            shard["states"] = (units.states[parts] * seen[:, None, None, None]).astype(np.float16)
        found[units.place] = shard
    if stop.is_set():
        return None
    blank = {place: _blank(model, cases, by_text[place], found, states) for place in cut if place not in found}
    return _concatenated([found.get(place) or blank[place] for place in cut])


def _blank(
    model: Model, cases: Sequence[Case], numbers: Sequence[int], found: Mapping[int, Shard], states: bool
) -> Shard:
    """The vectors of a text of which the tokenizer leaves nothing."""
    parts = len(cases[numbers[0]].spans)
    shape = len(numbers), len(directions_of(parts == 3)), model.n_layers * model.n_heads
    shard: Shard = {"attention": np.zeros(shape, np.float32), "seen": np.zeros(len(numbers), bool)}
    if states:
        size = int(model.network.config.get_text_config().hidden_size)
        shard["states"] = np.zeros((len(numbers), parts, model.n_layers + 1, size), np.float16)
    return shard


def _concatenated(parts: Sequence[Shard]) -> Shard:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _joined(
    model: Model,
    cases: Sequence[Case],
    by_text: Mapping[int, Sequence[int]],
    cuts: Sequence[Sequence[int]],
    shards: Sequence[Shard],
    states: bool,
) -> CaseVectors:
    """Shards put into the order of the cases."""
    if not shards:
        empty = np.zeros((0, 0, model.n_layers * model.n_heads), np.float32)
        return CaseVectors(empty, np.zeros(0, bool), np.zeros((0, 0, 0, 0), np.float16) if states else None)
    whole = _concatenated(shards)
    order = np.argsort([number for cut in cuts for place in cut for number in by_text[place]], kind="stable")
    found = {name: part[order] for name, part in whole.items()}
    return CaseVectors(found["attention"], found["seen"], found.get("states"))
