"""AttentionClassifier: a small text classifier with attention, trained from scratch, whose words have scores that can be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
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
from attlas.dynamics.experiment import ATTENTION, ENCODERS, FROZEN, OPTIMIZERS, RULES
from attlas.dynamics.flow import Parameters, check_flow, flow_terms
from attlas.dynamics.layers import Network, Shape
from attlas.dynamics.ragged import (
    TOKENIZERS,
    Bags,
    Numbers,
    Tokenizer,
    bagged,
    tokens_of,
    vocabulary_of,
)
from attlas.dynamics.scores import interpretability, kind_means, token_kinds, token_table
from attlas.dynamics.training import Moment, Settings, Table, train
from attlas.support.errors import AttlasError, CorpusError, MeasureError
from attlas.support.machine import one_thread
from attlas.support.progress import progress_bar
from attlas.support.saving import UNREADABLE, Saved, check_shapes, first_line

Floats = npt.NDArray[Any]
SAVED = Saved(
    what="attention classifier",
    kind="attlas attention classifier 1",
    about="classifier.json",
    arrays="classifier.safetensors",
)
DEV_SHARE = 0.1
FEW = 2  # classes at least
FEWEST = 20  # texts of which some can be set aside


class AttentionClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Attention over the words of a text, their weighted sum, a linear layer: the classifier of Sun and Lu (2020), with a scikit-learn face.

    Texts are strings, Texts or lists of tokens. A token has a vector, perhaps an encoder makes something else of it; its attention score is its product with V over `scale` (the paper's
    lambda), its weight the softmax over the text, its polarity its product with W; a text's logit is the weighted mean of its tokens' polarities.

    attention: `dot`, or `additive` (tanh of a matrix times the token's vector, before V). encoder: `none`, `affine`, `lstm`, or frozen: `vectors` (static ones: `source` is a file of GloVe's
    layout, a mapping, or nothing for the embedded model's input embeddings) or `model` (hidden states of any Hugging Face model; `source` is what `attlas.load` takes).
    dropout is on vectors and on the weighted sum, `l2` on the matrices of encoder layers and of additive attention, `vw_penalty` on |V.W|.
    The epoch that is best on dev is kept: `dev` of `fit` is a pair of texts and labels, a tenth of the texts if None, and False for none, when the last epoch is kept.
    Tokens that were not learnt from have a vector of zeros. `record` notes scores by kind of word, and the terms of their flow, every so many epochs.

    >>> texts, labels = ["good and fine", "a good day", "bad and poor", "a bad day"] * 5, ["up", "up", "down", "down"] * 5
    >>> classifier = AttentionClassifier(dim=10, epochs=30, seed=1).fit(texts, labels, dev=False)
    >>> classifier.predict(["good", "a bad year"]).tolist(), classifier.score(texts, labels)
    (['up', 'down'], 1.0)
    """

    def __init__(
        self,
        attention: str = "dot",
        encoder: str = "none",
        scale: float = 10.0,
        dim: int = 100,
        dropout: float = 0.5,
        l2: float = 0.01,
        vw_penalty: float = 0.0,
        optimizer: str = "adagrad",
        learning_rate: float | None = None,
        lr_decay: float = 0.001,
        epochs: int = 40,
        batch_size: int = 100,
        patience: int | None = None,
        init: float = 0.1,
        min_count: int = 1,
        tokenize: str | Tokenizer = "words",
        source: Any = None,
        record: int = 0,
        rule: str = "code",
        seed: int = 0,
        progress: bool | None = None,
    ) -> None:
        self.attention = attention
        self.encoder = encoder
        self.scale = scale
        self.dim = dim
        self.dropout = dropout
        self.l2 = l2
        self.vw_penalty = vw_penalty
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.lr_decay = lr_decay
        self.epochs = epochs
        self.batch_size = batch_size
        self.patience = patience
        self.init = init
        self.min_count = min_count
        self.tokenize = tokenize
        self.source = source
        self.record = record
        self.rule = rule
        self.seed = seed
        self.progress = progress

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
        """Learn from texts and their labels; labels may be left out where the texts are Texts that have them."""
        self.check()
        self._open()
        texts, labels = self._pairs(X, y, "fit")
        self.classes_ = ordered_labels(labels)
        check_labels(labels.tolist())
        kept = self._dev(texts, labels, dev)
        if kept is not None and dev is None:
            texts, labels, kept = kept[0], kept[1], (kept[2], kept[3])
        codes = label_codes(labels, self.classes_)
        tokens = tokens_of(texts, self._tokenizer)
        self.vocabulary_ = vocabulary_of(tokens, self.min_count)
        if not self.vocabulary_:
            raise MeasureError(f"no token occurs {self.min_count} times; lower min_count")
        return self.fit_bags(
            self._bags(texts, tokens),
            codes,
            None if kept is None else (self._bags(kept[0]), label_codes(kept[1], self.classes_)),
        )

    def fit_bags(
        self,
        bags: Bags,
        codes: Numbers,
        dev: tuple[Bags, Numbers] | None = None,
        classes: Sequence[str] | None = None,
        rows: Floats | None = None,
    ) -> AttentionClassifier:
        """Learn from texts that are numbered already; `rows` are the vectors of words if known."""
        self.check()
        if classes is not None:
            self.classes_, self.vocabulary_ = np.array(classes), bags.words
            self._open(rows is None)
        self.counts_ = bags.counts(codes, len(self.classes_))
        kinds = token_kinds(self.counts_, self.classes_.tolist(), self.rule)
        settings = Settings(
            self.optimizer,
            self.learning_rate,
            self.lr_decay,
            self.epochs,
            self.batch_size,
            self.l2,
            self.vw_penalty,
            self.patience,
            self.seed,
        )
        by_kind: list[dict[str, Any]] = []
        flows: list[dict[str, Any]] = []

        def watch(moment: Moment, row: dict[str, Any]) -> None:
            if moment.epoch == 0:
                self.untrained_ = self.token_table_at(moment, bags, where=False)
            if self.record and (moment.epoch % self.record == 0 or moment.epoch == self.epochs):
                found = (
                    self.untrained_
                    if moment.epoch == 0
                    else self.token_table_at(moment, bags, where=False)
                )
                told = interpretability(found)
                row |= {"separation": told["separation"], "gap": told["gap"]}
                by_kind.extend({"epoch": moment.epoch, **one} for one in kind_means(found))
                if not moment.contextual:
                    terms = flow_terms(Parameters.of(moment), bags, codes).by_kind(
                        kinds, self.counts_
                    )
                    flows.extend({"epoch": moment.epoch, **one} for one in terms)
            report(moment.epoch, self.epochs)

        with (
            one_thread(),
            progress_bar("training", "epochs", self.progress) as report,
        ):
            before = torch.get_rng_state()
            torch.manual_seed(self.seed)
            try:
                table = self._table(bags) if rows is None else Table(np.asarray(rows), frozen=True)
                network = Network(self._shape(table.rows.shape[1]))
            finally:
                torch.set_rng_state(before)
            trained = train(network, table, bags, codes, dev, settings, watch)
        self.moment_, self.epoch_ = trained.best, trained.best.epoch
        self.history_ = pd.DataFrame(trained.history)
        self.kinds_, self.flow_ = pd.DataFrame(by_kind), pd.DataFrame(flows)
        self._learnt = bags, codes
        return self

    def check(self) -> None:
        """Refuse parameters that cannot be."""
        for name, known in (
            ("attention", ATTENTION),
            ("encoder", ENCODERS),
            ("optimizer", tuple(OPTIMIZERS)),
            ("rule", RULES),
        ):
            if getattr(self, name) not in known:
                raise MeasureError(
                    f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}"
                )
        if not (_is_number(self.scale) and np.isfinite(self.scale) and self.scale > 0):
            raise MeasureError(
                f"scale (lambda) is {self.scale!r}; attention scores are divided by it, so it must be a number above 0"
            )
        if not (_is_number(self.dropout) and 0 <= self.dropout < 1):
            raise MeasureError(f"dropout is {self.dropout!r}; it must be at least 0 and below 1")
        for name, least in (
            ("dim", 1),
            ("epochs", 1),
            ("batch_size", 1),
            ("min_count", 1),
            ("record", 0),
            ("seed", 0),
            ("patience", 1),
        ):
            value = getattr(self, name)
            if value is None and name == "patience":
                continue
            if not isinstance(value, int | np.integer) or value < least:
                raise MeasureError(
                    f"{name} is {value!r}; it must be a whole number of at least {least}"
                )
        for name in ("l2", "vw_penalty", "lr_decay", "init"):
            value = getattr(self, name)
            if not (_is_number(value) and value >= 0):
                raise MeasureError(f"{name} is {getattr(self, name)!r}; it must not be below 0")
        if self.learning_rate is not None and not (
            _is_number(self.learning_rate) and self.learning_rate > 0
        ):
            raise MeasureError(f"learning_rate is {self.learning_rate!r}; it must be above 0")
        if not callable(self.tokenize) and self.tokenize not in TOKENIZERS:
            raise MeasureError(
                f"tokenize is {self.tokenize!r}; it must be {', '.join(TOKENIZERS)}, or a function"
            )

    @property
    def _tokenizer(self) -> Tokenizer:
        return self.tokenize if callable(self.tokenize) else TOKENIZERS[self.tokenize]

    @staticmethod
    def _pairs(texts: Any, labels: Any, what: str) -> tuple[list[Any], npt.NDArray[Any]]:
        """Texts and as many labels, which Texts may bring themselves."""
        if isinstance(texts, str | Text):
            raise CorpusError("a list of texts is wanted; one text alone goes into a list, too")
        given = list(texts)
        if labels is None:
            labels = [one.label if isinstance(one, Text) else None for one in given]
            if any(label is None for label in labels):
                raise MeasureError(f"{what} needs labels: give them as y, or Texts that have them")
        given_labels = list(labels)
        if any(label is None or label != label for label in given_labels):
            raise MeasureError(
                f"some labels of {what} are missing (None or NaN); leave out texts without a label"
            )
        if len({isinstance(label, str) for label in given_labels}) > 1:
            raise MeasureError(
                f"some labels of {what} are strings and some are not; make them alike"
            )
        found = np.asarray(given_labels)
        if found.ndim != 1 or len(found) != len(given):
            raise MeasureError(
                f"there are {len(given)} texts but labels of shape {found.shape}; give one label a text"
            )
        if not len(given):
            raise MeasureError("there are no texts")
        return given, found

    def _dev(self, texts: list[Any], labels: npt.NDArray[Any], dev: Any) -> tuple[Any, ...] | None:
        """The texts and labels to choose the epoch by; if none are given, what is left to learn from and those."""
        if dev is False:
            return None
        if dev is not None:
            if isinstance(dev, tuple) and len(dev) == 2:
                kept, wanted = self._pairs(*dev, "dev")
            elif isinstance(dev, Sequence) and dev and all(isinstance(one, Text) for one in dev):
                kept, wanted = self._pairs(dev, None, "dev")
            else:
                raise MeasureError(
                    "dev must be a pair: texts and labels to choose the epoch by; or False for none"
                )
            check_labels_known("dev", wanted, self.classes_)
            return kept, wanted
        if len(texts) < FEWEST:
            return None  # too few to set any aside
        rest, chosen = split_indices(
            list(map(_content, texts)), labels.tolist(), DEV_SHARE, self.seed
        )
        if not len(chosen) or len(np.unique(labels[rest])) < len(self.classes_):
            return None
        return (
            [texts[at] for at in rest],
            labels[rest],
            [texts[at] for at in chosen],
            labels[chosen],
        )

    def _bags(self, texts: Iterable[Any], tokens: Sequence[Sequence[str]] | None = None) -> Bags:
        """Texts as numbers of known words, with a frozen model's states if that is the encoder."""
        found = tokens_of(texts, self._tokenizer) if tokens is None else tokens
        bags = bagged(found, self.vocabulary_)
        if self.encoder != "model":
            return bags
        from attlas.dynamics.inputs import encoded  # which needs transformers

        return encoded(bags, found, self._frozen(), self.progress)

    def _open(self, needed: bool = True) -> None:
        """Open the frozen model or vectors to fit with, and note their fingerprints.

        Those that are given as an object are not noted: they are in memory, and cannot be saved.
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
            if fitted is not None:
                _refuse_other(self.encoder, self.source, fitted, identity_parts(opened))
            self._given = opened
        return self._given

    def _table(self, bags: Bags) -> Table:
        """The vectors of words as training begins."""
        draw = np.random.default_rng(self.seed)
        if self.encoder in FROZEN:
            from attlas.dynamics.inputs import static_rows, word_states  # which need transformers

            if self.encoder == "vectors":
                given = static_rows(bags.words, self._frozen())
                del self._given  # the rows of its words are all it needs
            else:
                given = word_states(bags.words, self._frozen(), self.progress)
            return Table(given, frozen=True)
        rows = draw.uniform(-self.init, self.init, (len(bags.words) + 1, self.dim)).astype(
            np.float32
        )
        rows[-1] = 0
        return Table(rows)

    def _shape(self, dim: int) -> Shape:
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        return Shape(
            len(self.vocabulary_),
            dim,
            outputs,
            self.attention,
            self.encoder,
            float(self.scale),
            float(self.dropout),
        )

    def token_table_at(
        self, moment: Moment, bags: Bags, test: Bags | None = None, where: bool = True
    ) -> pd.DataFrame:
        """The words at a moment of training, from texts that are numbered already; see `attlas.dynamics.scores.token_table`."""
        return token_table(
            moment,
            bags,
            self.counts_,
            [str(name) for name in self.classes_],
            self.rule,
            test,
            where,
        )

    def decision_function(self, X: Iterable[Any]) -> Floats:  # noqa: N803
        """The logit of the second class for two classes: [text], else of each class: [text, class]."""
        check_is_fitted(self, "moment_")
        logits = self.moment_.read(self._bags(X)).logits
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict(self, X: Iterable[Any]) -> npt.NDArray[Any]:  # noqa: N803
        """The likeliest class of each text; of two, the first where the logit is 0, as it is for a text of unknown tokens only unless the encoder knows more."""
        logits = self.decision_function(X)
        return self.classes_[(logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(-1)]

    def predict_proba(self, X: Iterable[Any]) -> Floats:  # noqa: N803
        """The probability of each class: [text, class]."""
        logits = self.decision_function(X)
        if logits.ndim == 1:
            return np.stack([expit(-logits), expit(logits)], -1)
        return softmax(logits, axis=-1)

    def tokens(self, test: Iterable[Any] | None = None) -> pd.DataFrame:
        """A row for each word that was learnt from: occurrences by class, gamma, kind, polarity and attention score; `weight` is the mean attention weight in `test`, or in the texts learnt from. Of a classifier that was loaded, what texts are needed for is NaN."""
        check_is_fitted(self, "moment_")
        seen = None if test is None else self._bags(test)
        if hasattr(self, "_learnt"):
            return self.token_table_at(self.moment_, self.learnt()[0], seen)
        empty = Bags(
            np.zeros(0, np.int64), np.zeros(1, np.int64), self.vocabulary_
        )  # loaded: its texts are not there
        return self.token_table_at(
            self.moment_, empty, seen, where=seen is not None and not self.moment_.contextual
        )

    def weights(self, X: Iterable[Any]) -> list[pd.DataFrame]:  # noqa: N803
        """For each text a row for each token: token, attention weight, attention score, polarity, and whether it is known."""
        check_is_fitted(self, "moment_")
        tokens = tokens_of(X, self._tokenizer)
        bags = self._bags(tokens, tokens)
        read, out = self.moment_.read(bags), []
        for text, (start, stop) in enumerate(zip(bags.starts[:-1], bags.starts[1:], strict=True)):
            polarity = read.polarity[start:stop]
            told = (
                {"polarity": polarity[:, 0]}
                if polarity.shape[1] == 1
                else {
                    f"polarity:{name}": polarity[:, place]
                    for place, name in enumerate(self.classes_)
                }
            )
            out.append(
                pd.DataFrame(
                    {
                        "token": tokens[text],
                        "weight": read.weights[start:stop],
                        "attention_score": read.scores[start:stop],
                        **told,
                        "known": bags.ids[start:stop] < len(bags.words),
                    }
                )
            )
        return out

    def interpretability(self) -> dict[str, float]:
        """How well attention scores tell polarity tokens from neutral ones, with controls; see `attlas.dynamics.scores`."""
        return interpretability(self.tokens(), getattr(self, "untrained_", None))

    def flow(self) -> pd.DataFrame:
        """The terms that move the scores of every word now, on the texts learnt from: token, A, B, C, polarity_rate, D, E, F, attention_rate."""
        check_is_fitted(self, "moment_")
        bags, codes = self.learnt()
        return flow_terms(Parameters.of(self.moment_), bags, codes).frame(bags.words, self.counts_)

    def check_flow(self) -> float:
        """The largest difference between the sums of terms and automatic differentiation, relative to the largest rate; slow where there are many texts."""
        check_is_fitted(self, "moment_")
        return check_flow(Parameters.of(self.moment_), *self.learnt())

    def learnt(self) -> tuple[Bags, Numbers]:
        """The texts that it learnt from, numbered, and the numbers of their classes."""
        if not hasattr(self, "_learnt"):
            raise MeasureError(
                "a classifier that was loaded does not have the texts it learnt from; fit it again"
            )
        return self._learnt

    def save(self, folder: str | Path) -> Path:
        """Write the fitted classifier: arrays as safetensors, the rest as JSON; no pickle.

        A frozen model is not copied: its source and its fingerprint are written. A folder that
        holds anything but a classifier is refused.
        """
        check_is_fitted(self, "moment_")
        if callable(self.tokenize) or not self._by_name():
            raise AttlasError(
                "a classifier with a tokenizer or vectors of one's own cannot be written to files; "
                "give them by name or path"
            )
        parts = self.moment_.network.state_dict()
        arrays = {f"network.{name}": part.contiguous() for name, part in parts.items()}
        arrays["table"] = torch.from_numpy(self.moment_.table.rows)
        arrays["counts"] = torch.from_numpy(self.counts_)
        about = {
            "classes": self.classes_.tolist(),
            "epoch": self.epoch_,
            "parameters": {name: _plain(value) for name, value in self.get_params().items()},
            "vocabulary": list(self.vocabulary_),
            "source": getattr(self, "source_", None),
        }
        return SAVED.write(folder, about, save(arrays))

    @classmethod
    def load(cls, folder: str | Path) -> AttentionClassifier:
        """Read a classifier that `save` wrote; it predicts the same.

        One whose frozen model has changed since is refused.
        """
        place = Path(folder).expanduser()
        try:
            out = cls._read(*SAVED.read(place))
        except UNREADABLE as error:
            raise AttlasError(
                f"{place} holds no attention classifier: {first_line(error)}"
            ) from error
        if out.encoder == "model" and out.source_ is not None:
            out._frozen()
        return out

    @classmethod
    def _read(cls, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> AttentionClassifier:
        """Make a fitted classifier of what is in its files; parts that do not fit are an error."""
        out = cls(**about["parameters"])
        out.classes_, out.vocabulary_ = np.array(about["classes"]), tuple(about["vocabulary"])
        words, width = len(out.vocabulary_), arrays["table"].shape[-1]
        check_shapes(arrays, {"counts": (words, len(out.classes_)), "table": (words + 1, width)})
        out.counts_, out.source_ = arrays["counts"], about.get("source")
        table = Table(arrays["table"], out.encoder in FROZEN)
        network = Network(out._shape(table.rows.shape[1]))
        own = {
            name.partition(".")[2]: torch.from_numpy(part)
            for name, part in arrays.items()
            if "." in name
        }
        network.load_state_dict(own)
        out.epoch_ = int(about["epoch"])
        out.moment_ = Moment(out.epoch_, network.eval(), table)
        return out


def _refuse_other(
    encoder: str,
    source: Any,
    fitted: Mapping[str, str],
    found: Mapping[str, str],
) -> None:
    """Refuse a frozen model or vectors other than those that a classifier was fitted with."""
    changed = [name for name in {**fitted, **found} if fitted.get(name) != found.get(name)]
    if changed:
        raise AttlasError(
            f"the classifier was fitted with another {encoder} than "
            f"{source or 'the embedded one'} is now (changed: {', '.join(changed)}); "
            "restore it, or fit the classifier again"
        )


def _content(text: Any) -> str | tuple[str, ...]:
    """What makes two texts the same: the string, or the tokens of a text given as tokens."""
    if isinstance(text, Text):
        return text.text
    return text if isinstance(text, str) else tuple(text)


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def check_labels(labels: Sequence[Any]) -> None:
    """Refuse texts of one class only, and labels that are none."""
    found = set(labels)
    if len(found) < FEW:
        raise MeasureError(
            f"all {len(labels)} texts have the label {next(iter(found))!r}; a classifier needs texts of two classes at least"
        )
    if FEW < len(found) == len(labels):
        raise MeasureError(
            f"there are as many classes as texts ({len(labels)}); is the label's column one of numbers or ids?"
        )


def _is_number(value: Any) -> bool:
    """Whether a value is a number, one of numpy's among them, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)
