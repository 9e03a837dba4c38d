"""AttentionClassifier: a small text classifier with attention whose word scores can be read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from safetensors.torch import save
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from attlas.core.text import Text
from attlas.corpora.splits import check_labels_known, label_codes, ordered_labels, split_indices
from attlas.dynamics.experiment import ATTENTION, ENCODERS, FROZEN, Dynamics
from attlas.dynamics.flow import Parameters, check_flow, flow_terms
from attlas.dynamics.layers import Network, Shape
from attlas.dynamics.ragged import (
    TOKENIZERS,
    Numbers,
    RaggedTexts,
    Tokenizer,
    to_ragged,
    tokens_of,
    vocabulary_of,
)
from attlas.dynamics.scores import interpretability, kind_means, token_kinds, token_table
from attlas.dynamics.training import Settings, Snapshot, Table, train
from attlas.support.errors import AttlasError, CorpusError, MeasureError
from attlas.support.json import to_json
from attlas.support.machine import one_thread
from attlas.support.options import check_fields, option, same_option
from attlas.support.progress import progress_bar
from attlas.support.saving import Saved, check_shapes

Floats = npt.NDArray[Any]
Pairs = tuple[list[Any], npt.NDArray[Any]]  # texts and their labels
SAVED = Saved(
    what="attention classifier",
    kind="attlas attention classifier 1",
    about="classifier.json",
    arrays="classifier.safetensors",
)
DEV_SHARE = 0.1
MIN_CLASSES = 2
MIN_TEXTS = 20  # for a tenth of them to be set aside as dev


@dataclass(kw_only=True, eq=False, repr=False)
class AttentionClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The classifier of Sun and Lu (2020), trained from scratch, as a scikit-learn estimator.

    Texts are strings, Texts or lists of tokens. The attention score of a token is the product of
    its vector with V, divided by `scale` (lambda in Sun and Lu 2020); its weight is the softmax
    over the text; its polarity is the product of its vector with W. A text's logit is the weighted
    mean of its tokens' polarities. `additive` attention takes the tanh of a matrix times the vector
    before V. Unknown tokens have a vector of zeros.

    Encoders `none`, `affine` and `lstm` are trained; `vectors` and `model` are frozen. For
    `vectors`, `source` is a file in GloVe's format, a mapping from words to vectors, or a model
    whose input embeddings are used; for `model`, anything that `attlas.load` takes. None is the
    embedded model.

    The epoch with the best dev accuracy is kept: `dev` of `fit` is a pair of texts and labels; None
    sets a tenth of the texts aside; with False the last epoch is kept.

    >>> texts = ["good and fine", "a good day", "bad and poor", "a bad day"] * 5
    >>> labels = ["up", "up", "down", "down"] * 5
    >>> classifier = AttentionClassifier(dim=10, epochs=30, seed=1).fit(texts, labels, dev=False)
    >>> classifier.predict(["good", "a bad year"]).tolist(), classifier.score(texts, labels)
    (['up', 'down'], 1.0)
    """

    attention: str = option("dot", "Kind of attention.", choices=ATTENTION)
    encoder: str = option("none", "What makes representations of tokens.", choices=ENCODERS)
    scale: float = option(10.0, "What attention scores are divided by.", above=0, below=math.inf)
    dim: int = same_option(Dynamics, "dim", 100)
    dropout: float = same_option(Dynamics, "dropout", 0.5)
    l2: float = same_option(Dynamics, "l2", 0.01)
    vw_penalty: float = same_option(Dynamics, "vw_penalty", 0.0)
    optimizer: str = same_option(Dynamics, "optimizer", "adagrad")
    learning_rate: float | None = same_option(Dynamics, "learning_rate", None)
    lr_decay: float = same_option(Dynamics, "lr_decay", 0.001)
    epochs: int = same_option(Dynamics, "epochs", 40)
    batch_size: int = same_option(Dynamics, "batch_size", 100)
    patience: int | None = same_option(Dynamics, "patience", None)
    init: float = same_option(Dynamics, "init", 0.1)
    min_count: int = same_option(Dynamics, "min_count", 1)
    tokenize: str | Tokenizer = "words"
    source: Any = None
    record: int = option(
        0, "Record scores by kind of word and their flow every N epochs; 0 for never.", at_least=0
    )
    rule: str = same_option(Dynamics, "rule", "code")
    seed: int = same_option(Dynamics, "seed", 0)
    progress: bool | None = None

    def __sklearn_clone__(self) -> AttentionClassifier:
        return type(self)(**self.get_params(deep=False))  # a model is not copied

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_given", None)  # it is opened again from its source, and checked
        return state

    def fit(
        self,
        X: Iterable[Any],  # noqa: N803
        y: Sequence[Any] | None = None,
        dev: Any = None,
    ) -> AttentionClassifier:
        """Train on texts and their labels; Texts may have labels of their own."""
        self.check()
        self._open()
        texts, labels = self._pairs(X, y, "fit")
        self.classes_ = ordered_labels(labels)
        check_labels(labels.tolist())
        if dev is None:
            texts, labels, held_out = self._set_aside(texts, labels)
        else:
            held_out = None if dev is False else self._given_dev(dev)
        codes = label_codes(labels, self.classes_)
        tokens = tokens_of(texts, self._tokenizer)
        self.vocabulary_ = vocabulary_of(tokens, self.min_count)
        if not self.vocabulary_:
            raise MeasureError(f"no token occurs {self.min_count} times; lower min_count")
        return self.fit_ragged(
            self._ragged(texts, tokens),
            codes,
            None
            if held_out is None
            else (self._ragged(held_out[0]), label_codes(held_out[1], self.classes_)),
        )

    def fit_ragged(
        self,
        ragged: RaggedTexts,
        codes: Numbers,
        dev: tuple[RaggedTexts, Numbers] | None = None,
        classes: Sequence[str] | None = None,
        rows: Floats | None = None,
    ) -> AttentionClassifier:
        """Train on numbered texts; `rows` are the vectors of words of a frozen encoder."""
        self.check()
        if classes is not None:
            self.classes_, self.vocabulary_ = np.array(classes), ragged.words
            self._open(rows is None)
        self.counts_ = ragged.counts(codes, len(self.classes_))
        with one_thread(), progress_bar("training", "epochs", self.progress) as report:
            before = torch.get_rng_state()
            torch.manual_seed(self.seed)
            try:
                table = (
                    self._table(ragged) if rows is None else Table(np.asarray(rows), frozen=True)
                )
                network = Network(self._shape(table.rows.shape[1]))
            finally:
                torch.set_rng_state(before)
            recorder = _Recorder(self, ragged, codes, report)
            trained = train(network, table, ragged, codes, dev, self._settings(), recorder)
        self.best_snapshot_, self.epoch_ = trained.best, trained.best.epoch
        self.history_ = pd.DataFrame(trained.history)
        self.kinds_, self.flow_ = pd.DataFrame(recorder.by_kind), pd.DataFrame(recorder.flow)
        self._training = ragged, codes
        return self

    def _settings(self) -> Settings:
        names = (one.name for one in fields(Settings))
        return Settings(**{name: getattr(self, name) for name in names})

    def check(self) -> None:
        """Convert parameters to their types; refuse values outside their domains."""
        check_fields(self, MeasureError)
        if not callable(self.tokenize) and self.tokenize not in TOKENIZERS:
            raise MeasureError(
                f"tokenize is {self.tokenize!r}; it must be {', '.join(TOKENIZERS)}, or a function"
            )

    @property
    def _tokenizer(self) -> Tokenizer:
        return self.tokenize if callable(self.tokenize) else TOKENIZERS[self.tokenize]

    @staticmethod
    def _pairs(texts: Any, labels: Any, what: str) -> Pairs:
        """Texts and as many labels; those of Texts if no others are given."""
        if isinstance(texts, str | Text):
            raise CorpusError("expected a list of texts, got one text; put it in a list")
        given = list(texts)
        if labels is None:
            labels = [one.label if isinstance(one, Text) else None for one in given]
            if any(label is None for label in labels):
                raise MeasureError(f"{what} needs labels: give them as y, or Texts that have them")
        given_labels = list(labels)
        if any(label is None or label != label for label in given_labels):
            raise MeasureError(
                f"some labels of {what} are missing (None or NaN); remove texts without a label"
            )
        if len({isinstance(label, str) for label in given_labels}) > 1:
            raise MeasureError(f"labels of {what} are strings and other types; use one type")
        array = np.asarray(given_labels)
        if array.ndim != 1 or len(array) != len(given):
            raise MeasureError(
                f"got {len(given)} texts and labels of shape {array.shape}; give one label per text"
            )
        if not len(given):
            raise MeasureError("there are no texts")
        return given, array

    def _given_dev(self, dev: Any) -> Pairs:
        """Texts and labels of dev."""
        if isinstance(dev, tuple) and len(dev) == 2:
            texts, labels = self._pairs(*dev, "dev")
        elif isinstance(dev, Sequence) and dev and all(isinstance(one, Text) for one in dev):
            texts, labels = self._pairs(dev, None, "dev")
        else:
            raise MeasureError(
                "dev must be a pair (texts, labels), Texts with labels, or False for none"
            )
        check_labels_known("dev", labels, self.classes_)
        return texts, labels

    def _set_aside(
        self, texts: list[Any], labels: npt.NDArray[Any]
    ) -> tuple[list[Any], npt.NDArray[Any], Pairs | None]:
        """Texts and labels to train on, and those of dev; None if there are too few for dev."""
        if len(texts) < MIN_TEXTS:
            return texts, labels, None
        contents = list(map(_content, texts))
        rest, chosen = split_indices(contents, labels.tolist(), DEV_SHARE, self.seed)
        if not len(chosen) or len(np.unique(labels[rest])) < len(self.classes_):
            return texts, labels, None
        train, dev = (([texts[at] for at in part], labels[part]) for part in (rest, chosen))
        return *train, dev

    def _ragged(
        self, texts: Iterable[Any], tokens: Sequence[Sequence[str]] | None = None
    ) -> RaggedTexts:
        """Number the tokens of texts, with hidden states if the encoder is a model."""
        split = tokens_of(texts, self._tokenizer) if tokens is None else tokens
        ragged = to_ragged(split, self.vocabulary_)
        if self.encoder != "model":
            return ragged
        from attlas.dynamics.inputs import encoded  # which needs transformers

        return encoded(ragged, split, self._frozen(), self.progress)

    def _open(self, needed: bool = True) -> None:
        """Open the frozen model or vectors, and keep their fingerprints if they were given by name.

        Objects have none: they are in memory, and cannot be saved.
        """
        self.__dict__.pop("_given", None)
        self.source_: dict[str, str] | None = None
        if needed and self.encoder in FROZEN and self._by_name():
            from attlas.dynamics.inputs import identity_parts  # which needs transformers

            self.source_ = identity_parts(self._frozen())

    def _by_name(self) -> bool:
        return self.source is None or isinstance(self.source, str | Path)

    def _frozen(self) -> Any:
        """Return the frozen model or vectors that it was fitted with, opened once."""
        if not hasattr(self, "_given"):
            from attlas.dynamics.inputs import identity_parts, model_of, vectors_of

            opened = (model_of if self.encoder == "model" else vectors_of)(self.source)
            fitted = getattr(self, "source_", None)
            now = {} if fitted is None else identity_parts(opened)
            known = fitted or {}
            changed = [name for name in {**known, **now} if known.get(name) != now.get(name)]
            if changed:
                raise AttlasError(
                    f"the classifier was fitted with another {self.encoder} than "
                    f"{self.source or 'the embedded one'} is now (changed: {', '.join(changed)}); "
                    "restore it, or fit the classifier again"
                )
            self._given = opened
        return self._given

    def _table(self, ragged: RaggedTexts) -> Table:
        """The vectors of words before training."""
        if self.encoder in FROZEN:
            from attlas.dynamics.inputs import static_rows, word_states  # which need transformers

            if self.encoder == "vectors":
                given = static_rows(ragged.words, self._frozen())
                del self._given  # the rows of its words are all it needs
            else:
                given = word_states(ragged.words, self._frozen(), self.progress)
            return Table(given, frozen=True)
        size = len(ragged.words) + 1, self.dim
        rows = np.random.default_rng(self.seed).uniform(-self.init, self.init, size)
        rows[-1] = 0
        return Table(rows.astype(np.float32))

    def _shape(self, dim: int) -> Shape:
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        kinds = self.attention, self.encoder, float(self.scale), float(self.dropout)
        return Shape(len(self.vocabulary_), dim, outputs, *kinds)

    def token_table_at(
        self,
        snapshot: Snapshot,
        ragged: RaggedTexts,
        test: RaggedTexts | None = None,
        where: bool = True,
    ) -> pd.DataFrame:
        """The words of a snapshot; see `attlas.dynamics.scores.token_table`."""
        classes = [str(name) for name in self.classes_]
        return token_table(snapshot, ragged, self.counts_, classes, self.rule, test, where)

    def decision_function(self, X: Iterable[Any]) -> Floats:  # noqa: N803
        """Logits: of the second of two classes [text], of each of more classes [text, class]."""
        check_is_fitted(self, "best_snapshot_")
        logits = self.best_snapshot_.read(self._ragged(X)).logits
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict(self, X: Iterable[Any]) -> npt.NDArray[Any]:  # noqa: N803
        """The most likely class of each text; the first of two where the logit is 0."""
        logits = self.decision_function(X)
        return self.classes_[(logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(-1)]

    def predict_proba(self, X: Iterable[Any]) -> Floats:  # noqa: N803
        """The probability of each class: [text, class]."""
        logits = self.decision_function(X)
        if logits.ndim == 1:
            return np.stack([expit(-logits), expit(logits)], -1)
        return softmax(logits, axis=-1)

    def tokens(self, test: Iterable[Any] | None = None) -> pd.DataFrame:
        """One row per word: occurrences by class, gamma, kind, polarity and attention score.

        `weight` is the mean attention weight in `test`, or in the training texts. A classifier that
        was loaded has no training texts: what needs them is NaN.
        """
        check_is_fitted(self, "best_snapshot_")
        seen = None if test is None else self._ragged(test)
        if hasattr(self, "_training"):
            return self.token_table_at(self.best_snapshot_, self.training_texts()[0], seen)
        empty = RaggedTexts(np.zeros(0, np.int64), np.zeros(1, np.int64), self.vocabulary_)
        where = seen is not None and not self.best_snapshot_.contextual
        return self.token_table_at(self.best_snapshot_, empty, seen, where)

    def weights(self, X: Iterable[Any]) -> list[pd.DataFrame]:  # noqa: N803
        """Tables of tokens, one per text: attention weight, attention score, polarity, known."""
        check_is_fitted(self, "best_snapshot_")
        tokens = tokens_of(X, self._tokenizer)
        ragged = self._ragged(tokens, tokens)
        read = self.best_snapshot_.read(ragged)
        names = [f"polarity:{name}" for name in self.classes_]
        if read.polarity.shape[1] == 1:
            names = ["polarity"]
        whole = pd.DataFrame(
            {
                "token": [token for text in tokens for token in text],
                "weight": read.weights,
                "attention_score": read.scores,
                **dict(zip(names, read.polarity.T, strict=True)),
                "known": ragged.ids < len(ragged.words),
            }
        )
        ends = pairwise(ragged.starts)
        return [whole.iloc[start:stop].reset_index(drop=True) for start, stop in ends]

    def interpretability(self) -> dict[str, float]:
        """Separation of polarity tokens from neutral ones; see `attlas.dynamics.scores`."""
        return interpretability(self.tokens(), getattr(self, "untrained_", None))

    def flow(self) -> pd.DataFrame:
        """The terms of the gradient flow of each word on the training texts."""
        check_is_fitted(self, "best_snapshot_")
        ragged, codes = self.training_texts()
        return flow_terms(Parameters.of(self.best_snapshot_), ragged, codes).frame(
            ragged.words, self.counts_
        )

    def check_flow(self) -> float:
        """The largest error of the sums of terms, relative to the largest rate; slow."""
        check_is_fitted(self, "best_snapshot_")
        return check_flow(Parameters.of(self.best_snapshot_), *self.training_texts())

    def training_texts(self) -> tuple[RaggedTexts, Numbers]:
        """The training texts, numbered, and the numbers of their classes."""
        if not hasattr(self, "_training"):
            raise MeasureError(
                "a classifier that was loaded does not have its training texts; fit it again"
            )
        return self._training

    def save(self, folder: str | Path) -> Path:
        """Write the fitted classifier: arrays as safetensors, the rest as JSON; no pickle.

        A frozen model is not copied: its source and its fingerprint are written. A folder that
        holds anything but a classifier is refused.
        """
        check_is_fitted(self, "best_snapshot_")
        if callable(self.tokenize) or not self._by_name():
            raise AttlasError(
                "a classifier with a tokenizer function or vectors in memory cannot be saved; "
                "give them by name or path"
            )
        parts = self.best_snapshot_.network.state_dict()
        arrays = {f"network.{name}": part.contiguous() for name, part in parts.items()}
        arrays["table"] = torch.from_numpy(self.best_snapshot_.table.rows)
        arrays["counts"] = torch.from_numpy(self.counts_)
        about = {
            "classes": self.classes_.tolist(),
            "epoch": self.epoch_,
            "parameters": to_json(
                {
                    name: str(value) if isinstance(value, Path) else value
                    for name, value in self.get_params().items()
                }
            ),
            "vocabulary": list(self.vocabulary_),
            "source": getattr(self, "source_", None),
        }
        return SAVED.write(folder, about, save(arrays))

    @classmethod
    def load(cls, folder: str | Path) -> AttentionClassifier:
        """Read a classifier that `save` wrote; it predicts the same.

        One whose frozen model has changed since is refused.
        """
        path = Path(folder).expanduser()
        with SAVED.readable(path, "give a folder that AttentionClassifier.save wrote", AttlasError):
            out = cls._read(*SAVED.read(path))
        if out.encoder == "model" and out.source_ is not None:
            out._frozen()
        return out

    @classmethod
    def _read(cls, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> AttentionClassifier:
        """Make a fitted classifier from its files; arrays of other shapes are an error."""
        out = cls(**about["parameters"])
        out.classes_, out.vocabulary_ = np.array(about["classes"]), tuple(about["vocabulary"])
        words, width = len(out.vocabulary_), arrays["table"].shape[-1]
        check_shapes(arrays, {"counts": (words, len(out.classes_)), "table": (words + 1, width)})
        out.counts_, out.source_ = arrays["counts"], about.get("source")
        table = Table(arrays["table"], out.encoder in FROZEN)
        network = Network(out._shape(table.rows.shape[1]))
        own = {name.partition(".")[2]: torch.from_numpy(arrays[name]) for name in arrays}
        own.pop("")  # the arrays that are not of the network
        network.load_state_dict(own)
        out.epoch_ = int(about["epoch"])
        out.best_snapshot_ = Snapshot(out.epoch_, network.eval(), table)
        return out


@dataclass(eq=False)
class _Recorder:
    """Records scores by kind of word, and the terms of their flow, while a classifier trains."""

    classifier: AttentionClassifier
    texts: RaggedTexts
    codes: Numbers
    report: Callable[[int, int], None]
    by_kind: list[dict[str, Any]] = field(default_factory=list)
    flow: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, snapshot: Snapshot, row: dict[str, Any]) -> None:
        """Add to the row of an epoch in the history, and to the tables."""
        fitted, epoch = self.classifier, snapshot.epoch
        if epoch == 0:
            fitted.untrained_ = fitted.token_table_at(snapshot, self.texts, where=False)
        if fitted.record and (epoch % fitted.record == 0 or epoch == fitted.epochs):
            self._record(snapshot, row)
        self.report(epoch, fitted.epochs)

    def _record(self, snapshot: Snapshot, row: dict[str, Any]) -> None:
        fitted, epoch = self.classifier, {"epoch": snapshot.epoch}
        tokens = fitted.untrained_
        if snapshot.epoch:
            tokens = fitted.token_table_at(snapshot, self.texts, where=False)
        scores = interpretability(tokens)
        row |= {name: scores[name] for name in ("separation", "gap")}
        self.by_kind += [{**epoch, **one} for one in kind_means(tokens)]
        if not snapshot.contextual:
            kinds = token_kinds(fitted.counts_, fitted.classes_.tolist(), fitted.rule)
            terms = flow_terms(Parameters.of(snapshot), self.texts, self.codes)
            self.flow += [{**epoch, **one} for one in terms.by_kind(kinds, fitted.counts_)]


def _content(text: Any) -> str | tuple[str, ...]:
    """What makes two texts equal: the string, or the tokens of a text given as tokens."""
    if isinstance(text, Text):
        return text.text
    return text if isinstance(text, str) else tuple(text)


def check_labels(labels: Sequence[Any]) -> None:
    """Refuse texts of one class only, and labels that differ for every text."""
    classes = set(labels)
    if len(classes) < MIN_CLASSES:
        raise MeasureError(
            f"all {len(labels)} texts have the label {next(iter(classes))!r}; "
            "a classifier needs texts of two classes at least"
        )
    if MIN_CLASSES < len(classes) == len(labels):
        raise MeasureError(
            f"there are as many classes as texts ({len(labels)}); "
            "choose a label column that is not numeric or an id"
        )
