from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import attlas
from attlas.core.text import Text
from attlas.experiments.experiment import Outcome
from attlas.experiments.workspace import Workspace
from attlas.measures.entropy import Entropy
from tests.experiments.toy.cells import cell
from tests.experiments.toy.experiment import Outer, Toy, ToyGrid

CALLS: list[str] = []  # which costly functions were called


def read(source: Any) -> list[Text]:
    return list(attlas.read(source))


def read_names(path: str) -> dict[str, str]:
    return dict(line.split("=") for line in Path(path).read_text().splitlines())


def count(texts: list[Text], case: str) -> pd.DataFrame:
    CALLS.append("count")
    words = [
        word.lower() if case == "lower" else word for one in texts for word in one.text.split()
    ]
    return pd.DataFrame(sorted(Counter(words).items()), columns=["word", "n"])


def scaled(scale: float, draws: int, seed: int) -> dict[str, float]:
    CALLS.append(f"scaled {scale}")
    return {"scale": scale, "mean": float(scale * np.random.default_rng(seed).random(draws).mean())}


def run(
    toy: Toy,
    work: Workspace,
    *,
    texts: list[Text],
    model: attlas.Model,
    names: dict[str, str] | None,
    other: attlas.Model | None,
) -> Outcome:
    work.log("Toy 1/2: counting")
    words = work.cached(count, texts, toy.case)
    work.log("Toy 2/2: reading")
    study = work.study(model, texts, [Entropy()])
    rows = work.map(scaled, toy.scales, common=[toy.draws, toy.seed])
    heads = study.table("entropy")[["layer", "head", "entropy"]]
    if toy.controls:
        random = work.study(model.randomized(toy.seed), texts, [Entropy()])
        heads = heads.assign(entropy_random=random.table("entropy")["entropy"])
    counts = dict(study.manifest["counts"])
    return Outcome(
        tables={"words": words, "scales": pd.DataFrame(rows), "heads": heads},
        result={"words": len(words), "counts": counts, "names": names, "other": other is not None},
        counts=counts,
        controls=[("heads", "entropy", "entropy_random")] if toy.controls else [],
    )


def run_outer(outer: Outer, work: Workspace, *, texts: list[Text], model: attlas.Model) -> Outcome:
    inner = work.run("inner", Toy(texts=texts, model=model))
    return Outcome(
        tables={"words": inner.table("words")}, result=inner.result, counts=inner.manifest["counts"]
    )


def write_lengths(folder: Path, texts: list[Text]) -> None:
    np.save(folder / "lengths.npy", np.array([len(one.text.split()) for one in texts]))


def write_scaled(folder: Path, scale: int, texts: list[str]) -> None:
    CALLS.append(f"write {scale}")
    (folder / "n.txt").write_text(str(scale * len(texts)))


def run_grid(grid: ToyGrid, work: Workspace, *, texts: list[Text]) -> Outcome:
    lengths = work.files(write_lengths, texts)
    jobs = [{"size": size, "seed": grid.seed, "lengths": lengths.name} for size in grid.sizes]
    rows = work.map(cell, jobs, common=[2.0], processes=True, what="cells")
    counts = {"read": len(texts), "analysed": len(texts), "quarantined": 0}
    cells = pd.DataFrame(rows).assign(expected=1.0)
    control = ("cells", "mean", "expected")  # half of the unit
    return Outcome(
        tables={"cells": cells}, result={"cells": rows}, counts=counts, controls=[control]
    )
