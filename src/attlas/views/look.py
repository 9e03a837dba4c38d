"""attention: all layers of one text, to look at: in Python, in a notebook, in the terminal, in a page."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor

from attlas.core.attention import DenseAttention, words_from_tokens
from attlas.core.batch import Batch
from attlas.core.errors import AttlasError, CorpusError, ModelError
from attlas.core.files import write_bytes
from attlas.core.text import Text
from attlas.models import load
from attlas.views.report import templates

MOST_BYTES = 4 * 2**30
PAGE_BYTES = 8 * 2**20


@dataclass(frozen=True, eq=False)
class TextAttention:
    """The attention of one text: `weights` [layer, head, query, key] beside its tokens and words."""

    weights: Tensor
    batch: Batch
    model: str
    uniform: Tensor  # layer key: what each token would receive if every row were spread evenly over what it sees

    @property
    def tokens(self) -> tuple[str, ...]:
        """What a reader sees of each token."""
        return self.batch.surfaces[0]

    @property
    def words(self) -> tuple[str, ...]:
        return self.batch.words[0].strings

    @property
    def text(self) -> str:
        return self.batch.texts[0].text

    @property
    def special(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which tokens the tokenizer added."""
        return self.batch.special[0]

    def to_words(self) -> Tensor:
        """Attention between words, [layer, head, word, word]: *to* a word the sum over its tokens, *from* a word the mean."""
        words = self.batch.words[0]
        return torch.stack([words_from_tokens(layer, words) for layer in self.weights])

    def received(self) -> Tensor:
        """Attention received by each token: column sums, [layer, head, key]; uniform attention gives 1 where all is seen."""
        return self.weights.sum(-2)

    def to_dict(self) -> dict[str, Any]:
        """Tokens, words and attention received (mean over heads) by layer, for JSON."""
        received = self.received().mean(1)
        return {
            "model": self.model, "text": self.text, "tokens": list(self.tokens), "words": list(self.words), "word_of": self.batch.words[0].of.tolist(),
            "n_layers": len(self.weights), "n_heads": self.weights.shape[1], "cut": self.batch.cut[0],
            "received": {"all": _rounded(received.mean(0)), **{f"L{layer}": _rounded(values) for layer, values in enumerate(received)}},
            "uniform": _rounded(self.uniform.mean(0)),
        }  # fmt: skip

    def _repr_html_(self) -> str:
        """An isolated frame, so that nothing leaks into a notebook."""
        lines = 12 + len(self.text) // 60
        return f'<iframe srcdoc="{escape(self.page(), quote=True)}" style="width:100%;border:0;height:{min(760, 24 * lines)}px" sandbox="allow-scripts"></iframe>'

    def page(self) -> str:
        """A page that needs nothing else: choose layer and head, click tokens to see where they look."""
        weights = self.weights.float().numpy()
        small = 2 * weights.size <= PAGE_BYTES
        shown = (
            weights if small else self.received().mean(1, keepdim=True)[:, :, None].numpy()
        )  # layer head query key, or received only
        scale = float(shown.max()) or 1.0
        data = {
            "tokens": list(self.tokens), "special": self.special.tolist(), "spans": self.batch.offsets[0].tolist(), "text": self.text, "rows": small,
            "shape": list(shown.shape), "scale": scale, "weights": base64.b64encode(np.round(shown / scale * 65535).astype("<u2").tobytes()).decode(),
            "uniform": _rounded(self.uniform.mean(0)),
        }  # fmt: skip
        script = Markup(json.dumps(data).replace("<", "\\u003c"))
        return (
            templates()
            .get_template("look.html")
            .render(
                data=script,
                model=self.model,
                n_layers=len(weights),
                n_heads=weights.shape[1],
                small=small,
                cut=self.batch.cut[0],
            )
        )

    def write(self, path: str | Path) -> Path:
        """Write the page to a file."""
        path = Path(path).expanduser()
        if path.is_dir():
            raise AttlasError(f"{path} is a folder; give a file for the page, such as look.html")
        write_bytes(path, self.page().encode("utf-8", "replace"))
        return path


def attention(model: Any, text: str | Text) -> TextAttention:
    """The attention of one text in all layers; `model` is anything `attlas.load` takes."""
    model = load(model)
    text = Text("text", text) if isinstance(text, str) else text
    if (defect := text.defect()) is not None:
        raise CorpusError(f"this cannot be looked at: {defect}")
    encoded = model.encode([(0, text)])
    size = 4 * model.n_layers * model.n_heads * len(encoded[0]) ** 2
    if size > MOST_BYTES:
        raise ModelError(
            f"all layers of {len(encoded[0])} tokens would take {size / 2**30:.0f} GB; use attlas.study, which keeps one layer at a time"
        )
    batch = next(iter(model.batches(encoded)))
    layers: list[Tensor] = []
    uniform: list[Tensor] = []

    def keep(layer: Any) -> None:
        square: DenseAttention = layer.dense()
        layers.append(square.weights[0].cpu())
        uniform.append(square.uniform.received[0, 0].cpu())

    model.forward(batch, keep)
    return TextAttention(torch.stack(layers), batch, model.name, torch.stack(uniform))


def _rounded(values: Tensor) -> list[float]:
    return [round(float(value), 5) for value in values]
