"""Model: a network and its tokenizer, ready to be observed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attlas.core.batch import Batch
from attlas.core.text import Text
from attlas.models.capture import Observer, Sink, observe
from attlas.models.compared import compared_tokens
from attlas.models.encode import Encoded, Encoder, forward_options, inputs_of
from attlas.models.families import FAMILIES, OTHER
from attlas.models.identity import (
    GLOBAL_CHOICE,
    NOT_CONFIGURED,
    OF_A_HEAD,
    bytes_of,
    config_content,
    hooks_fingerprint,
    plain_config,
    tokenizer_content,
)
from attlas.models.install import evaluate, installed, without_traces
from attlas.models.norms import FindProjections, NormLens
from attlas.models.quiet import silence_transformers
from attlas.support.errors import AttlasError, CaptureError, ModelError
from attlas.support.files import (
    files_below,
    is_temporary,
    move,
    read_json,
    temporary_folder,
    write_errors,
)
from attlas.support.fingerprint import Put, feed, fingerprint, sha256

PERIOD = "position_period"  # in the configuration of a lengthened model
CONFIG = "config.json"  # what makes a folder a model: written last
LONGEST = 1_000_000  # tokenizers without a limit have some huge number
# of models with random weights: the original network and the seed
_ORIGINS: WeakKeyDictionary[nn.Module, tuple[nn.Module, int]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Model:
    """A transformer that Attlas can observe. Made by `attlas.load`.

    `network` and `tokenizer` are transformers' own; `part` is what runs in a study: the encoder,
    without head and decoder.
    """

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    task: str = "base"
    file_sha256: str | None = None
    limit: int | None = None
    global_tokens: str | tuple[int, ...] = "first"
    note: str | None = None  # a warning about how it was loaded
    lens: str = "weights"  # what is read: weights, or weights times norms (norms.py)

    @cached_property
    def part(self) -> nn.Module:
        """The part whose attention is read: the encoder, or the model without its head."""
        base: Any = self.network.base_model
        return base.get_encoder() if self.network.config.is_encoder_decoder else base

    @cached_property
    def _checked(self) -> tuple[int, int, int]:
        """Layers and heads, from a pass over one word; tokens compared with eager attention."""
        heads: list[int] = []
        name = type(self.network).__name__
        batch = next(iter(self.batches(self.encode([(0, Text("probe", "a"))]))))
        with self.reading(lambda layer: heads.append(layer.n_heads), layers=0) as read:
            try:
                read(batch)
            except AttlasError:
                raise
            except Exception as error:  # of the library's code, without what it needs
                raise CaptureError(_cannot_read(self.network, error)) from error
        if not heads:
            raise CaptureError(
                f"{name} yielded no attention weights; use a transformer whose attention is a "
                "softmax over the tokens of the text"
            )
        if len(set(heads)) > 1:
            raise CaptureError(
                f"{name} has layers of {sorted(set(heads))} heads; "
                "Attlas needs the same number in every layer"
            )
        return len(heads), heads[0], compared_tokens(self, len(heads) * heads[0])

    @property
    def n_layers(self) -> int:
        return self._checked[0]

    @property
    def n_heads(self) -> int:
        return self._checked[1]

    @property
    def compared_tokens(self) -> int:
        """Tokens up to which weights were compared with eager attention; 0 without a reference."""
        return self._checked[2]

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    @cached_property
    def banded(self) -> bool:
        """Whether its attention is a sliding window with global tokens (Longformer)."""
        return any(type(module).__name__ == "LongformerAttention" for module in self.part.modules())

    @property
    def position_period(self) -> int | None:
        """The number of positions after which they were copied, in a lengthened model, or None."""
        if not self.banded:
            return None
        # Longformer's own are RoBERTa's 512, repeated
        return int(getattr(self.network.config, PERIOD, 512)) or None

    @cached_property
    def seams(self) -> tuple[int, ...]:
        """The tokens at which position embeddings start again, in a model made from a shorter one.

        They repeat the first position, or the second if [CLS] kept its own; positions that were
        trained since are all different.
        """
        table = self._position_table() if self.banded else None
        if table is None:
            return ()
        first = 0 if table.padding_idx is None else table.padding_idx + 1
        rows = [row.tobytes() for row in table.weight.detach()[first:].float().cpu().numpy()]
        known: set[bytes] = set()
        for row in rows:
            if row in known:
                return tuple(at for at, one in enumerate(rows) if one == row)[1:]
            known.add(row)
        return ()

    @cached_property
    def max_length(self) -> int | None:
        """The maximum number of tokens of a text, special ones included; None if unlimited."""
        tokenizer_limit = getattr(self.tokenizer, "model_max_length", None)
        limits = (self._positions(), tokenizer_limit, self.limit)
        return min((limit for limit in limits if limit and 0 < limit < LONGEST), default=None)

    def _position_table(self) -> nn.Embedding | None:
        """The embeddings of positions, if they are a table of that name."""
        for name, module in self.part.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
                return module
        return None

    def _positions(self) -> int | None:
        """The number of positions; RoBERTa and its like count them from after the padding id."""
        table = self._position_table()
        if table is not None and table.padding_idx is not None:
            return table.num_embeddings - table.padding_idx - 1
        config = self.network.config.get_text_config()
        family = FAMILIES.get(config.model_type, OTHER)
        longest = family.longest(config)
        if longest is not None:
            return longest
        relative = family.relative or getattr(config, "position_biased_input", True) is False
        return None if relative else getattr(config, "max_position_embeddings", None)

    @cached_property
    def encoder(self) -> Encoder:
        wants = inputs_of(self.part)
        return Encoder(
            self.tokenizer, self.max_length, wants, self.banded, self.global_tokens, self._embedded
        )

    @property
    def _embedded(self) -> int | None:
        """The number of ids with an embedding, if the tokenizer has more."""
        try:
            rows = self.network.get_input_embeddings().num_embeddings
        except (NotImplementedError, AttributeError):  # a network without a table
            return None
        return rows if max(self.tokenizer.get_vocab().values(), default=0) >= rows else None

    @cached_property
    def full_encoder(self) -> Encoder:
        """The encoder for passes through the whole network, with its head."""
        return replace(self.encoder, wants=inputs_of(self.network))

    def encode(self, texts: Sequence[tuple[int, Text]]) -> list[Encoded]:
        """Tokenise texts, each with its index in the corpus."""
        return self.encoder.encode(texts)

    def batches(self, encoded: Iterable[Encoded]) -> Iterator[Batch]:
        """Encoded texts in batches of one length."""
        return (self.encoder.batch(group, self.device) for group in self.encoder.groups(encoded))

    def observe(
        self, sink: Sink | None = None, *, gates: Tensor | None = None, gradients: bool = False
    ) -> AbstractContextManager[Observer]:
        """While open, pass each layer's attention to `sink` and gate heads ([layer, head])."""
        scope, lens = self.part, self._lens
        return observe(self.network, sink, gates=gates, gradients=gradients, scope=scope, lens=lens)

    @cached_property
    def _lens(self) -> NormLens | None:
        """What makes norms of values and weights, found in a pass over one word."""
        if self.lens == "weights":
            return None
        plain, find = replace(self, lens="weights"), FindProjections()
        batch = next(iter(plain.batches(plain.encode([(0, Text("probe", "a"))]))))
        options = forward_options(self.part)
        with (
            self.without_dropout(),
            torch.no_grad(),
            observe(self.network, lambda layer: None, scope=self.part, lens=find.lens) as observer,
            find,
        ):
            observer.watch(batch)
            self.part(input_ids=batch.ids, **batch.inputs, **options)
        return NormLens(find.found)

    def without_dropout(self) -> AbstractContextManager[None]:
        """While open, every module is in evaluation mode."""
        return installed(self.network, "evaluation", lambda: evaluate(self.network))

    def fast_longformer(self) -> AbstractContextManager[Any]:
        """While open, a Longformer computes its attention in blocks, several times faster."""
        return self.observe() if self.banded else nullcontext()

    def forward(
        self,
        batch: Batch,
        sink: Sink | None = None,
        *,
        gates: Tensor | None = None,
        gradients: bool = False,
        with_head: bool = False,
    ) -> Any:
        """Run a batch, passing each layer's attention to `sink`, and return transformers' output.

        `with_head` runs the head and decoder too.
        """
        with self.reading(sink, gates=gates, gradients=gradients, with_head=with_head) as read:
            return read(batch)

    @contextmanager
    def reading(
        self,
        sink: Sink | None = None,
        *,
        gates: Tensor | None = None,
        gradients: bool = False,
        with_head: bool = False,
        layers: int | None = None,
        states: bool = False,
    ) -> Iterator[Callable[[Batch], Any]]:
        """While open, a function that runs a batch as `forward` does: many batches, set up once.

        With `states` the output has `hidden_states`.
        """
        network = self.network if with_head else self.part
        options = forward_options(network, states)
        expected = self.n_layers if layers is None else layers
        wanted = gradients or (gates is not None and gates.requires_grad)
        with (
            without_traces(network) if states else nullcontext(),
            self.without_dropout(),
            self.observe(sink, gates=gates, gradients=gradients) as observer,
            torch.set_grad_enabled(wanted),
            torch.compiler.set_stance("force_eager"),  # observers are not compiled
        ):

            def read(batch: Batch) -> Any:
                observer.watch(batch)
                output = network(input_ids=batch.ids, **batch.inputs, **options)
                if expected and observer.layer != expected:
                    raise CaptureError(
                        f"{type(self.network).__name__} yielded the attention of "
                        f"{observer.layer} layers instead of {expected}; nothing was measured"
                    )
                batch.forget()
                return output

            yield read

    def randomized(self, seed: int = 0) -> Model:
        """The control: the same architecture and tokenizer with random weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            config = copy.deepcopy(self.network.config)
            if self.banded:
                setattr(config, PERIOD, 0)  # fresh positions repeat nothing
            fresh = type(self.network)(config)
        fresh = fresh.to(device=self.device, dtype=self.network.dtype).eval()
        _ORIGINS[fresh] = self.network, seed
        name = f"{self.name} (random weights, seed {seed})"
        return replace(self, network=fresh, name=name, file_sha256=None)

    @property
    def origin(self) -> tuple[nn.Module, int] | None:
        """The original network and the seed of a `randomized` model; None for any other."""
        return _ORIGINS.get(self.network)

    def identity(self, weights: str | None = None) -> dict[str, str]:
        """Fingerprints of everything in memory that results depend on; `weights` if known."""
        return {
            "weights": self.weights_sha256() if weights is None else weights,
            "buffers": fingerprint(self._unsaved_buffers()),
            "config": fingerprint(config_content(self.network)),
            "tokenizer": fingerprint(tokenizer_content(self.tokenizer)),
            "task": fingerprint(self.task),
            "device": fingerprint(self.device.type),
            "dtype": fingerprint(str(self.network.dtype)),
            "hooks": hooks_fingerprint(self.network),
            "max_length": fingerprint(self.max_length),
            "global_tokens": fingerprint(self.global_tokens if self.banded else None),
            **({} if self.lens == "weights" else {"lens": fingerprint(self.lens)}),
        }

    def weights_sha256(self) -> str:
        """A digest of all parameters and saved buffers; saved estimators and manifests use it."""
        digest = sha256()
        for name, tensor in sorted(self.network.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(bytes_of(tensor))
        return digest.hexdigest()

    def _unsaved_buffers(self) -> dict[str, str]:
        saved = self.network.state_dict().keys()
        buffers = dict(self.network.named_buffers(remove_duplicate=False))
        return {
            name: f"{buffer.dtype} {tuple(buffer.shape)} {sha256(bytes_of(buffer)).hexdigest()}"
            for name, buffer in buffers.items()
            if name not in saved
        }

    def save(self, folder: str | Path) -> list[str]:
        """Write network and tokenizer as a folder that `attlas.load` reads; return the file names.

        All is written to a temporary folder inside first, then moved. A folder that contains
        anything but a model is refused.
        """
        folder = Path(folder).expanduser()
        _refuse_no_model(folder)
        network, tokenizer = copy.copy(self.network), self.tokenizer  # the same weights
        network.config = copy.deepcopy(self.network.config)
        if self.banded:
            setattr(network.config, GLOBAL_CHOICE, self.global_tokens)
        if self.limit is not None:  # a model is read again as it was trained
            tokenizer = copy.deepcopy(tokenizer)
            tokenizer.model_max_length = self.max_length
        with write_errors(folder), temporary_folder(folder) as temporary, silence_transformers():
            network.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
            files = [path.relative_to(temporary).as_posix() for path in files_below(temporary)]
            for name in sorted(files, key=lambda name: name == CONFIG):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                move(temporary / name, folder / name)
        return files

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed from the fields, such as the encoder with its lock."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def __repr__(self) -> str:
        note = "" if self.note is None else f"; {self.note}"
        shape = f"{self.n_layers} layers x {self.n_heads} heads"
        kind = type(self.network).__name__
        return f"Model({self.name!r}, {kind}, {shape}, task={self.task!r}{note})"


def _cannot_read(network: PreTrainedModel, error: Exception) -> str:
    """Why a network ended in an error on one word: it needs an image or sound, or more words."""
    name, needed = type(network).__name__, network.main_input_name
    line = (str(error).strip().splitlines() or [""])[0][:200]
    if needed != "input_ids":
        return f"{name} needs {needed}, not text; use a model that reads text"
    return f"{name} cannot read a single word as text: {type(error).__name__}: {line}"


def _refuse_no_model(folder: Path) -> None:
    """Refuse a folder that contains anything but a model."""
    if folder.exists() and not folder.is_dir():
        raise ModelError(f"{folder} is a file; give a folder for the model")
    files = sorted(path.name for path in folder.glob("*") if not is_temporary(path))
    if files and "model_type" not in (read_json(folder / CONFIG) or {}):
        problem = f"{folder} is not empty (it has {files[0]}) and holds no model"
        raise ModelError(f"{problem}; choose another folder, or delete this one by hand")


def same_attention(one: Model, other: Model) -> bool:
    """Whether two models have the same attention: at most their heads differ."""
    if _without_head(one) != _without_head(other):
        return False
    first, second = (
        {**model.part.state_dict(), **dict(model.part.named_buffers())} for model in (one, other)
    )
    return first.keys() == second.keys() and all(
        torch.equal(tensor, second[name]) for name, tensor in first.items()
    )


def _without_head(model: Model) -> tuple[Any, ...]:
    """What attention depends on in addition to weights and buffers."""
    config = model.network.config.to_dict()
    names = config.keys() - {*NOT_CONFIGURED, *OF_A_HEAD}
    return (
        type(model.part),
        repr(model.part),
        json.dumps({name: config[name] for name in names}, sort_keys=True, default=plain_config),
        hooks_fingerprint(model.part),
        fingerprint(tokenizer_content(model.tokenizer)),
        (model.device.type, str(model.network.dtype)),
        (model.max_length, model.global_tokens if model.banded else None, model.lens),
    )


@feed.register
def _(model: Model, put: Put) -> None:
    """The content in memory, never the name or the file."""
    feed(model.identity(), put)


def check_parts(network: Any, tokenizer: Any) -> None:
    """Refuse a pair that is not a transformers model and tokenizer."""
    if not isinstance(network, PreTrainedModel):
        raise ModelError(
            f"the model is a {type(network).__name__}, not a transformers model; "
            "pass (model, tokenizer) with a transformers PreTrainedModel"
        )
    if tokenizer is None:
        raise ModelError(f"this {type(network).__name__} has no tokenizer; pass (model, tokenizer)")
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ModelError(
            f"the tokenizer is a {type(tokenizer).__name__}, not a transformers tokenizer; "
            "pass (model, tokenizer)"
        )
