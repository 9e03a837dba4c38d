"""Which tokens are attended to most, and which attend most?"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.attention import Attention, Sight
from attlas.core.batch import Batch
from attlas.core.masks import Keep
from attlas.core.measure import Measure, Shape, check_bytes
from attlas.core.states import Rows, State, Tally
from attlas.support.errors import MeasureError
from attlas.support.jit import numba
from attlas.support.options import option

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Hidden = npt.NDArray[np.bool_]
Sights = tuple[Sight, ...]  # one for all heads, or one per head
DIRECTIONS = ("attended", "attending")
CORPUS_ROWS = 100  # types of the whole corpus that are listed for each choice of layers


@numba.njit(nogil=True, cache=True)
def member_counts(positions: npt.NDArray[np.int32], classes: Ints, count: int) -> Ints:
    """In how many lists each class is met, over all layers and for each: [text, 1 + layer, class].

    `positions` [layer, text, head, token, rank] are the members of each token's list in each head, -1 for none; a token's lists in several heads are one
    set. `classes` [text, token] says what a member counts as: its position, or its type.
    """
    layers, texts, heads, n, k = positions.shape
    out = np.zeros((texts, 1 + layers, count), dtype=np.int64)
    in_all = np.full(count, -1, dtype=np.int64)
    in_layer = np.full(count, -1, dtype=np.int64)
    turn = 0
    for text in range(texts):
        for token in range(n):
            for layer in range(layers):
                for head in range(heads):
                    for rank in range(k):
                        position = positions[layer, text, head, token, rank]
                        if position < 0:
                            break
                        kind = classes[text, position]
                        if in_layer[kind] != turn * layers + layer:
                            in_layer[kind] = turn * layers + layer
                            out[text, 1 + layer, kind] += 1
                            if in_all[kind] != turn:
                                in_all[kind] = turn
                                out[text, 0, kind] += 1
            turn += 1
    return out


@numba.njit(nogil=True, cache=True)
def chance_counts(
    first: Ints,
    stop: Ints,
    hidden: Hidden,
    apart: Ints,
    ends: Ints,
    heads: Ints,
    classes: Ints,
    count: int,
    k: int,
) -> Floats:
    """How many lists of one text each class would be met in if every head drew its lists at random: [class].

    `first`, `stop` [pattern, token] are from where to where each token sees, without `hidden` [pattern or 0, token, token]; `apart[ends[p]:ends[p + 1]]` the kept tokens that all see in pattern p; `heads`
    [pattern] how many heads see so; `classes` [token] what a token counts as, -1 for one that is not kept.
    """
    patterns, n = first.shape
    often = np.zeros(count, dtype=np.int64)
    kept = 0
    for token in range(n):
        if classes[token] >= 0:
            often[classes[token]] += 1
            kept += 1
    known = np.full(
        (patterns, often.max() + 1, kept + 1), -1.0
    )  # chance to miss what is seen so often among so many
    out = np.zeros(count)
    missed = np.ones(count)
    seen = np.zeros(count, dtype=np.int64)
    touched = np.empty(count, dtype=np.int64)  # classes that this token sees in this pattern
    met = np.empty(count, dtype=np.int64)  # and in any
    last = np.full(count, -1, dtype=np.int64)
    for token in range(n):
        many = 0
        for pattern in range(patterns):
            low, high = first[pattern, token], stop[pattern, token]
            total = number = 0
            for position in range(low, high):
                kind = classes[position]
                if kind >= 0 and not (len(hidden) > 0 and hidden[pattern, token, position]):
                    total += 1
                    if seen[kind] == 0:
                        touched[number] = kind
                        number += 1
                    seen[kind] += 1
            for entry in range(ends[pattern], ends[pattern + 1]):
                position = apart[entry]
                kind = classes[position]
                if position < low or position >= high:
                    total += 1
                    if seen[kind] == 0:
                        touched[number] = kind
                        number += 1
                    seen[kind] += 1
            for entry in range(number):
                kind = touched[entry]
                if known[pattern, seen[kind], total] < 0:
                    none = 1.0
                    for drawn in range(min(k, total)):
                        none *= max(0.0, (total - seen[kind] - drawn) / (total - drawn))
                    known[pattern, seen[kind], total] = none ** heads[pattern]
                if last[kind] != token:
                    last[kind] = token
                    met[many] = kind
                    many += 1
                missed[kind] *= known[pattern, seen[kind], total]
                seen[kind] = 0
        for entry in range(many):
            out[met[entry]] += 1.0 - missed[met[entry]]
            missed[met[entry]] = 1.0
    return out


def type_of(token: str, surface: str) -> str:
    """What a token counts as: its string without the tokenizer's marks, or its characters where the tokenizer has them in bytes.

    >>> type_of("##ions", "ions"), type_of("Ġimage", "image"), type_of("âĢĿ", "”")
    ('ions', 'image', '”')
    """
    plain = token.removeprefix("##").lstrip("Ġ▁")
    return (
        plain if plain.lower() in (surface.lower(), _without_accents(surface.lower())) else surface
    )


def _without_accents(string: str) -> str:
    """As uncased tokenizers have it: café is cafe."""
    if string.isascii():
        return string
    return "".join(
        letter
        for letter in unicodedata.normalize("NFD", string)
        if not unicodedata.combining(letter)
    )


@dataclass
class Pending:
    """The batch that is under way: the members of every list in the layers so far, and what their tokens see."""

    keys: list[npt.NDArray[np.int32]] = field(default_factory=list)  # text head query rank
    queries: list[npt.NDArray[np.int32]] = field(default_factory=list)
    sights: list[tuple[Sights, Sights]] = field(default_factory=list)


@dataclass
class TopKState(State):
    """Lists of each text, totals by type over the corpus, and the batch that is under way."""

    topk: Rows
    types: Tally
    n_layers: int = field(default=0, metadata={"parameter": True})
    pending: Pending = field(default_factory=Pending, metadata={"parameter": True})


@dataclass(frozen=True, kw_only=True)
class TopK(Measure[TopKState]):
    """For every token the `k` tokens it attends to most and the `k` that attend to it most; then how often each token is on such a list.

    After Hou 2022, Algorithms 1 to 3: a token's lists in several heads are joined to one set, and a member counts once for each token whose set it is in.
    Counts are by type (all tokens with one string) and by position, for all chosen layers together and for each. Only tokens that `keep` keeps can be
    members; every token has lists. `chance` is the count to be expected if each head drew its lists at random from what it sees: with many heads it is
    high for every token. `topk` has the `shown` first of each text, `both` saying that it is on the other direction's list too; `topk_types` those of the corpus.
    """

    name: ClassVar[str] = "topk"
    k: int = option(10, "Number of tokens on each list.", at_least=1, at_most=1_000)
    keep: str | Keep = "keywords"
    layers: tuple[int, ...] | None = option(
        None, "Layers that count (None: all).", at_least=0, at_most=9_999
    )
    heads: tuple[int, ...] | None = option(
        None, "Heads that count (None: all).", at_least=0, at_most=9_999
    )
    shown: int = option(10, "Number of rows for each text.", at_least=1, at_most=10_000)

    def __post_init__(self) -> None:
        Keep.of(self.keep)
        for name in ("layers", "heads"):
            if isinstance(getattr(self, name), int):
                object.__setattr__(self, name, (getattr(self, name),))
        super().__post_init__()
        for name, chosen in (("layers", self.layers), ("heads", self.heads)):
            if chosen is not None and not chosen:
                raise MeasureError(
                    f"{name} is {chosen}; give at least one number from 0, or None for all"
                )

    def start(self, model: Shape) -> TopKState:
        for name, chosen, size in (
            ("layer", self.layers, model.n_layers),
            ("head", self.heads, model.n_heads),
        ):
            if chosen is not None and max(chosen) >= size:
                raise MeasureError(
                    f"there is no {name} {max(chosen)}; the model has {name}s 0 to {size - 1}"
                )
        return TopKState(
            Rows.empty(), Tally(4 * (1 + len(self._layers(model.n_layers))) + 2), model.n_layers
        )

    def _layers(self, count: int) -> tuple[int, ...]:
        return tuple(range(count)) if self.layers is None else tuple(sorted(set(self.layers)))

    def update(self, state: TopKState, layer: Attention) -> None:
        chosen = self._layers(state.n_layers)
        k = min(self.k, layer.n_tokens)
        if layer.index == 0:
            state.pending = Pending()
            lists = 2 * len(chosen) * layer.n_texts * layer.n_heads * layer.n_tokens
            check_bytes(
                self.name, 4 * lists * k, f"lower k from {self.k}, or truncate texts (--max-length)"
            )
        if layer.index in chosen:
            keep = Keep.of(self.keep).mask(layer.batch)
            heads = slice(None) if self.heads is None else sorted(set(self.heads))
            for members, (_, where) in (
                (state.pending.keys, layer.top_keys(k, keep)),
                (state.pending.queries, layer.top_queries(k, keep)),
            ):
                members.append(where.int().cpu().numpy()[:, heads])
            state.pending.sights.append(
                (self._sights(layer.sight()), self._sights(layer.sight(of_keys=True)))
            )
        if layer.index == state.n_layers - 1:
            keep = Keep.of(self.keep).mask(layer.batch)
            self._finish(state, layer.batch, chosen, keep.cpu().numpy())
            state.pending = Pending()

    def _sights(self, sights: Sights) -> Sights:
        """What the chosen heads see, where they differ."""
        return (
            sights
            if self.heads is None or len(sights) == 1
            else tuple(sights[head] for head in sorted(set(self.heads)))
        )

    def _finish(
        self, state: TopKState, batch: Batch, chosen: tuple[int, ...], keep: npt.NDArray[np.bool_]
    ) -> None:
        names = ["all", *(f"L{number}" for number in chosen)]
        kinds, types = _types(batch, keep)
        places = np.tile(np.arange(batch.n_tokens), (batch.n_texts, 1))
        most = max(map(len, types), default=0)
        counted = {}
        for direction, members in zip(
            DIRECTIONS, (state.pending.keys, state.pending.queries), strict=True
        ):
            lists = np.stack(members)  # layer text head token rank
            counted[direction, "type"] = member_counts(lists, kinds, max(1, most))
            counted[direction, "position"] = member_counts(lists, places, batch.n_tokens)
        heads = state.pending.keys[0].shape[1]
        for text in range(batch.n_texts):
            sights = [
                [[sight.of(text) for sight in layer] for layer in side]
                for side in zip(*state.pending.sights, strict=True)
            ]
            self._text(
                state,
                batch,
                text,
                keep[text],
                kinds[text],
                types[text],
                names,
                counted,
                sights,
                heads,
            )

    def _text(
        self,
        state: TopKState,
        batch: Batch,
        text: int,
        keep: npt.NDArray[np.bool_],
        kinds: Ints,
        types: list[str],
        names: list[str],
        counted: dict[tuple[str, str], Ints],
        sights: Sequence[Sequence[Sequence[Sight]]],
        heads: int,
    ) -> None:
        if not types:
            return
        kept = np.nonzero(keep)[0]
        occurrences = np.bincount(kinds[kept], minlength=len(types))
        first = np.full(len(types), batch.n_tokens)
        np.minimum.at(first, kinds[kept], kept)
        strings = {"type": types, "position": [types[kind] if kind >= 0 else "" for kind in kinds]}
        chances: dict[tuple[str, str], list[Floats]] = {}
        blocks = []
        alike = all(
            _same_sight(mine, theirs)
            for layer, other in zip(*sights, strict=True)
            for mine, theirs in zip(layer, other, strict=True)
        )
        for by, classes in (
            ("type", kinds),
            ("position", np.where(keep, np.arange(batch.n_tokens), -1)),
        ):
            for direction, side in zip(DIRECTIONS, sights, strict=True):
                if alike and direction != DIRECTIONS[0]:
                    chances[direction, by] = chances[DIRECTIONS[0], by]
                else:
                    chances[direction, by] = _chances(
                        side, classes, len(strings[by]), heads, self.k
                    )
        for by, position in (("type", first), ("position", np.arange(batch.n_tokens))):
            size = len(strings[by])
            totals = {direction: counted[direction, by][text, :, :size] for direction in DIRECTIONS}
            for group, name in enumerate(names):
                ranked = {
                    direction: _ranked(totals[direction][group], self.shown)
                    for direction in DIRECTIONS
                }
                both = np.intersect1d(ranked["attended"], ranked["attending"])
                for direction in DIRECTIONS:
                    best = ranked[direction]
                    chance = chances[direction, by][group]
                    blocks.append(
                        {
                            "direction": np.full(len(best), direction, dtype=object),
                            "by": np.full(len(best), by, dtype=object),
                            "layers": np.full(len(best), name, dtype=object),
                            "rank": np.arange(len(best), dtype=np.int32),
                            "string": np.array(
                                [strings[by][number] for number in best], dtype=object
                            ),
                            "token": np.full(len(best), -1, dtype=np.int32)
                            if by == "type"
                            else position[best].astype(np.int32),
                            "count": totals[direction][group][best],
                            "chance": chance[best],
                            "tokens": np.full(len(best), batch.n_tokens, dtype=np.int32),
                            "both": np.isin(best, both),
                        }
                    )
        columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        rows = len(columns["rank"])
        state.topk.add(
            np.full(rows, batch.places[text]),
            {"text": np.full(rows, batch.texts[text].id, dtype=object), **columns},
        )
        by_type = [
            counted[direction, "type"][text, :, : len(types)] for direction in DIRECTIONS
        ]  # group type
        expected = [np.stack(chances[direction, "type"]) for direction in DIRECTIONS]
        values = np.concatenate(
            [*by_type, *expected, np.stack([occurrences, np.ones(len(types))])]
        ).T
        state.types.add(types, values)

    def result(self, state: TopKState) -> dict[str, pd.DataFrame]:
        strings, totals = state.types.table()
        names = np.array(strings, dtype=object)
        groups = (state.types.width - 2) // 4
        chosen = ["all", *(f"L{number}" for number in self._layers(state.n_layers))]
        parts = []
        for side, direction in enumerate(DIRECTIONS):
            for group in range(groups):
                counts = totals[:, side * groups + group]
                best = _ranked(counts, CORPUS_ROWS)
                others = _ranked(totals[:, (1 - side) * groups + group], self.shown)
                parts.append(
                    pd.DataFrame(
                        {
                            "direction": direction,
                            "layers": chosen[group],
                            "rank": np.arange(len(best), dtype=np.int32),
                            "string": names[best],
                            "count": counts[best].astype(np.int64),
                            "chance": totals[best, (2 + side) * groups + group],
                            "occurrences": totals[best, -2].astype(np.int64),
                            "texts": totals[best, -1].astype(np.int64),
                            "both": np.isin(best[: self.shown], others).tolist()
                            + [False] * max(0, len(best) - self.shown),
                        }
                    )
                )
        return {"topk": state.topk.frame(), "topk_types": pd.concat(parts, ignore_index=True)}


def _types(batch: Batch, keep: npt.NDArray[np.bool_]) -> tuple[Ints, list[list[str]]]:
    """The type of each kept token as a number (-1 for others), [text, token], and the strings of each text's types in order of appearance."""
    kinds = np.full(keep.shape, -1, dtype=np.int64)
    types: list[list[str]] = []
    for text, (tokens, surfaces) in enumerate(zip(batch.tokens, batch.surfaces, strict=True)):
        known: dict[str, int] = {}
        for token in np.nonzero(keep[text])[0]:
            kinds[text, token] = known.setdefault(
                type_of(tokens[token], surfaces[token]), len(known)
            )
        types.append(list(known))
    return kinds, types


def _ranked(counts: npt.NDArray[Any], size: int) -> Ints:
    """The entries with the largest counts above 0, the first among equals first."""
    order = np.argsort(-counts, kind="stable")[:size]
    return order[counts[order] > 0]


def _same_sight(one: Sight, other: Sight) -> bool:
    if one is other:
        return True
    return all(
        mine is theirs or (mine is not None and theirs is not None and np.array_equal(mine, theirs))
        for mine, theirs in zip(one, other, strict=True)
    )


def _chances(
    side: Sequence[Sequence[Sight]], classes: Ints, size: int, heads: int, k: int
) -> list[Floats]:
    """The counts to be expected by chance: over all layers, then for each (layers that see the same share theirs)."""
    patterns: list[Sight] = []
    members: list[Counter[int]] = []  # of each layer, how many heads see by which pattern
    for layer in side:
        members.append(Counter())
        for sight in layer:
            same = (number for number, known in enumerate(patterns) if _same_sight(sight, known))
            number = next(same, len(patterns))
            patterns += [sight] if number == len(patterns) else []
            members[-1][number] += heads // len(layer)

    def expected(counts: Counter[int]) -> Floats:
        sights = [patterns[number] for number in counts]
        apart = [np.nonzero(sight.always & (classes >= 0))[0] for sight in sights]
        n = len(classes)
        none = (
            np.zeros((n, n), dtype=bool)
            if any(sight.hidden is not None for sight in sights)
            else None
        )
        hidden = (
            []
            if none is None
            else [none if sight.hidden is None else sight.hidden for sight in sights]
        )
        found: Floats = chance_counts(
            np.stack([sight.first for sight in sights]),
            np.stack([sight.stop for sight in sights]),
            np.array(hidden, dtype=bool).reshape(-1, n, n),
            np.concatenate(apart),
            np.cumsum([0, *map(len, apart)]),
            np.array([*counts.values()]),
            classes,
            size,
            k,
        )
        return found

    once = {tuple(sorted(counts.items())): expected(counts) for counts in members}
    return [
        expected(sum(members, Counter())),
        *(once[tuple(sorted(counts.items()))] for counts in members),
    ]
