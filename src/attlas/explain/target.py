"""What is explained: a number that the model gives for each text, such as the probability of a class or of a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attlas.core.batch import Batch
from attlas.models import Model
from attlas.models.differentiate import label_number
from attlas.support.errors import ModelError

OF = ("probability", "logit")


@dataclass(frozen=True)
class Target:
    """What to explain, for any text.

    Of a classifier: `target` is a class by name or number, "label" for the text's own, None for the one the model gives. Of a language model: a token by its string or id, None for the most
    probable one, at `position`: None is the first mask token of a masked model, the last token of a causal one, which foretells the next. `of` is its probability or its logit.
    """

    target: str | int | None = None
    of: str = "probability"
    position: int | None = None

    def __post_init__(self) -> None:
        if self.of not in OF:
            raise ModelError(f"of is {self.of!r}; it must be {' or '.join(OF)}")


@dataclass(frozen=True, eq=False)
class Aim:
    """The target of each text of a batch, found by one pass of the model."""

    of: str
    numbers: Tensor  # text: which logit
    positions: Tensor | None  # text: at which token; None for a classifier
    names: tuple[str, ...]  # text: of the target
    predicted: tuple[str, ...]  # text: what the model gives
    probabilities: tuple[float, ...]  # text: of what it gives
    sigmoid: bool = False  # each class for itself

    def values(self, output: Any, rows: Tensor, positions: Tensor | None = None) -> Tensor:
        """The number to explain of each row of an output, of text rows[row]: [row]. `positions` are those of the rows, if they differ from their texts'."""
        if positions is None and self.positions is not None:
            positions = self.positions[rows]
        logits, chosen = _logits(output, positions), self.numbers[rows][:, None]
        return (
            _probabilities(logits, self.sigmoid) if self.of == "probability" else logits
        ).gather(1, chosen)[:, 0]


def check_target(model: Model, target: Target) -> None:
    """Refuse, before any work, a model that says nothing, or a class that it does not have."""
    if model.task == "base":
        raise ModelError(
            f"{model.name} is loaded without a head (task {model.task!r}), so it gives no answer to explain; fit a classification head with: attlas finetune --data F (with --head-only in seconds), or load a classifier or a language model with task='classify', 'mlm' or 'lm' (--task)"
        )
    if model.task == "classify":
        if model.network.config.num_labels < 2 and target.of == "probability":
            raise ModelError(
                "the model gives one number and no probability; explain the number with of='logit' (--of logit)"
            )
        if target.target is not None and target.target != "label":
            _class_number(model, target.target)
        if target.position is not None:
            raise ModelError(
                "position is given, but a classifier answers for the whole text; leave it out"
            )
    elif target.target == "label":
        raise ModelError(
            "the target is 'label', but a language model has no labels; give a token, or none for the one it gives"
        )
    elif target.target is not None:
        _token_id(model, target.target)


def aim(model: Model, batch: Batch, output: Any, target: Target) -> Aim:
    """The target of each text, given the network's output for the batch."""
    if model.task != "classify":
        return _at_token(model, batch, output, target)
    names = _class_names(model)
    logits = _logits(output, None)
    sigmoid = model.network.config.problem_type == "multi_label_classification"
    shares = _probabilities(logits, sigmoid)
    best = logits.argmax(-1)
    if target.target == "label":
        missing = [text.id for text in batch.texts if text.label is None]
        if missing:
            raise ModelError(
                f"text {missing[0]!r} has no label to explain; name the column with label=... (--label), or explain what the model gives"
            )
        numbers = torch.tensor(
            [
                label_number(model, text.label, f"text {text.id!r} has the label {text.label!r}")
                for text in batch.texts
            ]
        )
    else:
        numbers = (
            best
            if target.target is None
            else torch.full_like(best, _class_number(model, target.target))
        )
    return Aim(
        target.of,
        numbers.to(logits.device),
        None,
        tuple(names[number] for number in numbers.tolist()),
        tuple(names[number] for number in best.tolist()),
        tuple(shares.gather(1, best[:, None])[:, 0].tolist()),
        sigmoid,
    )


def _at_token(model: Model, batch: Batch, output: Any, target: Target) -> Aim:
    positions = torch.tensor(
        [_position(model, batch, text, target.position) for text in range(batch.n_texts)],
        device=batch.ids.device,
    )
    logits = _logits(output, positions)
    best = logits.argmax(-1)
    numbers = (
        best if target.target is None else torch.full_like(best, _token_id(model, target.target))
    )
    named, given = (
        tuple(model.tokenizer.convert_ids_to_tokens(ids.tolist())) for ids in (numbers, best)
    )
    shares = logits.softmax(-1).gather(1, best[:, None])[:, 0]
    return Aim(target.of, numbers, positions, named, given, tuple(shares.tolist()))


def _position(model: Model, batch: Batch, text: int, wanted: int | None) -> int:
    """At which token a text's target stands."""
    if wanted is not None:
        place = wanted if wanted >= 0 else batch.n_tokens + wanted
        if not 0 <= place < batch.n_tokens:
            raise ModelError(
                f"there is no token {wanted} in text {batch.texts[text].id!r}; it has {batch.n_tokens}"
            )
        return place
    if model.task == "lm":
        return batch.n_tokens - 1
    masks = np.flatnonzero((batch.ids[text] == model.tokenizer.mask_token_id).cpu().numpy())
    if not len(masks):
        raise ModelError(
            f"text {batch.texts[text].id!r} has no {model.tokenizer.mask_token} token to foretell; put one into the text, or say which token with position=... (--position)"
        )
    return int(masks[0])


def _logits(output: Any, positions: Tensor | None) -> Tensor:
    """Logits of classes, or of tokens at the positions: [row, number]."""
    logits: Tensor = output.logits.float()
    return (
        logits
        if positions is None
        else logits[torch.arange(len(logits), device=logits.device), positions]
    )


def _probabilities(logits: Tensor, sigmoid: bool) -> Tensor:
    return logits.sigmoid() if sigmoid else logits.softmax(-1)


def _class_names(model: Model) -> list[str]:
    config = model.network.config
    return [str(config.id2label[number]) for number in range(config.num_labels)]


def _class_number(model: Model, target: str | int) -> int:
    """A class by name, or by number."""
    names = _class_names(model)
    if isinstance(target, int) and not isinstance(target, bool):
        if not 0 <= target < len(names):
            raise ModelError(
                f"there is no class {target}; the model has {', '.join(f'{number} ({name})' for number, name in enumerate(names))}"
            )
        return target
    return label_number(model, target, f"there is no class {target!r}")


def _token_id(model: Model, target: str | int) -> int:
    """A token by its string or id; a word that is cut in pieces is no token."""
    size = len(model.tokenizer)
    if isinstance(target, int):
        if not 0 <= target < size:
            raise ModelError(f"there is no token {target}; the tokenizer has {size:,}")
        return target
    known = model.tokenizer.convert_tokens_to_ids(target)
    if known is not None and (
        known != model.tokenizer.unk_token_id or target == model.tokenizer.unk_token
    ):
        return int(known)
    pieces = model.tokenizer(target, add_special_tokens=False)["input_ids"]
    if len(pieces) != 1 or pieces[0] == model.tokenizer.unk_token_id:
        raise ModelError(
            f"{target!r} is no single token of this model; give one of its tokens, or an id"
        )
    return int(pieces[0])


def readers(model: Model, batch: Batch, found: Aim, causal: bool) -> Tensor:
    """How much the answer reads each token of the last layer: [text, token], each row sums to one.

    A classifier reads the first token, in a causal model the last, or all alike where it pools their mean; a language model the token whose place it fills, or the one before.
    """
    shape, device = (batch.n_texts, batch.n_tokens), batch.ids.device
    if (
        found.positions is None
        and getattr(model.network.config, "classifier_pooling", "") == "mean"
    ):
        return torch.full(shape, 1.0 / batch.n_tokens, device=device)
    one = torch.full(shape[:1], batch.n_tokens - 1 if causal else 0, device=device)
    return torch.zeros(shape, device=device).scatter_(
        1, (one if found.positions is None else found.positions)[:, None], 1.0
    )
