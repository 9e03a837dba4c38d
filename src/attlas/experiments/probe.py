"""What estimators that hold a model share: its clone, passes and a cache of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from attlas.core.measure import Measure
from attlas.core.text import Text
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.studies import Study, study
from attlas.studies.folder import Folder
from attlas.support.fingerprint import fingerprint, source_digest


class Probe(BaseEstimator):  # type: ignore[misc]
    """An estimator that holds a model; a clone shares it."""

    def __sklearn_clone__(self) -> Probe:
        return type(self)(**self.get_params(deep=False))


def pass_of(
    model: Model,
    texts: Sequence[Text],
    measure: Measure[Any],
    cache: str | Path | None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Study:
    """A study of one measure over texts, cached and resumed if there is a cache."""
    out = None
    if cache is not None:
        out = Path(cache).expanduser() / fingerprint(
            ("pass", model, texts, measure, source_digest())
        )
    return study(model, list(texts), [measure], out, workers=workers, progress=progress)


def workspace_of(cache: Path, workers: int | None, progress: bool | None) -> Workspace:
    """A workspace over the cache of an estimator."""
    return Workspace(Folder(cache, "cache"), cache=cache, workers=workers, progress=progress)
