"""Measure: one question about heads or tokens, answered by a state that starts, takes in layers, merges and reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import pandas as pd
from torch import Tensor

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.states import State
from attlas.support.errors import MeasureError
from attlas.support.fingerprint import Put, feed, feed_fields
from attlas.support.options import check_fields

S = TypeVar("S", bound=State)


class Shape(Protocol):
    """What a measure needs to know of a model before it starts."""

    @property
    def n_layers(self) -> int: ...

    @property
    def n_heads(self) -> int: ...


class Learned(Protocol):
    """What one backward pass of a batch taught, for measures that need the loss (models/differentiate.py)."""

    @property
    def places(self) -> tuple[int, ...]:
        """The texts' places in the corpus."""

    @property
    def loss(self) -> Tensor:
        """The loss of each text: [text]."""

    @property
    def gates(self) -> Tensor:
        """d loss / d gate of each head, [text, layer, head]; the gate is 1, so this is gradient times gate."""

    @property
    def taylor(self) -> Tensor | None:
        """Sum over a head's parameters of (gradient x parameter) squared, [text, layer, head]; None if its parameters are not known."""

    @property
    def layers(self) -> Sequence[Attention]:
        """The layers whose weights have a gradient, if that was asked for."""

    @property
    def gradients(self) -> Tensor | None:
        """The gradient times each head's parameters, summed over the texts, [layer, head, parameter]; None if not known or not asked for."""

    def ablated(self, texts: Sequence[int]) -> Tensor:
        """By how much the loss of some texts grows when each head is switched off, [text, layer, head]: a pass a head."""


class Measure(ABC, Generic[S]):
    """One question. Subclass it as a frozen dataclass of plain parameters; its `repr` goes into the manifest.

    `merge(a, b)` must be what the texts of `a` followed by those of `b` give, and `start` its neutral element:
    `attlas.testing.check_measure` proves it.
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuse a parameter outside the domain that its field declares (`attlas.support.options.option`)."""
        check_fields(self, MeasureError)

    costly: ClassVar[bool] = (
        False  # takes as long as the model's own pass or longer: no part of `all`, it must be named
    )

    @classmethod
    def among_all(cls) -> Self:
        """The measure as one of all of them: with what costs no more than the model's own pass."""
        return cls()

    @abstractmethod
    def start(self, model: Shape) -> S:
        """An empty state for a model of this shape."""

    @abstractmethod
    def update(self, state: S, layer: Attention) -> None:
        """Take in one layer of one batch. All layers of a batch come in order before the next batch."""

    def merge(self, left: S, right: S) -> S:
        """The state of the left texts followed by the right ones."""
        return left.merge(right)

    @abstractmethod
    def result(self, state: S) -> dict[str, pd.DataFrame]:
        """The tables, by name."""

    def conclude(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """Further tables, worked out from its own and from those of the measures beside it, once a study has them all (those with a row for each text or token aside)."""
        return {}


class LearningMeasure(Measure[S]):
    """A measure that learns from the gradients of the model's loss. It goes backward, so it must be named."""

    costly: ClassVar[bool] = True

    @property
    def needs_gradients(self) -> bool:
        """Whether it also learns from the gradients of all parameters of heads, which are large."""
        return False

    @property
    def needs_weights(self) -> bool:
        """Whether it also learns from the gradients of the attention weights of all layers."""
        return False

    @property
    def needs_loss(self) -> bool:
        """Whether only a real loss will do; if not, a model without a head is given a pseudo-loss."""
        return True

    @abstractmethod
    def learn(self, state: S, learned: Learned) -> None:
        """Take in what the backward pass of a batch taught, after all its layers."""


@dataclass
class Acted:
    """What an acting measure has to say of a batch beside its state: texts it left out, each with the reason, and counts for the manifest."""

    left_out: list[tuple[int, str]] = field(default_factory=list)  # place of the text, reason
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Acted) -> None:
        self.left_out += other.left_out
        self.counts.update(other.counts)


class ActingMeasure(Measure[S]):
    """A measure that runs the model itself, head and all, as it needs. It costs more than a pass, so it must be named."""

    costly: ClassVar[bool] = True

    def check(self, model: Any, labels: Mapping[str, int] | None = None) -> None:
        """Refuse, before any work, a model that it cannot use, or texts without the labels it needs (how many texts have each; None if not known)."""

    def update(self, state: S, layer: Attention) -> None:
        """Nothing is read from the study's own pass."""

    @abstractmethod
    def act(self, state: S, model: Any, batch: Batch) -> Acted:
        """Take in a batch, made for the whole network; a text that it cannot use is left out, and the others go on."""


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
            f"{measure} would hold {size / 2**30:,.1f} GiB (at most {MOST_BYTES / 2**30:.1f} GiB); {advice}"
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
