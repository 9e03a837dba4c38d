"""Differentiate: the loss of each text of a batch, and how each head affects it.

One backward pass of the batch gives the numbers of every text. Gates of one [text, layer, head]
give d loss / d gate. For parameters the input and the output's gradient of each projection are
enough: a text's gradient of the weights is their product, reduced to one number per head at once.
No parameter's `grad` is written and nothing is put on the model, so that threads may share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.models.capture import Sink
from attlas.models.embeddings import Embeddings
from attlas.models.gradients import wide
from attlas.models.model import Model
from attlas.support.errors import ModelError

# names of the projections into heads, and out of them, where each is one linear layer
INTO = (
    *("query", "key", "value"),
    *("q_proj", "k_proj", "v_proj"),
    *("q_lin", "k_lin", "v_lin"),
    *("q", "k", "v"),
    *("query_proj", "key_proj", "value_proj"),
)
GLOBAL = ("query_global", "key_global", "value_global")  # Longformer's additional ones
OUT = (
    *("attention.output.dense", "attention.dense"),
    *("out_proj", "o_proj", "out_lin"),
    *("attn.o", "SelfAttention.o"),
)

PSEUDO_SEED = 0
CELLS = 2**24  # numbers of per-text gradients held at a time


def losses(model: Model, batch: Batch, output: Any, answers: Tensor | None = None) -> Tensor:
    """The loss of each text: [text].

    A classifier's is the cross-entropy of the text's label, or of the predicted label if the text
    has none; a causal language model's the mean over next tokens; a masked language model's the
    mean over all ordinary tokens, none of which is masked. A model without a head has a
    `pseudo_loss`. `answers` are logits to predict the label from instead of the output's own.
    """
    cross_entropy = partial(nn.functional.cross_entropy, reduction="none")
    if model.task == "classify":
        logits = output.logits.float()
        if logits.shape[-1] < 2:
            raise ModelError(ONE_NUMBER)
        return cross_entropy(logits, _labels(model, batch, logits if answers is None else answers))
    if model.task == "lm":
        logits, following = output.logits[:, :-1].float(), batch.ids[:, 1:]
        if not following.shape[1]:
            return logits.sum((1, 2))
        return cross_entropy(logits.transpose(1, 2), following).mean(1)
    ordinary = torch.from_numpy(~batch.special).to(batch.ids.device)
    if model.task == "mlm":
        each = cross_entropy(output.logits.float().transpose(1, 2), batch.ids)
        return (each * ordinary).sum(1) / ordinary.sum(1)
    return pseudo_loss(output.last_hidden_state, ordinary)


def pseudo_loss(states: Tensor, ordinary: Tensor) -> Tensor:
    """The substitute for the loss of a model without a head: [text].

    It is the mean over ordinary tokens of the last hidden state along a fixed random direction, of
    entries +1 and -1 over the root of their number. Its derivative by a weight is how far the
    output would move with that weight; only its size is meaningful, not its sign.
    """
    generator = torch.Generator().manual_seed(PSEUDO_SEED)
    signs = torch.randint(0, 2, (states.shape[-1],), generator=generator) * 2.0 - 1
    along = states.float() @ (signs / len(signs) ** 0.5).to(states.device)  # text token
    return (along * ordinary).sum(1) / ordinary.sum(1).clamp_min(1)


def check_loss(model: Model, labels: Iterable[str] = ()) -> None:
    """Refuse, before any work, a model without a loss, or unknown labels."""
    if model.task == "base":
        raise ModelError(no_loss(model))
    if model.task == "classify":
        if model.network.config.num_labels < 2:
            raise ModelError(ONE_NUMBER)
        for label in labels:
            label_number(model, label, f"some texts have the label {label!r}")


ONE_NUMBER = "the classifier has one output and no labels; its loss is not known"


def no_loss(model: Model) -> str:
    """The reason why a model without a head has no importance."""
    return (
        f"{model.name} is loaded without a head (task {model.task!r}), so it has no loss; "
        "fine-tune it with attlas finetune, or load a classifier or a language model with "
        "task='classify', 'mlm' or 'lm' (--task)"
    )


def _labels(model: Model, batch: Batch, logits: Tensor) -> Tensor:
    numbers = logits.argmax(-1).tolist()
    for row, text in enumerate(batch.texts):
        if text.label is not None:
            problem = f"text {text.id!r} has the label {text.label!r}"
            numbers[row] = label_number(model, text.label, problem)
    return torch.tensor(numbers, device=logits.device)


def label_number(model: Model, label: Any, problem: str) -> int:
    """The number of one of a classifier's labels: by name, or by number if no name is one."""
    config, name = model.network.config, str(label)
    names: Mapping[str, int] = {str(one): int(number) for one, number in config.label2id.items()}
    if name in names:
        return names[name]
    if not any(map(str.isdecimal, names)) and name.isdecimal() and int(name) < config.num_labels:
        return int(name)
    raise ModelError(f"{problem}, but the model knows {', '.join(names)}")


@dataclass
class Backward:
    """The results of the backward pass of a batch; see `attlas.core.measure.Gradients`."""

    model: Model
    batch: Batch
    loss: Tensor
    gates: Tensor
    taylor: Tensor | None
    head_gradients: Tensor | None
    answers: Tensor | None = None  # a classifier's logits
    layers: Sequence[Attention] = ()

    def ablated(self, texts: Sequence[int]) -> Tensor:
        """The increase of the loss of some texts without each head: [text, layer, head]."""
        layers, heads = self.gates.shape[1:]
        out = torch.zeros(len(texts), layers, heads)
        for row, text in enumerate(texts):
            alone = self.batch[text : text + 1]
            answers = None if self.answers is None else self.answers[text : text + 1]
            for layer, head in np.ndindex(layers, heads):
                gates = torch.ones(layers, heads, device=self.model.device)
                gates[layer, head] = 0
                output = self.model.forward(alone, gates=gates, with_head=True)
                loss = losses(self.model, alone, output, answers)
                out[row, layer, head] = float(loss) - float(self.loss[text])
        return out


def differentiate(
    model: Model,
    batch: Batch,
    sink: Sink | None = None,
    *,
    gradients: bool = False,
    weights: bool = False,
) -> Backward:
    """Run a batch forward, passing each layer's attention to `sink`, and backward from its losses.

    `gradients` keeps those of heads' parameters, `weights` all layers with their gradients.
    """
    shape = (batch.n_texts, model.n_layers, model.n_heads)
    gates = torch.ones(shape, device=model.device, requires_grad=True)
    projections = _Projections(model, gradients)
    layers: list[Attention] = []
    with (
        _from_embeddings(model, batch, weights) as leaves,
        model.reading(
            _both(sink, layers) if weights else sink,
            gates=gates,
            gradients=weights,
            with_head=model.task != "base",
        ) as read,
    ):
        with projections:
            output = read(batch)
        loss = losses(model, batch, output)
        if not loss.requires_grad:
            raise ModelError(f"the loss of {model.name} does not depend on its heads")
        (gate_gradient, *_) = torch.autograd.grad(loss.sum(), [gates, *projections.first, *leaves])
    taylor, sums = projections.result()
    answers = output.logits.detach().float() if model.task == "classify" else None
    return Backward(model, batch, loss.detach(), gate_gradient, taylor, sums, answers, layers)


def _both(sink: Sink | None, layers: list[Attention]) -> Sink:
    """A sink that also keeps the layers."""

    def take(layer: Attention) -> None:
        layers.append(layer)
        if sink is not None:
            sink(layer)

    return take


@contextmanager
def _from_embeddings(model: Model, batch: Batch, wanted: bool) -> Iterator[list[Tensor]]:
    """While open, if wanted, the pass starts from embeddings that require a gradient.

    So the backward pass goes through the weights of every layer.
    """
    if not wanted:
        yield []
        return
    embeddings = Embeddings(model)
    leaves = {
        name: tensor.detach().clone().requires_grad_()
        for name, tensor in embeddings.read(batch).items()
    }
    with embeddings.replacing(leaves):
        yield list(leaves.values())


@dataclass
class _Projections(TorchFunctionMode):
    """Watches the projections into and out of heads while a model runs; reduces their gradients."""

    model: Model
    keep: bool  # the gradients of parameters, summed over texts
    # the first layer's: their gradients pass all other layers
    first: list[Tensor] = field(default_factory=list)
    layer: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self.wanted: dict[int, tuple[nn.Linear, str]] = {}
        for name, module in self.model.part.named_modules():
            role = _role(name)
            if role and isinstance(module, nn.Linear):
                self.wanted[id(module.weight)] = (module, role)
        widths = [module.in_features for module, role in self.wanted.values() if role == "out"]
        self.size = widths[0] // self.model.n_heads if widths else 0  # dimensions of a head
        self.scores: list[Tensor | None] = [None] * self.model.n_layers  # text head
        self.sums: list[list[Tensor]] = [[] for _ in range(self.model.n_layers)]  # head parameter
        self.parts = [0] * self.model.n_layers  # the four that every family has

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is nn.functional.linear and id(args[1]) in self.wanted and torch.is_grad_enabled():
            if not out.requires_grad:  # its parameters are frozen
                out.requires_grad_()
            module, role = self.wanted[id(args[1])]
            if self.layer < len(self.parts):
                self.parts[self.layer] += role != "global"
                if self.layer == 0:
                    self.first.append(out)
                self._watch(self.layer, module, role, args[0].detach(), out)
            self.layer += role == "out"
        return out

    def _watch(self, layer: int, module: nn.Linear, role: str, states: Tensor, out: Tensor) -> None:
        """Reduce the gradient of a projection's output when it is computed."""

        def take(gradient: Tensor) -> None:
            with torch.no_grad():
                step = max(1, CELLS // module.weight.numel())  # texts at a time
                parts = [
                    self._by_head(module, role, some, gradients)
                    for some, gradients in zip(
                        torch.split(states, step), torch.split(gradient.detach(), step), strict=True
                    )
                ]
                score = torch.cat([part.square().sum(-1) for part in parts])
                known = self.scores[layer]
                self.scores[layer] = score if known is None else known + score
                if self.keep and role != "global":
                    self.sums[layer].append(torch.stack([part.sum(0) for part in parts]).sum(0))

        out.register_hook(take)  # type: ignore[no-untyped-call]

    def _by_head(self, module: nn.Linear, role: str, states: Tensor, gradient: Tensor) -> Tensor:
        """Gradient times parameter of one projection: [text, head, parameter].

        The bias of the projection out of heads belongs to no head.
        """
        heads, kind = self.model.n_heads, wide(module.weight)
        gradient, weight = gradient.to(kind), module.weight.to(kind)
        product = torch.matmul(gradient.transpose(1, 2), states.to(kind)) * weight  # text out in
        if role == "out":
            return product.transpose(1, 2).reshape(len(product), heads, -1)
        if module.bias is not None:
            product = torch.cat([product, (gradient.sum(1) * module.bias.to(kind))[..., None]], -1)
        groups = product.shape[1] // (self.size or 1)  # fewer if heads share keys and values
        return product.reshape(len(product), groups, -1).repeat_interleave(heads // groups, 1)

    def result(self) -> tuple[Tensor | None, Tensor | None]:
        """[text, layer, head], and [layer, head, parameter] if kept.

        Both are None unless all four projections of every layer were seen.
        """
        if self.parts != [4] * len(self.parts) or any(score is None for score in self.scores):
            return None, None
        taylor = torch.stack([score for score in self.scores if score is not None], 1)
        if not self.keep:
            return taylor, None
        return taylor, torch.stack([torch.cat(sums, -1) for sums in self.sums])


def _role(name: str) -> str:
    """The role of a linear layer by its name: into heads, out of heads, global, or none."""
    last = name.rpartition(".")[2]
    if last in INTO:
        return "into"
    if last in GLOBAL:
        return "global"
    return "out" if name.endswith(OUT) else ""
