"""Dynamics: an epoch on SST vs. padded batches, and the terms of the flow vs. autograd.

SST is read from the folder ATTLAS_DATA if that is set; otherwise texts of its size and lengths are
drawn, with word frequencies by Zipf's law. The reference has the same model, batches and optimizer:
the vectors of all words in one dense table, texts padded to the longest of the batch, a mask filled
text by text, Adagrad over the whole table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from attlas.dynamics.flow import Parameters, autograd_flow, flow_terms
from attlas.dynamics.layers import Network, Shape
from attlas.dynamics.ragged import RaggedTexts, starts_of, to_ragged, vocabulary_of
from attlas.dynamics.training import Settings, Snapshot, Table, train
from benchmarks.table import Row, best_of

DIM, BATCH, DROPOUT, SCALE = 100, 100, 0.5, 10.0
TEXTS, WORDS = 6920, 14_000


class Padded(nn.Module):
    """The classifier over padded texts."""

    def __init__(self, words: int, encoder: str) -> None:
        super().__init__()
        self.table = nn.Embedding(words + 1, DIM, padding_idx=words)
        nn.init.uniform_(self.table.weight, -0.1, 0.1)
        self.layer = {
            "affine": lambda: nn.Linear(DIM, DIM, bias=False),
            "lstm": lambda: nn.LSTM(DIM, DIM, batch_first=True),
        }.get(encoder, nn.Identity)()
        self.query = nn.Parameter(torch.randn(DIM))
        self.output = nn.Linear(DIM, 1, bias=False)

    def forward(self, ids: Any, lengths: list[int]) -> Any:
        states = F.dropout(self.table(ids), DROPOUT, self.training)
        if isinstance(self.layer, nn.LSTM):
            packed = nn.utils.rnn.pack_padded_sequence(
                states, torch.tensor(lengths), batch_first=True, enforce_sorted=False
            )
            states = nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]
        else:
            states = self.layer(states)
        mask = torch.zeros(len(ids), ids.shape[1])
        for text, length in enumerate(lengths):
            mask[text, :length] = 1
        scores = (states @ self.query / SCALE).masked_fill(mask == 0, float("-inf"))
        pooled = (torch.softmax(scores, 1)[..., None] * states).sum(1)
        return self.output(F.dropout(pooled, DROPOUT, self.training))[:, 0]


def padded_epoch(
    model: Padded, optimizer: torch.optim.Optimizer, ragged: RaggedTexts, codes: Any, order: Any
) -> None:
    """All texts once, the padded way."""
    model.train()
    lengths = ragged.lengths
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        longest = int(lengths[chosen].max())
        ids = torch.full((len(chosen), longest), len(ragged.words))
        for row, text in enumerate(chosen):
            ids[row, : lengths[text]] = torch.from_numpy(
                ragged.ids[ragged.starts[text] : ragged.starts[text + 1]]
            )
        logits = model(ids, lengths[chosen].tolist())
        loss = F.binary_cross_entropy_with_logits(logits, torch.from_numpy(codes[chosen]).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def texts() -> tuple[RaggedTexts, Any]:
    """SST's training sentences, or texts like them."""
    root = os.environ.get("ATTLAS_DATA")
    if root:
        from attlas.papers.data import sst

        sentences = sst(Path(root), "train")
        tokens = [one.text.lower().split() for one in sentences]
        labels = np.array([int(one.label or 0) for one in sentences])
        return to_ragged(tokens, vocabulary_of(tokens)), labels
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.gamma(4, 4.8, TEXTS).astype(np.int64), 2, 52)
    ids = np.minimum(
        draw.zipf(1.3, int(lengths.sum())) - 1, draw.integers(0, WORDS, int(lengths.sum()))
    )
    return RaggedTexts(
        ids, starts_of(lengths), tuple(f"w{number}" for number in range(WORDS))
    ), draw.integers(0, 2, TEXTS)


def rows() -> Iterator[Row]:
    """An epoch of each encoder, then the flow."""
    ragged, codes = texts()
    order = np.random.default_rng(0).permutation(len(ragged))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for encoder, aim in (("none", "0.20"), ("affine", "-"), ("lstm", "-")):
        table = Table(
            np.random.default_rng(0)
            .uniform(-0.1, 0.1, (len(ragged.words) + 1, DIM))
            .astype(np.float32)
        )
        network = Network(Shape(len(ragged.words), DIM, 1, "dot", encoder, SCALE, DROPOUT))
        model = Padded(len(ragged.words), encoder)
        optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02, lr_decay=0.001)
        fast, slow = best_of(
            lambda network=network, table=table: train(
                network, table, ragged, codes, None, Settings(epochs=1, batch_size=BATCH)
            ),
            lambda model=model, optimizer=optimizer: padded_epoch(
                model, optimizer, ragged, codes, order
            ),
            repeats=3 if encoder != "lstm" else 1,
        )
        yield Row(
            f"an epoch of {len(ragged):,} texts, encoder {encoder}",
            fast,
            "padded, mask by loop, dense Adagrad",
            slow,
            aim,
        )
    network = Network(Shape(len(ragged.words), DIM, 1, "dot", "none", SCALE, DROPOUT))
    table = Table(
        np.random.default_rng(0).uniform(-0.1, 0.1, (len(ragged.words) + 1, DIM)).astype(np.float32)
    )
    parameters = Parameters.of(Snapshot(0, network, table))
    fast, slow = best_of(
        lambda: flow_terms(parameters, ragged, codes),
        lambda: autograd_flow(parameters, ragged, codes),
        repeats=1,
    )  # type: ignore[func-returns-value]
    yield Row(
        f"flow of {len(ragged.words):,} words, all six terms",
        fast,
        "automatic differentiation, sums only",
        slow,
        "-",
    )
    torch.set_num_threads(threads)
