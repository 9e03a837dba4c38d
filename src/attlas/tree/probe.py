"""TreeProbe: how much of a dependency tree does a linear map of attention predict?

Clark et al. 2019, section 5, Table 3. For word j the probability that candidate i is its head is
p(i | j) ~ exp(sum_k w_k a^k_ij + u_k a^k_ji), where a^k_ij is how much i attends to j in head k.
With words, w_k and u_k are linear in the vectors of both. ROOT is a candidate too. Where the
released code and the formula differ, `convention` says which is followed: "sound" is the default;
"published" repeats the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import save
from sklearn.utils.validation import check_is_fitted

from attlas.core.annotations import ROOT
from attlas.core.text import Text
from attlas.corpora.annotated import check_tree
from attlas.experiments.probe import ModelProbe, workspace_of
from attlas.models import Model
from attlas.models.vectors import GloveVectors, ModelVectors, Vectors
from attlas.support.errors import CorpusError, MeasureError, ModelError
from attlas.support.files import remove_with, unnamed_folder
from attlas.support.fingerprint import sha256
from attlas.support.machine import one_thread
from attlas.support.progress import progress_bar
from attlas.support.saving import Saved, differing_parts, fitted_identity
from attlas.tree import training
from attlas.tree.data import Array, Sentence, Sentences, sentence_of
from attlas.tree.scorers import BASELINES, FROM_ATTENTION, FROM_WORDS, Scorer
from attlas.tree.word_attention import (
    WordAttention,
    check_words,
    missing_words,
    read_word_attention,
)

UNSEEN = -2  # in a prediction: the head of a word that the model did not see
FORMAT = Saved("tree probe", "attlas tree probe 1", "probe.json", "probe.safetensors")
SAVED = ("features", "convention", "epochs", "learning_rate", "seed")  # parameters of a saved probe
FITTED = ("epoch_", "history_", "unseen_", "headless_")


@dataclass(kw_only=True, eq=False, repr=False)
class TreeProbe(ModelProbe):
    """Predicts the head of each word from attention, for texts with words and dependency trees.

    `features` is one of attention, attention_words, distance_words (the authors' baseline without
    attention), or right_branching and previous_word, which are not trained. `vectors` are static
    word vectors, the model's own input embeddings if None; so the control is
    `TreeProbe(model.randomized(0), vectors=ModelVectors(model))`. `epochs` and `learning_rate` None
    are the best known for the features. Attention between words is cached in the folder `cache`, or
    in a temporary one that is removed with this object.

    Trained by Adam on the cross entropy of the heads of scored words (training on punctuation too
    costs about 0.01 UAS) with a linear decay of the rate; a twentieth of the sentences is held out
    to choose the epoch. It runs on one thread, so that a seed always gives the same probe.
    """

    features: str = field(default="attention_words", kw_only=False)
    vectors: Vectors | None = None
    convention: str = "sound"
    epochs: int | None = None
    learning_rate: float | None = None
    seed: int = 0

    def fit(self, texts: Iterable[Text], y: Any = None) -> Self:
        """Fit the weights of attention heads to texts with trees."""
        given = self._checked(texts, trees=True)
        for name in [name for name in self.__dict__ if name.endswith("_")]:
            del self.__dict__[name]  # of an earlier fit
        if self.features in BASELINES:
            return self
        data = self._sentences(given)
        with one_thread(), progress_bar("fitting", "epochs", wanted=self.progress) as report:
            fitted = training.fit(data, self._options(), report)
        self.unseen_ = sum(sentence.unseen for sentence in data.all)
        self.headless_ = sum(sentence.headless for sentence in data.all)
        self.scorer_, self.epoch_, self.history_ = fitted.scorer, fitted.epoch, fitted.history
        self.fitted_on_ = self._sources()
        return self

    def _options(self) -> training.ProbeOptions:
        return training.ProbeOptions(**{name: getattr(self, name) for name in SAVED})

    def _scorer(self) -> Scorer:
        """A scorer before training."""
        model, vectors = self._inputs()
        heads = 0 if model is None else model.n_layers * model.n_heads
        return training.new_scorer(self._options(), heads, 0 if vectors is None else vectors.size)

    def _inputs(self) -> tuple[Model | None, Vectors | None]:
        """The model and the word vectors that the features need; None where they need none."""
        model = self.model_ if self.features in FROM_ATTENTION else None
        return model, self._vectors() if self.features in FROM_WORDS else None

    def predict(self, texts: Iterable[Text], decode: str = "argmax") -> list[tuple[int, ...]]:
        """The head of each word of each text, -1 for ROOT.

        It is each word's best candidate or, with `decode="tree"`, that of the best tree with one
        word on ROOT. A word that the model did not see (truncated, or dropped by the tokenizer)
        gets UNSEEN, -2.
        """
        if decode not in training.DECODERS:
            raise MeasureError(f"decode is {decode!r}; it must be {' or '.join(training.DECODERS)}")
        data = self._sentences(self._checked(texts, trees=False))
        heads = self._heads(data, (decode,))
        return [
            _in_text(sentence, heads.get(number, training.NO_WORDS)[0])
            for number, sentence in enumerate(data.all)
        ]

    def evaluate(self, texts: Iterable[Text]) -> training.TreeScores:
        """Unlabelled attachment on texts with trees: hits and counts of each text, exclusions."""
        data = self._sentences(self._checked(texts, trees=True))
        return training.score_heads(self._heads(data, training.DECODERS), data)

    def score(self, texts: Iterable[Text], y: Any = None) -> float:
        """UAS: the share of words, punctuation excluded, whose best candidate is their head."""
        return self.evaluate(texts).uas

    def _heads(self, data: Sentences, decoders: Sequence[str]) -> training.Heads:
        """The heads of each sentence that has words, by each decoder."""
        if self.features in BASELINES:
            return training.baseline_heads(self.features, data, decoders)
        check_is_fitted(self, "scorer_")
        with one_thread():
            return training.heads_of(self.scorer_, data, decoders=decoders)

    def _checked(self, texts: Iterable[Text], trees: bool) -> list[Text]:
        """The texts, if they and this probe's own parameters can be used."""
        self._options()  # refuses values outside their domain
        given = list(texts)
        other = next((one for one in given if not isinstance(one, Text)), None)
        if other is not None or not given:
            kind = "empty" if other is None else f"of {type(other).__name__}"
            raise CorpusError(f"the list of texts is {kind}; give a list of Texts")
        check_words(given)
        for text in given if trees else ():
            check_tree(text)
        return given

    def _sentences(self, texts: list[Text]) -> Sentences:
        """The texts as the features need them."""
        model, vectors = self._inputs()
        attention = None if model is None else self._attention(texts)
        missing = missing_words(self.model_, texts) if attention is None else attention.missing
        sentences = [sentence_of(text, n, missing[n]) for n, text in enumerate(texts)]
        return Sentences(sentences, attention, vectors)

    def _attention(self, texts: list[Text]) -> WordAttention:
        folder = self._temporary() if self.cache is None else Path(self.cache).expanduser()
        return read_word_attention(
            workspace_of(folder, self.workers, self.progress), self.model_, texts
        )

    def _temporary(self) -> Path:
        """A folder that is removed with this object."""
        if "_folder" not in self.__dict__:
            self._folder = unnamed_folder()
            remove_with(self, self._folder)
        return self._folder

    def _vectors(self) -> Vectors:
        if self.vectors is not None:
            return self.vectors
        model = self.model_
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
            **{name: getattr(self, name) for name in FITTED},
            **self.fitted_on_,
        }
        weights = {name: part.contiguous() for name, part in self.scorer_.state_dict().items()}
        return FORMAT.write(folder, about, save(weights))

    def _sources(self) -> dict[str, Any]:
        """What the weights belong to: the model whose attention they read, and the vectors."""
        model, vectors = self._inputs()
        return {
            "model": None if model is None else _record(model),
            "vectors": None if vectors is None else _record(vectors),
        }

    @classmethod
    def load(
        cls,
        folder: str | Path,
        model: Any = None,
        *,
        vectors: Vectors | None = None,
        **options: Any,
    ) -> TreeProbe:
        """Read a probe that `save` wrote, for the model whose attention it was fitted on.

        Give its vectors too, if they were not that model's own. Others are refused.
        """
        holder = Path(folder).expanduser()
        advice = "give a folder that TreeProbe.save wrote"
        readable = partial(FORMAT.readable, holder, advice, ModelError)
        with readable():
            about, arrays = FORMAT.read(holder)
            weights = {name: torch.from_numpy(array) for name, array in arrays.items()}
            probe = cls(model, vectors=vectors, **about["parameters"], **options)
            for name in FITTED:
                setattr(probe, name, about[name])
            probe.fitted_on_ = {what: about[what] for what in ("model", "vectors")}
        for what, own in probe._sources().items():
            if own is None:
                continue
            with readable():
                known = about[what]
                name, parts = known["name"], _changed(known, own, probe._vectors)
            if parts:
                raise ModelError(
                    f"the probe in {holder} was fitted on the {what} {name!r}, not {own['name']!r} "
                    f"(differs in {', '.join(parts)}); pass the {what} it was fitted on"
                )
        with readable():
            probe.scorer_ = probe._scorer()
            probe.scorer_.load_state_dict(weights)
        return probe


def _record(source: Model | Vectors) -> dict[str, Any]:
    """What is saved of a model or of vectors: the name, and the identity."""
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
    """The parts in which a model or vectors differ from those of a saved probe.

    Earlier versions saved the weights of a model, and a digest of the table of vectors.
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


def _in_text(sentence: Sentence, heads: Array) -> tuple[int, ...]:
    """Heads among the words that were seen as heads among all words of the text."""
    out = np.full(len(sentence) + sentence.unseen, UNSEEN)
    out[sentence.source] = np.append(ROOT, sentence.source)[heads]
    return tuple(out.tolist())
