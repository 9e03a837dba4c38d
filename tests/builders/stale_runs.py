"""Runs that may find an old result, in this process or in one that imports newer libraries."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import attlas
from attlas.core.text import Text
from attlas.relations.candidates import gold_cases
from attlas.relations.vectors import read_case_vectors
from attlas.support.errors import AttlasError
from attlas.syntax import SyntaxHeads
from attlas.testing import tiny
from tests.builders.changes import QUIET, labelled_rows, parsed, reads, refused, text


def entropies(
    model: Any, texts: Any, out: str | Path | None = None, **options: Any
) -> pd.DataFrame:
    return attlas.study(model, texts, "entropy", out, **QUIET, **options).table("entropy")


LONG_TEXTS = [text(number) for number in range(3)]


def study_of_texts() -> bool:
    """Run a study; whether texts were read, or that was refused."""
    model = tiny("bert")
    seen = reads(model)
    return refused(lambda: entropies(model, LONG_TEXTS, "out")) is None or bool(seen)


ROWS = labelled_rows()


def tuned(model: Any, out: str | None = None, texts: Any = ROWS, **options: Any) -> str:
    """The digest of the fine-tuned weights; only the head is fitted, which is quick."""
    with tempfile.TemporaryDirectory() as other:
        fresh = options.pop("fresh", False)
        tuning = attlas.Finetune(texts=texts, model=model, **{"head_only": True, **options})
        done = attlas.run(tuning, other if out is None else out, fresh=fresh, **QUIET)
        return attlas.load(done.folder, task="classify").weights_sha256()


def tune_again() -> bool:
    """Fine-tune; whether weights were written, or that was refused."""
    weights = Path("out/model.safetensors")
    before = weights.stat().st_mtime_ns if weights.is_file() else 0
    return (
        refused(lambda: tuned(tiny("bert", "classify"), "out")) is None
        or weights.stat().st_mtime_ns > before
    )


def related(count: int) -> list[Text]:
    """Some texts with triples, of few relations."""
    texts = list(attlas.read("embedded:relations"))
    names = sorted(
        {triple.relation for one in texts for triple in one.annotations["relations"].triples}
    )[:3]
    return [one for one in texts if one.annotations["relations"].triples[0].relation in names][
        :count
    ]


def related_vectors(
    model: attlas.Model, cache: str | None = None, **annotations: Any
) -> np.ndarray:
    """Attention between the phrases of some triples."""
    texts = related(30)
    read = [replace(one, annotations={**one.annotations, **annotations}) for one in texts]
    return read_case_vectors(
        model, read, gold_cases(texts, True), cache=cache, workers=1, **QUIET
    ).attention


def read_related() -> bool:
    """Whether texts were read for vectors that may be in the cache, or that was refused."""
    model = tiny("bert")
    seen = reads(model)
    return refused(lambda: related_vectors(model, "cache")) is None or bool(seen)


def find_heads() -> str | None:
    """Why the heads of some sentences could not be found with a cache; None if they were."""
    try:
        SyntaxHeads(tiny("bert"), min_cases=1, cache="cache", workers=1, **QUIET).fit(parsed(10))
    except AttlasError as error:
        return str(error)
    return None
