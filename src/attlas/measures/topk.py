"""Which tokens are attended to most, and which attend most?"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.attention import Attention, VisibleRanges
from attlas.core.batch import Batch
from attlas.core.masks import TokenMask
from attlas.core.measure import Measure, Outputs, Shape, check_bytes
from attlas.core.states import Rows, State, Tally
from attlas.stats.jit import numba
from attlas.support.arrays import Array, Bools, Floats, Ints
from attlas.support.errors import MeasureError
from attlas.support.options import option

HeadRanges = Sequence[VisibleRanges]  # one for all heads, or one per head
DIRECTIONS = ("attended", "attending")
CORPUS_ROWS = 100  # types of the whole corpus that are listed for each choice of layers


@numba.njit(nogil=True, cache=True)
def member_counts(positions: npt.NDArray[np.int32], classes: Ints, count: int) -> Ints:
    """Number of lists with each class, over all layers and per layer: [text, 1 + layer, class].

    `positions` [layer, text, head, token, rank] are the members of each token's list in each head,
    -1 for none; a token's lists in several heads are one set. `classes` [text, token] is what a
    member counts as: its position, or its type.
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
    ranges: Ints,
    hidden: Bools,
    always: Ints,
    ends: Ints,
    heads: Ints,
    classes: Ints,
    count: int,
    k: int,
) -> Floats:
    """Expected number of lists of one text with each class if heads draw them at random: [class].

    `ranges` [pattern, token, 2] is the range that each token sees, except `hidden` [pattern or 0,
    token, token]; `always[ends[p]:ends[p + 1]]` are the kept tokens that all tokens see in pattern
    p; `heads` [pattern] is the number of heads with that pattern; `classes` [token] is what a token
    counts as, -1 if it is not kept.
    """
    patterns, n, _ = ranges.shape
    occurrences = np.zeros(count, dtype=np.int64)
    kept = 0
    for token in range(n):
        if classes[token] >= 0:
            occurrences[classes[token]] += 1
            kept += 1
    known = np.full((patterns, occurrences.max() + 1, kept + 1), -1.0)  # chance to miss a class
    out = np.zeros(count)
    missed = np.ones(count)
    seen = np.zeros(count, dtype=np.int64)
    touched = np.empty(count, dtype=np.int64)  # classes that this token sees in this pattern
    visible = np.empty(count, dtype=np.int64)  # classes that it sees in any pattern
    last = np.full(count, -1, dtype=np.int64)
    for token in range(n):
        n_visible = 0
        for pattern in range(patterns):
            low, high = ranges[pattern, token]
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
                position = always[entry]
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
                    for draw in range(min(k, total)):
                        none *= max(0.0, (total - seen[kind] - draw) / (total - draw))
                    known[pattern, seen[kind], total] = none ** heads[pattern]
                if last[kind] != token:
                    last[kind] = token
                    visible[n_visible] = kind
                    n_visible += 1
                missed[kind] *= known[pattern, seen[kind], total]
                seen[kind] = 0
        for entry in range(n_visible):
            out[visible[entry]] += 1.0 - missed[visible[entry]]
            missed[visible[entry]] = 1.0
    return out


def type_of(token: str, surface: str) -> str:
    """A token's string without the tokenizer's marks, or its characters if those are bytes.

    >>> type_of("##ions", "ions"), type_of("Ġimage", "image"), type_of("âĢĿ", "”")
    ('ions', 'image', '”')
    """
    plain, lower = token.removeprefix("##").lstrip("Ġ▁"), surface.lower()
    if plain.lower() == lower:
        return plain
    letters = unicodedata.normalize("NFD", lower)  # uncased tokenizers have cafe for café
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return plain if plain.lower() == bare else surface


@dataclass
class Pending:
    """The layers of the current batch: members of every list, and what each token sees."""

    members: list[tuple[Array, Array]] = field(default_factory=list)  # text head token rank
    visible: list[tuple[HeadRanges, HeadRanges]] = field(default_factory=list)  # by direction, too
    mask: Bools = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))  # text token


@dataclass(frozen=True, eq=False)
class TextLists:
    """One text: the number of lists each type and position is on, and that expected by chance."""

    types: list[str]
    kinds: Ints  # token: its type, -1 if it is not kept
    mask: Bools  # token
    counts: dict[tuple[str, str], Ints]  # direction, type or position: group class
    chances: dict[tuple[str, str], list[Floats]]  # the same: group, class

    def rows(self, names: list[str], shown: int) -> dict[str, Array]:
        """The first `shown` members by direction, by type and position, and by group of layers."""
        blocks = []
        by_position = [self.types[kind] if kind >= 0 else "" for kind in self.kinds]
        for by, strings in (("type", self.types), ("position", by_position)):
            for group, name in enumerate(names):
                counts = {way: self.counts[way, by][group, : len(strings)] for way in DIRECTIONS}
                ranked = {way: _ranked(counts[way], shown) for way in DIRECTIONS}
                both = np.intersect1d(ranked["attended"], ranked["attending"])
                for way, best in ranked.items():
                    same = {"direction": way, "by": by, "layers": name}
                    block = {
                        **{key: np.full(len(best), value, object) for key, value in same.items()},
                        "rank": np.arange(len(best), dtype=np.int32),
                        "string": np.array([strings[number] for number in best], dtype=object),
                        "token": np.where(by == "type", -1, best).astype(np.int32),
                        "count": counts[way][best],
                        "chance": self.chances[way, by][group][best],
                        "tokens": np.full(len(best), len(self.kinds), dtype=np.int32),
                        "both": np.isin(best, both),
                    }
                    blocks.append(block)
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    def totals(self) -> Floats:
        """Counts, chances, occurrences and texts of each type: [type, total]."""
        size = len(self.types)
        counts = [self.counts[way, "type"][:, :size] for way in DIRECTIONS]  # group type
        chances = [np.stack(self.chances[way, "type"]) for way in DIRECTIONS]
        occurrences = np.bincount(self.kinds[self.mask], minlength=size)
        return np.concatenate([*counts, *chances, np.stack([occurrences, np.ones(size)])]).T


@dataclass
class TopKState(State):
    """Lists of each text, totals by type over the corpus, and the current batch."""

    topk: Rows
    types: Tally
    n_layers: int = field(default=0, metadata={"parameter": True})
    pending: Pending = field(default_factory=Pending, metadata={"parameter": True})


@dataclass(frozen=True, kw_only=True)
class TopK(Measure[TopKState]):
    """Which tokens are on most lists of the `k` attended and attending tokens?

    After Hou 2022, Algorithms 1 to 3: a token's lists in several heads are joined into one set, and
    a member counts once for each token whose set it is in. Counts are by type (all tokens with one
    string) and by position, for all chosen layers together and for each. Only tokens that `keep`
    keeps can be members; every token has lists. `chance` is the count expected if each head drew
    its lists at random from what it sees: with many heads it is high for every token. `topk` has
    the first `shown` of each text (`both`: also on the list of the other direction), `topk_types`
    those of the corpus.
    """

    name: ClassVar[str] = "topk"
    clause: ClassVar[str] = (
        "how often tokens are among the most attended and the most attending tokens of others, in "
        "the union of all heads, compared with lists drawn at random"
    )
    references: ClassVar[tuple[str, ...]] = ("hou2022",)
    k: int = option(10, "Number of tokens on each list.", at_least=1, at_most=1_000)
    keep: str | TokenMask = "keywords"
    layers: tuple[int, ...] | None = option(
        None, "Layers that count (None: all).", at_least=0, at_most=9_999
    )
    heads: tuple[int, ...] | None = option(
        None, "Heads that count (None: all).", at_least=0, at_most=9_999
    )
    shown: int = option(10, "Number of rows for each text.", at_least=1, at_most=10_000)

    def __post_init__(self) -> None:
        TokenMask.of(self.keep)
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
        width = 4 * len(self._groups(model.n_layers)) + 2
        return TopKState(Rows.empty(), Tally(width), model.n_layers)

    def _layers(self, count: int) -> Sequence[int]:
        return range(count) if self.layers is None else sorted(set(self.layers))

    def _groups(self, count: int) -> list[str]:
        """The groups of layers that are counted: all chosen ones, and each."""
        return ["all", *(f"L{number}" for number in self._layers(count))]

    def update(self, state: TopKState, layer: Attention) -> None:
        chosen, k = self._layers(state.n_layers), min(self.k, layer.n_tokens)
        if layer.index not in chosen:
            return
        lists = 2 * len(chosen) * layer.n_texts * layer.n_heads * layer.n_tokens
        advice = f"lower k from {self.k}, or truncate texts (--max-length)"
        check_bytes(self.name, 4 * lists * k, advice)
        pending, mask = state.pending, TokenMask.of(self.keep).mask(layer.batch)
        heads = sorted(set(range(layer.n_heads) if self.heads is None else self.heads))
        tops = layer.top_keys(k, mask), layer.top_queries(k, mask)
        keys, queries = (where.int().cpu().numpy()[:, heads] for _, where in tops)
        attended, attending = (
            visible if len(visible) == 1 else [visible[head] for head in heads]
            for visible in (layer.visible_ranges(), layer.visible_ranges(of_keys=True))
        )
        pending.members.append((keys, queries))
        pending.visible.append((attended, attending))
        pending.mask = mask.cpu().numpy()

    def finish_batch(self, state: TopKState, batch: Batch, outputs: Outputs) -> None:
        pending, state.pending = state.pending, Pending()
        names = self._groups(state.n_layers)
        kinds, types = _types(batch, pending.mask)
        positions = np.tile(np.arange(batch.n_tokens), (batch.n_texts, 1))
        most = max(1, max(map(len, types), default=0))
        counts = {}
        for way, members in zip(DIRECTIONS, zip(*pending.members, strict=True), strict=True):
            lists = np.stack(members)  # layer text head token rank
            counts[way, "type"] = member_counts(lists, kinds, most)
            counts[way, "position"] = member_counts(lists, positions, batch.n_tokens)
        heads = pending.members[0][0].shape[1]
        for text, strings in enumerate(types):
            if not strings:
                continue
            mask, own = pending.mask[text], {key: values[text] for key, values in counts.items()}
            visible = [
                [[ranges.of(text) for ranges in layer] for layer in side]
                for side in zip(*pending.visible, strict=True)
            ]
            classes = {
                "type": (kinds[text], len(strings)),
                "position": (np.where(mask, np.arange(batch.n_tokens), -1), batch.n_tokens),
            }
            chances = _chances_by_direction(visible, classes, heads, self.k)
            lists_of = TextLists(strings, kinds[text], mask, own, chances)
            columns = lists_of.rows(names, self.shown)
            rows = len(columns["rank"])
            ids = np.full(rows, batch.texts[text].id, dtype=object)
            state.topk.add(np.full(rows, batch.indices[text]), {"text": ids, **columns})
            state.types.add(strings, lists_of.totals())

    def result(self, state: TopKState) -> dict[str, pd.DataFrame]:
        strings, totals = state.types.table()
        names, groups = np.array(strings, dtype=object), self._groups(state.n_layers)
        counts, chances = totals[:, :-2].reshape(len(names), 2, 2, len(groups)).swapaxes(0, 1)
        parts = []
        for side, direction in enumerate(DIRECTIONS):
            for group, layers in enumerate(groups):
                best = _ranked(counts[:, side, group], CORPUS_ROWS)
                others = _ranked(counts[:, 1 - side, group], self.shown)
                rank = np.arange(len(best), dtype=np.int32)
                columns = {
                    "direction": direction,
                    "layers": layers,
                    "rank": rank,
                    "string": names[best],
                    "count": counts[best, side, group].astype(np.int64),
                    "chance": chances[best, side, group],
                    "occurrences": totals[best, -2].astype(np.int64),
                    "texts": totals[best, -1].astype(np.int64),
                    "both": np.isin(best, others) & (rank < self.shown),
                }
                parts.append(pd.DataFrame(columns))
        return {"topk": state.topk.frame(), "topk_types": pd.concat(parts, ignore_index=True)}


def _types(batch: Batch, mask: Bools) -> tuple[Ints, list[list[str]]]:
    """The type of each kept token (-1 for others): [text, token]; and the strings of types."""
    kinds = np.full(mask.shape, -1, dtype=np.int64)
    types: list[list[str]] = []
    for text, (tokens, surfaces) in enumerate(zip(batch.tokens, batch.surfaces, strict=True)):
        known: dict[str, int] = {}
        for token in np.nonzero(mask[text])[0]:
            kinds[text, token] = known.setdefault(
                type_of(tokens[token], surfaces[token]), len(known)
            )
        types.append(list(known))
    return kinds, types


def _ranked(counts: Array, size: int) -> Ints:
    """The entries with the largest counts above 0, the first among equals first."""
    order = np.argsort(-counts, kind="stable")[:size]
    return order[counts[order] > 0]


def _same_ranges(one: VisibleRanges, other: VisibleRanges) -> bool:
    return one is other or all(
        mine is theirs or (mine is not None and theirs is not None and np.array_equal(mine, theirs))
        for mine, theirs in zip(one, other, strict=True)
    )


def _chances_by_direction(
    visible: Sequence[Sequence[Sequence[VisibleRanges]]],
    classes: dict[str, tuple[Ints, int]],
    heads: int,
    k: int,
) -> dict[tuple[str, str], list[Floats]]:
    """The expected counts by direction, and by type and position; once if both see the same."""
    alike = all(
        _same_ranges(mine, theirs)
        for layer, other in zip(*visible, strict=True)
        for mine, theirs in zip(layer, other, strict=True)
    )
    chances: dict[tuple[str, str], list[Floats]] = {}
    attended, attending = DIRECTIONS
    for by, (kinds, size) in classes.items():
        known = chances[attended, by] = _chances(visible[0], kinds, size, heads, k)
        chances[attending, by] = known if alike else _chances(visible[1], kinds, size, heads, k)
    return chances


def _chances(
    side: Sequence[Sequence[VisibleRanges]], classes: Ints, size: int, heads: int, k: int
) -> list[Floats]:
    """Counts expected by chance, over all layers and for each; equal layers share theirs."""
    patterns: list[VisibleRanges] = []
    members: list[Counter[int]] = []  # of each layer, how many heads see by which pattern
    for layer in side:
        members.append(Counter())
        for ranges in layer:
            same = (number for number, known in enumerate(patterns) if _same_ranges(ranges, known))
            number = next(same, len(patterns))
            patterns += [ranges] if number == len(patterns) else []
            members[-1][number] += heads // len(layer)

    def expected(counts: Counter[int]) -> Floats:
        visible = [patterns[number] for number in counts]
        always = [np.nonzero(ranges.always & (classes >= 0))[0] for ranges in visible]
        n = len(classes)
        hidden = np.zeros((0, n, n), dtype=bool)
        if any(ranges.hidden is not None for ranges in visible):
            hidden = np.zeros((len(visible), n, n), dtype=bool)
            for number, ranges in enumerate(visible):
                hidden[number] = False if ranges.hidden is None else ranges.hidden
        counts_by_class: Floats = chance_counts(
            np.stack([np.stack([ranges.first, ranges.stop], -1) for ranges in visible]),
            hidden,
            np.concatenate(always),
            np.cumsum([0, *map(len, always)]),
            np.array([*counts.values()]),
            classes,
            size,
            k,
        )
        return counts_by_class

    keys = [tuple(sorted(counts.items())) for counts in members]
    once = {key: expected(counts) for key, counts in dict(zip(keys, members, strict=True)).items()}
    return [expected(sum(members, Counter())), *(once[key] for key in keys)]
