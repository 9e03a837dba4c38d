"""RelationExtractor: relations of a text from its attention alone, by two linear readers (Chizhikova et al. 2022)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays, save
from torch import set_num_threads

from attlas.core.text import Text
from attlas.corpora.read import read
from attlas.corpora.splits import split
from attlas.experiments.probe import Probe
from attlas.language.phrases import PARSERS, phrases
from attlas.language.sentences import sentence_spans
from attlas.language.words import Span, word_spans
from attlas.models import Model, load
from attlas.relations.candidates import Case, has_words, noted, related_texts
from attlas.relations.matching import Found, exact, extraction_scores
from attlas.relations.reading import (
    Readers,
    Sample,
    Told,
    as_features,
    attention_features,
    drawn_cases,
    fit_readers,
    sample,
)
from attlas.relations.vectors import CaseVectors, Units, case_vectors, directions_of, read_units
from attlas.stats.linear import GRID, LinearReader
from attlas.studies.engines import LocalEngine, default_workers
from attlas.studies.folder import FILES
from attlas.support.errors import CorpusError, MeasureError, ModelError, StudyError
from attlas.support.machine import one_thread
from attlas.support.options import check_convention
from attlas.support.progress import progress_bar
from attlas.support.saving import Saved, differing_parts, fitted_identity

ABOUT, ARRAYS = "extractor.json", "readers.safetensors"
FORMAT = Saved("relation extractor", "attlas relation extractor 1", ABOUT, ARRAYS, key="kind")
EXTRACTOR = "extractor"  # among the files of a result folder
NEGATIVES = 5  # drawn for each triple to learn from; one to score on
REACH = 40  # words from the first to the last of a triple
CHUNK = 384  # sentences of plain text that are read together
THRESHOLDS = (*(round(0.05 * step, 2) for step in range(1, 20)), 0.97, 0.98, 0.99, 0.995, 0.999)
PUBLISHED_THRESHOLDS = (0.7, 0.2)  # related, named
Floats = npt.NDArray[Any]


@dataclass(frozen=True)
class Sentence:
    """A sentence of a text, its characters and its candidate phrases."""

    place: int  # of its text among those read together
    start: int
    text: str
    nominal: tuple[Span, ...]
    relational: tuple[Span, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        return self.nominal + self.relational


Chunk = list[tuple[Text, list[Sentence]]]


class RelationExtractor(Probe):
    """Finds triples in text: phrases are candidates, attention between them is read by two linear readers: is this a relation, and which.

    `fit` learns from texts with triples (anything `attlas.read` reads as such) and tunes penalties and thresholds on `dev` (a fifth of the texts if None).
    If the triples do not say which words state the relation, only attention between head and tail is read. `negatives` are drawn for each triple from
    the phrases of its own text. `convention="published"` is the paper's way: sums over pieces, first occurrences, unscaled weights, unconverged solver,
    negatives that may be triples, thresholds .7 and .2.
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

    # learning

    def fit(self, texts: Any, dev: Any = None) -> RelationExtractor:
        """Learn both readers from texts with triples, tuned on `dev`; then choose the thresholds there."""
        learnt, held = self.parts(texts, dev)
        train, tune = self.sample(learnt), self.sample(held, count=1)
        return self.fit_samples(train, tune)

    def parts(self, texts: Any, dev: Any = None) -> tuple[list[Text], list[Text]]:
        """The texts to learn from and those to tune on, checked; whether relation words are read is decided here."""
        self._check()
        learnt = related_texts(texts)
        if dev is None:
            learnt, held = split([replace(text, label=_relation(text)) for text in learnt], 0.2, self.seed)
        else:
            held = related_texts(dev)
        self.worded_ = has_words(learnt) and has_words(held)
        known = directions_of(self.worded_)
        wrong = sorted(set(self.directions or ()) - set(known))
        if wrong:
            raise MeasureError(f"direction {wrong[0]!r} cannot be read; they are {', '.join(known)}{'' if self.worded_ else ' (the triples have no relation words)'}")  # fmt: skip
        if len(set(self.directions or ())) < len(self.directions or ()):
            raise MeasureError(f"directions are {', '.join(self.directions or ())}; give each once")
        for part, name in ((learnt, "learn from"), (held, "tune on")):
            if not any(noted(text).triples for text in part):
                raise CorpusError(f"none of the {len(part)} texts to {name} has a triple; give more texts, or a file to tune on (--dev)")  # fmt: skip
        return learnt, held

    def fit_samples(self, train: Sample, tune: Sample) -> RelationExtractor:
        """Learn from cases that were read already."""
        one, two = self.features(train), self.features(tune)
        self.readers_ = fit_readers((one, train), (two, tune), grid=self.grid, published=self._published)
        self.classes_ = np.array(self.readers_.named.classes)
        self.n_features_in_ = one.shape[1]
        self.shape_ = self.model_.n_layers, self.model_.n_heads
        self.thresholds_ = PUBLISHED_THRESHOLDS if self._published else self._chosen(tune.texts)
        self.model_identity_ = fitted_identity(self.model_.identity())
        return self

    def sample(
        self,
        texts: Sequence[Text],
        count: int | None = None,
        model: Model | None = None,
        states: bool = False,
        cases: Sequence[Case] | None = None,
    ) -> Sample:
        """The triples of texts and `count` negatives for each (or `cases` that were drawn already), read by the model (or by another, as a control)."""
        drawn = self.cases(texts, count) if cases is None else cases
        return sample(
            model or self.model_, texts, drawn, published=self._published, states=states, cache=self.cache, workers=self.workers, progress=self.progress,
        )  # fmt: skip

    def cases(self, texts: Sequence[Text], count: int | None = None) -> list[Case]:
        """The triples of texts and `count` negatives for each."""
        if self.worded_ and not has_words(texts):
            raise CorpusError("some triples do not say which words state them, and this extractor reads those; give `relation_words`, or fit it on triples without them")  # fmt: skip
        wanted = (1 if self._published else self.negatives) if count is None else count
        return drawn_cases(texts, words=self.worded_, count=wanted, seed=self.seed, published=self._published, parser=self.parser)  # fmt: skip

    def features(self, of: Sample) -> Floats:
        """What the readers take of a sample: [case, feature]."""
        return attention_features(of.vectors, self.worded_, self.directions, self._published)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """The name of each feature: direction, layer and head."""
        layers, heads = self.shape_
        names = self.directions or directions_of(self.worded_)
        return np.array([f"{name} {layer} {head}" for name in names for layer in range(layers) for head in range(heads)], dtype=object)  # fmt: skip

    def _chosen(self, texts: Sequence[Text]) -> tuple[float, float]:
        """The thresholds under which the triples of texts are extracted best: the highest F1 of exact spans and relations."""
        found = [group for _, group in self._scored(texts, 0.0)]
        gold = [noted(text).triples for text in texts]
        strings = [text.text for text in texts]
        best: tuple[float, tuple[float, float]] = (0.0, (0.5, 0.0))
        for related in THRESHOLDS:
            for named in (0.0, *THRESHOLDS[1:18:4], *THRESHOLDS[-6:]):
                kept = [[one for one in group if one.related >= related and one.named >= named] for group in found]
                value = extraction_scores(strings, kept, gold, exact)["f1"]
                if value > best[0]:
                    best = value, (related, named)
        return best[1]

    # reading

    def predict(self, texts: Any) -> list[list[Found]]:
        """The triples of each text, the likeliest first: documents are cut into sentences, phrases are found, and those kept that both readers are sure of."""
        return [found for _, found in self.predict_iter(read(texts))]

    def predict_iter(self, texts: Iterable[Text]) -> Iterator[tuple[Text, list[Found]]]:
        """Each text with its triples, as texts are read: memory is that of some hundred sentences. `unseen_` then counts phrases behind the tokens that the model reads."""
        self._fitted()
        related, named = self.thresholds_
        for text, group in self._scored(texts, related):
            kept = [one for one in group if one.named >= named]
            yield text, sorted(kept, key=lambda one: (-one.probability, one.head, one.tail))

    def extract(self, text: str) -> list[Found]:
        """The triples of one text."""
        return self.predict([Text("text", text)])[0]

    def score(self, texts: Any, y: Any = None) -> float:
        """Macro F1 of the relations of texts with triples."""
        return self.told(self.sample(related_texts(texts), count=1)).scores()["f1"]

    def told(self, of: Sample) -> Told:
        """What the readers say of a sample."""
        self._fitted()
        return Told.by(self.readers_, self.features(of), of)

    def extraction(self, texts: Sequence[Text]) -> list[list[Found]]:
        """The triples found in texts that have gold ones, with a progress bar."""
        found = []
        with progress_bar("extracting triples", wanted=self.progress) as report:
            for _, group in self.predict_iter(texts):
                found.append(group)
                report(len(found), len(texts))
        return found

    def _scored(self, texts: Iterable[Text], least: float) -> Iterator[tuple[Text, list[Found]]]:
        """Each text with its best triples that do not say the same twice (related by `least` at the least)."""
        workers = LocalEngine(default_workers(self.model_.device) if self.workers is None else self.workers).workers
        pending: deque[Future[tuple[list[tuple[Text, list[Found]]], int]]] = deque()
        self.unseen_ = 0

        def taken() -> list[tuple[Text, list[Found]]]:
            found, unseen = pending.popleft().result()
            self.unseen_ += unseen
            return found

        with one_thread(), ThreadPoolExecutor(workers, initializer=set_num_threads, initargs=(1,)) as pool:
            for chunk in self._chunks(texts):
                pending.append(pool.submit(self._read_chunk, chunk, least))
                if len(pending) > workers:
                    yield from taken()
            while pending:
                yield from taken()

    def _read_chunk(self, chunk: Chunk, least: float) -> tuple[list[tuple[Text, list[Found]]], int]:
        """The triples of each text of a chunk, and how many phrases lay behind the tokens that the model reads."""
        sentences = dict(enumerate(one for _, mine in chunk for one in mine))
        inputs = [(n, Text(str(n), one.text)) for n, one in sentences.items() if len(one.nominal) > 1]
        spans = {n: one.spans for n, one in sentences.items()}
        found: list[list[Found]] = [[] for _ in chunk]
        unseen = 0
        for units in read_units(self.model_, inputs, spans, mean=not self._published):
            one = sentences[units.place]
            unseen += int((~units.seen).sum())
            found[one.place] += self._best(one, units, least)
        return [(text, mine) for (text, _), mine in zip(chunk, found, strict=True)], unseen

    def _chunks(self, texts: Iterable[Text]) -> Iterator[Chunk]:
        """Texts with their sentences, as many together as have about CHUNK sentences."""
        chunk: Chunk = []
        for text in texts:
            chunk.append((text, list(self._sentences(len(chunk), text.text))))
            if sum(len(mine) for _, mine in chunk) >= CHUNK:
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def _sentences(self, place: int, text: str) -> Iterator[Sentence]:
        """The sentences of a text with their candidates."""
        for start, stop in sentence_spans(text):
            found = phrases(text[start:stop], self.parser)
            nominal, relational = (tuple((one.start, one.stop) for one in found if one.kind == kind) for kind in ("nominal", "relational"))  # fmt: skip
            yield Sentence(place, start, text[start:stop], nominal, relational if self.worded_ else ())

    def _best(self, sentence: Sentence, units: Units, least: float) -> Iterator[Found]:
        """The candidates of a sentence that are likeliest related, those left out that overlap a likelier one in both head and tail; each named."""
        triples, chances = self._candidates(sentence, units, least)
        kept = _different(units.spans, triples, chances)
        if not kept:
            return
        parts = np.array([triples[number] for number in kept])
        names = self.readers_.named.probabilities(self._vectors(units, parts))
        for number, chances_of in zip(kept, names, strict=True):
            head, tail, *words = ((units.spans[unit][0] + sentence.start, units.spans[unit][1] + sentence.start) for unit in triples[number])  # fmt: skip
            best = int(chances_of.argmax())
            found = Found(head, tail, words[0] if words else None, self.readers_.named.classes[best], float(chances[number]), float(chances_of[best]))  # fmt: skip
            yield found

    def _vectors(self, units: Units, parts: npt.NDArray[np.int64]) -> Floats:
        """The features of some candidates: [candidate, part] as units -> [candidate, feature]."""
        vectors = CaseVectors(case_vectors(units.weights, parts), np.ones(len(parts), dtype=bool))
        return attention_features(vectors, self.worded_, self.directions, self._published)

    def _candidates(self, sentence: Sentence, units: Units, least: float) -> tuple[list[tuple[int, ...]], Floats]:
        """Every head and tail of a sentence with the words that make them likeliest related, and how likely that is.

        A linear reader of pairs of phrases is a sum of pairs, so that no vector of any candidate is made. Phrases further apart than REACH are no candidates.
        """
        reader = self.readers_.related
        names = self.directions or directions_of(self.worded_)
        values = as_features(units.weights, self._published)
        coef = (reader.coef[1] - reader.coef[0]).reshape(len(names), -1)
        table = {name: values @ coef[number] for number, name in enumerate(names)}  # unit unit
        zero = np.zeros(values.shape[:2], dtype=np.float32)
        pair = {name: table.get(name, zero) for name in directions_of(True)}
        heads_tails = pair["h-t"] + pair["t-h"].T
        heads_words, words_tails = pair["h-r"] + pair["r-h"].T, pair["r-t"] + pair["t-r"].T
        place = _word_places(sentence.text, units.spans)
        count = len(sentence.nominal)
        start, stop = np.array(units.spans, dtype=np.int64).reshape(-1, 2).T
        triples: list[tuple[int, ...]] = []
        scores: list[float] = []
        for head in range(count):
            if not units.seen[head]:
                continue
            near = units.seen & (np.abs(place - place[head]) <= REACH) & ((stop <= start[head]) | (start >= stop[head]))
            tails, words = np.flatnonzero(near[:count]), np.flatnonzero(near[count:]) + count
            if self.worded_ and len(words):
                free = (stop[words] <= start[tails][:, None]) | (start[words] >= stop[tails][:, None])
                free &= np.abs(place[words] - place[tails][:, None]) <= REACH
                total = (
                    heads_tails[head, tails][:, None] + heads_words[head, words] + words_tails[np.ix_(words, tails)].T
                )
                total = np.where(free, total, -np.inf)  # tail words
                best = total.argmax(1)
                triples += [(head, int(tail), int(words[one])) for tail, one in zip(tails, best, strict=True)]
                scores += total[np.arange(len(tails)), best].tolist()
            elif not self.worded_:
                triples += [(head, int(tail)) for tail in tails]
                scores += heads_tails[head, tails].tolist()
        both = np.array(scores, dtype=np.float64) + float(reader.intercept[1] - reader.intercept[0])
        chances = reader.calibrated(np.stack([np.zeros_like(both), both], -1))[:, 1] if len(both) else both
        chances = np.where(np.isfinite(both), chances, 0.0)
        kept = np.flatnonzero((chances >= least) & (chances > 0))
        return [triples[number] for number in kept], chances[kept]

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
        about, readers = load_readers(folder)
        with _readable(folder):
            options = {**about["parameters"], **options}
            source, known = about["model"], about["identity"]
            how = {name: about[name] for name in ("max_length", "global_tokens")}
            how["task"] = about.get("task", "base")
        loaded = model
        if not isinstance(model, Model):
            loaded = load(source if model is None else model, **how)
        with _readable(folder):
            parts = _changed(known, loaded)
        if parts:
            raise ModelError(
                f"{folder} was fitted on {source!r}, and {loaded.name!r} is another model "
                f"(differs in {', '.join(parts)}); give that model (--model), or fit again"
            )
        with _readable(folder):
            found = cls(loaded, **options)
            found.readers_ = Readers(readers["related"], readers["named"])
            related, named = about["thresholds"]
            found.worded_, found.thresholds_ = bool(about["worded"]), (float(related), float(named))
            found.shape_, found.model_identity_ = tuple(about["shape"]), known
            found.classes_ = np.array(found.readers_.named.classes)
            found.n_features_in_ = found.readers_.named.coef.shape[1]
        return found

    # inner

    @property
    def model_(self) -> Model:
        """The model, loaded once."""
        if not isinstance(self.model, Model):
            self.model = load(self.model)
        return self.model

    @property
    def _published(self) -> bool:
        return bool(self.convention == "published")

    def _check(self) -> None:
        check_convention(self.convention)
        if self.parser not in PARSERS:
            raise MeasureError(f"parser is {self.parser!r}; it must be {' or '.join(PARSERS)}")
        if self.negatives < 1:
            raise MeasureError(f"negatives is {self.negatives}; at least one must be drawn for each triple")
        if self.seed < 0:
            raise MeasureError(f"seed is {self.seed}; it must be 0 or more")
        if len(self.grid) == 0 or min(self.grid) <= 0:
            raise MeasureError(f"grid is {tuple(self.grid)}; it must be penalties C above 0")

    def _fitted(self) -> None:
        if not hasattr(self, "readers_"):
            raise MeasureError("this RelationExtractor has not been fitted; call fit first, or load one")


_ARRAYS = ("coef", "intercept", "scale")
_PLACES = ("model", "cache", "workers", "progress")


def extractor_folder(folder: str | Path) -> Path:
    """Where an extractor was saved: in the folder itself, or among the files of a result folder."""
    place = Path(folder).expanduser()
    kept = place / FILES / EXTRACTOR
    return kept if (kept / ABOUT).is_file() else place


def load_readers(folder: str | Path) -> tuple[dict[str, Any], dict[str, LinearReader]]:
    """What a folder says of an extractor, and all the readers in it."""
    with _readable(folder):
        about, data = FORMAT.read(extractor_folder(folder))
        arrays = {name: np.array(array) for name, array in load_arrays(data).items()}
        readers = {}
        for name, plain in about["readers"].items():
            parts: dict[str, Any] = {part: arrays[f"{name}/{part}"] for part in _ARRAYS}
            readers[name] = LinearReader(**{**plain, "classes": tuple(plain["classes"])}, **parts)
    return about, readers


def _plain(reader: LinearReader) -> dict[str, Any]:
    """All of a reader but its arrays."""
    names = [one.name for one in fields(reader) if one.name not in _ARRAYS]
    return {name: getattr(reader, name) for name in names}


def _changed(known: Mapping[str, Any], model: Model) -> list[str]:
    """The parts in which a model differs from the one that a saved extractor notes.

    Earlier versions noted other digests: of theirs, weights and max_length are compared.
    """
    if "config" in known:
        return differing_parts(known, model.identity())
    now = {"weights": model.weights_sha256(), "max_length": model.max_length}
    return [part for part in now if known[part] != now[part]]


@contextmanager
def _readable(folder: str | Path) -> Iterator[None]:
    """What a folder lacks is one clear line."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise StudyError(f"{folder} holds no relation extractor ({type(error).__name__}: {str(error)[:100]}); fit one with: attlas relations fit --out {folder}") from error  # fmt: skip


def _relation(text: Text) -> str:
    """The first relation of a text, so that each is cut by its share."""
    found = noted(text).triples
    return found[0].relation if found else ""


def _different(spans: Sequence[Span], triples: Sequence[Sequence[int]], chances: Floats) -> list[int]:
    """Candidates from the likeliest on, those left out that join the same two phrases as a likelier one, or parts of them, either way round."""
    if not triples:
        return []
    ends = np.array(spans, dtype=np.int64)[np.array([triple[:2] for triple in triples])]  # candidate part end
    order = np.argsort(-chances, kind="stable")
    alive, kept = np.ones(len(triples), dtype=bool), []
    for number in order.tolist():
        if not alive[number]:
            continue
        kept.append(number)
        mine = ends[number]  # part end
        meets = (ends[:, :, None, 0] < mine[None, None, :, 1]) & (mine[None, None, :, 0] < ends[:, :, None, 1])
        alive &= ~((meets[:, 0, 0] & meets[:, 1, 1]) | (meets[:, 0, 1] & meets[:, 1, 0]))
    return kept


def _word_places(text: str, spans: Sequence[Span]) -> npt.NDArray[np.int64]:
    """The number of the word at which each span begins."""
    starts = np.array([start for start, _ in word_spans(text)], dtype=np.int64)
    return np.searchsorted(starts, np.array([span[0] for span in spans], dtype=np.int64), side="right")
