"""Training: batches of texts in random order, without padding; the best epoch on dev is kept."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from attlas.dynamics import kernels
from attlas.dynamics.experiment import OPTIMIZERS
from attlas.dynamics.layers import Network
from attlas.dynamics.ragged import Numbers, RaggedTexts
from attlas.support.errors import MeasureError

Floats = npt.NDArray[Any]
EVALUATED = 20_000  # tokens that are read at a time where representations depend on the text


@dataclass(frozen=True)
class Settings:
    """How a network is trained."""

    optimizer: str = "adagrad"
    learning_rate: float | None = None
    lr_decay: float = 0.001  # of Adagrad's learning rate, per step
    epochs: int = 40
    batch_size: int = 100
    l2: float = 0.0
    vw_penalty: float = 0.0
    patience: int | None = None
    seed: int = 0

    @property
    def rate(self) -> float:
        return OPTIMIZERS[self.optimizer] if self.learning_rate is None else self.learning_rate


@dataclass(eq=False)
class Table:
    """The vectors of words; the last row is that of unknown tokens (zeros, never trained)."""

    rows: npt.NDArray[np.float32]  # word + 1, dimension
    frozen: bool = False

    def vectors(self, ragged: RaggedTexts, rate: float = 0.0, seed: int = 0) -> Tensor:
        """The vectors of tokens with dropout: [token, dimension]."""
        source, ids = (
            (self.rows, ragged.ids)
            if ragged.states is None
            else (ragged.states, np.arange(len(ragged.ids)))
        )
        out = np.empty((len(ids), source.shape[1]), dtype=np.float32)
        kernels.gather_rows(source, ids, rate, seed, out)
        return torch.from_numpy(out)


class Rows:
    """The optimizer of a table, which updates only the rows of the words in a batch."""

    def __init__(self, table: Table, settings: Settings) -> None:
        self.table, self.settings, self.step = table, settings, 0
        self.slots = np.full(len(table.rows), -1, dtype=np.int32)
        self.memory = [
            np.zeros_like(table.rows)
            for _ in range({"adagrad": 1, "adam": 2}.get(settings.optimizer, 0))
        ]

    def learn(self, grad: Tensor, ragged: RaggedTexts, dropout: float, seed: int) -> None:
        """One step from the gradient of every token's vector."""
        self.step += 1
        most = min(len(ragged.ids), len(self.slots))
        rows = np.empty(most, dtype=np.int64)
        sums = np.empty((most, grad.shape[1]), dtype=np.float32)
        used = kernels.scatter(grad.numpy(), ragged.ids, dropout, seed, self.slots, rows, sums)
        rows, sums, rate = rows[:used], sums[:used], self.settings.rate
        known = rows < len(self.slots) - 1  # the vector of unknown tokens stays
        if not known.all():
            rows, sums = rows[known], sums[known]
        if self.settings.optimizer == "adagrad":
            decayed = rate / (1 + (self.step - 1) * self.settings.lr_decay)
            kernels.adagrad(self.table.rows, *self.memory, rows, sums, decayed)
        elif self.settings.optimizer == "adam":
            kernels.adam(self.table.rows, *self.memory, rows, sums, rate, self.step)
        else:
            kernels.sgd(self.table.rows, rows, sums, rate)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A network and its table after an epoch; epoch 0 is before training."""

    epoch: int
    network: Network
    table: Table

    @property
    def contextual(self) -> bool:
        """Whether the representation of a token depends on its text."""
        return self.network.shape.encoder in ("lstm", "model")

    def by_word(self) -> tuple[Floats, Floats]:
        """Attention score [word + 1] and polarity [word + 1, output]; unknown tokens last."""
        vectors = torch.from_numpy(self.table.rows)
        return self._scores(vectors, np.arange(len(vectors) + 1))

    def _scores(self, vectors: Tensor, starts: Numbers) -> tuple[Floats, Floats]:
        """Attention scores and polarities of token vectors, text by text."""
        with torch.no_grad():
            states = self.network.encode(vectors, starts)
            return self.network.scores(states).numpy(), (states @ self.network.output.T).numpy()

    def by_token(self, ragged: RaggedTexts) -> tuple[Floats, Floats]:
        """Attention score [token] and polarity [token, output] of every token in its text."""
        if not self.contextual:
            scores, polarity = self.by_word()
            return scores[ragged.ids], polarity[ragged.ids]
        self.network.eval()
        parts = [self._scores(self.table.vectors(part), part.starts) for part in _parts(ragged)]
        scores, polarity = (np.concatenate(part) for part in zip(*parts, strict=True))
        return scores, polarity

    def read(self, ragged: RaggedTexts) -> Read:
        """Scores, weights and logits of texts, without dropout."""
        scores, polarity = self.by_token(ragged)
        weights = np.empty_like(scores)
        kernels.softmax(scores, ragged.starts, weights)
        logits = np.add.reduceat(weights[:, None] * polarity, ragged.starts[:-1])
        return Read(scores, polarity, weights, logits)


@dataclass(frozen=True, eq=False)
class Read:
    """Scores, polarities and weights of tokens, and logits of texts."""

    scores: Floats  # token
    polarity: Floats  # token output
    weights: Floats  # token
    logits: Floats  # text output

    @property
    def predictions(self) -> Numbers:
        """The most likely class of each text; of two, the second if its logit is above zero."""
        logits = self.logits
        return (logits[:, 0] > 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(-1)


def _parts(ragged: RaggedTexts) -> list[RaggedTexts]:
    """Texts in order, in parts of few tokens."""
    cuts, start = [0], 0
    for text in range(len(ragged)):
        if ragged.starts[text + 1] - ragged.starts[start] > EVALUATED and text > start:
            cuts.append(text)
            start = text
    return [ragged.take(np.arange(*ends)) for ends in pairwise([*cuts, len(ragged)])]


EpochCallback = Callable[[Snapshot, dict[str, Any]], None]  # gets the epoch's row of the history


@dataclass(frozen=True, eq=False)
class Trained:
    """The best snapshot, and one row per epoch: loss, accuracy on dev, V.W and norms."""

    best: Snapshot
    history: list[dict[str, Any]]


def train(
    network: Network,
    table: Table,
    ragged: RaggedTexts,
    codes: Numbers,
    dev: tuple[RaggedTexts, Numbers] | None,
    settings: Settings,
    on_epoch: EpochCallback = lambda snapshot, row: None,
) -> Trained:
    """Train a network and its table in place; without dev the last epoch is kept."""
    draw, generator = np.random.default_rng(settings.seed), torch.get_rng_state()
    torch.manual_seed(settings.seed)
    optimizer = _optimizer(network, settings)
    rows = None if table.frozen else Rows(table, settings)
    history: list[dict[str, Any]] = []
    best, kept, since = -1.0, Snapshot(0, network, table), 0
    try:
        loss = float("nan")
        for epoch in range(settings.epochs + 1):
            if epoch:
                loss = _epoch(network, table, rows, optimizer, ragged, codes, settings, draw)
            snapshot, accuracy = Snapshot(epoch, network, table), None
            if dev is not None:
                accuracy = float((snapshot.read(dev[0]).predictions == dev[1]).mean())
            history.append(
                {"epoch": epoch, "loss": loss, "dev_accuracy": accuracy, **norms(network)}
            )
            on_epoch(snapshot, history[-1])
            if not epoch:
                continue
            if accuracy is None or accuracy > best:
                best, since = accuracy or 0.0, 0
                if accuracy is not None or epoch == settings.epochs:
                    kept = Snapshot(
                        epoch,
                        copy.deepcopy(network),
                        Table(table.rows.copy() if rows else table.rows, table.frozen),
                    )
            else:
                since += 1
            if settings.patience is not None and since >= settings.patience:
                break
    finally:
        torch.set_rng_state(generator)
    kept.network.eval()
    return Trained(kept, history)


def _epoch(
    network: Network,
    table: Table,
    rows: Rows | None,
    optimizer: torch.optim.Optimizer,
    ragged: RaggedTexts,
    codes: Numbers,
    settings: Settings,
    draw: np.random.Generator,
) -> float:
    """Train on all texts once, in random order; returns the mean loss of the batches."""
    network.train()
    order, dropout, total = draw.permutation(len(ragged)), network.shape.dropout, 0.0
    for start in range(0, len(order), settings.batch_size):
        chosen = order[start : start + settings.batch_size]
        batch, seed = ragged.take(chosen), int(draw.integers(1 << 32))
        vectors = table.vectors(batch, dropout, seed).requires_grad_(rows is not None)
        logits, _ = network(vectors, batch.starts)
        loss = loss_of(logits, torch.from_numpy(codes[chosen]))
        total += float(loss.detach()) * len(chosen)
        if settings.vw_penalty:
            loss = loss + settings.vw_penalty * network.products().abs().sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if rows is not None:
            assert vectors.grad is not None
            rows.learn(vectors.grad, batch, dropout, seed)
    if not np.isfinite(total):
        raise MeasureError(
            f"the loss is not a number; use a smaller learning rate than {settings.rate:g}"
        )
    return total / len(order)


def loss_of(logits: Tensor, codes: Tensor) -> Tensor:
    """The mean cross-entropy; one output is the logit of the second of two classes."""
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits[:, 0], codes.to(logits.dtype))
    return F.cross_entropy(logits, codes)


def _optimizer(network: Network, settings: Settings) -> torch.optim.Optimizer:
    """The optimizer of all parameters but the table, with the L2 penalty on encoders."""
    penalised = network.encoders
    free = [one for one in network.parameters() if all(one is not other for other in penalised)]
    groups: list[dict[str, Any]] = [{"params": free}]
    if penalised:
        groups.append({"params": penalised, "weight_decay": settings.l2})
    if settings.optimizer == "adagrad":
        return torch.optim.Adagrad(groups, lr=settings.rate, lr_decay=settings.lr_decay)
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[settings.optimizer]
    return kind(groups, lr=settings.rate)


def norms(network: Network) -> dict[str, float]:
    """V.W (of several outputs the largest in absolute value), and the norms of V and W."""
    with torch.no_grad():
        products = network.products()
        return {
            "vw": float(products[products.abs().argmax()]),
            "v_norm": float(network.query.norm()),
            "w_norm": float(network.output.norm()),
        }
