"""Triple vectors: attention between head, tail and relation words (Chizhikova et al. 2022).

A vector has every direction on every map. A text goes through the model once, however many cases it
has: attention is pooled to its distinct phrases, and cases are gathered from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.experiments.workspace import Workspace, scratch
from attlas.language.words import Span
from attlas.models import Model
from attlas.models.encode import Encoded
from attlas.relations.candidates import Case
from attlas.relations.experiment import DIRECTIONS

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
PAIR_DIRECTIONS = ("h-t", "t-h")  # of cases without relation words
PARTS = {"h": 0, "t": 1, "r": 2}  # of a case's spans
SHARD = 256  # texts with cases in one shard


def directions_of(relation_words: bool) -> tuple[str, ...]:
    """The directions of cases with relation words, or without."""
    return DIRECTIONS if relation_words else PAIR_DIRECTIONS


@dataclass(frozen=True, eq=False)
class Units:
    """Phrases of one text as the model saw them.

    One that was truncated, even in part, is not `seen`, and its weights are 0.
    """

    index: int  # of the text
    spans: tuple[Span, ...]  # unit
    seen: Bools  # unit
    weights: Floats  # unit unit map: the first attends to the second; maps go by layer, then head
    states: Floats | None = None  # unit layer size: the mean over its tokens, the embeddings first


def token_members(batch: Batch, text: int, spans: Sequence[Span]) -> Bools:
    """Which tokens of a text are each span's, by characters, special ones never: [unit, token].

    None are, if the text was truncated before the span's end.
    """
    offsets, own = batch.offsets[text], ~batch.special[text]
    start, stop = np.array(spans, dtype=np.int64).reshape(-1, 2).T[..., None]
    last = int(offsets[own, 1].max(initial=0))
    reach = (
        _reach(batch.texts[text].text, last) if batch.truncated_by[text] else np.iinfo(np.int64).max
    )
    inside: Bools = own & (offsets[:, 0] < stop) & (offsets[:, 1] > start) & (stop <= reach)
    return inside


def _reach(string: str, stop: int) -> int:
    """The first character that a truncated text no longer has; spaces after its last token count.

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
) -> Iterator[Units]:
    """Attention between the phrases of texts, given by index as `spans`, from one pass each.

    Texts go in batches of one length, short ones first.
    """
    encoded = [text for text in model.encode(list(texts)) if not all(text.special)]
    return _units(model, encoded, spans, mean, states)


def _units(
    model: Model,
    encoded: Sequence[Encoded],
    spans: Mapping[int, Sequence[Span]],
    mean: bool,
    states: bool,
) -> Iterator[Units]:
    """Attention between the phrases of texts that are encoded already."""
    kept: list[Tensor] = []
    members: Tensor = torch.zeros(0)

    def take(layer: Attention) -> None:
        kept.append(layer.between_units(members, mean).permute(0, 2, 3, 1))  # text unit unit head

    with model.reading(take, states=states) as read:
        for group in model.encoder.groups(encoded):
            batch = model.encoder.batch(group, model.device)
            mine = [tuple(spans[index]) for index in batch.indices]
            inside = _members(batch, mine)
            if not inside.shape[1]:
                blank = np.zeros(0, bool), np.zeros((0, 0, 0), np.float32)
                yield from (Units(index, (), *blank) for index in batch.indices)
                continue
            members = torch.from_numpy(inside).to(model.device)
            kept.clear()
            output = read(batch)
            weights = torch.cat(kept, -1).detach().float().cpu().numpy()  # text unit unit map
            hidden = _pooled_states(output.hidden_states, members) if states else None
            for text, (index, parts) in enumerate(zip(batch.indices, mine, strict=True)):
                n = len(parts)
                seen = np.asarray(inside[text, :n].any(-1))
                own = None if hidden is None else hidden[text, :n]
                yield Units(index, parts, seen, weights[text, :n, :n], own)


def _members(batch: Batch, spans: Sequence[Sequence[Span]]) -> Bools:
    """Which tokens are each unit's, for all texts of a batch: [text, unit, token]."""
    most = max(map(len, spans))
    inside = np.zeros((len(spans), most, batch.ids.shape[1]), dtype=bool)
    for text, parts in enumerate(spans):
        if parts:
            inside[text, : len(parts)] = token_members(batch, text, parts)
    return inside


def _pooled_states(hidden: Sequence[Tensor], members: Tensor) -> Floats:
    """The mean hidden state of each unit, embeddings first: [text, unit, layer, size]."""
    share = members.float() / members.sum(-1, keepdim=True).clamp(min=1)
    layers = torch.stack([share @ layer.float() for layer in hidden], 2)
    pooled: Floats = layers.detach().cpu().numpy()
    return pooled


def case_vectors(weights: Floats, units: npt.NDArray[np.int64]) -> Floats:
    """Attention between the parts of cases (head, tail, perhaps words): [case, direction, map].

    `weights` are [unit, unit, map], `units` those of the parts: [case, part].

    >>> weights = np.arange(9, dtype=np.float32).reshape(3, 3, 1)
    >>> case_vectors(weights, np.array([[0, 1, 2]]))[0, :, 0]
    array([2., 7., 1., 6., 5., 3.], dtype=float32)
    """
    names = directions_of(units.shape[1] == 3)
    pairs = np.array([[PARTS[name[0]], PARTS[name[2]]] for name in names])
    vectors: Floats = weights[units[:, pairs[:, 0]], units[:, pairs[:, 1]]]
    return vectors


@dataclass(frozen=True, eq=False)
class Lengths:
    """How many tokens of each text a model read, 0 if it has none, and how many were truncated."""

    tokens: npt.NDArray[np.int64]  # text
    cut: npt.NDArray[np.int64]  # text

    @property
    def excluded(self) -> list[int]:
        """The texts for which the tokenizer produces no tokens, by index."""
        texts: list[int] = np.flatnonzero(self.tokens == 0).tolist()
        return texts

    @property
    def counts(self) -> dict[str, int]:
        """What was read, in the shape of a study's counts."""
        kept = self.tokens > 0
        return {
            "read": len(self.tokens),
            "analysed": int(kept.sum()),
            "quarantined": int((~kept).sum()),
            "truncated": int((self.cut[kept] > 0).sum()),
            "tokens": int(self.tokens.sum()),
            "tokens_cut": int(self.cut[kept].sum()),
        }


@dataclass(frozen=True, eq=False)
class CaseVectors:
    """What a model gives for cases, in their order.

    A case with a phrase that was not seen is all 0.
    """

    attention: Floats  # case direction map
    seen: Bools  # case
    states: npt.NDArray[np.float16] | None = None  # case part layer size
    lengths: Lengths | None = None  # of all texts

    @property
    def unseen(self) -> int:
        return int((~self.seen).sum())

    def where(self, kept: Bools) -> CaseVectors:
        """Some of the cases."""
        states = None if self.states is None else self.states[kept]
        return CaseVectors(self.attention[kept], self.seen[kept], states, self.lengths)


Shard = dict[str, npt.NDArray[Any]]
CaseSpans = list[list[tuple[Span, ...]]]  # of each text, the phrases of its cases


def spans_by_text(texts: Sequence[Text], cases: Sequence[Case]) -> CaseSpans:
    """The phrases of the cases of each text, in the order of the cases."""
    spans: CaseSpans = [[] for _ in texts]
    for case in cases:
        spans[case.text].append(case.spans)
    return spans


def read_cases(
    work: Workspace,
    model: Model,
    texts: Sequence[Text],
    cases: Sequence[Case],
    *,
    spans: CaseSpans | None = None,
    mean: bool = True,
    states: bool = False,
) -> CaseVectors:
    """The vectors of cases, from one pass of each text that has any.

    Shards that are cached are not read again. `spans` is `spans_by_text`: give it where two models
    read the same cases.
    """
    spans = spans_by_text(texts, cases) if spans is None else spans
    common = (model, texts, spans, mean, states)
    shards = work.map(read_shard, text_shards(spans), common=common, what="reading attention")
    if not shards:
        shards = [read_shard((0, 0), *common)]
    whole = {name: np.concatenate([part[name] for part in shards]) for name in shards[0]}
    order = np.argsort(np.argsort([case.text for case in cases], kind="stable"), kind="stable")
    return CaseVectors(
        whole["attention"][order],
        whole["seen"][order],
        whole["states"][order] if states else None,
        Lengths(whole["tokens"], whole["cut"]),
    )


def read_case_vectors(
    model: Model,
    texts: Sequence[Text],
    cases: Sequence[Case],
    *,
    mean: bool = True,
    states: bool = False,
    cache: str | Path | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> CaseVectors:
    """The vectors of cases, outside any experiment."""
    with scratch(cache, workers, progress) as work:
        return read_cases(work, model, list(texts), cases, mean=mean, states=states)


def text_shards(spans: CaseSpans) -> list[tuple[int, int]]:
    """Shards of texts, SHARD of which have cases: from, up to.

    >>> text_shards([[((0, 1), (2, 3))]] * (SHARD + 1) + [[]])
    [(0, 256), (256, 258)]
    """
    starts = [index for index, mine in enumerate(spans) if mine][::SHARD]
    return list(pairwise([0, *starts[1:], len(spans)])) if spans else []


def read_shard(
    shard: tuple[int, int],
    model: Model,
    texts: Sequence[Text],
    spans: CaseSpans,
    mean: bool,
    states: bool,
) -> Shard:
    """The vectors of the cases of some texts, by text and then by case; and each text's length.

    Those of a case that was not seen whole are 0.
    """
    first, stop = shard
    encoded = model.encode([(index, texts[index]) for index in range(first, stop)])
    lengths = np.zeros((2, stop - first), dtype=np.int64)
    readable = [text for text in encoded if not all(text.special)]
    for text in readable:
        lengths[:, text.index - first] = len(text), text.truncated_by
    begins = [0, *accumulate(map(len, spans[first:stop]))]  # text: its first case
    n_parts = next((len(case) for mine in spans for case in mine), 0)
    directions = len(directions_of(n_parts == 3)) if n_parts else 0
    shape = begins[-1], directions, model.n_layers * model.n_heads
    attention, seen = np.zeros(shape, np.float32), np.zeros(begins[-1], bool)
    vectors: Shard = {"attention": attention, "seen": seen}
    if states:
        size = int(model.network.config.get_text_config().hidden_size)
        shape_of_states = begins[-1], n_parts, model.n_layers + 1, size
        vectors["states"] = np.zeros(shape_of_states, np.float16)
    with_cases = [text for text in readable if spans[text.index]]
    distinct = {index: sorted(set(chain(*spans[index]))) for index in range(first, stop)}
    for units in _units(model, with_cases, distinct, mean, states):
        rows = slice(*begins[units.index - first : units.index - first + 2])
        unit = {span: number for number, span in enumerate(units.spans)}
        parts = np.array([[unit[span] for span in case] for case in spans[units.index]])
        seen[rows] = units.seen[parts].all(1)
        attention[rows] = case_vectors(units.weights, parts) * seen[rows, None, None]
        if units.states is not None:
            vectors["states"][rows] = units.states[parts] * seen[rows, None, None, None]
    return {**vectors, "tokens": lengths[0], "cut": lengths[1]}
