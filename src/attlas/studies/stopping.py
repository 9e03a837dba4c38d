"""When have enough texts been read? When the 95% intervals of all shares are narrow enough.

The shares are those of attention that heads give to something: the columns of `surface`. Whole
shards are judged in their order, so that the answer depends neither on workers nor on
interruptions; shards that were read ahead do not count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from attlas.core.measure import Measure, Shape
from attlas.core.states import HeadMeans, State, below
from attlas.studies.store import ShardStore
from attlas.support.errors import StudyError


def shares_of(state: State) -> list[HeadMeans]:
    """The parts of a state that are means of shares."""
    parts = state.parts().values()
    return [part for part in parts if isinstance(part, HeadMeans) and part.shares]


@dataclass
class Stopping:
    """How many of the first shards it takes until all intervals are narrow enough."""

    until: float
    model: Shape
    measures: Sequence[Measure[Any]]
    store: ShardStore
    shards: int = 0  # that were judged
    widest: float = math.inf  # half of the widest interval of their shares
    states: dict[str, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        started = {measure.name: measure.start(self.model) for measure in self.measures}
        self.states = {name: state for name, state in started.items() if shares_of(state)}
        if not self.states:
            raise StudyError(
                "until is about shares of attention, and none of the measures has any; "
                "add the measure surface"
            )

    @property
    def reached(self) -> bool:
        return self.widest <= self.until

    def is_enough(self) -> bool:
        """Whether the finished shards are enough; each counts once all before it are finished."""
        while not self.reached and self.shards in self.store.folders:
            self._add(self.shards)
        return self.reached

    def _add(self, index: int) -> None:
        arrays = self.store.arrays(index)
        for measure in self.measures:
            if measure.name in self.states:
                own = measure.start(self.model).restored(below(f"{measure.name}/", arrays))
                self.states[measure.name] = measure.merge(self.states[measure.name], own)
        shares = (part for state in self.states.values() for part in shares_of(state))
        self.widest, self.shards = max(part.widest_half() for part in shares), index + 1

    def describe(self, rows: int) -> dict[str, Any]:
        """Why a study of a corpus of so many rows ended, for its manifest."""
        return {
            "half_width": self.until,
            "widest": round(self.widest, 6) if math.isfinite(self.widest) else None,
            "reached": self.reached,
            "corpus_rows": rows,
        }
