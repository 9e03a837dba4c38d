"""Every token view of 4,096 tokens from the band vs. square matrices, and the cost by length.

The model is a Longformer of 12 x 12 heads, 768 wide, window 512, with random weights. The reference
fills the square matrices of all heads and reads them: first vectorised in torch, then by the loops
of the paper's code, of which a few rows are run and the rest is extrapolated.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.memory import PEAK
from benchmarks.table import Row

TOKENS, WINDOW, K, GRID = 4096, 512, 10, 64
LENGTHS = (512, 1024, 2048, 4096)
VIEWS = ("totals", "topk", "heatmap", "position_bias")


def model_of() -> Any:
    """The model, and a tokenizer that makes a token of every word."""
    from attlas.testing import tiny

    return tiny(
        "longformer",
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        attention_window=[WINDOW] * 12,
        max_position_embeddings=TOKENS + 4,
    )


def batch_of(model: Any, tokens: int) -> Any:
    from attlas.core.text import Text

    draw = np.random.default_rng(0)
    words = draw.choice(["cat", "dog", "film", "mat", "the", "good", "saw", "it", "."], tokens - 2)
    model.tokenizer.model_max_length = TOKENS
    (batch,) = model.batches(model.encode([(0, Text("0", " ".join(words)))]))
    assert batch.n_tokens == tokens
    return batch


def ours(model: Any, batch: Any) -> dict[str, float]:
    """One pass: seconds of all, and of the views alone."""
    from attlas.catalogue import measures_of
    from attlas.core.measure import Outputs

    measures = measures_of(",".join(VIEWS))
    states = {measure.name: measure.start(model) for measure in measures}
    views = 0.0

    def sink(layer: Any) -> None:
        nonlocal views
        began = time.perf_counter()
        for measure in measures:
            measure.update(states[measure.name], layer)
        views += time.perf_counter() - began

    began = time.perf_counter()
    model.forward(batch, sink)
    tables = time.perf_counter()
    for measure in measures:
        measure.finish_batch(states[measure.name], batch, Outputs())
        measure.result(states[measure.name])
    ended = time.perf_counter()
    seconds, after = views + ended - tables, ended - began
    return {"all": after, "views": seconds, "pass": after - seconds}


def squares(model: Any, batch: Any) -> dict[str, float]:
    """The vectorised reference: each head's square filled from transformers' output, same views."""
    began = time.perf_counter()
    with torch.inference_mode():
        model.network.set_attn_implementation("eager")
        output = model.network(input_ids=batch.ids, output_attentions=True, **batch.inputs)
        passed = time.perf_counter()
        n, reach = batch.n_tokens, WINDOW // 2
        heads = 12
        full = torch.zeros(12, heads, n, n)
        for layer, (local, rows) in enumerate(
            zip(output.attentions, output.global_attentions, strict=True)
        ):
            wide = torch.zeros(heads, n, n + 2 * reach)
            line = n + 2 * reach
            wide.as_strided((heads, n, WINDOW + 1), (n * line, line + 1, 1)).copy_(
                local[0, :, :, 1:]
            )
            full[layer] = wide[..., reach : reach + n]
            full[layer, :, :, 0] = local[0, :, :, 0]
            full[layer, :, 0] = rows[0, :, :n, 0]
        filled = time.perf_counter()
        full.sum(-2)  # total attention
        members = torch.zeros(2, n, n, dtype=torch.bool)
        for layer in range(12):
            full[layer].reshape(heads, GRID, n // GRID, GRID, n // GRID).mean((2, 4))  # heat map
            for side, matrices in enumerate((full[layer], full[layer].transpose(-1, -2))):
                best = matrices.topk(K, dim=-1).indices  # head token rank
                members[side].scatter_(
                    1, best.transpose(0, 1).reshape(n, -1), True
                )  # the union over heads and layers
        members.sum(1)
    ended = time.perf_counter()
    return {
        "all": ended - began,
        "views": ended - passed,
        "filling": filled - passed,
        "pass": passed - began,
    }


def loops(model: Any, batch: Any, rows: int = 400) -> dict[str, float]:
    """The reference as in the paper's code: cell by cell; a few rows of one head, extrapolated."""
    with torch.inference_mode():
        output = model.network(input_ids=batch.ids, output_attentions=True, **batch.inputs)
    local = output.attentions[0][0, 0]
    n, reach = batch.n_tokens, WINDOW // 2
    full = torch.zeros(n, n)
    began = time.perf_counter()
    for query in range(n // 2, n // 2 + rows):
        full[query, 0] = local[query, 0]
        for cell in range(WINDOW + 1):
            key = query + cell - reach
            if 0 <= key < n:
                full[query, key] = local[query, 1 + cell]
    return {"filling": (time.perf_counter() - began) / rows * n * 144}


def alone(code: str) -> dict[str, float]:
    """Run code in a process of its own: its value, and its peak memory in MB."""
    script = (
        "import json, torch; from benchmarks.long import *; model = model_of()\n"
        f"batch = batch_of(model, {TOKENS}); print(json.dumps({code}))\n{PEAK}"
    )
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    *_, value, peak = process.stdout.splitlines()
    return {**json.loads(value), "peak": int(peak) / 1024}


def best(way: Callable[[], dict[str, float]], repeats: int = 2) -> dict[str, float]:
    rounds = [way() for _ in range(repeats)]
    return {name: min(one[name] for one in rounds) for name in rounds[0]}


def rows() -> Iterator[Row]:
    mine = alone("best(lambda: ours(model, batch), 3)")
    theirs = alone("best(lambda: squares(model, batch), 2)")
    slow = alone("loops(model, batch)")
    what = f"all views of {TOKENS:,} tokens, 144 heads"
    yield Row(
        f"{what}, with the model's pass",
        mine["all"],
        "square matrices, vectorised",
        theirs["all"],
        aim="at most 0.1",
    )
    yield Row(
        f"{what}, views alone",
        mine["views"],
        "square matrices, vectorised",
        theirs["views"],
        aim="at most 0.1",
    )
    yield Row(
        "the model's pass alone, with capture",
        mine["pass"],
        "transformers' own, with its weights",
        theirs["pass"],
        aim="below 1",
    )
    yield Row(
        f"{what}, views alone",
        mine["views"],
        "filling alone, the paper's loops",
        slow["filling"],
        aim="none",
    )
    yield Row(
        "peak memory of that",
        mine["peak"],
        "square matrices",
        theirs["peak"],
        aim="at most 0.125",
        unit="MB",
    )
    model = model_of()
    times = [best(lambda n=n: ours(model, batch_of(model, n)), 3) for n in LENGTHS]
    for part, title in (("all", "with the pass"), ("views", "views alone")):
        slope = np.polyfit(np.log(LENGTHS), np.log([one[part] for one in times]), 1)[0]
        yield Row(
            f"exponent of time in length, 512 to 4,096, {title}",
            float(slope),
            "linear",
            1.0,
            aim="about 1",
            unit="",
        )
