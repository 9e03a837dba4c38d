"""States that merge: records of arrays that start empty, take in batches, and add up in any order.

A measure's state is a `State`, a record of accumulators. Sums, Moments, HeadMeans, Histogram,
TopList, Sample, Tally and TypeSample are bounded; Rows grows with the corpus and is for tables with
one row per text or token: a study writes those out shard by shard and never holds them all.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from torch import Tensor

from attlas.core import kernels
from attlas.core.resampling import REPLICATES, Draws, draws
from attlas.stats.correlations import spearman
from attlas.stats.replicates import spearman_brown
from attlas.stats.student import student_quantile
from attlas.support.arrays import Array, Floats, Ints
from attlas.support.fingerprint import random_bytes

if TYPE_CHECKING:
    from attlas.core.attention import Attention

MOST_REPLICATED = 10_000  # heads times columns: 16 MB of a state
TIES = 6  # decimals of means that are ranked


def as_float_array(values: Any) -> Array:
    """An array or tensor as a contiguous array of floats on the CPU, its precision kept."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    values = np.ascontiguousarray(values)
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def flat(values: Array) -> Array:
    """[text, ...] as [text, cell]."""
    return values.reshape(len(values), int(np.prod(values.shape[1:])))


def floats(values: Any) -> Floats:
    """An array or tensor as float64 on the CPU."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def below(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): one for name, one in arrays.items() if name.startswith(prefix)
    }


@dataclass
class Accumulator(ABC):
    """Arrays that merge; `arrays` and `restored` carry them to and from a file."""

    @abstractmethod
    def merge(self, other: Self) -> Self: ...

    def arrays(self) -> dict[str, Array]:
        """The fields that are arrays, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def restored(self, arrays: Mapping[str, Array]) -> Self:
        """An accumulator of this form with these arrays."""
        return replace(self, **arrays)


@dataclass
class Sums(Accumulator):
    """Totals and counts."""

    total: Floats
    count: Floats

    @classmethod
    def zeros(cls, *shape: int) -> Sums:
        return cls(np.zeros(shape), np.zeros(shape))

    def add(self, where: Any, values: Any) -> None:
        """Add [text, ...] values at an index of the leading axes; NaN counts as absent."""
        values = floats(values)
        there = np.isfinite(values)
        self.total[where] += np.where(there, values, 0).sum(axis=0)
        self.count[where] += there.sum(axis=0)

    def mean(self) -> Floats:
        """Total over count; NaN where nothing was counted."""
        unknown = np.full(self.total.shape, np.nan)
        return np.divide(self.total, self.count, out=unknown, where=self.count > 0)

    def merge(self, other: Sums) -> Sums:
        return Sums(self.total + other.total, self.count + other.count)


@dataclass
class Moments(Accumulator):
    """Count, mean and sum of squared deviations, merged by Chan, Golub and LeVeque (1979)."""

    count: Floats
    mean: Floats
    squares: Floats

    @classmethod
    def zeros(cls, *shape: int) -> Moments:
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape))

    def add(self, where: int, values: Any) -> None:
        """Add [text, ...] values at an index of the first axis; non-finite values are skipped."""
        parts = (part[where : where + 1].reshape(-1) for part in self.arrays().values())
        kernels.add_moments(*parts, flat(as_float_array(values)))

    def merge(self, other: Moments) -> Moments:
        count = self.count + other.count
        share = np.divide(other.count, count, out=np.zeros(np.shape(count)), where=count > 0)
        delta = other.mean - self.mean
        return Moments(
            count,
            self.mean + delta * share,
            self.squares + other.squares + delta**2 * self.count * share,
        )

    def average(self) -> Floats:
        """The mean; NaN where nothing was counted."""
        return np.where(self.count > 0, self.mean, np.nan)

    def error(self) -> Floats:
        """Standard error of the mean over texts; NaN below two."""
        several, unknown = self.count > 1, np.full(self.count.shape, np.nan)
        variance = np.divide(self.squares, self.count - 1, out=unknown, where=several)
        return np.sqrt(np.divide(variance, self.count, out=variance, where=several))


@dataclass
class Replicates(Accumulator):
    """Bootstrap replicates of means over texts: totals in which each text counts as it is drawn.

    A text without a value for one head counts for no head in that column.
    """

    total: Floats  # layer head column replicate
    drawn: Floats  # layer column replicate: texts

    @classmethod
    def zeros(cls, n_layers: int, n_heads: int, n_columns: int) -> Replicates:
        """Start with all columns, or with the first ones that are not too many numbers."""
        kept = min(n_columns, MOST_REPLICATED // max(1, n_layers * n_heads))
        return cls(
            np.zeros((n_layers, n_heads, kept, REPLICATES)), np.zeros((n_layers, kept, REPLICATES))
        )

    def add(self, layer: int, values: Any, weights: Floats) -> None:
        """Add values [text, head, column] of texts that are drawn `weights` [text, replicate]."""
        kernels.add_weighted(self.total[layer], self.drawn[layer], as_float_array(values), weights)

    def merge(self, other: Replicates) -> Replicates:
        return Replicates(self.total + other.total, self.drawn + other.drawn)

    def means(self) -> Floats:
        """The mean in each replicate: [layer, head, column, replicate]; NaN without a text."""
        drawn, unknown = self.drawn[:, None], np.full(self.total.shape, np.nan)
        return np.divide(self.total, drawn, out=unknown, where=drawn > 0)


@dataclass
class Histogram(Accumulator):
    """Counts in equal bins of [low, high]; a value on or past an end goes into the end bin."""

    counts: Ints  # ..., bin
    low: float = 0.0
    high: float = 1.0

    @classmethod
    def zeros(cls, *shape: int, bins: int, low: float = 0.0, high: float = 1.0) -> Histogram:
        return cls(np.zeros((*shape, bins), dtype=np.int64), low, high)

    def add(self, where: int, values: Any) -> None:
        """Add [head, value] values to the heads of layer `where`; skip non-finite values."""
        kernels.add_histogram(self.counts[where], as_float_array(values), self.low, self.high)

    def edges(self) -> Floats:
        return np.linspace(self.low, self.high, self.counts.shape[-1] + 1)

    def merge(self, other: Histogram) -> Histogram:
        return replace(self, counts=self.counts + other.counts)


@dataclass
class TopList(Accumulator):
    """The texts with the highest scores for each cell of a grid (a head, say).

    Among equal scores the earlier text wins, so the list does not depend on the order of arrival.
    An empty slot is -inf at -1.
    """

    scores: Floats  # ..., rank
    indices: Ints  # ..., rank

    @classmethod
    def empty(cls, *shape: int, size: int) -> TopList:
        return cls(np.full((*shape, size), -np.inf), np.full((*shape, size), -1, dtype=np.int64))

    def add(self, where: int, scores: Any, indices: Any) -> None:
        """Offer scores [text, ...] of texts [text] at an index of the first axis, if finite."""
        scores, size = as_float_array(scores), self.scores.shape[-1]
        kernels.add_top(
            self.scores[where].reshape(-1, size),
            self.indices[where].reshape(-1, size),
            flat(scores),
            np.asarray(indices, dtype=np.int64),
        )

    def merge(self, other: TopList) -> TopList:
        scores = np.concatenate([self.scores, other.scores], axis=-1)
        indices = np.concatenate([self.indices, other.indices], axis=-1)
        indices = np.where(np.isneginf(scores), -1, indices)
        order = np.lexsort([indices, -scores], axis=-1)[..., : self.scores.shape[-1]]
        return TopList(*(np.take_along_axis(one, order, -1) for one in (scores, indices)))

    def arrays(self) -> dict[str, Array]:
        return {"scores": self.scores, "places": self.indices}

    def restored(self, arrays: Mapping[str, Array]) -> TopList:
        return TopList(arrays["scores"], arrays["places"])


@dataclass
class Sample(Accumulator):
    """The entries with the smallest keys: if keys are hashes, a sample without replacement.

    An entry among the smallest of all is among the smallest of its part, so that merging is exact
    (bottom-k sketches, Cohen and Kaplan 2007). Among equal keys the smaller tie wins. An entry is a
    key, a tie and arrays by name, whose shapes may differ from entry to entry.
    """

    size: int
    entries: list[tuple[int, int, Mapping[str, Array]]] = field(default_factory=list)  # in order

    def entering(self, keys: Sequence[int], ties: Sequence[int]) -> list[int]:
        """Which of some new entries, known by key and tie, would be in the sample."""
        new = [(key, tie, number) for number, (key, tie) in enumerate(zip(keys, ties, strict=True))]
        every = sorted([*((key, tie, -1) for key, tie, _ in self.entries), *new])
        return sorted(number for _, _, number in every[: self.size] if number >= 0)

    def add(self, key: int, tie: int, arrays: Mapping[str, Array]) -> None:
        """Offer an entry."""
        self.entries = self._smallest([*self.entries, (key, tie, arrays)])

    def _smallest(
        self, entries: list[tuple[int, int, Mapping[str, Array]]]
    ) -> list[tuple[int, int, Mapping[str, Array]]]:
        return sorted(entries, key=lambda entry: entry[:2])[: self.size]

    def merge(self, other: Sample) -> Sample:
        return Sample(self.size, self._smallest(self.entries + other.entries))

    def arrays(self) -> dict[str, Array]:
        """Keys, ties, and for each name the values of all entries in a row, and their shapes."""
        out = {
            "keys": np.array([key for key, _, _ in self.entries], dtype=np.int64),
            "ties": np.array([tie for _, tie, _ in self.entries], dtype=np.int64),
        }
        for name in self.entries[0][2] if self.entries else ():
            parts = [arrays[name] for _, _, arrays in self.entries]
            out[f"values.{name}"] = np.concatenate([part.reshape(-1) for part in parts])
            out[f"shapes.{name}"] = np.array([part.shape for part in parts], dtype=np.int64)
        return out

    def restored(self, arrays: Mapping[str, Array]) -> Sample:
        parts = {}
        for name, values in below("values.", arrays).items():
            shapes = arrays[f"shapes.{name}"]
            ends = np.cumsum(shapes.prod(axis=1))[:-1]
            cut = zip(np.split(values, ends), shapes.tolist(), strict=True)
            parts[name] = [part.reshape(shape) for part, shape in cut]
        pairs = zip(arrays["keys"].tolist(), arrays["ties"].tolist(), strict=True)
        return Sample(
            self.size,
            [
                (key, tie, {name: part[number] for name, part in parts.items()})
                for number, (key, tie) in enumerate(pairs)
            ],
        )


@dataclass
class Tally(Accumulator):
    """Totals by string (a token type, say): a row of numbers for each string."""

    width: int
    rows: dict[str, Floats] = field(default_factory=dict)

    def add(self, strings: Sequence[str], values: Array) -> None:
        """Add a row of numbers to each string: values [string, column]."""
        for string, row in zip(strings, values, strict=True):
            known = self.rows.get(string)
            self.rows[string] = row.astype(np.float64) if known is None else known + row

    def merge(self, other: Tally) -> Tally:
        both = Tally(self.width, dict(self.rows))
        both.add(list(other.rows), np.array(list(other.rows.values())))
        return both

    def table(self) -> tuple[list[str], Floats]:
        """The strings in order, and their totals [string, column]."""
        strings = sorted(self.rows)
        totals = np.array([self.rows[string] for string in strings])
        return strings, totals.reshape(len(strings), self.width)

    def arrays(self) -> dict[str, Array]:
        strings, totals = self.table()
        return {
            "strings": np.frombuffer(json.dumps(strings).encode(), dtype=np.uint8),
            "totals": totals,
        }

    def restored(self, arrays: Mapping[str, Array]) -> Tally:
        strings = json.loads(arrays["strings"].tobytes())
        return Tally(self.width, dict(zip(strings, arrays["totals"], strict=True)))


@dataclass
class TypeSample(Tally):
    """Totals by string of the `size` strings with the smallest hashes, and of those in `always`.

    A string among the smallest of all is among the smallest of every part in which it occurs, so
    that no part has dropped it: merging is exact, in any order.
    """

    size: int = 0
    always: frozenset[str] = frozenset()

    def smallest(self, strings: Iterable[str]) -> list[str]:
        """Which of the sampled strings and these ones a sample of all of them would keep."""
        every = {*self.rows, *strings}
        drawn = sorted(every - self.always, key=lambda one: (string_hash(one), one))
        return [*sorted(every & self.always), *drawn[: self.size]]

    def add(self, strings: Sequence[str], values: Array) -> None:
        """Add a row of numbers to each string: values [string, column]."""
        super().add(strings, values)
        self.rows = {one: self.rows[one] for one in self.smallest(())}

    def merge(self, other: Tally) -> TypeSample:
        return self._with(super().merge(other))

    def restored(self, arrays: Mapping[str, Array]) -> TypeSample:
        return self._with(super().restored(arrays))

    def _with(self, tally: Tally) -> TypeSample:
        """A sample of this form from the totals of a tally."""
        out = replace(self, rows=tally.rows)
        out.rows = {one: out.rows[one] for one in out.smallest(())}
        return out


@lru_cache(maxsize=2**16)
def string_hash(string: str) -> int:
    """A number that is the same on every machine, and evenly spread over strings."""
    return int.from_bytes(random_bytes(string, 8), "big")


@dataclass
class Rows(Accumulator):
    """A table with one row per text or token; merging joins rows, reading sorts them.

    Each block is the rows of one batch: `place` (the text's index in the corpus) and the columns,
    all of one length. Many numbers per row are kept as one matrix, `wide`, whose columns have
    `names`. A study streams rows to disk as tables, so `arrays` is empty.
    """

    blocks: list[dict[str, Array]]
    names: tuple[str, ...] = ()

    @classmethod
    def empty(cls, names: tuple[str, ...] = ()) -> Rows:
        return cls([], names)

    def add(self, indices: Array, columns: Mapping[str, Array], wide: Array | None = None) -> None:
        """Add rows: the index of the text of each row, the columns, and the matrix [row, name]."""
        block = {"place": np.asarray(indices, dtype=np.int64), **columns}
        self.blocks.append(block if wide is None else {**block, "wide": wide})

    def merge(self, other: Rows) -> Rows:
        return Rows(self.blocks + other.blocks, self.names)

    def frame(self) -> pd.DataFrame:
        """All rows in corpus order, without `place`."""
        if not self.blocks:
            return pd.DataFrame()
        order = np.argsort(np.concatenate([block["place"] for block in self.blocks]), kind="stable")
        joined = {
            name: np.concatenate([block[name] for block in self.blocks])[order]
            for name in self.blocks[0]
            if name != "place"
        }
        wide = joined.pop("wide", None)
        narrow = pd.DataFrame(joined)
        if wide is None:
            return narrow
        return pd.concat([narrow, pd.DataFrame(wide, columns=list(self.names))], axis=1)

    def arrays(self) -> dict[str, Array]:
        return {}

    def restored(self, arrays: Mapping[str, Array]) -> Rows:
        return Rows.empty(self.names)


@dataclass
class Record(Accumulator):
    """Accumulators side by side.

    A field with `metadata={"parameter": True}` is not an accumulator.
    """

    def parts(self) -> dict[str, Accumulator]:
        return {
            part.name: getattr(self, part.name)
            for part in fields(self)
            if not part.metadata.get("parameter")
        }

    def merge(self, other: Self) -> Self:
        """This record and another one, as if their texts had come one after the other."""
        theirs = other.parts()
        merged = {name: mine.merge(theirs[name]) for name, mine in self.parts().items()}
        return replace(self, **merged)

    def arrays(self) -> dict[str, Array]:
        """Everything bounded, by `field.array`."""
        return {
            f"{name}.{key}": array
            for name, part in self.parts().items()
            for key, array in part.arrays().items()
        }

    def restored(self, arrays: Mapping[str, Array]) -> Self:
        """A record of this form with the arrays that `arrays` gave; Rows come back empty."""
        own = {name: below(f"{name}.", arrays) for name in self.parts()}
        restored = {name: part.restored(own[name]) for name, part in self.parts().items()}
        return replace(self, **restored)


@dataclass
class HeadMeans(Record):
    """Means over texts of the values of every head, next to those of uniform attention.

    For intervals of what has no closed form, and of differences between models, there are bootstrap
    replicates; for the reliability of a ranking of heads, sums over two halves of the texts.
    """

    mean: Moments  # layer head column
    uniform: Moments  # layer head column
    difference: Moments  # layer head column: of the two, text by text
    replicates: Replicates
    halves: Sums  # layer half head column
    shares: bool = field(default=False, metadata={"parameter": True})  # of attention: from 0 to 1

    @classmethod
    def zeros(
        cls, n_layers: int, n_heads: int, n_columns: int, *, shares: bool = False
    ) -> HeadMeans:
        shape = (n_layers, n_heads, n_columns)
        mean, uniform, difference = (Moments.zeros(*shape) for _ in range(3))
        halves = Sums.zeros(n_layers, 2, n_heads, n_columns)
        return cls(mean, uniform, difference, Replicates.zeros(*shape), halves, shares)

    def add(self, layer: Attention, values: Any, control: Any) -> None:
        """Add values [text, head, column] of a layer; the control may have one head for all."""
        values, control = as_float_array(values), as_float_array(control)
        self.mean.add(layer.index, values)
        self.uniform.add(layer.index, np.broadcast_to(control, values.shape))
        self.difference.add(layer.index, values - control)
        drawn: Draws = layer.batch.once("draws", lambda: draws(layer.batch.texts))
        self.replicates.add(layer.index, values, drawn.weights)
        for half in (0, 1):
            self.halves.add((layer.index, half), values[drawn.half == half])

    def columns(self) -> dict[str, Floats]:
        """Means, controls and standard errors, for `head_table`: [layer, head, column] each."""
        return {
            "mean": self.mean.average(),
            "uniform": self.uniform.average(),
            "error": self.mean.error(),
            "difference_error": self.difference.error(),
        }

    def widest_half(self) -> float:
        """Half of the widest 95% interval of a mean; infinite if one has fewer than two texts.

        A column without any text, as [CLS] has in a model without it, is left out.
        """
        count = self.mean.count
        if not count.any() or (count == 1).any():
            return math.inf
        halves = student_quantile(0.975, count) * self.mean.error()
        return float(halves[count > 0].max())

    def reliability(self) -> dict[str, Floats]:
        """How alike the two halves rank all heads, and how many texts they have: [column] each.

        Means that differ by less than rounding would let them are ties.
        """
        means = np.moveaxis(self.halves.mean(), 1, 0).round(TIES)  # half layer head column
        first, second = means.reshape(2, -1, means.shape[-1])
        pairs = zip(first.T, second.T, strict=True)
        correlations = np.array([spearman(one, other) for one, other in pairs])
        texts = self.halves.count.max(axis=(0, 2))  # half column
        return {
            "spearman": correlations,
            "reliability": spearman_brown(correlations),
            "first_texts": texts[0],
            "second_texts": texts[1],
        }


@dataclass
class State(Record):
    """A measure's state: a record whose fields are accumulators; subclass it as a dataclass.

    A field of kind Rows is streamed: its rows become the table of that name. A field with
    `metadata={"parameter": True}` is not an accumulator: it came from `start`, or belongs to the
    current batch.
    """

    def streamed(self) -> dict[str, Rows]:
        """The parts that grow with the corpus."""
        return {name: part for name, part in self.parts().items() if isinstance(part, Rows)}
