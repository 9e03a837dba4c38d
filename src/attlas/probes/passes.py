"""One pass of a corpus for a probe: a study that stays in a cache, or lives as long as its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from attlas.core.annotations import COREFERENCE, DEPENDENCIES, RELATIONS
from attlas.core.measure import Measure
from attlas.core.text import Text
from attlas.models import Model
from attlas.studies import Study, study


class Probe(BaseEstimator):  # type: ignore[misc]
    """An estimator that holds a model: a clone has the same parameters, and the model is not copied."""

    def __sklearn_clone__(self) -> Probe:
        return type(self)(**self.get_params(deep=False))


def digest(texts: Sequence[Text]) -> str:
    """A digest of texts, their names, words and what is noted in them, in order."""
    found = hashlib.sha256()
    for text in texts:
        noted = [text.annotations.get(name) for name in (DEPENDENCIES, COREFERENCE, RELATIONS)]
        found.update(json.dumps([text.id, text.label, text.text, text.words, noted], default=str).encode())
    return found.hexdigest()


def pass_of(
    model: Model,
    texts: Sequence[Text],
    measure: Measure[Any],
    cache: str | Path | None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Study:
    """A study of one measure over texts; found again in the cache if it was made before, gone on with if it was stopped."""
    out = None
    if cache is not None:
        names = [repr(measure), json.dumps(model.identity(), default=str), digest(texts)]
        out = Path(cache).expanduser() / hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
    return study(model, list(texts), [measure], out, workers=workers, progress=progress)
