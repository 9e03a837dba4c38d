"""Texts that models read for pages: the models named at the start, and what a pass keeps.

Nothing is stored: a text and its attention are kept in memory, bounded in bytes, until others take
their place.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attlas.support.errors import AttlasError
from attlas.support.heads import parse_head
from attlas.web.refusals import Refusal
from attlas.web.tasks import Task, Tasks

if TYPE_CHECKING:
    from torch import Tensor

    from attlas.core.attention import Attention
    from attlas.core.text import Text
    from attlas.models.look import TextAttention
    from attlas.models.model import Model

EMBEDDED = ("all-MiniLM-L6-v2", "embedded:long")  # served if no model is named
MOST_CHARACTERS = 200_000
MOST_WEIGHTS = 2**28  # of one text, in all layers and heads: a gigabyte
KEPT_BYTES = 2**30 + 2**28  # of all texts that are kept
INLINE_BYTES = 2**18  # of all weights of a text that a page gets at once
MATRIX_TOKENS = 1_024
GONE = "This text is no longer kept: run it again."
LAYER = re.compile(r"L\d{1,4}")
Opaque = Callable[..., str]


@dataclass(eq=False)
class NamedModel:
    """A model named at the start, loaded when it is first needed."""

    id: str
    given: str
    opener: Callable[[str], Model] = field(repr=False)
    loaded: Model | None = field(default=None, repr=False)
    weights: str | None = None  # the digest of its weights, once it is loaded

    @property
    def name(self) -> str:
        """Its name on pages: of a folder only the last part."""
        return Path(self.given).name if Path(self.given).is_absolute() else self.given

    @cached_property
    def _file_sha256(self) -> str | None:
        """The digest of the file of its weights, if it is a folder with one."""
        from attlas.models.sources import folder_of
        from attlas.support.files import file_sha256

        try:
            folder = folder_of(None if self.given == EMBEDDED[0] else self.given)
            files = sorted(folder.glob("*.safetensors")) if folder and self.is_own else []
            return file_sha256(files[0]) if len(files) == 1 else None
        except (AttlasError, OSError):
            return None

    @property
    def is_own(self) -> bool:
        """Whether it is read as its files are; a lengthened one has other weights."""
        return self.given != EMBEDDED[1]

    def has_weights(self, state: str | None, file: str | None) -> bool:
        """Whether these are the digests of its weights, in memory or of their file."""
        if self.weights is not None and state is not None:
            return self.weights == state
        return file is not None and file == self._file_sha256

    def load(self, report: Callable[[str, int, int], None]) -> Model:
        """The model; it is loaded once."""
        if self.loaded is None:
            report(f"Loading {self.name}", 0, 1)
            loaded = self.opener(self.given)
            self.weights = loaded.weights_sha256()
            self.loaded = loaded
        return self.loaded


def open_model(name: str) -> Model:
    """Load a model by the name that was given at the start."""
    from attlas.models import load

    return load(name, task="auto")


class Looks:
    """The models of a server, and the texts that they read."""

    def __init__(
        self,
        models: Sequence[str],
        opaque: Opaque,
        tasks: Tasks | None = None,
        opener: Callable[[str], Model] | None = None,
    ) -> None:
        load = opener or open_model
        named = [NamedModel(opaque("model", one), one, load) for one in models or EMBEDDED]
        self.models = {one.id: one for one in named}
        self.tasks = tasks or Tasks()
        self.kept = Kept(KEPT_BYTES)
        self._opaque = opaque

    def model(self, name: str) -> NamedModel:
        """A model by its id."""
        if name not in self.models:
            raise Refusal(404, "There is no such model here; models are named with --model.")
        return self.models[name]

    def matching(self, manifest: Mapping[str, Any]) -> str:
        """The id of the named model with the weights of a study, as far as they are known."""
        own = manifest.get("model") or {}
        for one in self.models.values():
            if own and one.has_weights(own.get("state_sha256"), own.get("file_sha256")):
                return one.id
        return ""

    def start(self, model: str, text: Text) -> dict[str, Any]:
        """Queue the pass of a model over a text, unless it is kept; its id and state."""
        named = self.model(model)
        if len(text.text) > MOST_CHARACTERS:
            raise Refusal(
                413,
                f"A text may have {MOST_CHARACTERS:,} characters; this one has {len(text.text):,}.",
            )
        if (problem := text.problem()) is not None:
            raise Refusal(422, f"This text cannot be read: {problem}.")
        name = self._opaque("look", model, text.id, text.text)
        if self.kept.get(name) is not None:
            return {"id": name, "state": "ready", "title": ""}

        def work(task: Task) -> None:
            self.kept.put(name, look_at(named.load(task.report), text, task.report))

        self.tasks.submit(name, f"Reading the text with {named.name}", work)
        return self.tasks.status(name)

    def look(self, name: str) -> Look:
        """A text that a model has read."""
        look = self.kept.get(name)
        if look is None:
            raise Refusal(404, GONE)
        return look

    def status(self, name: str) -> dict[str, Any]:
        """How far the pass over a text is."""
        if self.kept.get(name) is not None:
            return {"id": name, "state": "ready", "title": ""}
        return self.tasks.status(name)


def look_at(model: Model, text: Text, report: Callable[[str, int, int], None]) -> Look:
    """A pass over one text, reported layer by layer; refused before it if it would be too large."""
    from attlas.models.look import text_attention
    from attlas.models.text_pass import LayersPass

    layers, heads = model.n_layers, model.n_heads

    def keep(n_tokens: int) -> LayersPass:
        check_weights(n_tokens, layers * heads, model.banded)
        seen = f"Reading {n_tokens:,} tokens with {layers} layers of {heads} heads"
        report(seen, 0, layers)
        return LayersPass(lambda layer: report(seen, layer + 1, layers))

    passes: list[LayersPass] = []

    def kept(n_tokens: int) -> LayersPass:
        passes.append(keep(n_tokens))
        return passes[0]

    seen = text_attention(model, text, kept)
    return Look(seen, tuple(passes[0].passed))


def check_weights(n_tokens: int, n_heads: int, banded: bool) -> None:
    """Refuse a text whose weights would not fit, before the pass.

    >>> check_weights(512, 72, False)
    >>> check_weights(4096, 72, False)
    Traceback (most recent call last):
    attlas.web.refusals.Refusal: This text has 4,096 tokens; with 72 heads, a pass here takes at
    most 1,930. Shorten the text, or use attlas look in the terminal.
    """
    across = min(n_tokens, 600) if banded else n_tokens
    if n_tokens * across * n_heads <= MOST_WEIGHTS:
        return
    most = int((MOST_WEIGHTS / n_heads) ** 0.5)
    raise Refusal(
        413,
        f"This text has {n_tokens:,} tokens; with {n_heads} heads, a pass here takes at most "
        f"{most:,}. Shorten the text, or use attlas look in the terminal.",
    )


@dataclass(frozen=True, eq=False)
class Look:
    """The attention of one text, with all of its layers, from which pages take what they show."""

    seen: TextAttention
    layers: tuple[Attention, ...]
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @cached_property
    def n_bytes(self) -> int:
        """What it takes in memory, about."""
        sizes = (tensor.nbytes for one in self.layers for tensor in tensors_of(one))
        return sum(sizes) + 2 * self.seen.by_head.nbytes + 64 * len(self.seen.text)

    def views(self, scores: Mapping[str, Any] | None = None) -> bytes:
        """Everything that a page needs at first, as JSON; with scores of its tokens if any."""
        from attlas.views.head_views import HEADS, head_grid_part
        from attlas.views.matrices import MATRIX
        from attlas.views.parts import TEXT
        from attlas.views.text_page import BRIEF, COLUMNS

        seen = self.seen
        about = {
            "model": Path(seen.model).name if Path(seen.model).is_absolute() else seen.model,
            "layers": seen.n_layers,
            "heads": seen.n_heads,
            "words": len(seen.words),
            "tokens": len(seen.tokens),
            "cut": seen.batch.truncated_by[0],
            "brief": len(seen.words) <= BRIEF,
        }
        heads = head_grid_part(seen.heads, COLUMNS, table="text").data
        views = [
            {"place": "text", "module": TEXT.module, "data": {**self.data, **(scores or {})}},
            {"place": "heads", "module": HEADS.module, "kind": "compact", "data": heads},
            {"place": "matrix", "module": MATRIX.module, "data": self.matrix},
        ]
        return json.dumps({"about": about, "views": views}).encode()

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the view of the text gets at first: rows of heads follow when they are asked for."""
        from attlas.views.text_page import focused_heads, text_overlay
        from attlas.views.text_rows import weights_data

        numbers = self.seen.numbers
        rows: dict[str, Any]
        if 2 * self._n_weights <= INLINE_BYTES:
            every = np.stack([one.dense().weights[0].float().cpu().numpy() for one in self.layers])
            rows = {"weights": weights_data(every)}
        else:
            mean = self._n_rows - 1
            rows = {"tops": {**self.seen.mean_tops.data, "rows": [mean], "of": self._n_rows}}
        visible = self.seen.visible.data
        lines = focused_heads(self.seen.heads)
        return {**text_overlay(numbers).data, **rows, "visible": visible, "lines": lines}

    @property
    def _n_weights(self) -> int:
        return len(self.seen.tokens) ** 2 * self.seen.n_layers * self.seen.n_heads

    @property
    def _n_rows(self) -> int:
        """Rows of the largest weights: of every head, of the mean of each layer, of all."""
        return self.seen.n_layers * (self.seen.n_heads + 1) + 1

    def tops(self, row: int) -> dict[str, Any]:
        """The largest weights of each word: of a head, or of the mean of a layer."""
        from attlas.models.text_pass import top_words

        heads = self.seen.n_layers * self.seen.n_heads
        if not 0 <= row < self._n_rows - 1:
            raise Refusal(404, "There is no such head in this model.")
        if row < heads:
            layer, head = divmod(row, self.seen.n_heads)
            part = self.layers[layer].of_heads(slice(head, head + 1))
        else:
            part = self.layers[row - heads].over_heads()
        with self._one_at_a_time:  # exact rows of others do not wait for it
            tops = top_words(part)
        return {**tops.data, "rows": [row], "of": self._n_rows}

    def row(self, head: str, query: int) -> bytes:
        """The weights of one query in one head, exactly: float32 in little endian."""
        part = self._head(head)
        if not 0 <= query < part.n_tokens:
            raise Refusal(404, f"There is no token {query}.")
        weights = part.row(query)[0].float().cpu().numpy().astype("<f4")
        return weights.tobytes()

    def word(self, view: str, word: int) -> bytes:
        """What a word attends to and what attends to it, by word: two rows of float32.

        A `view` is a head or the mean of a layer. *To* a word is a sum, *from* a word a mean.
        """
        words = self.seen.batch.words[0]
        (tokens,) = np.nonzero(words.of == word)
        if not len(tokens):
            raise Refusal(404, f"There is no word {word}.")
        pick, layer = self._view(view)
        sizes = np.bincount(words.of)
        rows = [_of_view(layer.row(token), pick) for token in tokens.tolist()]
        columns = [_of_view(layer.column(token), pick) for token in tokens.tolist()]
        to = np.bincount(words.of, np.mean(rows, axis=0), len(sizes))
        by = np.bincount(words.of, np.sum(columns, axis=0), len(sizes)) / sizes
        return np.stack([to, by]).astype("<f4").tobytes()

    def _view(self, view: str) -> tuple[int | None, Attention]:
        """The head of a view, or None for the mean of all, and its layer."""
        if LAYER.fullmatch(view) and int(view[1:]) < self.seen.n_layers:
            return None, self.layers[int(view[1:])]
        layer, head = self._place(view)
        return head, self.layers[layer]

    def codes(self, head: str) -> dict[str, Any]:
        """The matrix of one head as the view takes it."""
        from attlas.models.head_codes import head_codes

        part = self._head(head)
        return {**head_codes(part, 0, MATRIX_TOKENS).packed, "name": head}

    @property
    def matrix(self) -> dict[str, Any]:
        """What the matrix view gets at first: heads by name, whose codes follow."""
        from attlas.views.matrices import FLOOR
        from attlas.views.text_page import focused_heads

        tokens = self.seen.tokens[:MATRIX_TOKENS]
        layers, heads = self.seen.n_layers, self.seen.n_heads
        names = [f"L{layer}H{head}" for layer in range(layers) for head in range(heads)]
        return {
            "text": self.seen.numbers.id,
            "tokens": list(tokens),
            "word_of": self.seen.batch.words[0].of[: len(tokens)].tolist(),
            "total": len(self.seen.tokens),
            "floor": FLOOR,
            "heads": [{"name": one} for one in names],
            "first": focused_heads(self.seen.heads, 1)[0],
        }

    def _head(self, name: str) -> Attention:
        layer, head = self._place(name)
        return self.layers[layer].of_heads(slice(head, head + 1))

    def _place(self, name: str) -> tuple[int, int]:
        try:
            layer, head = parse_head(name)
        except AttlasError as error:
            raise Refusal(404, str(error)) from error
        if layer >= self.seen.n_layers or head >= self.seen.n_heads:
            raise Refusal(404, f"There is no head {name} in this model.")
        return layer, head


def _of_view(values: Tensor, head: int | None) -> np.ndarray[Any, Any]:
    """The numbers of a head, or the mean of all heads: [head, token] -> [token]."""
    chosen = values.mean(0) if head is None else values[head]
    return chosen.double().cpu().numpy()


def tensors_of(layer: Attention) -> list[Any]:
    """The tensors that a layer of attention holds."""
    return layer.by_form(
        dense=lambda one: [one.weights, *([] if one.visible is None else [one.visible])],
        banded=lambda one: list(one.parts),
    )


class Kept:
    """Looks by name, bounded in bytes: the least recently used is dropped first."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._looks: OrderedDict[str, Look] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        return sum(one.n_bytes for one in self._looks.values())

    def get(self, name: str) -> Look | None:
        """A look, which is now the last to be dropped."""
        with self._lock:
            if name in self._looks:
                self._looks.move_to_end(name)
            return self._looks.get(name)

    def put(self, name: str, look: Look) -> None:
        """Keep a look, even a large one, until another takes its place."""
        with self._lock:
            self._looks[name] = look
            while self.n_bytes > self.most_bytes and len(self._looks) > 1:
                self._looks.popitem(last=False)
