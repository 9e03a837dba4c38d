"""Faithfulness: does the model itself need the tokens that an explanation scores highest? (DeYoung et al. 2020, ERASER.)

Comprehensiveness is what the answer loses without the top tokens, sufficiency what it loses with the top tokens alone: a faithful explanation has much of the first and
little of the second. Both are means over bins (area over the perturbation curve), and random orders of the same tokens stand beside them, because any text falls apart when half of it is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.explain.explanation import Explanation, explain
from attlas.explain.gradients import BUDGET_TOKENS, Field
from attlas.explain.methods import METHODS
from attlas.explain.target import Aim, Target
from attlas.models import Model, load
from attlas.stats.chance import RUNS, permutations
from attlas.stats.intervals import mean_interval
from attlas.support.errors import MeasureError, ModelError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
BINS = (0.01, 0.05, 0.1, 0.2, 0.5)
HOW = ("remove", "mask")
MEASURED = ("comprehensiveness", "sufficiency")


@dataclass(frozen=True)
class Erasing:
    """How tokens are taken away: removed from the text, or replaced by the mask token; at which shares of its tokens; beside how many random orders."""

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
                f"draws is {self.draws}; there must be at least one random order beside"
            )


def erased(
    model: Model, batch: Batch, aim: Aim, orders: Sequence[Sequence[Ints]], erasing: Erasing
) -> Floats:
    """What the answer loses: orders [text][order] of tokens, the first to be taken first -> [text, order, measured, bin].

    `measured` is comprehensiveness (without the first tokens), then sufficiency (with them alone). Special tokens, and the token at which a language model
    answers, always stay.
    """
    every = np.arange(batch.n_tokens)
    edits: dict[
        tuple[int, bytes], Ints
    ] = {}  # text and tokens that stay: different orders, and bins of short texts, often leave the same
    places: list[tuple[tuple[int, ...], tuple[int, bytes]]] = []  # where the answer to an edit goes

    def edit(text: int, stay: Ints, *place: int) -> None:
        key = (text, stay.tobytes())
        edits[key] = stay
        places.append(((text, *place), key))

    for text, ordered in enumerate(orders):
        free = _free(batch, aim, text)
        for number, order in enumerate(ordered):
            order = order[free[order]]
            if not len(order):  # nothing can be taken away
                continue
            for bin_, share in enumerate(erasing.bins):
                top = order[: max(1, round(share * len(order)))]
                edit(text, np.setdiff1d(every, top), number, 0, bin_)
                edit(text, np.union1d(np.flatnonzero(~free), top), number, 1, bin_)
        edits[text, every.tobytes()] = every
    answers = dict(
        zip(
            edits,
            _answers(
                model, batch, aim, [(text, stay) for (text, _), stay in edits.items()], erasing
            ),
            strict=True,
        )
    )
    out = np.full((batch.n_texts, max(map(len, orders)), len(MEASURED), len(erasing.bins)), np.nan)
    for place, key in places:
        out[place] = answers[key[0], every.tobytes()] - answers[key]
    return out


def _free(batch: Batch, aim: Aim, text: int) -> npt.NDArray[np.bool_]:
    """Which tokens may be taken away."""
    free = ~batch.special[text]
    if aim.positions is not None:
        free = free.copy()
        free[int(aim.positions[text])] = False
    return free


def _answers(
    model: Model, batch: Batch, aim: Aim, edits: Sequence[tuple[int, Ints]], erasing: Erasing
) -> list[float]:
    """The explained number of each edited text, given which tokens stay; edits of one length go through the model together. Nothing has no answer."""
    by_length: dict[int, list[int]] = defaultdict(list)
    masking = erasing.how == "mask"
    for number, (_, stay) in enumerate(edits):
        by_length[batch.n_tokens if masking else len(stay)].append(number)
    out = np.full(len(edits), np.nan)
    with model.observe(), torch.no_grad():
        for length, numbers in by_length.items():
            if length == 0:  # the only token of a text without special ones
                continue
            size = max(1, BUDGET_TOKENS // length)
            for some in (numbers[start : start + size] for start in range(0, len(numbers), size)):
                out[some] = _run(model, batch, aim, [edits[number] for number in some], masking)
    return out.tolist()


def _run(
    model: Model, batch: Batch, aim: Aim, rows: Sequence[tuple[int, Ints]], masking: bool
) -> Floats:
    device = batch.ids.device
    texts = torch.tensor([text for text, _ in rows], device=device)
    stay = torch.from_numpy(np.zeros((len(rows), batch.n_tokens), dtype=bool))
    for row, (_, kept) in enumerate(rows):
        stay[row, kept] = True
    stay = stay.to(device)
    positions = None
    if masking:
        ids = torch.where(stay, batch.ids[texts], blank(model))
        inputs = {name: tensor[texts] for name, tensor in batch.inputs.items()}
    else:
        length = int(stay[0].sum())
        ids = batch.ids[texts][stay].view(-1, length)
        inputs = {
            name: tensor[texts][stay].view(-1, length) for name, tensor in batch.inputs.items()
        }
        if aim.positions is not None:  # a token moves up by those that went before it
            positions = (stay.cumsum(1) - 1).gather(1, aim.positions[texts][:, None])[:, 0]
    return (
        aim.values(model.network(input_ids=ids, **inputs), texts, positions).double().cpu().numpy()
    )


def blank(model: Model) -> int:
    """The token that stands for one taken away: the mask token, or the unknown one; never padding, by which some models find the last token."""
    for name in ("mask_token_id", "unk_token_id"):
        number = getattr(model.tokenizer, name, None)
        if number is not None and number != model.network.config.pad_token_id:
            return int(number)
    raise ModelError(
        "the tokenizer has neither a mask nor an unknown token; take tokens away with how='remove'"
    )


def random_orders(batch: Batch, text: int, erasing: Erasing) -> list[Ints]:
    """Orders of all tokens drawn from the seed and the text alone."""
    return [*permutations(batch.n_tokens, erasing.draws, (erasing.seed, batch.texts[text].number))]


def order_of(scores: Floats) -> Ints:
    """Tokens from the highest score to the lowest, the earlier first among equals."""
    return np.argsort(-scores, kind="stable")


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Comprehensiveness (high is faithful) and sufficiency (low is faithful), each beside random orders, with an interval over texts."""

    method: str
    erasing: Erasing
    by_bin: Floats  # text measured bin
    random: Floats  # text measured bin: mean over random orders

    def to_frame(self) -> pd.DataFrame:
        """A row for each of the two: the mean over bins and texts, its interval, the same of random orders, and the difference with its interval."""
        rows = []
        for number, name in enumerate(MEASURED):
            values, controls = self.by_bin[:, number].mean(-1), self.random[:, number].mean(-1)
            value, low, high = mean_interval(values)
            difference, difference_low, difference_high = mean_interval(values - controls)
            rows.append(
                {
                    "measured": name,
                    "value": value,
                    "random": mean_interval(controls)[0],
                    "low": low,
                    "high": high,
                    "difference": difference,
                    "difference_low": difference_low,
                    "difference_high": difference_high,
                    "texts": int(np.isfinite(values).sum()),
                }
            )
        return pd.DataFrame(rows)

    @property
    def comprehensiveness(self) -> float:
        return mean_interval(self.by_bin[:, 0].mean(-1))[0]

    @property
    def sufficiency(self) -> float:
        return mean_interval(self.by_bin[:, 1].mean(-1))[0]

    def __repr__(self) -> str:
        parts = [
            f"{row.measured} {row.value:.3f} (random {row.random:.3f})"
            for row in self.to_frame().itertuples()
        ]
        return f"Faithfulness({self.method}, {self.erasing.how}: {', '.join(parts)}, {len(self.by_bin)} texts)"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_frame().round(3).to_html(index=False)}"


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
    """How faithful explanations of some texts are: by a method (with the options of `explain`), or explanations that were made before.

    `how` takes tokens away by removing them or by the mask token, at the shares `bins` of a text's tokens, beside `draws` random orders.
    """
    model = load(model, task="auto") if not isinstance(model, Model) else model
    erasing = Erasing(how, tuple(bins), draws, seed)
    made = [method] if isinstance(method, Explanation) else method
    if isinstance(made, str):
        METHODS.question(made)
        made = explain(
            model, [texts] if isinstance(texts, str | Text) else texts, made, seed=seed, **options
        )
    if not made:
        raise MeasureError("there is no text; give at least one")
    if not isinstance(method, str):
        given = [texts] if isinstance(texts, str | Text) else list(texts)
        if [str(getattr(one, "text", one)) for one in given] != [one.text.text for one in made]:
            raise MeasureError(
                "the explanations are of other texts than those given; give the same texts in the same order"
            )
        if len({one.method for one in made}) > 1:
            raise MeasureError("the explanations are by several methods; give those of one")
    encoder = model.full_encoder
    found: dict[int, tuple[Floats, Floats]] = {}
    encoded = encoder.encode([(place, one.text) for place, one in enumerate(made)])
    for group in encoder.groups(encoded):
        batch = encoder.batch(group, model.device)
        for number, place in enumerate(batch.places):
            one, alone = made[place], batch[number : number + 1]
            if len(one.scores) != alone.n_tokens:
                raise MeasureError(
                    f"the explanation of text {one.text.id!r} has {len(one.scores)} scores, but the model makes {alone.n_tokens} tokens of it"
                )
            target = Target(
                one.target
                if model.task == "classify"
                else model.tokenizer.convert_tokens_to_ids(one.target),
                one.of,
                one.position,
            )
            lost = erased(
                model,
                alone,
                Field(model, alone, target).aim,
                [[order_of(one.scores), *random_orders(alone, 0, erasing)]],
                erasing,
            )
            found[place] = lost[0, 0], lost[0, 1:].mean(0)
    values, controls = (
        np.stack([found[place][side] for place in range(len(made))]) for side in (0, 1)
    )
    return Faithfulness(made[0].method, erasing, values, controls)
