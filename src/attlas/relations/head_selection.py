"""Which heads does it take? A penalty on whole heads (group lasso) lets them in one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attlas.stats.linear import balanced, whitening
from attlas.support.arrays import Array as Floats
from attlas.support.machine import one_thread

Ints = npt.NDArray[np.int64]


@one_thread()
def heads_order(
    x: Floats, names: Sequence[str], groups: Ints, steps: int = 40, points: int = 24
) -> list[int]:
    """The order in which heads enter as the penalty is weakened; the others follow by weight.

    `groups` is the head of each feature. Features are standardised and whitened within a head, so
    that heads with few or similar features are not favoured.
    """
    problem = _problem(x, names, groups)
    w, bias = torch.zeros(x.shape[1], problem.target.shape[1]), torch.zeros(problem.target.shape[1])
    most = float(problem.sizes(problem.gradient(w, bias)[0]).max())
    order: list[int] = []
    for penalty in np.geomspace(most * 0.95, most * 0.01, points):
        w, bias = problem.solved(w, bias, penalty, steps)
        size = problem.sizes(w)
        largest = torch.argsort(-size, stable=True).tolist()
        order += [head for head in largest if size[head] > 0 and head not in order]
        if len(order) == problem.heads:
            break
    largest = torch.argsort(-problem.sizes(w), stable=True).tolist()
    return order + [head for head in largest if head not in order]


@dataclass(frozen=True, eq=False)
class _Problem:
    """Weighted multinomial log loss with a penalty on the norm of each head's weights."""

    data: Tensor  # case feature
    target: Tensor  # case class
    share: Tensor  # case: its weight
    groups: Tensor  # feature: its head
    heads: int
    rate: float  # of a step: one over a bound of the loss' curvature

    def gradient(self, w: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        guesses = torch.softmax(torch.addmm(bias, self.data, w), 1)
        residual = (guesses - self.target) * self.share[:, None]
        return self.data.T @ residual, residual.sum(0)

    def sizes(self, w: Tensor) -> Tensor:
        """The norm of each head's weights."""
        return torch.zeros(self.heads).index_add_(0, self.groups, w.square().sum(1)).sqrt()

    def solved(self, w: Tensor, bias: Tensor, penalty: float, steps: int) -> tuple[Tensor, Tensor]:
        """Some steps of accelerated proximal gradient descent, from where the last ended."""
        ahead, ahead_bias, pace = w.clone(), bias.clone(), 1.0
        for _ in range(steps):
            slope, slope_bias = self.gradient(ahead, ahead_bias)
            moved = ahead - self.rate * slope
            norms = self.sizes(moved).clamp(min=1e-12)
            new = moved * (1 - self.rate * penalty / norms).clamp(min=0)[self.groups][:, None]
            new_bias = ahead_bias - self.rate * slope_bias
            after = (1 + (1 + 4 * pace * pace) ** 0.5) / 2
            ahead = new + (pace - 1) / after * (new - w)
            ahead_bias = new_bias + (pace - 1) / after * (new_bias - bias)
            w, bias, pace = new, new_bias, after
        return w, bias


def _problem(x: Floats, names: Sequence[str], groups: Ints) -> _Problem:
    classes = np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)[1].astype(np.int64)
    heads = int(groups.max()) + 1
    inner = np.zeros(x.shape, dtype=np.float32)
    for head in range(heads):
        mine = groups == head
        mean, scale, axes = whitening(x[:, mine])
        inner[:, mine] = ((x[:, mine] - mean) / scale) @ axes
    data = torch.from_numpy(inner)
    share = torch.from_numpy(balanced(classes).astype(np.float32))
    weighted = data * share.sqrt()[:, None]
    rate = 1 / (0.5 * float(torch.linalg.eigvalsh(weighted.T @ weighted)[-1]))
    target = torch.zeros(len(classes), int(classes.max()) + 1)
    target[torch.arange(len(classes)), torch.from_numpy(classes)] = 1
    return _Problem(data, target, share, torch.from_numpy(groups), heads, rate)
