"""Integrated gradients until the gap is below 1%, vs. the published 500 steps of captum.

Evaluations, gap and time, measured in one run; captum uses Gauss-Legendre and internal batches of
2. The classifiers are real: the embedded model with a head fitted on the embedded reviews, and the
same model fine-tuned on them as a whole.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.table import Row

TEXTS, STEPS, TOLERANCE = 6, 500, 0.01


def classifiers(folder: Path) -> Iterator[tuple[str, Any]]:
    import attlas

    for name, options in {"head fitted": {"head_only": True}, "fine-tuned": {"epochs": 3}}.items():
        tuning = attlas.Finetune(texts="embedded:reviews", **options)
        tuned = attlas.run(tuning, folder / name, progress=False)
        yield name, attlas.load(tuned.folder, task="classify")


def ours(model: Any, texts: list[Any]) -> dict[str, Any]:
    from attlas.explain import integrated_gradients

    began = time.perf_counter()
    explanations = integrated_gradients(model, texts, tolerance=TOLERANCE, progress=False)
    return {
        "seconds": time.perf_counter() - began,
        "evaluations": [one.evaluations for one in explanations],
        "gap": [one.gap for one in explanations],
        "scores": [one.scores for one in explanations],
    }


def captums(model: Any, texts: list[Any]) -> dict[str, Any]:
    """As published: layer integrated gradients on the embeddings, from [CLS] padding [SEP]."""
    from captum.attr import LayerIntegratedGradients

    network, encoder = model.network, model.full_encoder
    out: dict[str, Any] = {"gap": [], "scores": []}
    began = time.perf_counter()
    for encoded in encoder.encode(list(enumerate(texts))):
        batch = encoder.batch([encoded], model.device)
        start = torch.where(
            torch.from_numpy(batch.special), batch.ids, model.tokenizer.pad_token_id
        )
        with torch.no_grad():
            values = [network(input_ids=ids).logits.softmax(-1)[0] for ids in (batch.ids, start)]
        target = int(values[0].argmax())
        method = LayerIntegratedGradients(
            lambda ids: network(input_ids=ids).logits.softmax(-1), network.base_model.embeddings
        )
        scores = method.attribute(
            batch.ids, start, target=target, n_steps=STEPS, internal_batch_size=2
        ).sum(-1)[0]
        difference = float(values[0][target] - values[1][target])
        out["gap"].append(abs(float(scores.sum()) - difference) / max(abs(difference), 1e-3))
        out["scores"].append(scores.detach().numpy())
    return {**out, "seconds": time.perf_counter() - began, "evaluations": [STEPS] * len(texts)}


def rows() -> Iterator[Row]:
    import attlas

    texts = list(attlas.read("embedded:reviews"))[:: 120 // TEXTS][:TEXTS]
    with tempfile.TemporaryDirectory() as folder:
        for name, model in classifiers(Path(folder)):
            ours(model, texts[:1])
            mine, theirs = ours(model, texts), captums(model, texts)
            away = max(
                np.abs(a - b).sum() / np.abs(b).sum()
                for a, b in zip(mine["scores"], theirs["scores"], strict=True)
            )
            what = f"integrated gradients, {name}"
            yield Row(
                f"{what}: evaluations a text, mean",
                float(np.mean(mine["evaluations"])),
                "captum, the paper's steps",
                STEPS,
                "at most 0.2",
                "",
            )
            yield Row(
                f"{what}: evaluations a text, most",
                max(mine["evaluations"]),
                "captum, the paper's steps",
                STEPS,
                "at most 0.2",
                "",
            )
            yield Row(
                f"{what}: largest gap",
                100 * max(mine["gap"]),
                "captum",
                100 * max(theirs["gap"]),
                f"ours at most {TOLERANCE:.0%}",
                "%",
            )
            yield Row(
                f"{what}: scores differ from captum's by at most",
                100 * away,
                "the tolerance",
                100 * TOLERANCE,
                "a few",
                "%",
            )
            yield Row(
                f"{what}: {TEXTS} texts",
                mine["seconds"],
                "captum",
                theirs["seconds"],
                "at most 0.2",
            )
