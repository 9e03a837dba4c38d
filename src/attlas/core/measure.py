"""Measure: one question about heads or tokens, answered from a stream of attention layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import pandas as pd
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.states import HeadMeans, State
from attlas.support.errors import MeasureError
from attlas.support.fingerprint import Put, feed, feed_fields
from attlas.support.options import check_fields

S = TypeVar("S", bound=State)
T = TypeVar("T")


class Shape(Protocol):
    """What a measure needs to know of a model before it starts."""

    @property
    def n_layers(self) -> int: ...

    @property
    def n_heads(self) -> int: ...


BACKWARD = frozenset({"loss", "weight_gradients", "head_gradients"})  # computed by a backward pass
NEEDS = BACKWARD | {"network"}


class Gradients(Protocol):
    """What the backward pass of a batch gives (models/differentiate.py)."""

    @property
    def loss(self) -> Tensor:
        """The loss of each text: [text]."""

    @property
    def gates(self) -> Tensor:
        """d loss / d gate of each head, for a gate of 1 on its output: [text, layer, head]."""

    @property
    def taylor(self) -> Tensor | None:
        """(gradient x parameter) squared, summed over a head's parameters: [text, layer, head].

        None if the parameters of heads are not known.
        """

    @property
    def layers(self) -> Sequence[Attention]:
        """The layers with the gradients of their weights, for `weight_gradients`."""

    @property
    def head_gradients(self) -> Tensor | None:
        """Gradient x parameter, summed over texts: [layer, head, parameter]; None if not known."""

    def ablated(self, texts: Sequence[int]) -> Tensor:
        """Increase in loss without each head: [text, layer, head]; one pass per text and head."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a batch gave beyond its weights, as far as a measure's `needs` declare it."""

    backward: Gradients | None = None
    model: Any = None

    @property
    def gradients(self) -> Gradients:
        """Loss and gradients, for `loss`, `weight_gradients` and `head_gradients`."""
        return self._declared(self.backward, BACKWARD)

    @property
    def network(self) -> Any:
        """The model, head included, for `network`."""
        return self._declared(self.model, NEEDS - BACKWARD)

    @staticmethod
    def _declared(value: T | None, needs: frozenset[str]) -> T:
        if value is None:
            raise MeasureError(
                "this measure uses more than attention weights; "
                f"declare it in `needs`: {', '.join(sorted(needs))}"
            )
        return value


@dataclass
class BatchReport:
    """Texts of a batch that a measure excluded, with reasons, and counts for the manifest."""

    excluded: list[tuple[int, str]] = field(default_factory=list)  # index of the text, reason
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, other: BatchReport) -> None:
        self.excluded += other.excluded
        self.counts.update(other.counts)


class Measure(ABC, Generic[S]):
    """One question. Subclass it as a frozen dataclass of plain parameters.

    `merge(a, b)` must equal the state of the texts of `a` followed by those of `b`, and the state
    that `start` returns must be its neutral element: `attlas.testing.check_measure` tests both.
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()  # beyond the weights: some of NEEDS
    clause: ClassVar[str] = ""  # what it computes and its control, for a methods paragraph
    references: ClassVar[tuple[str, ...]] = ()  # papers that it follows: keys of references.bib
    costly: ClassVar[bool] = False  # costs a forward pass or more: not part of `all`
    own: ClassVar[bool] = False  # asks what its parameters say: not part of `all`
    # how a report reads the columns of a measure that has no section: NAME -> above or below the
    # control NAME_uniform, signed, or plain
    kinds: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        """Refuse a parameter outside the domain that its field declares."""
        check_fields(self, MeasureError)

    @classmethod
    def default(cls) -> Self:
        """The measure as part of `all`: without options that cost a forward pass or more."""
        return cls()

    def check(self, model: Any, labels: Mapping[str, int] | None = None) -> None:
        """Refuse, before any work, a model or labels (name to number of texts) it cannot use."""

    @abstractmethod
    def start(self, model: Shape) -> S:
        """An empty state for a model of this shape."""

    def update(self, state: S, layer: Attention) -> None:
        """Take in one layer of one batch, in order; not called for measures that need `network`."""

    def finish_batch(self, state: S, batch: Batch, outputs: Outputs) -> BatchReport | None:
        """Take in what follows from all layers of a batch, after the last one, and its outputs."""
        return None

    def merge(self, left: S, right: S) -> S:
        """The state of the left texts followed by the right ones."""
        return left.merge(right)

    @abstractmethod
    def result(self, state: S) -> dict[str, pd.DataFrame]:
        """The tables, by name."""

    def derive(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """Further tables, derived from those of all measures of a finished study.

        Tables with one row per text or token are not among them.
        """
        return {}


def union_of_needs(measures: Iterable[Measure[Any]]) -> frozenset[str]:
    """What these measures need together, beyond the weights."""
    needs: frozenset[str] = frozenset()
    for measure in measures:
        if unknown := measure.needs - NEEDS:
            raise MeasureError(
                f"{measure.name} needs {', '.join(sorted(unknown))}; "
                f"a measure can need {', '.join(sorted(NEEDS))}"
            )
        needs |= measure.needs
    return needs


@feed.register(Measure)
def _(measure: Any, put: Put) -> None:
    """Its class with all parameters."""
    if is_dataclass(measure):
        feed_fields(measure, put)
    else:
        feed((type(measure), vars(measure)), put)


MOST_BYTES = 4 * 2**30  # of what a measure may hold


def check_bytes(measure: str, size: int, advice: str) -> None:
    """Refuse parameters that need more memory than a measure may hold.

    >>> check_bytes("topk", 2**40, "lower k")
    Traceback (most recent call last):
        ...
    attlas.support.errors.MeasureError: topk would hold 1,024.0 GiB (at most 4.0 GiB); lower k
    """
    if size > MOST_BYTES:
        raise MeasureError(
            f"{measure} would hold {size / 2**30:,.1f} GiB "
            f"(at most {MOST_BYTES / 2**30:.1f} GiB); {advice}"
        )


def head_frame(n_layers: int, n_heads: int, columns: Mapping[str, Any]) -> pd.DataFrame:
    """A table with a row for each head: `layer head` and then numbers, from arrays [layer, head].

    >>> head_frame(1, 2, {"entropy": np.array([[0.5, 1.5]])})
       layer  head  entropy
    0      0     0      0.5
    1      0     1      1.5
    """
    layer, head = np.divmod(np.arange(n_layers * n_heads), n_heads)
    return pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            **{
                name: np.asarray(values, dtype=np.float64).reshape(-1)
                for name, values in columns.items()
            },
        }
    )


def head_table(names: Sequence[str], mean: Any, **others: Any) -> pd.DataFrame:
    """A table with one row per head, from arrays [layer, head, name]: NAME, then NAME_OTHER, ...

    >>> head_table(["self"], np.array([[[0.5]]]), uniform=np.array([[[0.1]]]))
       layer  head  self  self_uniform
    0      0     0   0.5           0.1
    """
    arrays = {"": mean, **{f"_{other}": values for other, values in others.items()}}
    columns = {
        f"{name}{end}": values[..., number]
        for number, name in enumerate(names)
        for end, values in arrays.items()
    }
    return head_frame(mean.shape[0], mean.shape[1], columns)


REPLICATES, RELIABILITY = "_replicates", "_reliability"  # the names of tables end so


def companion_table(table: str, ending: str) -> str:
    """The name of a table that goes with a table of heads.

    >>> companion_table("betti_heads", REPLICATES), companion_table("surface", RELIABILITY)
    ('betti_replicates', 'surface_reliability')
    """
    return table.removesuffix("_heads") + ending


def head_tables(table: str, names: Sequence[str], heads: HeadMeans) -> dict[str, pd.DataFrame]:
    """The tables of means over texts: heads, their bootstrap replicates, reliability of rankings.

    A model with very many heads has replicates of the first columns only (`MOST_REPLICATED`).
    """
    means = heads.replicates.means()
    layer, head, replicate = (
        axis.reshape(-1) for axis in np.indices((*means.shape[:2], means.shape[3]))
    )
    values = {
        name: means[:, :, column].reshape(-1) for column, name in enumerate(names[: means.shape[2]])
    }
    replicates = {"layer": layer, "head": head, "replicate": replicate, **values}
    reliability = {"column": np.array(names, dtype=object), **heads.reliability()}
    return {
        table: head_table(names, **heads.columns()),
        companion_table(table, REPLICATES): pd.DataFrame(replicates),
        companion_table(table, RELIABILITY): pd.DataFrame(reliability),
    }
