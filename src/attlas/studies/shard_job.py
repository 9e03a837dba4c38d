"""One shard through the model: in lanes that workers share, merged in order, written whole.

A lane is a fixed part of the batches of a shard, run by one worker with states of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from attlas.core.annotations import WHERE
from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.measure import BACKWARD, BatchReport, Measure, Outputs, union_of_needs
from attlas.core.states import State
from attlas.core.text import Text
from attlas.models import Model
from attlas.models.differentiate import differentiate
from attlas.models.encode import Encoded
from attlas.studies.engines import Task
from attlas.studies.shards import Shard
from attlas.studies.store import ShardStore
from attlas.support.errors import AttlasError

LANES = 4  # fixed, as shards are: results must not depend on the number of workers


class ShardJob:
    """The work of one shard; lanes get its batches in turn, to take about the same time."""

    def __init__(
        self,
        model: Model,
        measures: Sequence[Measure[Any]],
        store: ShardStore,
        shard: Shard,
        key: str,
        on_progress: Callable[[int], None],
    ) -> None:
        self.model, self.measures, self.store = model, measures, store
        self.shard, self.key, self.on_progress = shard, key, on_progress
        encoded = model.encode(shard.texts)
        self.read = [text for text in encoded if not all(text.special)]
        self.without_tokens = [text for text in encoded if all(text.special)]
        groups = list(model.encoder.groups(self.read))
        self.lanes = [groups[lane::LANES] for lane in range(LANES) if groups[lane::LANES]] or [[]]
        self.states: dict[int, dict[str, State]] = {}
        self.reports: dict[str, BatchReport] = {}
        self.lock = threading.Lock()

    def tasks(self) -> list[Task]:
        """One task per lane; the lane that ends last finishes the shard."""
        return [partial(self.run_lane, lane) for lane in range(len(self.lanes))]

    def run_lane(self, lane: int, stop: threading.Event) -> None:
        """Run the batches of one lane and, if it is the last, write the shard."""
        states = {measure.name: measure.start(self.model) for measure in self.measures}
        with self._running(states) as run:
            for group in self.lanes[lane]:
                if stop.is_set():
                    return
                with _texts_in_errors(group):
                    run(group)
                self.on_progress(len(group))
        with self.lock:
            self.states[lane] = states
            last = len(self.states) == len(self.lanes)
        if last:
            self.finish()

    @contextmanager
    def _running(self, states: dict[str, State]) -> Iterator[Callable[[Sequence[Encoded]], None]]:
        """While open, a function that takes a group of texts through the model and all measures."""
        model, needs = self.model, union_of_needs(self.measures)
        readers = [measure for measure in self.measures if "network" not in measure.needs]
        runners = [measure for measure in self.measures if "network" in measure.needs]

        def take(layer: Attention) -> None:
            for measure in readers:
                measure.update(states[measure.name], layer)

        shared = union_of_needs(readers)

        def run(group: Sequence[Encoded]) -> None:
            """One pass for those that read it; then the others run the model themselves."""
            encoder = model.full_encoder if shared & BACKWARD else model.encoder
            if readers:
                batch = encoder.batch(group, model.device)
                self._finish_batch(readers, states, batch, outputs_of(model, batch, shared, take))
            for measure in runners:
                batch = model.full_encoder.batch(group, model.device)
                outputs = outputs_of(model, batch, measure.needs)
                self._finish_batch([measure], states, batch, outputs)

        if needs:
            yield run
            return
        with model.reading(take) as read:  # set up once for all batches

            def read_and_finish(group: Sequence[Encoded]) -> None:
                batch = model.encoder.batch(group, model.device)
                read(batch)
                self._finish_batch(readers, states, batch, Outputs())

            yield read_and_finish

    def _finish_batch(
        self,
        measures: Sequence[Measure[Any]],
        states: dict[str, State],
        batch: Batch,
        outputs: Outputs,
    ) -> None:
        for measure in measures:
            report = measure.finish_batch(states[measure.name], batch, outputs)
            if report is not None:
                with self.lock:
                    self.reports.setdefault(measure.name, BatchReport()).add(report)

    def finish(self) -> None:
        """Merge the lanes in order and write states, rows of streamed tables and excluded texts."""
        states = self.states[0]
        for lane in range(1, len(self.lanes)):
            states = {
                one.name: one.merge(states[one.name], self.states[lane][one.name])
                for one in self.measures
            }
        quarantine: list[dict[str, Any]] = [
            {"place": index, "id": row.id, "where": row.where, "reason": row.reason}
            for index, row in self.shard.bad
        ]
        quarantine += [excluded_row(text.index, text.text) for text in self.without_tokens]
        counts = pass_counts(self.shard.n_rows, self.read, len(quarantine))
        texts = {text.index: text.text for text in self.read}
        names = [one.name for one in self.measures if one.name in self.reports]
        for name, report in ((name, self.reports[name]) for name in names):
            counts |= {what: report.counts[what] for what in sorted(report.counts)}
            quarantine += [
                {
                    "place": index,
                    "id": texts[index].id,
                    "where": _where(texts[index]),
                    "measure": name,
                    "reason": reason,
                }
                for index, reason in report.excluded
            ]
        arrays = {
            f"{name}/{key}": array
            for name, state in states.items()
            for key, array in state.arrays().items()
        }
        rows = {
            name: part.frame()
            for state in states.values()
            for name, part in state.streamed().items()
        }
        record = {"counts": counts, "quarantine": sorted(quarantine, key=lambda row: row["place"])}
        self.store.write(
            self.shard.index, self.key, record, arrays, {"texts": self._texts(), **rows}
        )
        self.on_progress(counts["quarantined"])

    def _texts(self) -> pd.DataFrame:
        """The table `texts`: one row per text."""
        texts = self.read
        return pd.DataFrame(
            {
                "text": [text.text.id for text in texts],
                "place": np.array([text.index for text in texts], dtype=np.int64),
                "label": np.array([text.text.label for text in texts], dtype=object),
                "tokens": np.array([len(text) for text in texts], dtype=np.int64),
                "cut": np.array([text.truncated_by for text in texts], dtype=np.int64),
                "content": [text.text.text for text in texts],
            }
        )


def outputs_of(
    model: Any, batch: Batch, needs: frozenset[str], sink: Callable[[Attention], None] | None = None
) -> Outputs:
    """Run a batch as far as these needs require, each layer going to `sink`."""
    backward = None
    if needs & BACKWARD:
        heads, weights = "head_gradients" in needs, "weight_gradients" in needs
        backward = differentiate(model, batch, sink, gradients=heads, weights=weights)
    elif sink is not None:
        model.forward(batch, sink)
    return Outputs(backward, model if "network" in needs else None)


@contextmanager
def _texts_in_errors(group: Sequence[Encoded]) -> Iterator[None]:
    """Add the texts to an error."""
    try:
        yield
    except AttlasError as error:
        named = ", ".join(text.text.id[:80] for text in group[:3])
        raise type(error)(f"{error} (texts {named}{' ...' if len(group) > 3 else ''})") from error


def pass_counts(read: int, kept: Sequence[Encoded], quarantined: int) -> dict[str, int]:
    """Numbers of texts and tokens that a pass read, analysed, excluded and truncated."""
    return {
        "read": read,
        "analysed": len(kept),
        "quarantined": quarantined,
        "truncated": sum(text.truncated_by > 0 for text in kept),
        "tokens": sum(map(len, kept)),
        "tokens_cut": sum(text.truncated_by for text in kept),
    }


def excluded_row(index: int, text: Text) -> dict[str, Any]:
    """The row of `quarantine.jsonl` for a text without a token."""
    reason = "the tokenizer makes no token of it"
    return {"place": index, "id": text.id, "where": _where(text), "reason": reason}


def _where(text: Text) -> str:
    return str(text.annotations.get(WHERE, ""))
