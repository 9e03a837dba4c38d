"""Pages of one text in a browser: what the modules compute, and what Python expects of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedTokenizerFast

import attlas
from attlas.core.attention import words_from_tokens
from attlas.models.look import TextAttention
from attlas.testing import tiny
from tests.builders.pages import open_page

Floats = npt.NDArray[np.float64]
SENTENCE = "a cat didn't see the dog, and it was not very good in the film of they"
READ = """async ({ wanted }) => {
  const { readText } = await import("attlas/rows.js");
  const all = JSON.parse(document.getElementById("views").textContent);
  const text = await readText(all["attlas/text.js"][0]);
  return wanted.map(([what, view, level, ...more]) => {
    const units = text[level];
    if (what === "received") return [...text.received(view, units)];
    if (what === "uniform") return [...text.uniform(view, units)];
    const { values, uniform, rest } = text.row(more[0], view, units, more[1]);
    return { values: [...values], uniform: [...uniform], rest };
  });
}"""


def page_of(browser: Any, seen: TextAttention, folder: Path, **options: Any) -> Any:
    """The page of a text, when all of its views are drawn."""
    page, wrong = open_page(browser, seen.write(folder / "look.html", force=True), **options)
    page.wrong = wrong
    return page


def computed(page: Any, *wanted: tuple[Any, ...]) -> list[Any]:
    """What rows.js computes from the data of a page."""
    return list(page.evaluate(READ, {"wanted": [list(one) for one in wanted]}))


def seen_by(family: str, n: int) -> npt.NDArray[np.bool_]:
    """Which keys each query sees in the layers of a tiny model: [layer, query, key]."""
    query, key = np.indices((n, n))
    if family == "gpt2":
        return np.broadcast_to(key <= query, (3, n, n))
    if family == "longformer":
        near = [np.abs(query - key) <= reach for reach in (2, 4, 2)]
        return np.stack([one | (query == 0) | (key == 0) for one in near])
    return np.ones((3, n, n), dtype=bool)


def uniform_weights(family: str, n: int) -> Floats:
    """Uniform attention of a tiny model: [layer, query, key]."""
    seen = seen_by(family, n)
    return np.asarray(seen / seen.sum(-1, keepdims=True), dtype=np.float64)


def between_words(weights: Floats, seen: TextAttention) -> Floats:
    """From tokens to words: [head, query, key]."""
    words = seen.batch.words[0]
    return words_from_tokens(torch.from_numpy(weights), words).numpy()


def view_of(weights: Floats, view: str) -> Floats:
    """The mean of all heads, of a layer, or one head: [layer, head, ...] -> [...]."""
    if not view:
        return np.asarray(weights.mean((0, 1)))
    layer, _, head = view.removeprefix("L").partition("H")
    own = weights[int(layer)]
    return np.asarray(own[int(head)] if head else own.mean(0))


def byte_model() -> attlas.Model:
    """A tiny causal model whose tokens are single bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    numbers = {letter: number for number, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(numbers, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512)
    return attlas.load((tiny("gpt2", vocab_size=len(letters)).network, fast))
