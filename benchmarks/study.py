"""A study of four measures vs. a bare eager forward pass, and vs. the usual way."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import AutoModel

import attlas
from attlas.core.text import Text
from attlas.models.sources import embedded_folder
from attlas.studies.engines import LocalEngine, Task, default_workers
from attlas.studies.shard_job import LANES
from attlas.studies.shards import shards
from benchmarks.corpus import mixed
from benchmarks.table import Row, best_of

MEASURES = ["surface", "entropy", "positions", "totals"]


def bare_pass(model: Any, eager: Any, texts: list[str]) -> Callable[[], None]:
    """Reference: run the eager model over the same batches, with all cores; keep nothing."""
    corpus = attlas.read(texts)

    def run() -> None:
        with torch.no_grad():
            for shard in shards(corpus):
                for batch in model.batches(model.encode(shard.texts)):
                    eager(batch.ids)

    return run


def bare_pass_in_workers(model: Any, eager: Any, texts: list[str]) -> Callable[[], None]:
    """Reference: the same, the batches dealt to workers as the study deals them."""
    corpus = attlas.read(texts)

    def lane(groups: list[Any], _: Any) -> None:
        with torch.no_grad():
            for group in groups:
                eager(model.encoder.batch(group, model.device).ids)

    def tasks() -> Iterator[Task]:
        for shard in shards(corpus):
            groups = list(model.encoder.groups(model.encode(shard.texts)))
            yield from (partial(lane, groups[number::LANES]) for number in range(LANES))

    return lambda: LocalEngine(default_workers(model.device)).run(tasks())


def usual_way(
    eager: Any, tokenizer: Any, texts: list[str], batch_size: int = 32
) -> Callable[[], None]:
    """Reference: padded batches in corpus order, output_attentions=True, then numpy."""

    def run() -> None:
        surface: list[Any] = []
        for start in range(0, len(texts), batch_size):
            encoding = tokenizer(
                texts[start : start + batch_size],
                padding=True,
                truncation=True,
                max_length=512,
                return_tensors="pt",
            )
            with torch.no_grad():
                attentions = eager(**encoding, output_attentions=True).attentions
            weights = np.stack(
                [layer.numpy() for layer in attentions], 1
            )  # text layer head query key
            for text, length in enumerate(encoding["attention_mask"].sum(1).tolist()):
                one = weights[text, :, :, :length, :length]
                ids = encoding["input_ids"][text, :length].numpy()
                surface.append(_numpy_measures(one, ids, tokenizer))

    return run


def _numpy_measures(weights: Any, ids: Any, tokenizer: Any) -> tuple[Any, ...]:
    n = weights.shape[-1]
    query, key = np.indices((n, n))
    sep, cls = ids == tokenizer.sep_token_id, ids == tokenizer.cls_token_id
    punctuation = np.isin(ids, tokenizer.convert_tokens_to_ids([".", ","]))
    masks = [
        query == key,
        key == query - 1,
        key == query + 1,
        key == 0,
        cls[key],
        sep[key],
        sep[key] & sep[query],
        sep[key] & ~sep[query],
        punctuation[key],
    ]
    surface = [(weights * mask).sum((-1, -2)) / n for mask in masks]
    entropy = -(weights * np.log(weights + 1e-12)).sum(-1)
    offsets = np.clip(key - query, -9, 9)
    positions = [(weights * (offsets == offset)).sum((-1, -2)) / n for offset in range(-9, 10)]
    received = weights.sum(-2).mean(1)
    return surface, entropy.mean(-1), entropy[..., 0], positions, received, received / n


def rows() -> list[Row]:
    model = attlas.load()
    eager = AutoModel.from_pretrained(embedded_folder(), attn_implementation="eager").eval()
    out = []
    for name, texts in (
        ("512 texts of mixed lengths", mixed(512)),
        (
            "2,000 short texts (about 13 tokens)",
            [text.text for text in attlas.read("embedded:acceptability")] * 10,
        ),
        ("24 texts of 512 tokens", [" ".join(mixed(60, seed))[:4000] for seed in range(24)]),
    ):
        corpus = [Text(str(number), text) for number, text in enumerate(texts)]

        def ours(corpus: list[Text] = corpus) -> None:
            with tempfile.TemporaryDirectory() as folder:
                attlas.study(model, corpus, MEASURES, out=f"{folder}/study", progress=False)

        seconds, bare, workers = best_of(
            ours, bare_pass(model, eager, texts), bare_pass_in_workers(model, eager, texts)
        )
        out.append(
            Row(
                f"study, {name}",
                seconds,
                "bare eager forward, same batches",
                bare,
                aim="at most 1.3",
            )
        )
        out.append(
            Row(
                f"study, {name}",
                seconds,
                "the same by our workers",
                workers,
                aim="at most 1.3",
            )
        )
    texts = mixed(100)
    corpus = [Text(str(number), text) for number, text in enumerate(texts)]

    def ours_again() -> None:
        with tempfile.TemporaryDirectory() as folder:
            attlas.study(model, corpus, MEASURES, out=f"{folder}/study", progress=False)

    seconds, usual = best_of(ours_again, usual_way(eager, model.tokenizer, texts), repeats=2)
    out.append(
        Row(
            "study, 100 texts of mixed lengths",
            seconds,
            "padded, output_attentions=True, numpy",
            usual,
            aim="below 1",
        )
    )
    return out


if __name__ == "__main__":
    began = time.perf_counter()
    for row in rows():
        print(row)
    print(f"{time.perf_counter() - began:.0f} s")
