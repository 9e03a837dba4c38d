"""TopologyFeatures: texts to a matrix of topological features, through one study of the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from attlas.core.text import Text
from attlas.corpora import Corpus
from attlas.models import Model, load
from attlas.studies import Study, study
from attlas.studies.folder import COMPLETE, MANIFEST, check_file, listed_files
from attlas.support.errors import CorpusError, MeasureError, StudyError
from attlas.support.files import read_json
from attlas.support.fingerprint import fingerprint, source_digest
from attlas.topology.barcode import BarcodeMeasure
from attlas.topology.betti import Betti
from attlas.topology.directed import DigraphMeasure
from attlas.topology.experiment import KINDS, THRESHOLDS
from attlas.topology.graphs import check_thresholds
from attlas.topology.head_features import HeadFeatures, column_names
from attlas.topology.templates import Templates

Head = tuple[int, int]
Array = npt.NDArray[Any]
WHAT = "topology features"
MEASURES: dict[str, Callable[..., HeadFeatures[Any]]] = {
    "betti": Betti,
    "digraph": DigraphMeasure,
    "barcode": BarcodeMeasure,
    "templates": Templates,
}


class TopologyFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Texts (strings or Texts) to a matrix [text, feature] whose columns are named `L3.H7.b0@0.1`.

    `model` is anything `attlas.load` takes; `features` are some of betti, digraph, barcode and templates, or such measures with parameters
    of their own, as `BarcodeMeasure(h1_tokens=0)`; `heads` are pairs (layer, head), all
    if None. All of a Text counts but its id, `global` spans too. In the folder `cache`, features
    are known by what they are made from: the model, the texts, the measures and the code. Without
    it they are cached as long as this object lives.
    """

    _model: Model
    _source: Any  # what it was loaded from

    def __init__(
        self,
        model: Any = None,
        *,
        features: Sequence[str | HeadFeatures[Any]] = ("betti",),
        thresholds: Sequence[float] = THRESHOLDS,
        heads: Sequence[Head] | None = None,
        cache: str | Path | None = None,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.features = features
        self.thresholds = thresholds
        self.heads = heads
        self.cache = cache
        self.workers = workers
        self.progress = progress

    def __sklearn_clone__(self) -> TopologyFeatures:
        return type(self)(**self.get_params(deep=False))  # a model is not copied

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: N803
        """Learn which columns there are; nothing is learnt from texts."""
        measures = self.measures()
        model = self._loaded()
        wanted = None if self.heads is None else _checked_heads(self.heads, model)
        self.n_layers_, self.n_heads_ = model.n_layers, model.n_heads
        self._all_names = feature_names(model, measures)
        self._picked = [
            place
            for place, name in enumerate(self._all_names)
            if wanted is None or head_of(name) in wanted
        ]
        self.feature_names_out_ = np.array(
            [self._all_names[place] for place in self._picked], dtype=object
        )
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
            memory[key] = self._whole(self.study_of(texts), texts)
        return memory[key][:, self._picked]

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> Array:  # noqa: N803
        return self.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the columns."""
        check_is_fitted(self, "feature_names_out_")
        return self.feature_names_out_

    def measures(self) -> list[HeadFeatures[Any]]:
        """The measures that give the features."""
        return measures_of(self.features, self.thresholds)

    def _loaded(self) -> Model:
        if not hasattr(self, "_model") or self._source is not self.model:
            self._model, self._source = load(self.model), self.model
        return self._model

    def _key(self, texts: list[Text]) -> str:
        """What the features are made from; `heads` only picks columns of them."""
        return fingerprint((WHAT, self._loaded(), self.measures(), texts, source_digest()))

    def study_of(self, X: Any) -> Study:  # noqa: N803
        """The study behind the features: tables with one row per text; ids are their places."""
        texts = _numbered(X)
        place = None if self.cache is None else Path(self.cache).expanduser() / self._key(texts)
        corpus = Corpus("texts", lambda: texts)
        return study(
            self._loaded(),
            corpus,
            self.measures(),
            place,
            workers=self.workers,
            bad="error",
            fresh=place is not None and _damaged(place),
            progress=self.progress,
        )

    def matrix_of(self, done: Study, X: Any) -> Array:  # noqa: N803
        """The features of each text from the study behind them."""
        return self._whole(done, _numbered(X))[:, self._picked]

    def _whole(self, done: Study, texts: list[Text]) -> Array:
        return feature_matrix(done, texts, self.measures())


def measures_of(
    features: Sequence[str | HeadFeatures[Any]], thresholds: Sequence[float]
) -> list[HeadFeatures[Any]]:
    """The measures behind names of features; measures stay as they are."""
    kinds = [features] if isinstance(features, str | HeadFeatures) else list(features)
    unknown = [kind for kind in kinds if not isinstance(kind, HeadFeatures) and kind not in KINDS]
    if unknown or not kinds:
        raise MeasureError(
            f"features are some of {', '.join(KINDS)}, not {', '.join(map(str, unknown)) or 'none'}"
        )
    levels = check_thresholds(thresholds)
    return [
        kind
        if isinstance(kind, HeadFeatures)
        else MEASURES[kind](**({"thresholds": levels} if kind in ("betti", "digraph") else {}))
        for kind in kinds
    ]


def feature_names(model: Model, measures: Sequence[HeadFeatures[Any]]) -> list[str]:
    """The names of all features, measure by measure."""
    shape = model.n_layers, model.n_heads
    return [name for measure in measures for name in column_names(*shape, measure.features)]


def feature_matrix(
    done: Study, texts: Sequence[Text], measures: Sequence[HeadFeatures[Any]]
) -> Array:
    """The features of each text from a study of these texts: [text, feature]."""
    frames = [done.table(measure.name) for measure in measures if done.has(measure.name)]
    there = frames[0]["text"].tolist() if frames and "text" in frames[0] else []
    missing = next(
        (place for place, one in enumerate(texts) if [one.id] != there[place : place + 1]), None
    )
    if missing is not None:
        raise CorpusError(
            f"the tokenizer makes no token of text {missing} ({texts[missing].text[:40]!r}); leave it out"
        )
    return np.concatenate(
        [frame.drop(columns="text").to_numpy(dtype=np.float32) for frame in frames], axis=1
    )


def head_of(name: str) -> Head:
    """The head that a feature's name speaks of.

    >>> head_of("L3.H7.b0@0.1")
    (3, 7)
    """
    found = re.match(r"L(\d+)\.H(\d+)\.", name)
    if found is None:
        raise MeasureError(f"{name!r} is not the name of a feature; those are like L3.H7.b0@0.1")
    return int(found[1]), int(found[2])


def _checked_heads(heads: Sequence[Head], model: Model) -> set[Head]:
    try:
        wanted = {(int(layer), int(head)) for layer, head in heads}
    except (TypeError, ValueError):
        raise MeasureError(f"heads are pairs (layer, head), not {heads!r}") from None
    strange = [
        f"L{layer}.H{head}"
        for layer, head in sorted(wanted)
        if not (0 <= layer < model.n_layers and 0 <= head < model.n_heads)
    ]
    if strange or not wanted:
        raise MeasureError(
            f"there is no head {', '.join(strange) or 'given'}; the model has layers 0 to {model.n_layers - 1} and heads 0 to {model.n_heads - 1}"
        )
    return wanted


def _numbered(X: Any) -> list[Text]:  # noqa: N803
    """Texts whose ids are their places: features go by place, and texts of one's own may share an id."""
    if isinstance(X, str):
        raise CorpusError("one string was given; pass a list of texts")
    if isinstance(X, Mapping) or hasattr(X, "columns") or not isinstance(X, Iterable):
        raise CorpusError(
            f"the texts are a {type(X).__name__}; pass a list of texts, such as one of its columns"
        )
    return [_numbered_text(number, one) for number, one in enumerate(X)]


def _numbered_text(number: int, one: Any) -> Text:
    """All of a text but its id: words, label and every annotation, such as `global` spans."""
    if isinstance(one, Text):
        return replace(one, id=str(number))
    if not isinstance(one, str):
        raise CorpusError(f"a text is a {type(one).__name__}; pass strings or Texts")
    return Text(str(number), one)


def _damaged(place: Path) -> bool:
    """Whether a cached study is complete but was changed since, so that it must be made again."""
    manifest = read_json(place / MANIFEST)
    if manifest is None or "attlas" not in manifest or manifest.get("status") != COMPLETE:
        return False
    try:
        for name in listed_files(manifest):
            check_file(place, name, manifest)
    except StudyError:
        return True
    return False
