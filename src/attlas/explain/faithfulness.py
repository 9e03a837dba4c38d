"""Faithfulness: does the prediction depend on the tokens that an explanation scores highest?

Comprehensiveness is what the prediction loses without the top tokens, sufficiency what it loses
with the top tokens alone (DeYoung et al. 2020, ERASER): a faithful explanation has a high value of
the first and a low value of the second. Both are means over bins (area over the perturbation
curve). Random orders of the same tokens are the control, because any prediction changes when half
of the text is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.explain.estimate import Estimate, Estimates, count_texts, estimate
from attlas.explain.explanation import Explanation, explain
from attlas.explain.gradients import BUDGET_TOKENS, GradientEvaluator
from attlas.explain.methods import METHODS
from attlas.explain.target import ResolvedTarget, Target
from attlas.models import Model, load
from attlas.stats.chance import RUNS, permutations
from attlas.support.arrays import Floats, Ints
from attlas.support.errors import MeasureError, ModelError

Orders = Sequence[Sequence[Ints]]  # [text][order] of tokens
BINS = (0.01, 0.05, 0.1, 0.2, 0.5)
HOW = ("remove", "mask")
MEASURED = ("comprehensiveness", "sufficiency")


@dataclass(frozen=True)
class Perturbation:
    """How tokens are removed or masked, at which shares, and the number of random orders."""

    how: str = "remove"
    bins: tuple[float, ...] = BINS
    draws: int = RUNS
    seed: int = 0

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise MeasureError(f"how is {self.how!r}; it must be {' or '.join(HOW)}")
        object.__setattr__(self, "bins", tuple(self.bins))
        if not self.bins or not all(0 < share < 1 for share in self.bins):
            raise MeasureError(
                f"bins are {self.bins}; they must be shares between 0 and 1, such as 0.1"
            )
        if self.draws < 1:
            raise MeasureError(
                f"draws is {self.draws}; the control needs at least one random order"
            )


def output_drop(
    model: Model,
    batch: Batch,
    target: ResolvedTarget,
    orders: Orders,
    perturbation: Perturbation,
) -> Floats:
    """What the prediction loses without tokens: [text, order, measured, bin].

    Tokens are removed in the given orders. `measured` is comprehensiveness (without the first
    tokens), then sufficiency (with them alone). Special tokens, and the token at which a language
    model predicts, always stay.
    """
    whole = np.arange(batch.n_tokens)
    edits: dict[tuple[int, bytes], Ints] = {}  # text and kept tokens; many edits are the same
    cells: list[tuple[tuple[int, ...], tuple[int, bytes]]] = []
    for text, ordered in enumerate(orders):
        for cell, kept in _edits(batch, target, text, ordered, perturbation.bins):
            key = (text, kept.tobytes())
            edits[key] = kept
            cells.append((cell, key))
        edits[text, whole.tobytes()] = whole
    texts = [(text, kept) for (text, _), kept in edits.items()]
    values = dict(zip(edits, _values(model, batch, target, texts, perturbation.how), strict=True))
    shape = batch.n_texts, max(map(len, orders)), len(MEASURED), len(perturbation.bins)
    drops = np.full(shape, np.nan)
    for cell, key in cells:
        drops[cell] = values[key[0], whole.tobytes()] - values[key]
    return drops


def _edits(
    batch: Batch,
    target: ResolvedTarget,
    text: int,
    orders: Sequence[Ints],
    bins: Sequence[float],
) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Cell (text, order, measured, bin) and kept tokens of each edit of a text."""
    free = ~batch.special[text]
    if target.positions is not None:
        free = free.copy()
        free[int(target.positions[text])] = False
    for number, order in enumerate(orders):
        order = order[free[order]]
        if not len(order):  # no token may be removed
            continue
        for bin_, share in enumerate(bins):
            top = order[: max(1, round(share * len(order)))]
            yield (text, number, 0, bin_), np.setdiff1d(np.arange(batch.n_tokens), top)
            yield (text, number, 1, bin_), np.union1d(np.flatnonzero(~free), top)


def _values(
    model: Model,
    batch: Batch,
    target: ResolvedTarget,
    edits: Sequence[tuple[int, Ints]],
    how: str,
) -> list[float]:
    """The explained number of each edited text (text, kept tokens); NaN if no token is left.

    Edits of one length go through the model together.
    """
    masking = how == "mask"
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, (_, kept) in enumerate(edits):
        by_length[batch.n_tokens if masking else len(kept)].append(number)
    values = np.full(len(edits), np.nan)
    with model.observe(), torch.no_grad():
        for length, numbers in by_length.items():
            if length == 0:  # the only token of a text without special ones
                continue
            size = max(1, BUDGET_TOKENS // length)
            for some in (numbers[start : start + size] for start in range(0, len(numbers), size)):
                rows = [edits[number] for number in some]
                values[some] = _run(model, batch, target, rows, masking)
    return values.tolist()


def _run(
    model: Model,
    batch: Batch,
    target: ResolvedTarget,
    rows: Sequence[tuple[int, Ints]],
    masking: bool,
) -> Floats:
    device = batch.ids.device
    texts = torch.tensor([text for text, _ in rows], device=device)
    kept_tokens = np.zeros((len(rows), batch.n_tokens), dtype=bool)
    for row, (_, kept) in enumerate(rows):
        kept_tokens[row, kept] = True
    stays = torch.from_numpy(kept_tokens).to(device)
    positions = None
    ids = batch.ids[texts]
    inputs = {name: tensor[texts] for name, tensor in batch.inputs.items()}
    if masking:
        ids = torch.where(stays, ids, blank(model))
    else:
        length = int(stays[0].sum())
        ids = ids[stays].view(-1, length)
        inputs = {name: tensor[stays].view(-1, length) for name, tensor in inputs.items()}
        if target.positions is not None:  # a token moves up by those removed before it
            positions = (stays.cumsum(1) - 1).gather(1, target.positions[texts][:, None])[:, 0]
    output = model.network(input_ids=ids, **inputs)
    return target.values(output, texts, positions).double().cpu().numpy()


def blank(model: Model) -> int:
    """The mask token, or the unknown one; never padding, by which some find the last token."""
    for name in ("mask_token_id", "unk_token_id"):
        number = getattr(model.tokenizer, name, None)
        if number is not None and number != model.network.config.pad_token_id:
            return int(number)
    raise ModelError(
        "the tokenizer has neither a mask nor an unknown token; remove tokens with how='remove'"
    )


def random_orders(batch: Batch, text: int, perturbation: Perturbation) -> list[Ints]:
    """Random orders of all tokens, from the seed and the text alone."""
    seed = (perturbation.seed, batch.texts[text].number)
    return [*permutations(batch.n_tokens, perturbation.draws, seed)]


def order_of(scores: Floats) -> Ints:
    """Tokens from the highest score to the lowest, the earlier first among equals."""
    return np.argsort(-scores, kind="stable")


@dataclass(frozen=True, eq=False, repr=False)
class Faithfulness(Estimates):
    """Comprehensiveness (high is faithful) and sufficiency (low is faithful), with controls."""

    names: ClassVar[tuple[str, ...]] = MEASURED
    kind: ClassVar[str] = "measured"
    method: str
    perturbation: Perturbation
    by_bin: Floats  # text measured bin
    random: Floats  # text measured bin: mean over random orders

    def __getitem__(self, measured: str) -> Estimate:
        """The mean over bins and texts, by name."""
        number = MEASURED.index(measured)
        return estimate(self.by_bin[:, number].mean(-1), self.random[:, number].mean(-1))

    @property
    def comprehensiveness(self) -> float:
        return self["comprehensiveness"].value

    @property
    def sufficiency(self) -> float:
        return self["sufficiency"].value

    def _about(self) -> str:
        return f"{self.method}, {self.perturbation.how}, {count_texts(len(self.by_bin))}"


def faithfulness(
    model: Any,
    texts: Any,
    method: str | Sequence[Explanation] = "integrated_gradients",
    *,
    how: str = "remove",
    bins: Sequence[float] = BINS,
    draws: int = RUNS,
    seed: int = 0,
    **options: Any,
) -> Faithfulness:
    """How faithful explanations are: by a method (with the options of `explain`), or given ones.

    `how` deletes tokens or masks them, the shares `bins` of a text's tokens; the control is the
    mean of `draws` random orders.
    """
    model = load(model, task="auto") if not isinstance(model, Model) else model
    perturbation = Perturbation(how, tuple(bins), draws, seed)
    given = [texts] if isinstance(texts, str | Text) else texts
    if isinstance(method, str):
        METHODS.question(method)
        explanations = explain(model, given, method, seed=seed, **options)
    else:
        explanations = [method] if isinstance(method, Explanation) else method
        _check_explanations(explanations, list(given))
    if not explanations:
        raise MeasureError("no texts were given; give at least one")
    encoder = model.full_encoder
    drops: dict[int, Floats] = {}
    encoded = encoder.encode([(index, one.text) for index, one in enumerate(explanations)])
    for group in encoder.groups(encoded):
        batch = encoder.batch(group, model.device)
        for number, index in enumerate(batch.indices):
            alone = batch[number : number + 1]
            drops[index] = _drops_of(model, alone, explanations[index], perturbation)
    ordered = np.stack([drops[index] for index in range(len(explanations))])
    values, controls = ordered[:, 0], ordered[:, 1:].mean(1)  # text measured bin
    return Faithfulness(explanations[0].method, perturbation, values, controls)


def _check_explanations(explanations: Sequence[Explanation], texts: Sequence[Any]) -> None:
    """Refuse explanations of other texts, or of several methods."""
    if [str(getattr(one, "text", one)) for one in texts] != [one.text.text for one in explanations]:
        raise MeasureError(
            "the explanations are of other texts than those given; give the same texts in the "
            "same order"
        )
    if len({one.method for one in explanations}) > 1:
        raise MeasureError("the explanations are by several methods; give those of one")


def _drops_of(
    model: Model, batch: Batch, explanation: Explanation, perturbation: Perturbation
) -> Floats:
    """What the prediction loses by an explanation's order, then by random ones: [order, ...]."""
    if len(explanation.scores) != batch.n_tokens:
        raise MeasureError(
            f"the explanation of text {explanation.text.id!r} has {len(explanation.scores)} "
            f"scores, but the model reads {batch.n_tokens} tokens"
        )
    name: str | int = explanation.target
    if model.task != "classify":
        name = model.tokenizer.convert_tokens_to_ids(name)
    target = Target(name, explanation.of, explanation.position)
    orders = [order_of(explanation.scores), *random_orders(batch, 0, perturbation)]
    resolved = GradientEvaluator(model, batch, target).resolved
    return output_drop(model, batch, resolved, [orders], perturbation)[0]
