"""TopologyFeatures: texts to a matrix of topological features, by one study of the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from attlas.core.text import Text
from attlas.corpora import Corpus
from attlas.models import Model, load
from attlas.studies import Study, study
from attlas.studies.folder import COMPLETE, MANIFEST, check_file, listed_files
from attlas.support.arrays import Array
from attlas.support.errors import CorpusError, MeasureError, StudyError
from attlas.support.files import read_json
from attlas.support.fingerprint import fingerprint, source_digest
from attlas.topology.barcode import BarcodeMeasure
from attlas.topology.betti import Betti
from attlas.topology.directed import DigraphMeasure
from attlas.topology.experiment import THRESHOLDS, check_kinds, check_thresholds
from attlas.topology.head_features import HeadFeatures, column_names
from attlas.topology.templates import Templates

Head = tuple[int, int]
WHAT = "topology features"
MEASURES: dict[str, Callable[[tuple[float, ...]], HeadFeatures]] = {  # by thresholds
    "betti": lambda thresholds: Betti(thresholds=thresholds),
    "digraph": lambda thresholds: DigraphMeasure(thresholds=thresholds),
    "barcode": lambda _: BarcodeMeasure(),
    "templates": lambda _: Templates(),
}


@dataclass(kw_only=True, eq=False, repr=False)
class TopologyFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Texts (strings or Texts) to a matrix [text, feature] with columns such as `L3.H7.b0@0.1`.

    `model` is anything `attlas.load` takes; `features` are some of betti, digraph, barcode and
    templates, or such measures with other parameters, as `BarcodeMeasure(h1_tokens=0)`; `heads` are
    pairs (layer, head), all if None. All of a Text counts but its id, `global` spans too. In the
    folder `cache`, features are known by what they are made from: the model, the texts, the
    measures and the code. Without it they are cached as long as this object lives.
    """

    model: Any = field(default=None, kw_only=False)
    features: Sequence[str | HeadFeatures] = ("betti",)
    thresholds: Sequence[float] = THRESHOLDS
    heads: Sequence[Head] | None = None
    cache: str | Path | None = None
    workers: int | None = None
    progress: bool | None = None

    def __sklearn_clone__(self) -> TopologyFeatures:
        return type(self)(**self.get_params(deep=False))  # a model is not copied

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: N803
        """Determine the columns; nothing is fitted to texts."""
        measures = self.measures()
        model = self._loaded()
        wanted = None if self.heads is None else _checked_heads(self.heads, model)
        self.n_layers_, self.n_heads_ = model.n_layers, model.n_heads
        names = np.array(feature_names(model, measures), dtype=object)
        self._picked = [
            column for column, name in enumerate(names) if wanted is None or head_of(name) in wanted
        ]
        self.feature_names_out_ = names[self._picked]
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803
        """The features of each text, in the order of the texts."""
        check_is_fitted(self, "feature_names_out_")
        texts = _numbered(X)
        if not texts:
            return np.zeros((0, len(self._picked)), dtype=np.float32)
        if self.cache is not None:
            return self.matrix_of(self.study_of(texts), texts)
        key, memory = self._key(texts), self.__dict__.setdefault("_memory", {})
        if key not in memory:
            memory[key] = feature_matrix(self.study_of(texts), texts, self.measures())
        return memory[key][:, self._picked]

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> Array:  # noqa: N803
        return self.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the columns."""
        check_is_fitted(self, "feature_names_out_")
        return self.feature_names_out_

    def measures(self) -> list[HeadFeatures]:
        """The measures that give the features."""
        return measures_of(self.features, self.thresholds)

    def _loaded(self) -> Model:
        loaded: tuple[Any, Model] | None = self.__dict__.get("_model")
        if loaded is None or loaded[0] is not self.model:
            loaded = self._model = self.model, load(self.model)
        return loaded[1]

    def _key(self, texts: list[Text]) -> str:
        """What the features are made from; `heads` only picks columns of them."""
        return fingerprint((WHAT, self._loaded(), self.measures(), texts, source_digest()))

    def study_of(self, X: Any) -> Study:  # noqa: N803
        """The study behind the features: tables with one row per text; ids are their numbers."""
        texts = _numbered(X)
        folder = None if self.cache is None else Path(self.cache).expanduser() / self._key(texts)
        corpus = Corpus("texts", lambda: texts)
        return study(
            self._loaded(),
            corpus,
            self.measures(),
            folder,
            workers=self.workers,
            bad="error",
            fresh=folder is not None and _damaged(folder),
            progress=self.progress,
        )

    def matrix_of(self, study: Study, X: Any) -> Array:  # noqa: N803
        """The features of each text from the study behind them."""
        return feature_matrix(study, _numbered(X), self.measures())[:, self._picked]


def measures_of(
    features: Sequence[str | HeadFeatures], thresholds: Sequence[float]
) -> list[HeadFeatures]:
    """The measures behind names of features; measures stay as they are."""
    kinds = [features] if isinstance(features, str | HeadFeatures) else list(features)
    check_kinds(kinds)
    levels = check_thresholds(thresholds)
    return [MEASURES[kind](levels) if isinstance(kind, str) else kind for kind in kinds]


def feature_names(model: Model, measures: Sequence[HeadFeatures]) -> list[str]:
    """The names of all features, measure by measure."""
    shape = model.n_layers, model.n_heads
    return [name for measure in measures for name in column_names(*shape, measure.features)]


def feature_matrix(study: Study, texts: Sequence[Text], measures: Sequence[HeadFeatures]) -> Array:
    """The features of each text from a study of these texts: [text, feature]."""
    frames = [study.table(measure.name) for measure in measures if study.has(measure.name)]
    ids = frames[0]["text"].tolist() if frames and "text" in frames[0] else []
    for number, text in enumerate(texts):
        if [text.id] != ids[number : number + 1]:
            raise CorpusError(
                f"the tokenizer produces no tokens for text {number} ({text.text[:40]!r}); "
                "exclude it"
            )
    return np.concatenate(
        [frame.drop(columns="text").to_numpy(dtype=np.float32) for frame in frames], axis=1
    )


def head_of(name: str) -> Head:
    """The head in the name of a feature.

    >>> head_of("L3.H7.b0@0.1")
    (3, 7)
    """
    match = re.match(r"L(\d+)\.H(\d+)\.", name)
    if match is None:
        raise MeasureError(f"{name!r} is not the name of a feature; those are like L3.H7.b0@0.1")
    return int(match[1]), int(match[2])


def _checked_heads(heads: Sequence[Head], model: Model) -> set[Head]:
    try:
        wanted = {(int(layer), int(head)) for layer, head in heads}
    except (TypeError, ValueError):
        raise MeasureError(f"heads are pairs (layer, head), not {heads!r}") from None
    unknown = [
        f"L{layer}.H{head}"
        for layer, head in sorted(wanted)
        if not (0 <= layer < model.n_layers and 0 <= head < model.n_heads)
    ]
    if unknown or not wanted:
        problem = f"there is no head {', '.join(unknown)}" if unknown else "heads is empty"
        raise MeasureError(
            f"{problem}; the model has layers 0 to {model.n_layers - 1} and heads 0 to "
            f"{model.n_heads - 1}"
        )
    return wanted


def _numbered(X: Any) -> list[Text]:  # noqa: N803
    """Texts whose ids are their numbers, because ids of given texts may repeat."""
    if isinstance(X, str):
        raise CorpusError("one string was given; pass a list of texts")
    if isinstance(X, Mapping) or hasattr(X, "columns") or not isinstance(X, Iterable):
        raise CorpusError(
            f"the texts are a {type(X).__name__}; pass a list of texts, such as one of its columns"
        )
    texts = list(X)
    for one in texts:
        if not isinstance(one, str | Text):
            raise CorpusError(f"a text is a {type(one).__name__}; pass strings or Texts")
    return [
        replace(one, id=str(number)) if isinstance(one, Text) else Text(str(number), one)
        for number, one in enumerate(texts)
    ]


def _damaged(folder: Path) -> bool:
    """Whether a cached study is complete but was changed since, so that it must run again."""
    manifest = read_json(folder / MANIFEST)
    if manifest is None or "attlas" not in manifest or manifest.get("status") != COMPLETE:
        return False
    try:
        for name in listed_files(manifest):
            check_file(folder, name, manifest)
    except StudyError:
        return True
    return False
