"""Training: batches of texts in random order, every text as long as it is; the epoch that is best on dev is kept."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from attlas.dynamics import kernels
from attlas.dynamics.experiment import OPTIMIZERS
from attlas.dynamics.layers import Network
from attlas.dynamics.ragged import Bags, Numbers
from attlas.support.errors import MeasureError

Floats = npt.NDArray[Any]
EVALUATED = 20_000  # tokens of texts that are read at a time where a text must be read whole


@dataclass(frozen=True)
class Settings:
    """How a network is trained."""

    optimizer: str = "adagrad"
    learning_rate: float | None = None
    lr_decay: float = 0.001  # of Adagrad's rate, a step
    epochs: int = 40
    batch_size: int = 100
    l2: float = 0.0
    penalty: float = 0.0
    patience: int | None = None
    seed: int = 0

    @property
    def rate(self) -> float:
        return OPTIMIZERS[self.optimizer] if self.learning_rate is None else self.learning_rate


@dataclass(eq=False)
class Table:
    """The vectors of words, the last row those of tokens that are not known (zeros, never learnt)."""

    rows: npt.NDArray[np.float32]  # word + 1, dimension
    frozen: bool = False

    def vectors(self, bags: Bags, rate: float = 0.0, seed: int = 0) -> Tensor:
        """The vectors of tokens, some numbers dropped: [token, dimension]."""
        source, ids = (
            (self.rows, bags.ids)
            if bags.states is None
            else (bags.states, np.arange(len(bags.ids)))
        )
        out = np.empty((len(ids), source.shape[1]), dtype=np.float32)
        kernels.gather(source, ids, rate, seed, out)
        return torch.from_numpy(out)


class Rows:
    """The optimizer of a table: only the words of a batch have a gradient, so only their rows are touched."""

    def __init__(self, table: Table, settings: Settings) -> None:
        self.table, self.settings, self.step = table, settings, 0
        self.slots = np.full(len(table.rows), -1, dtype=np.int32)
        self.memory = [
            np.zeros_like(table.rows)
            for _ in range({"adagrad": 1, "adam": 2}.get(settings.optimizer, 0))
        ]

    def learn(self, grad: Tensor, bags: Bags, dropout: float, seed: int) -> None:
        """One step from the gradient of every token's vector."""
        self.step += 1
        most = min(len(bags.ids), len(self.slots))
        rows, sums = (
            np.empty(most, dtype=np.int64),
            np.empty((most, grad.shape[1]), dtype=np.float32),
        )
        used = kernels.scatter(grad.numpy(), bags.ids, dropout, seed, self.slots, rows, sums)
        rows, sums, rate = rows[:used], sums[:used], self.settings.rate
        known = rows < len(self.slots) - 1  # the vector of tokens that are not known stays
        if not known.all():
            rows, sums = rows[known], sums[known]
        if self.settings.optimizer == "adagrad":
            kernels.adagrad(
                self.table.rows,
                self.memory[0],
                rows,
                sums,
                rate / (1 + (self.step - 1) * self.settings.lr_decay),
            )
        elif self.settings.optimizer == "adam":
            kernels.adam(self.table.rows, *self.memory, rows, sums, rate, self.step)
        else:
            kernels.descend(self.table.rows, rows, sums, rate)


@dataclass(frozen=True, eq=False)
class Moment:
    """A network and its table at one moment of training: `epoch` 0 is before the first."""

    epoch: int
    network: Network
    table: Table

    @property
    def contextual(self) -> bool:
        """Whether what a token is depends on its text."""
        return self.network.shape.encoder in ("lstm", "model")

    def by_word(self) -> tuple[Floats, Floats]:
        """Attention score [word + 1] and polarity [word + 1, output] of every word by itself, tokens that are not known last."""
        with torch.no_grad():
            vectors = torch.from_numpy(self.table.rows)
            states = self.network.encode(vectors, np.arange(len(vectors) + 1))
            return self.network.scores(states).numpy(), (states @ self.network.output.T).numpy()

    def by_token(self, bags: Bags) -> tuple[Floats, Floats]:
        """Attention score [token] and polarity [token, output] of every token where it stands."""
        if not self.contextual:
            scores, polarity = self.by_word()
            return scores[bags.ids], polarity[bags.ids]
        found = []
        self.network.eval()
        with torch.no_grad():
            for part in _parts(bags):
                states = self.network.encode(self.table.vectors(part), part.starts)
                found.append(
                    (self.network.scores(states).numpy(), (states @ self.network.output.T).numpy())
                )
        return np.concatenate([one for one, _ in found]), np.concatenate([one for _, one in found])

    def read(self, bags: Bags) -> Read:
        """All that the network makes of texts, without dropout."""
        scores, polarity = self.by_token(bags)
        weights = np.empty_like(scores)
        kernels.softmax(scores, bags.starts, weights)
        return Read(
            scores,
            polarity,
            weights,
            np.add.reduceat(weights[:, None] * polarity, bags.starts[:-1]),
        )


@dataclass(frozen=True, eq=False)
class Read:
    """What a network makes of texts: of every token its attention score, its polarity and its weight; of every text its logits."""

    scores: Floats  # token
    polarity: Floats  # token output
    weights: Floats  # token
    logits: Floats  # text output

    @property
    def guesses(self) -> Numbers:
        return guesses_of(self.logits)


def guesses_of(logits: Floats) -> Numbers:
    """The likeliest class of each text; of two, the second if its logit is above zero."""
    return (logits[:, 0] > 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(-1)


def _parts(bags: Bags) -> list[Bags]:
    """Texts in order, so many at a time that their tokens are few."""
    cuts, start = [0], 0
    for text in range(len(bags)):
        if bags.starts[text + 1] - bags.starts[start] > EVALUATED and text > start:
            cuts.append(text)
            start = text
    return [
        bags.take(np.arange(one, other))
        for one, other in zip(cuts, [*cuts[1:], len(bags)], strict=True)
    ]


Watch = Callable[
    [Moment, dict[str, Any]], None
]  # told the moment after each epoch and its row of the history


@dataclass(frozen=True, eq=False)
class Trained:
    """The best moment, and a row for every epoch: loss, accuracy on dev, V.W and norms."""

    best: Moment
    history: list[dict[str, Any]]


def train(
    network: Network,
    table: Table,
    bags: Bags,
    codes: Numbers,
    dev: tuple[Bags, Numbers] | None,
    settings: Settings,
    watch: Watch = lambda moment, row: None,
) -> Trained:
    """Train a network and its table in place; without dev the last epoch is kept."""
    draw, generator = np.random.default_rng(settings.seed), torch.get_rng_state()
    torch.manual_seed(settings.seed)
    optimizer = _optimizer(network, settings)
    rows = None if table.frozen else Rows(table, settings)
    history: list[dict[str, Any]] = []
    best, kept, since = -1.0, Moment(0, network, table), 0
    try:
        loss = float("nan")
        for epoch in range(settings.epochs + 1):
            if epoch:
                loss = _epoch(network, table, rows, optimizer, bags, codes, settings, draw)
            moment = Moment(epoch, network, table)
            reached = None if dev is None else float((moment.read(dev[0]).guesses == dev[1]).mean())
            history.append(
                {"epoch": epoch, "loss": loss, "dev_accuracy": reached, **norms(network)}
            )
            watch(moment, history[-1])
            if not epoch:
                continue
            if reached is None or reached > best:
                best, since = reached or 0.0, 0
                if reached is not None or epoch == settings.epochs:
                    kept = Moment(
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
    bags: Bags,
    codes: Numbers,
    settings: Settings,
    draw: np.random.Generator,
) -> float:
    """All texts once in random order; the mean loss of the batches, of the model as it was at each."""
    network.train()
    order, dropout, total = draw.permutation(len(bags)), network.shape.dropout, 0.0
    for start in range(0, len(order), settings.batch_size):
        chosen = order[start : start + settings.batch_size]
        batch, seed = bags.take(chosen), int(draw.integers(1 << 32))
        vectors = table.vectors(batch, dropout, seed).requires_grad_(rows is not None)
        logits, _ = network(vectors, batch.starts)
        loss = loss_of(logits, torch.from_numpy(codes[chosen]))
        total += float(loss.detach()) * len(chosen)
        if settings.penalty:
            loss = loss + settings.penalty * network.products().abs().sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if rows is not None:
            assert vectors.grad is not None
            rows.learn(vectors.grad, batch, dropout, seed)
    if not np.isfinite(total):
        raise MeasureError(
            f"the loss is no longer a number; a smaller learning rate than {settings.rate:g} may help"
        )
    return total / len(order)


def loss_of(logits: Tensor, codes: Tensor) -> Tensor:
    """The mean cross-entropy of texts; one output is the logit of the second of two classes."""
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits[:, 0], codes.to(logits.dtype))
    return F.cross_entropy(logits, codes)


def _optimizer(network: Network, settings: Settings) -> torch.optim.Optimizer:
    """For all parameters but the table: those of encoder layers with their penalty."""
    held = network.encoders
    free = [one for one in network.parameters() if all(one is not other for other in held)]
    groups: Sequence[dict[str, Any]] = [
        {"params": free},
        *([{"params": held, "weight_decay": settings.l2}] if held else []),
    ]
    if settings.optimizer == "adagrad":
        return torch.optim.Adagrad(groups, lr=settings.rate, lr_decay=settings.lr_decay)
    return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[settings.optimizer](
        groups, lr=settings.rate
    )


def norms(network: Network) -> dict[str, float]:
    """V.W (of more outputs the largest in size), and the norms of V and W."""
    with torch.no_grad():
        products = network.products()
        return {
            "vw": float(products[products.abs().argmax()]),
            "v_norm": float(network.query.norm()),
            "w_norm": float(network.output.norm()),
        }
