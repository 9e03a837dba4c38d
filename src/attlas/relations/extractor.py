"""RelationExtractor: relations of a text from its attention alone (Chizhikova et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from attlas.core.text import Text
from attlas.corpora.read import read
from attlas.experiments.probe import Probe
from attlas.experiments.workspace import scratch
from attlas.language.phrases import PARSERS
from attlas.models import Model, load
from attlas.relations.answers import Answers
from attlas.relations.candidates import divided, has_words, related_texts
from attlas.relations.experiment import EXTRACTOR, extractor_folder, opened_with
from attlas.relations.extraction import (
    PUBLISHED_THRESHOLDS,
    Extracted,
    best_thresholds,
    chunks,
    extract_chunk,
    extract_triples,
    likely,
)
from attlas.relations.fitting import Labelled, Readers, fit_pairs, pair_of_jobs
from attlas.relations.matching import Found
from attlas.relations.reading import (
    NEGATIVES,
    Sample,
    Setup,
    attention_features,
    cases_of,
    checked,
    read_sample,
)
from attlas.stats.linear import GRID, LinearReader
from attlas.studies.engines import engine_of
from attlas.support.errors import MeasureError, ModelError, StudyError
from attlas.support.fingerprint import File, Put, feed
from attlas.support.options import check_convention
from attlas.support.saving import (
    UNREADABLE,
    Saved,
    check_finite,
    check_shapes,
    differing_parts,
    first_line,
    fitted_identity,
)

__all__ = ["EXTRACTOR", "RelationExtractor", "SavedExtractor", "extractor_folder", "read_saved"]

ABOUT, ARRAYS = "extractor.json", "readers.safetensors"
FORMAT = Saved("relation extractor", "attlas relation extractor 1", ABOUT, ARRAYS, key="kind")
_ARRAYS = ("coef", "intercept", "scale")
_NEEDED = (
    "model",
    "max_length",
    "global_tokens",
    "identity",
    "parameters",
    "worded",
    "thresholds",
    "shape",
)
_PLACES = ("model", "cache", "workers", "progress")
Floats = npt.NDArray[Any]


class RelationExtractor(Probe):
    """Finds triples in text: attention between phrases is read by two linear readers.

    One asks whether phrases are related, the other by which relation. `fit` learns from texts with
    triples (anything `attlas.read` reads as such) and tunes penalties and thresholds on `dev` (a
    fifth of the texts if None). If the triples do not say which words state the relation, only
    attention between head and tail is read. `negatives` are drawn for each triple from the phrases
    of its own text. `convention="published"` is the paper's way: sums over pieces, first
    occurrences, unscaled weights, unconverged solver, negatives that may be triples, thresholds 0.7
    and 0.2.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        directions: Sequence[str] | None = None,
        convention: str = "sound",
        negatives: int = NEGATIVES,
        grid: Sequence[float] = GRID,
        parser: str = "rules",
        seed: int = 0,
        cache: str | Path | None = None,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.directions = directions
        self.convention = convention
        self.negatives = negatives
        self.grid = grid
        self.parser = parser
        self.seed = seed
        self.cache = cache
        self.workers = workers
        self.progress = progress

    def fit(self, texts: Any, dev: Any = None) -> Self:
        """Fit both readers to texts with triples, tuned on `dev`; then choose the thresholds."""
        self._check()
        held = None if dev is None else related_texts(dev)
        train, held = divided(related_texts(texts), held, self.seed)
        setup = checked(self._setup(has_words(train) and has_words(held)))
        with scratch(self.cache, self.workers, self.progress) as work:
            samples = [
                read_sample(work, self.model_, part, cases, published=setup.published)[0]
                for part, cases in (
                    (train, cases_of(train, setup)),
                    (held, cases_of(held, setup, 1)),
                )
            ]
            sides = [Labelled.of(one, _features(one, setup)) for one in samples]
            jobs = pair_of_jobs(*sides, grid=setup.grid, published=setup.published)
            readers = fit_pairs(work, {"attention": jobs})["attention"]
            thresholds = PUBLISHED_THRESHOLDS
            if not setup.published:
                plain = extract_triples(work, self.model_, held, readers, setup, 0.0)
                thresholds = best_thresholds(held, plain.found)
            return self.filled(setup, readers, thresholds, work.identity(self.model_))

    def filled(
        self,
        setup: Setup,
        readers: Readers,
        thresholds: tuple[float, float],
        identity: Mapping[str, Any],
    ) -> Self:
        """This extractor with fitted readers; the model is known by `identity`, not hashed."""
        self.setup_, self.readers_, self.thresholds_ = setup, readers, thresholds
        self.classes_ = np.array(readers.named.classes)
        self.n_features_in_ = readers.named.coef.shape[1]
        self.shape_ = self.model_.n_layers, self.model_.n_heads
        self.model_identity_ = fitted_identity(identity)
        return self

    @property
    def worded_(self) -> bool:
        """Whether relation words are read."""
        return self.setup_.worded

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

    # predicting

    def predict(self, texts: Any) -> list[list[Found]]:
        """The triples of each text that both readers are sure of, the likeliest first."""
        return [found for _, found in self.predict_iter(read(texts))]

    def predict_iter(self, texts: Iterable[Text]) -> Iterator[tuple[Text, list[Found]]]:
        """Each text with its triples, as texts are read: memory is that of some hundred sentences.

        `unseen_` then counts phrases behind the tokens that the model reads of a sentence.
        """
        self._fitted()
        self.unseen_ = 0
        engine = engine_of("local", self.workers, self.model_.device)
        for chunk, extracted in engine.in_order(self._extracted, chunks(texts)):
            self.unseen_ += extracted.unseen
            for text, found in zip(chunk, extracted.found, strict=True):
                yield text, likely(found, self.thresholds_)

    def _extracted(self, chunk: list[Text]) -> tuple[list[Text], Extracted]:
        least = self.thresholds_[0]
        return chunk, extract_chunk(chunk, self.model_, self.readers_, self.setup_, least)

    def extract(self, text: str) -> list[Found]:
        """The triples of one text."""
        return self.predict([Text("text", text)])[0]

    def score(self, texts: Any, y: Any = None) -> float:
        """Macro F1 of the relations of texts with triples."""
        return self.answers(texts).scores()["f1"]

    def answers(self, texts: Any) -> Answers:
        """What the readers answer on texts with triples, and as many pairs that are not related."""
        self._fitted()
        given, setup = related_texts(texts), self.setup_
        cases = cases_of(given, setup, 1)
        with scratch(self.cache, self.workers, self.progress) as work:
            sample, _ = read_sample(work, self.model_, given, cases, published=setup.published)
        return Answers.by(self.readers_, _features(sample, setup), sample)

    # keeping

    def save(
        self,
        folder: str | Path,
        extra: Mapping[str, LinearReader] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write the readers as safetensors and what they need to be used again as JSON; no pickle.

        `extra` readers and facts are written with them. A folder that is not empty is refused,
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
            "parameters": {k: value for k, value in parameters.items() if k not in _PLACES},
            "worded": self.worded_,
            "thresholds": list(self.thresholds_),
            "shape": list(self.shape_),
            "readers": {name: _plain(reader) for name, reader in readers.items()},
            **(about or {}),
        }
        return FORMAT.write(folder, content, save(arrays))

    @classmethod
    def load(cls, folder: str | Path, model: Any = None, **options: Any) -> RelationExtractor:
        """An extractor as it was saved; its model is loaded by its name, unless given.

        Another model than it was fitted on is refused.
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
        with readable(folder):
            known, name = about["identity"], about["model"]
            parts = _changed(known, model, identity)
        if parts:
            raise ModelError(
                f"{folder} was fitted on {name!r}, and {model.name!r} is another model "
                f"(differs in {', '.join(parts)}); give that model (--model), or fit again"
            )
        with readable(folder):
            made = cls(model, **{**about["parameters"], **options})
            related, named = about["thresholds"]
            setup, thresholds = made._setup(bool(about["worded"])), (float(related), float(named))
            readers = Readers(saved.readers["related"], saved.readers["named"])
            made.filled(setup, readers, thresholds, known)
            check_finite(related=thresholds[0], named=thresholds[1])
            features = len(made.get_feature_names_out())
            for name, reader in readers._asdict().items():
                check_shapes({name: reader.coef}, {name: (len(reader.classes), features)})
            made.shape_, made.model_identity_ = tuple(about["shape"]), known
        return made

    # inner

    @property
    def model_(self) -> Model:
        """The model, loaded once."""
        if not isinstance(self.model, Model):
            self.model = load(self.model)
        return self.model

    def _setup(self, worded: bool) -> Setup:
        return Setup(
            worded=worded,
            directions=None if self.directions is None else tuple(self.directions),
            convention=self.convention,
            parser=self.parser,
            negatives=self.negatives,
            grid=tuple(float(one) for one in self.grid),
            seed=self.seed,
        )

    def _check(self) -> None:
        check_convention(self.convention)
        if self.parser not in PARSERS:
            raise MeasureError(f"parser is {self.parser!r}; it must be {' or '.join(PARSERS)}")
        if self.negatives < 1:
            raise MeasureError(
                f"negatives is {self.negatives}; at least one must be drawn for each triple"
            )
        if self.seed < 0:
            raise MeasureError(f"seed is {self.seed}; it must be 0 or more")
        if len(self.grid) == 0 or min(self.grid) <= 0:
            raise MeasureError(f"grid is {tuple(self.grid)}; it must be penalties C above 0")

    def _fitted(self) -> None:
        if not hasattr(self, "readers_"):
            raise MeasureError(
                "this RelationExtractor has not been fitted; call fit first, or load one"
            )


def _features(sample: Sample, setup: Setup) -> Floats:
    return attention_features(sample.vectors, setup.worded, setup.directions, setup.published)


@dataclass(frozen=True, eq=False)
class SavedExtractor:
    """What the folder of an extractor holds: its facts, and all its readers."""

    folder: Path  # of the two files
    about: dict[str, Any]
    readers: dict[str, LinearReader]


@feed.register
def _(saved: SavedExtractor, put: Put) -> None:
    """Both files, wherever they are."""
    feed(("relation extractor", [File(saved.folder / name) for name in (ABOUT, ARRAYS)]), put)


def read_saved(folder: str | Path) -> SavedExtractor:
    """Read the files of an extractor, from its folder or from the result folder that holds it."""
    with readable(folder):
        place = extractor_folder(folder)
        about, arrays = FORMAT.read(place)
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
    return SavedExtractor(place, about, readers)


def _plain(reader: LinearReader) -> dict[str, Any]:
    """All of a reader but its arrays."""
    names = [one.name for one in fields(reader) if one.name not in _ARRAYS]
    return {name: getattr(reader, name) for name in names}


def _changed(known: Mapping[str, Any], model: Model, identity: Mapping[str, Any]) -> list[str]:
    """The parts in which a model differs from the one that a saved extractor notes.

    Earlier versions noted other digests: of theirs, weights and max_length are compared.
    """
    if "config" in known:
        return differing_parts(known, identity)
    now = {"weights": model.weights_sha256(), "max_length": model.max_length}
    return [part for part in now if known[part] != now[part]]


@contextmanager
def readable(folder: str | Path) -> Iterator[None]:
    """What a folder lacks is one clear line."""
    try:
        yield
    except UNREADABLE as error:
        raise StudyError(
            f"{folder} holds no relation extractor ({type(error).__name__}: {first_line(error)}); "
            f"fit one with: attlas relations fit --out {folder}"
        ) from error
