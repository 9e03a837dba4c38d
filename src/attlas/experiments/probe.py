"""ModelProbe: what estimators that hold a model share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator

from attlas.core.measure import Measure
from attlas.core.text import Text
from attlas.experiments.workspace import Workspace, scratch
from attlas.models import Model, load
from attlas.studies import Study, study
from attlas.studies.folder import Folder
from attlas.support.fingerprint import fingerprint, source_digest

LOADED = "_loaded"  # attribute: what was loaded, and the model


@dataclass(kw_only=True, eq=False, repr=False)
class ModelProbe(BaseEstimator):  # type: ignore[misc]
    """An estimator that reads the attention of `model`, anything that `attlas.load` takes.

    With a folder `cache`, passes are found there again, or resumed. A clone shares the model.
    """

    model: Any = field(default=None, kw_only=False)
    cache: str | Path | None = None
    workers: int | None = None
    progress: bool | None = None

    def __sklearn_clone__(self) -> Self:
        clone = type(self)(**self.get_params(deep=False))
        clone.__dict__.update({k: v for k, v in self.__dict__.items() if k == LOADED})
        return clone

    @property
    def model_(self) -> Model:
        """The model, loaded once."""
        source, model = self.__dict__.get(LOADED, (None, None))
        if model is None or source is not self.model:
            model = load(self.model)
            self.__dict__[LOADED] = self.model, model
        return model

    def study(self, texts: Sequence[Text], measure: Measure[Any]) -> Study:
        """One pass of texts through the model."""
        out = None
        if self.cache is not None:
            key = fingerprint(("pass", self.model_, texts, measure, source_digest()))
            out = Path(self.cache).expanduser() / key
        return study(
            self.model_, list(texts), [measure], out, workers=self.workers, progress=self.progress
        )

    def workspace(self) -> AbstractContextManager[Workspace]:
        """A workspace that leaves nothing but what is in the cache."""
        return scratch(self.cache, self.workers, self.progress)


def workspace_of(cache: Path, workers: int | None, progress: bool | None) -> Workspace:
    """A workspace over the cache of an estimator."""
    return Workspace(Folder(cache, "cache"), cache=cache, workers=workers, progress=progress)
