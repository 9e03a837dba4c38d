"""RelationExtractor: relations of a text from its attention alone (Chizhikova et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from attlas.core.text import Text
from attlas.corpora.read import read
from attlas.experiments.probe import ModelProbe
from attlas.models import Model, load
from attlas.relations.answers import Answers
from attlas.relations.candidates import divided, has_words, related_texts
from attlas.relations.experiment import EXTRACTOR, extractor_folder, opened_with
from attlas.relations.extraction import (
    PUBLISHED_THRESHOLDS,
    Extracted,
    chunks,
    extract_chunk,
    tuned_extraction,
)
from attlas.relations.fitting import Labelled, Readers, fit_pairs, pair_of_jobs
from attlas.relations.matching import ExtractedTriple
from attlas.relations.reading import NEGATIVES, Setup, attention_features, cases_of, read_sample
from attlas.stats.linear import GRID, LinearReader
from attlas.studies.engines import engine_of
from attlas.support.errors import MeasureError, ModelError
from attlas.support.fingerprint import File, Put, feed
from attlas.support.saving import (
    Saved,
    check_finite,
    check_shapes,
    differing_parts,
    fitted_identity,
)

__all__ = ["EXTRACTOR", "RelationExtractor", "SavedExtractor", "extractor_folder", "read_saved"]

ABOUT, ARRAYS = "extractor.json", "readers.safetensors"
FORMAT = Saved("relation extractor", "attlas relation extractor 1", ABOUT, ARRAYS, key="kind")
_ARRAYS = ("coef", "intercept", "scale")
_NEEDED = (
    *("model", "max_length", "global_tokens", "identity"),
    *("parameters", "worded", "thresholds", "shape"),
)
_PARAMETERS = ("convention", "directions", "grid", "negatives", "parser", "seed")


@dataclass(kw_only=True, eq=False, repr=False)
class RelationExtractor(ModelProbe):
    """Extracts triples from text with two linear readers of the attention between phrases.

    One predicts whether phrases are related, the other by which relation. `fit` takes texts with
    triples (anything `attlas.read` reads as such) and tunes penalties and thresholds on `dev` (a
    fifth of the texts if None). If the triples do not say which words state the relation, only
    attention between head and tail is read. `negatives` are drawn for each triple from the phrases
    of its own text. `convention="published"` follows the authors' code: sums over pieces, first
    occurrences, unscaled weights, a solver that has not converged, negatives that may be triples,
    thresholds 0.7 and 0.2.
    """

    directions: Sequence[str] | None = None
    convention: str = "sound"
    negatives: int = NEGATIVES
    grid: Sequence[float] = GRID
    parser: str = "rules"
    seed: int = 0

    def fit(self, texts: Any, dev: Any = None) -> Self:
        """Fit both readers to texts with triples, tuned on `dev`; then choose the thresholds."""
        self._setup()  # refuses bad options before texts are read
        held_out = None if dev is None else related_texts(dev)
        train, held_out = divided(related_texts(texts), held_out, self.seed)
        setup = self._setup(has_words(train) and has_words(held_out))
        with self.workspace() as work:
            sides = []
            for part, count in ((train, None), (held_out, 1)):
                cases = cases_of(part, setup, count)
                sample = read_sample(work, self.model_, part, cases, published=setup.published)
                sides.append(Labelled.of(sample, attention_features(sample.vectors, setup)))
            jobs = pair_of_jobs(*sides, grid=setup.grid, published=setup.published)
            readers = fit_pairs(work, {"attention": jobs})["attention"]
            thresholds = PUBLISHED_THRESHOLDS
            if not setup.published:
                thresholds, _ = tuned_extraction(work, self.model_, held_out, readers, setup)
            return self.filled(setup, readers, thresholds, work.identity(self.model_))

    def filled(
        self,
        setup: Setup,
        readers: Readers,
        thresholds: tuple[float, float],
        identity: Mapping[str, Any],
    ) -> Self:
        """This extractor with fitted readers, for a model of this identity."""
        self.setup_, self.readers_, self.thresholds_ = setup, readers, thresholds
        self.classes_ = np.array(readers.named.classes)
        self.n_features_in_ = readers.named.coef.shape[1]
        self.shape_ = self.model_.n_layers, self.model_.n_heads
        self.model_identity_ = fitted_identity(identity)
        return self

    @property
    def uses_relation_words_(self) -> bool:
        """Whether relation words are read."""
        return self.setup_.relation_words

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """The name of each feature: direction, layer and head."""
        layers, heads = self.shape_
        return np.array(
            [
                f"{name} {layer} {head}"
                for name in self.setup_.read_directions
                for layer in range(layers)
                for head in range(heads)
            ],
            dtype=object,
        )

    def predict(self, texts: Any) -> list[list[ExtractedTriple]]:
        """The triples of each text that reach both thresholds, by probability."""
        return [triples for _, triples in self.predict_iter(read(texts))]

    def predict_iter(self, texts: Iterable[Text]) -> Iterator[tuple[Text, list[ExtractedTriple]]]:
        """Each text with its triples, lazily: memory is that of some hundred sentences.

        `unseen_` then counts phrases beyond the tokens that the model reads of a sentence.
        """
        self._fitted()
        self.unseen_ = 0
        engine = engine_of("local", self.workers, self.model_.device)
        for chunk, extracted in engine.in_order(self._extracted, chunks(texts)):
            self.unseen_ += extracted.unseen
            yield from zip(chunk, extracted.above(self.thresholds_).triples, strict=True)

    def _extracted(self, chunk: list[Text]) -> tuple[list[Text], Extracted]:
        least = self.thresholds_[0]
        return chunk, extract_chunk(chunk, self.model_, self.readers_, self.setup_, least)

    def extract(self, text: str) -> list[ExtractedTriple]:
        """The triples of one text."""
        return self.predict([Text("text", text)])[0]

    def score(self, texts: Any, y: Any = None) -> float:
        """Macro F1 of the relations of texts with triples."""
        return self.answers(texts).scores()["f1"]

    def answers(self, texts: Any) -> Answers:
        """Predictions for the triples of texts, and for as many pairs that are not related."""
        self._fitted()
        given, setup = related_texts(texts), self.setup_
        cases = cases_of(given, setup, 1)
        with self.workspace() as work:
            sample = read_sample(work, self.model_, given, cases, published=setup.published)
        return Answers.by(self.readers_, attention_features(sample.vectors, setup), sample)

    def save(
        self,
        folder: str | Path,
        extra: Mapping[str, LinearReader] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write the readers as safetensors and the rest as JSON; no pickle.

        `extra` readers and the facts `about` them are added. A folder that is not empty is refused,
        unless it holds a relation extractor: that is replaced.
        """
        self._fitted()
        readers = {"related": self.readers_.related, "named": self.readers_.named, **(extra or {})}
        arrays = {
            f"{name}/{part}": np.ascontiguousarray(getattr(reader, part))
            for name, reader in readers.items()
            for part in _ARRAYS
        }
        parameters = self.get_params(deep=False) | {
            "grid": [float(one) for one in self.grid],
            "directions": None if self.directions is None else list(self.directions),
        }
        content = {
            "model": self.model_.name,
            "task": self.model_.task,
            "max_length": self.model_.limit,
            "global_tokens": self.model_.global_tokens,
            "identity": self.model_identity_,
            "parameters": {name: parameters[name] for name in _PARAMETERS},
            "worded": self.uses_relation_words_,
            "thresholds": list(self.thresholds_),
            "shape": list(self.shape_),
            "readers": {name: _plain(reader) for name, reader in readers.items()},
            **(about or {}),
        }
        return FORMAT.write(folder, content, save(arrays))

    @classmethod
    def load(cls, folder: str | Path, model: Any = None, **options: Any) -> RelationExtractor:
        """Read an extractor that `save` wrote; its model is loaded by its name, unless given.

        Any other model is refused.
        """
        saved = read_saved(folder)
        if not isinstance(model, Model):
            source = saved.about["model"] if model is None else model
            model = load(source, **opened_with(saved.about))
        return cls.of_saved(saved, model, model.identity(), **options)

    @classmethod
    def of_saved(
        cls, saved: SavedExtractor, model: Model, identity: Mapping[str, Any], **options: Any
    ) -> RelationExtractor:
        """A saved extractor with its model, whose identity is given."""
        about, folder = saved.about, saved.folder
        with _readable(folder):
            known, name = about["identity"], about["model"]
            parts = _changed(known, model, identity)
        if parts:
            raise ModelError(
                f"{folder} was fitted on {name!r}, and {model.name!r} is another model "
                f"(differs in {', '.join(parts)}); give that model (--model), or fit again"
            )
        with _readable(folder):
            extractor = cls(model, **{**about["parameters"], **options})
            related, named = map(float, about["thresholds"])
            readers = Readers(saved.readers["related"], saved.readers["named"])
            setup = extractor._setup(bool(about["worded"]))
            extractor.filled(setup, readers, (related, named), known)
            check_finite(related=related, named=named)
            features = len(extractor.get_feature_names_out())
            for name, reader in readers._asdict().items():
                check_shapes({name: reader.coef}, {name: (len(reader.classes), features)})
            extractor.shape_, extractor.model_identity_ = tuple(about["shape"]), known
        return extractor

    def _setup(self, relation_words: bool = True) -> Setup:
        grid = tuple(float(one) for one in self.grid)
        return Setup.of(self, relation_words, negatives=self.negatives, grid=grid)

    def _fitted(self) -> None:
        if not hasattr(self, "readers_"):
            raise MeasureError(
                "this RelationExtractor has not been fitted; call fit first, or load one"
            )


@dataclass(frozen=True, eq=False)
class SavedExtractor:
    """The content of an extractor's folder: facts, and all readers."""

    folder: Path  # of the two files
    about: dict[str, Any]
    readers: dict[str, LinearReader]


@feed.register
def _(saved: SavedExtractor, put: Put) -> None:
    """Both files, wherever they are."""
    feed(("relation extractor", [File(saved.folder / name) for name in (ABOUT, ARRAYS)]), put)


def read_saved(folder: str | Path) -> SavedExtractor:
    """Read the files of an extractor, from its folder or from the result folder that holds it."""
    with _readable(folder):
        holder = extractor_folder(folder)
        about, arrays = FORMAT.read(holder)
        missing = [name for name in _NEEDED if name not in about]
        if missing:
            raise KeyError(missing[0])
        readers = {}
        for name, plain in about["readers"].items():
            parts: dict[str, Any] = {part: arrays[f"{name}/{part}"] for part in _ARRAYS}
            reader = LinearReader(**{**plain, "classes": tuple(plain["classes"])}, **parts)
            classes, size = len(reader.classes), reader.coef.shape[-1]
            expected = {"coef": (classes, size), "intercept": (classes,), "scale": (size,)}
            check_shapes(parts, expected)
            check_finite(temperature=reader.temperature, offset=reader.offset)
            readers[name] = reader
    return SavedExtractor(holder, about, readers)


def _plain(reader: LinearReader) -> dict[str, Any]:
    """All of a reader but its arrays."""
    names = [one.name for one in fields(reader) if one.name not in _ARRAYS]
    return {name: getattr(reader, name) for name in names}


def _changed(known: Mapping[str, Any], model: Model, identity: Mapping[str, Any]) -> list[str]:
    """The parts in which a model differs from the one that an extractor was fitted on.

    Earlier versions saved other digests: of theirs, weights and max_length are compared.
    """
    if "config" in known:
        return differing_parts(known, identity)
    now = {"weights": model.weights_sha256(), "max_length": model.max_length}
    return [part for part in now if known[part] != now[part]]


def _readable(folder: str | Path) -> AbstractContextManager[None]:
    return FORMAT.readable(folder, f"fit one with: attlas relations fit --out {folder}")
