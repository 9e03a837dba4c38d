"""TreeProbe: how much of a dependency tree can be read off attention with a linear map (Clark et al. 2019, section 5, Table 3).

For word j the probability that candidate i is its head is p(i | j) ~ exp(sum_k w_k a^k_ij + u_k a^k_ji), where a^k_ij is how much i attends to j in head k.
With words, w_k and u_k are linear in the vectors of both. ROOT is a candidate too. Where the released code and the formula part, `convention` says
which is followed: "sound" is the default; "published" repeats the code.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn.functional import cross_entropy

from attlas.core.annotations import ROOT, dependencies_of
from attlas.core.text import Text
from attlas.corpora.annotated import check_tree
from attlas.corpora.splits import split_indices
from attlas.experiments.probe import Probe
from attlas.models import Model, load as load_model
from attlas.models.vectors import GloveVectors, ModelVectors, Vectors
from attlas.support.errors import CorpusError, MeasureError, ModelError
from attlas.support.fingerprint import sha256
from attlas.support.machine import one_thread
from attlas.support.options import check_convention
from attlas.support.progress import progress_bar
from attlas.support.saving import Saved, differing_parts, fitted_identity
from attlas.tree.scorers import BASELINES, FASTER, NOTHING, SCORERS, Given, Scorer
from attlas.tree.spanning import spanning_tree
from attlas.tree.word_attention import WordAttention, check_words, gather, missing_words

Array = npt.NDArray[Any]
DECODERS = ("argmax", "tree")
UNSEEN = -2  # in a prediction: the model never saw this word, so there is no head to give
WORDLESS = [np.zeros(0, dtype=np.int64)]  # the guesses for a sentence of which no word was seen
IGNORED = -100  # a word whose head is not learnt
BATCH_TEXTS, BATCH_PAIRS = 16, 2**14  # at most so many sentences, or pairs of words
HELD_OUT = 0.05  # of the sentences, to choose the epoch
PATIENCE = 3  # epochs without a better score, after which training ends
FORMAT = Saved("tree probe", "attlas tree probe 1", "probe.json", "probe.safetensors")
# what reading a file that is damaged, or of another kind, can raise
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    SafetensorError,
)
SAVED = ("features", "convention", "epochs", "learning_rate", "seed")  # parameters that a saved probe keeps
FOUND = ("epoch_", "history_", "unseen_", "headless_")
READERS = ("attention", "attention_words")  # features that come from attention
SPEAKERS = ("attention_words", "distance_words")  # features that come from words


@dataclass(frozen=True)
class Sentence:
    """One text as the probe takes it: the words the model saw, where they stand in it, and their gold heads among ROOT (0) and those words.

    A word whose head the model did not see, and every word of a text without a tree, has head IGNORED; `scored` are words with a head that are no punctuation.
    """

    place: int
    words: tuple[str, ...]
    source: Array  # word: its place among all words of the text
    heads: Array  # word
    scored: Array  # word
    punctuation: int
    unseen: int
    headless: int  # words seen whose head was not

    def __len__(self) -> int:
        return len(self.words)


def sentence_of(text: Text, place: int, missing: Sequence[int] = ()) -> Sentence:
    """A text with its words and its tree, without the words that the model did not see."""
    words, tree = text.words or (), dependencies_of(text.annotations)
    source = np.setdiff1d(np.arange(len(words)), missing)
    marks = np.array([tree is not None and is_punctuation(tree.relations[word]) for word in source], dtype=bool)
    at = np.full(len(words) + 1, IGNORED)  # word -> candidate; the last is ROOT's -1
    at[source], at[ROOT] = np.arange(1, len(source) + 1), 0
    heads = np.full(len(source), IGNORED) if tree is None else at[np.array(tree.heads)[source]]
    known = heads != IGNORED
    return Sentence(
        place,
        tuple(words[word] for word in source),
        source,
        heads,
        known & ~marks,
        int((known & marks).sum()),
        len(words) - len(source),
        0 if tree is None else int((~known).sum()),
    )


def is_punctuation(relation: str) -> bool:
    """Whether a relation is punctuation's, which is left out of scores.

    >>> is_punctuation("punct"), is_punctuation("nsubj:pass")
    (True, False)
    """
    return relation.partition(":")[0] == "punct"


@dataclass(frozen=True, eq=False)
class TreeScores:
    """How many heads were right in each text, by the best candidate of each word and by the best tree, and what was left out."""

    hits: npt.NDArray[np.int64]  # text
    tree_hits: npt.NDArray[np.int64]  # text
    counts: npt.NDArray[np.int64]  # text: words scored
    punctuation: int  # words left out because they are punctuation
    unseen: int  # words that the model did not see
    headless: int  # words seen whose head it did not see

    @property
    def scored(self) -> int:
        return int(self.counts.sum())

    @property
    def uas(self) -> float:
        """The share of words whose best candidate is their head; NaN if no word is scored."""
        return float(self.hits.sum() / self.scored) if self.scored else float("nan")

    @property
    def tree_uas(self) -> float:
        """The share of words whose head is right in the best tree with one word on ROOT."""
        return float(self.tree_hits.sum() / self.scored) if self.scored else float("nan")

    def to_dict(self) -> dict[str, float]:
        """The scores and counts over all texts."""
        return {
            "uas": self.uas,
            "tree_uas": self.tree_uas,
            "texts": len(self.counts),
            "scored": self.scored,
            "punctuation": self.punctuation,
            "unseen": self.unseen,
            "headless": self.headless,
        }


class Sentences:
    """Sentences in batches of one word count, with what a scorer needs read as it is asked for."""

    def __init__(self, sentences: Sequence[Sentence], attention: WordAttention | None, vectors: Vectors | None) -> None:
        self.all, self.attention, self.vectors = sentences, attention, vectors

    def batches(self, order: Iterable[int]) -> list[list[int]]:
        """Sentences of one length together, in the given order; those without words are left out."""
        by_length: dict[int, list[int]] = defaultdict(list)
        for number in order:
            by_length[len(self.all[number])].append(number)
        out = []
        for length, same in sorted(by_length.items()):
            size = min(BATCH_TEXTS, max(1, BATCH_PAIRS // max(1, length) ** 2))
            if length:
                out += [same[start : start + size] for start in range(0, len(same), size)]
        return out

    def given(self, batch: Sequence[int]) -> Given:
        """What a scorer takes of a batch."""
        sentences = [self.all[number] for number in batch]
        n = len(sentences[0])
        vectors = NOTHING
        if self.vectors is not None:
            flat = self.vectors.of([word for sentence in sentences for word in sentence.words])
            vectors = torch.from_numpy(flat).view(len(batch), n, -1)
        if self.attention is None:
            return Given(NOTHING, NOTHING, vectors)
        block = self.attention.read([sentence.place for sentence in sentences])
        between = block[:, :, :n]
        pairs = torch.empty(len(batch), n, n, 2 * block.shape[-1])
        pairs[..., : block.shape[-1]] = between
        pairs[..., block.shape[-1] :] = between.transpose(1, 2)
        return Given(pairs, block[:, :, n:].float(), vectors)

    def heads(self, batch: Sequence[int]) -> Tensor:
        """Gold heads: [text, word]."""
        return torch.from_numpy(np.stack([self.all[number].heads for number in batch]))

    def learnt(self, batch: Sequence[int]) -> Tensor:
        """Heads to learn, without those of punctuation: [text, word]."""
        scored = np.stack([self.all[number].scored for number in batch])
        return self.heads(batch).masked_fill(torch.from_numpy(~scored), IGNORED)


class TreeProbe(Probe):
    """A probe that reads heads off attention: `fit`, `predict`, `score` and `evaluate` take texts with words and dependency trees.

    `model` is anything `attlas.load` takes. `features` is one of attention, attention_words, distance_words (the paper's baseline without attention), or
    right_branching and previous_word, which learn nothing. `vectors` are static vectors of words, the model's own input embeddings if None; so the control is
    `TreeProbe(model.randomized(0), vectors=ModelVectors(model))`. `epochs` and `learning_rate` None are what served each of the features best.
    Attention between words is cached in the folder `cache`, known by what it is made from; without
    one, in a temporary folder as long as this object lives.

    Trained by Adam on the cross entropy of the heads of words that are scored (learning those of punctuation too costs about .01 UAS), the rate falling to 0;
    a twentieth of the sentences is held out and decides which epoch is kept. It runs on one thread, so that a seed gives the same probe whatever
    else the process is set to; the products are too small to gain by more.
    """

    _model: Model
    _source: Any  # what it was loaded from

    def __init__(
        self,
        model: Any = None,
        features: str = "attention_words",
        *,
        vectors: Vectors | None = None,
        convention: str = "sound",
        epochs: int | None = None,
        learning_rate: float | None = None,
        seed: int = 0,
        cache: str | Path | None = None,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.features = features
        self.vectors = vectors
        self.convention = convention
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.seed = seed
        self.cache = cache
        self.workers = workers
        self.progress = progress

    def fit(self, texts: Iterable[Text], y: Any = None) -> Self:
        """Learn the weights of heads from texts with trees."""
        given = self._checked(texts, trees=True)
        for name in [name for name in self.__dict__ if name.endswith("_")]:
            del self.__dict__[name]  # what an earlier fit found
        if self.features in BASELINES:
            return self
        data = self._sentences(given)
        self.unseen_ = sum(sentence.unseen for sentence in data.all)
        self.headless_ = sum(sentence.headless for sentence in data.all)
        if not any(sentence.scored.any() for sentence in data.all):
            raise CorpusError("no text has a word to learn from; give texts with words that are no punctuation")
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self._train(data, given)
        self.fitted_on_ = self._sources()
        return self

    def _train(self, data: Sentences, texts: Sequence[Text]) -> None:
        """Learn epoch by epoch; keep the one with the best score on the held-out sentences, the last if none are held out."""
        generator = np.random.default_rng(self.seed)
        rest, held = split_indices([text.text for text in texts], None, HELD_OUT, self.seed)
        scorer = self._scorer()
        epochs = scorer.epochs if self.epochs is None else self.epochs
        steps = max(1, epochs * len(data.batches(rest)))
        optimizer = torch.optim.Adam(_groups(scorer, self.learning_rate or scorer.rate))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
        self.history_: list[dict[str, float | None]] = []
        best = -1.0
        with progress_bar("fitting", "epochs", wanted=self.progress) as tell:
            for epoch in range(epochs):
                tell(epoch, epochs)
                loss = _epoch(scorer, optimizer, schedule, data, generator.permutation(rest), generator)
                uas = _measured(_guesses(scorer, data, held, ("argmax",)), data, held).uas
                self.history_.append({"loss": loss, "uas": None if np.isnan(uas) else uas})
                if not uas <= best:
                    best, self.epoch_, kept = uas, epoch, copy.deepcopy(scorer.state_dict())
                elif epoch - self.epoch_ >= PATIENCE:
                    break
        scorer.load_state_dict(kept)
        self.scorer_ = scorer

    def _scorer(self) -> Scorer:
        """A scorer that has learnt nothing yet."""
        heads = self._loaded().n_layers * self._loaded().n_heads if self.features in READERS else 0
        size = self._vectors().size if self.features in SPEAKERS else 0
        return SCORERS[self.features](heads, size, self.convention == "published")

    def predict(self, texts: Iterable[Text], decode: str = "argmax") -> list[tuple[int, ...]]:
        """The head of each word of each text, -1 for ROOT: each word's best candidate, or (`decode="tree"`) the best tree with one word on ROOT.

        A word that the model did not see (cut off, or dropped by the tokenizer) gets UNSEEN, -2.
        """
        if decode not in DECODERS:
            raise MeasureError(f"decode is {decode!r}; it must be {' or '.join(DECODERS)}")
        given = self._checked(texts, trees=False)
        data = self._sentences(given)
        guesses = self._guessed(data, (decode,))
        return [_in_text(one, guesses.get(number, WORDLESS)[0]) for number, one in enumerate(data.all)]

    def evaluate(self, texts: Iterable[Text]) -> TreeScores:
        """Unlabelled attachment on texts with trees: hits and counts of each text, and what was left out."""
        data = self._sentences(self._checked(texts, trees=True))
        return _measured(self._guessed(data, DECODERS), data, range(len(data.all)))

    def score(self, texts: Iterable[Text], y: Any = None) -> float:
        """UAS: the share of words, punctuation left out, whose best candidate is their head."""
        return self.evaluate(texts).uas

    def _guessed(self, data: Sentences, decoders: Sequence[str]) -> dict[int, list[Array]]:
        """The heads of each sentence that has words, by each decoder."""
        if self.features in BASELINES:
            baseline = BASELINES[self.features]
            return {n: [np.array(baseline(len(one))) + 1] * len(decoders) for n, one in enumerate(data.all)}
        check_is_fitted(self, "scorer_")
        with one_thread():
            return _guesses(self.scorer_, data, range(len(data.all)), decoders)

    def _checked(self, texts: Iterable[Text], trees: bool) -> list[Text]:
        """The texts, and this probe's own parameters, if all can be used."""
        known = [*SCORERS, *BASELINES]
        if self.features not in known:
            raise MeasureError(f"features is {self.features!r}; it must be one of {', '.join(known)}")
        check_convention(self.convention)
        for name, value in (("epochs", self.epochs), ("learning_rate", self.learning_rate)):
            if value is not None and not value > 0:
                raise MeasureError(f"{name} is {value}; it must be above 0, or None for what serves the features best")
        given = list(texts)
        strange = next((one for one in given if not isinstance(one, Text)), None)
        if strange is not None or not given:
            raise CorpusError(
                f"the texts are {'none' if strange is None else 'of ' + type(strange).__name__}; give a list of Texts"
            )
        check_words(given)
        for text in given if trees else ():
            check_tree(text)
        return given

    def _sentences(self, texts: Sequence[Text]) -> Sentences:
        """The texts as the features see them."""
        attention = self._attention(texts) if self.features in READERS else None
        vectors = self._vectors() if self.features in SPEAKERS else None
        missing = missing_words(self._loaded(), texts) if attention is None else attention.missing
        return Sentences([sentence_of(text, n, missing[n]) for n, text in enumerate(texts)], attention, vectors)

    def _attention(self, texts: Sequence[Text]) -> WordAttention:
        cache = self._temporary() if self.cache is None else self.cache
        return gather(self._loaded(), texts, cache, workers=self.workers, progress=self.progress)

    def _temporary(self) -> Path:
        """A folder that goes when this object does."""
        if "_folder" not in self.__dict__:
            self._folder = Path(tempfile.mkdtemp(prefix="attlas-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def _loaded(self) -> Model:
        if not hasattr(self, "_model") or self._source is not self.model:
            self._model, self._source = load_model(self.model), self.model
        return self._model

    def _vectors(self) -> Vectors:
        if self.vectors is not None:
            return self.vectors
        model = self._loaded()
        known = self.__dict__.get("_own_vectors")
        if known is None or known.model is not model:
            known = self._own_vectors = ModelVectors(model)
        return known

    def save(self, folder: str | Path) -> Path:
        """Write the fitted probe: weights as safetensors, the rest as JSON; no pickle.

        A folder that is not empty is refused, unless it holds a tree probe: that is replaced.
        """
        check_is_fitted(self, "scorer_")
        about = {
            "parameters": {name: getattr(self, name) for name in SAVED},
            **{name: getattr(self, name) for name in FOUND},
            **self.fitted_on_,
        }
        weights = {name: part.contiguous() for name, part in self.scorer_.state_dict().items()}
        return FORMAT.write(folder, about, save(weights))

    def _sources(self) -> dict[str, Any]:
        """What the weights belong to: the model whose attention they read, and the vectors."""
        model = self._loaded() if self.features in READERS else None
        vectors = self._vectors() if self.features in SPEAKERS else None
        return {
            "model": None if model is None else _record(model),
            "vectors": None if vectors is None else _record(vectors),
        }

    @classmethod
    def load(
        cls, folder: str | Path, model: Any = None, *, vectors: Vectors | None = None, **options: Any
    ) -> TreeProbe:
        """Read a probe that `save` wrote, for the model whose attention it was fitted on.

        Give its vectors too, if they were not that model's own. Others are refused.
        """
        place = Path(folder).expanduser()
        with _readable(place):
            about, data = FORMAT.read(place)
            weights = load(data)
            probe = cls(model, vectors=vectors, **about["parameters"], **options)
            for name in FOUND:
                setattr(probe, name, about[name])
            probe.fitted_on_ = {what: about[what] for what in ("model", "vectors")}
        for what, own in probe._sources().items():
            if own is None:
                continue
            with _readable(place):
                known = about[what]
                name, parts = known["name"], _changed(known, own, probe._vectors)
            if parts:
                raise ModelError(
                    f"the probe in {place} was fitted on the {what} {name!r}, not {own['name']!r} "
                    f"(differs in {', '.join(parts)}); pass the {what} it was fitted on"
                )
        with _readable(place):
            probe.scorer_ = probe._scorer()
            probe.scorer_.load_state_dict(weights)
        return probe


@contextmanager
def _readable(place: Path) -> Iterator[None]:
    """Say in one line that a folder does not hold what was saved."""
    try:
        yield
    except UNREADABLE as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        line = f"{place} holds no tree probe that can be read ({reason})"
        raise ModelError(f"{line}; give a folder that TreeProbe.save wrote") from error


def _record(source: Model | Vectors) -> dict[str, Any]:
    """What a saved probe notes of a model or of vectors: the name for people, and the identity."""
    model = source.model if isinstance(source, ModelVectors) else source
    if isinstance(model, Model):
        identity = fitted_identity(model.identity())
    else:
        identity = {"content": model.digest}
    return {"name": source.name, "identity": identity}


def _changed(
    known: Mapping[str, Any],
    own: Mapping[str, Any],
    vectors: Callable[[], Vectors],
) -> list[str]:
    """The parts in which a model or vectors differ from those that a saved probe notes.

    Earlier versions noted the weights of a model, and a digest of the table of vectors.
    """
    if "identity" in known:
        return differing_parts(known["identity"], own["identity"])
    if "weights" in known:
        return [] if known["weights"] == own["identity"]["weights"] else ["weights"]
    return [] if known["digest"] == _table_digest(vectors()) else ["content"]


def _table_digest(vectors: Vectors) -> str:
    """The digest by which probes of earlier versions know vectors: the bytes of their table."""
    if isinstance(vectors, ModelVectors):
        return sha256(vectors.table.numpy().data).hexdigest()
    if isinstance(vectors, GloveVectors):
        return sha256(vectors._read[1].data).hexdigest()
    return vectors.digest


def _groups(scorer: Scorer, rate: float) -> list[dict[str, Any]]:
    """The parameters with their learning rates."""
    return [
        {"params": parameter, "lr": rate * (FASTER if name in scorer.faster else 1)}
        for name, parameter in scorer.named_parameters()
    ]


def _epoch(
    scorer: Scorer, optimizer: Any, schedule: Any, data: Sentences, order: Array, generator: np.random.Generator
) -> float:
    """Learn from each sentence once, in batches of one word count that come in any order; the mean loss of a word.

    A batch counts by its words: the loss of a step is a sum, over a number that is the same for all.
    """
    batches = data.batches(order)
    total, words = 0.0, 0
    for number in generator.permutation(len(batches)):
        learnt = data.learnt(batches[number])
        loss = cross_entropy(scorer(data.given(batches[number])), learnt, ignore_index=IGNORED, reduction="sum")
        optimizer.zero_grad()
        (loss / BATCH_TEXTS).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        total, words = total + float(loss.detach()), words + int((learnt != IGNORED).sum())
    return total / max(1, words)


@torch.no_grad()
def _guesses(
    scorer: Scorer, data: Sentences, order: Iterable[int], decoders: Sequence[str] = DECODERS
) -> dict[int, list[Array]]:
    """Heads of each sentence that has words, among ROOT (0) and its words, by each decoder."""
    return {
        number: [scores.argmax(0) if decode == "argmax" else spanning_tree(scores) + 1 for decode in decoders]
        for batch in data.batches(order)
        for number, scores in zip(batch, scorer(data.given(batch)).numpy(), strict=True)
    }


def _measured(guesses: dict[int, list[Array]], data: Sentences, order: Iterable[int]) -> TreeScores:
    """What guesses are worth, by the first and by the last decoder."""
    sentences = {int(number): data.all[number] for number in order}
    hits = [
        [int(((heads == one.heads) & one.scored).sum()) for heads in guesses.get(number, WORDLESS)]
        for number, one in sentences.items()
    ]
    return TreeScores(
        np.array([found[0] for found in hits], dtype=np.int64),
        np.array([found[-1] for found in hits], dtype=np.int64),
        np.array([one.scored.sum() for one in sentences.values()], dtype=np.int64),
        sum(one.punctuation for one in sentences.values()),
        sum(one.unseen for one in sentences.values()),
        sum(one.headless for one in sentences.values()),
    )


def _in_text(sentence: Sentence, heads: Array) -> tuple[int, ...]:
    """Heads among the words that were seen as heads among all words of the text."""
    out = np.full(len(sentence) + sentence.unseen, UNSEEN)
    out[sentence.source] = np.append(ROOT, sentence.source)[heads]
    return tuple(out.tolist())
