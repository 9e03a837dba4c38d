"""What is explained: one number per text, such as the probability of a class or of a token."""

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

    For a classifier, `target` is a class by name or number, "label" for the text's own, or None for
    the predicted one. For a language model it is a token by string or id, or None for the most
    probable one, at `position` (None: the first mask token of a masked model, the last token of a
    causal one, which predicts the next). `of` is its probability or its logit.
    """

    target: str | int | None = None
    of: str = "probability"
    position: int | None = None

    def __post_init__(self) -> None:
        if self.of not in OF:
            raise ModelError(f"of is {self.of!r}; it must be {' or '.join(OF)}")


@dataclass(frozen=True, eq=False)
class ResolvedTarget:
    """The target of each text of a batch, found by one forward pass."""

    of: str
    numbers: Tensor  # text: which logit
    positions: Tensor | None  # text: at which token; None for a classifier
    names: tuple[str, ...]  # text: name of the target
    predicted: tuple[str, ...]  # text: predicted class or token
    probabilities: tuple[float, ...]  # text: of the prediction
    sigmoid: bool = False  # classes are independent

    def values(self, output: Any, rows: Tensor, positions: Tensor | None = None) -> Tensor:
        """The explained number of each row of an output, of text rows[row]: [row].

        `positions` are those of the rows, if they differ from their texts'.
        """
        if positions is None and self.positions is not None:
            positions = self.positions[rows]
        values = _logits(output, positions)
        if self.of == "probability":
            values = _probabilities(values, self.sigmoid)
        return values.gather(1, self.numbers[rows][:, None])[:, 0]


def check_target(model: Model, target: Target) -> None:
    """Refuse, before any work, a model without predictions, or a class that it does not have."""
    if model.task == "base":
        raise ModelError(
            f"{model.name} is loaded without a head (task {model.task!r}), so it gives no answer "
            "to explain; fit a classification head with: attlas finetune --data F (with "
            "--head-only in seconds), or load a classifier or a language model with "
            "task='classify', 'mlm' or 'lm' (--task)"
        )
    if model.task == "classify":
        if model.network.config.num_labels < 2 and target.of == "probability":
            raise ModelError(
                "the model predicts one number and no probability; explain the number with "
                "of='logit' (--of logit)"
            )
        if target.target is not None and target.target != "label":
            _class_number(model, target.target)
        if target.position is not None:
            raise ModelError(
                "position is given, but a classifier predicts for the whole text; omit it"
            )
    elif target.target == "label":
        raise ModelError(
            "the target is 'label', but a language model has no labels; give a token, or omit it "
            "for the predicted one"
        )
    elif target.target is not None:
        _token_id(model, target.target)


def resolve_target(model: Model, batch: Batch, output: Any, target: Target) -> ResolvedTarget:
    """The target of each text, given the network's output for the batch."""
    if model.task != "classify":
        return _resolve_token(model, batch, output, target)
    names = _class_names(model)
    logits = _logits(output, None)
    sigmoid = model.network.config.problem_type == "multi_label_classification"
    shares = _probabilities(logits, sigmoid)
    best = logits.argmax(-1)
    if target.target == "label":
        numbers = _label_numbers(model, batch)
    elif target.target is None:
        numbers = best
    else:
        numbers = torch.full_like(best, _class_number(model, target.target))
    return ResolvedTarget(
        target.of,
        numbers.to(logits.device),
        None,
        tuple(names[number] for number in numbers.tolist()),
        tuple(names[number] for number in best.tolist()),
        tuple(shares.gather(1, best[:, None])[:, 0].tolist()),
        sigmoid,
    )


def _label_numbers(model: Model, batch: Batch) -> Tensor:
    """The class of each text's own label: [text]."""
    missing = [text.id for text in batch.texts if text.label is None]
    if missing:
        raise ModelError(
            f"text {missing[0]!r} has no label to explain; name the column with label=... "
            "(--label), or explain the prediction"
        )
    return torch.tensor(
        [
            label_number(model, text.label, f"text {text.id!r} has the label {text.label!r}")
            for text in batch.texts
        ]
    )


def _resolve_token(model: Model, batch: Batch, output: Any, target: Target) -> ResolvedTarget:
    positions = torch.tensor(
        [_position(model, batch, text, target.position) for text in range(batch.n_texts)],
        device=batch.ids.device,
    )
    logits = _logits(output, positions)
    best = logits.argmax(-1)
    numbers = best
    if target.target is not None:
        numbers = torch.full_like(best, _token_id(model, target.target))
    names, predicted = (
        tuple(model.tokenizer.convert_ids_to_tokens(ids.tolist())) for ids in (numbers, best)
    )
    shares = logits.softmax(-1).gather(1, best[:, None])[:, 0]
    return ResolvedTarget(target.of, numbers, positions, names, predicted, tuple(shares.tolist()))


def _position(model: Model, batch: Batch, text: int, wanted: int | None) -> int:
    """The token at which a language model predicts."""
    if wanted is not None:
        position = wanted if wanted >= 0 else batch.n_tokens + wanted
        if not 0 <= position < batch.n_tokens:
            raise ModelError(
                f"there is no token {wanted} in text {batch.texts[text].id!r}; it has "
                f"{batch.n_tokens}"
            )
        return position
    if model.task == "lm":
        return batch.n_tokens - 1
    masks = np.flatnonzero((batch.ids[text] == model.tokenizer.mask_token_id).cpu().numpy())
    if not len(masks):
        raise ModelError(
            f"text {batch.texts[text].id!r} has no {model.tokenizer.mask_token} token to predict; "
            "add one to the text, or choose a token with position=... (--position)"
        )
    return int(masks[0])


def _logits(output: Any, positions: Tensor | None) -> Tensor:
    """Logits of classes, or of tokens at the positions: [row, number]."""
    logits: Tensor = output.logits.float()
    if positions is None:
        return logits
    return logits[torch.arange(len(logits), device=logits.device), positions]


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
            known = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
            raise ModelError(f"there is no class {target}; the model has {known}")
        return target
    return label_number(model, target, f"there is no class {target!r}")


def _token_id(model: Model, target: str | int) -> int:
    """A token by its string or id; a word of several word pieces is not a token."""
    size = len(model.tokenizer)
    if isinstance(target, int):
        if not 0 <= target < size:
            raise ModelError(f"there is no token {target}; the tokenizer has {size:,}")
        return target
    unknown = model.tokenizer.unk_token_id
    known = model.tokenizer.convert_tokens_to_ids(target)
    if known is not None and (known != unknown or target == model.tokenizer.unk_token):
        return int(known)
    pieces = model.tokenizer(target, add_special_tokens=False)["input_ids"]
    if len(pieces) != 1 or pieces[0] == unknown:
        raise ModelError(
            f"{target!r} is not a single token of this model; give one of its tokens, or an id"
        )
    return int(pieces[0])


def readers(model: Model, batch: Batch, target: ResolvedTarget, causal: bool) -> Tensor:
    """How much the prediction reads each token of the last layer; rows sum to one: [text, token].

    A classifier reads the first token (the last in a causal model), or all equally where it pools
    their mean; a language model reads the token it predicts, or the one before.
    """
    shape, device = (batch.n_texts, batch.n_tokens), batch.ids.device
    positions = target.positions
    if positions is None:
        if getattr(model.network.config, "classifier_pooling", "") == "mean":
            return torch.full(shape, 1.0 / batch.n_tokens, device=device)
        positions = torch.full(shape[:1], batch.n_tokens - 1 if causal else 0, device=device)
    return torch.zeros(shape, device=device).scatter_(1, positions[:, None], 1.0)
