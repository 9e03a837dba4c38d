"""Dynamics: the fields of the experiment behind `attlas dynamics`."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.errors import AttlasError, MeasureError
from attlas.support.options import (
    FILE_OR_MODEL,
    MODEL_OR_NONE,
    ModelLike,
    Option,
    TextsLike,
    checked,
    declared,
    given,
    opening,
    option,
    seed_option,
    types_of,
)

ATTENTION = ("dot", "additive")
TRAINED = ("none", "affine", "lstm")  # encoders whose vectors of words are learned
FROZEN = ("vectors", "model")  # encoders that are given and stay as they are
ENCODERS = (*TRAINED, *FROZEN)
MODELS = tuple(f"{attention}+{encoder}" for attention in ATTENTION for encoder in ENCODERS)
OPTIMIZERS = {"adagrad": 0.02, "sgd": 0.1, "adam": 0.001}  # each with its usual learning rate
RULES = ("code", "paper", "balanced")
TOKENIZERS = ("words", "blanks")
VECTOR_FILES = (".txt", ".gz", ".vec")
SETTINGS = (  # the options of a classifier that `by_encoder` may set
    "dim",
    "dropout",
    "l2",
    "vw_penalty",
    "optimizer",
    "learning_rate",
    "lr_decay",
    "epochs",
    "batch_size",
    "patience",
    "init",
    "record",
    "rule",
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dynamics(Experiment):
    """How do the attention and polarity scores of words evolve during training?

    Trains attention classifiers from scratch over a grid of scales, encoders and kinds of
    attention, in parallel. Reports accuracy, the polarity and attention score of each word, the
    gradient terms that change them, and whether attention marks the words that matter (Sun and Lu
    2020).
    """

    name: ClassVar[str] = "dynamics"
    clause: ClassVar[str] = (
        "attention classifiers were trained from scratch over a grid of scales, encoders and kinds "
        "of attention, and the polarity and attention score of each token were compared with "
        "chance"
    )
    references: ClassVar[tuple[str, ...]] = ("sun2020",)
    resolves: ClassVar[str] = "work:resolve"

    train: TextsLike = given(
        "Labelled training texts (.csv, .tsv, .jsonl, .parquet), "
        "or synthetic:texts=2000,noise=0.1.",
        flags=("--train", "--data"),
    )
    dev: TextsLike | None = given("Texts to choose the epoch on (default: a tenth of train).", None)
    test: TextsLike | None = given("Texts to score on (default: a fifth of train).", None)
    model: ModelLike | None = given(
        "Model of the encoder `model`: folder or Hub ID (default: the embedded model).",
        None,
        of=MODEL_OR_NONE,
    )
    vectors: Any = given(
        "For encoder vectors: a file in GloVe's format, or a model whose input embeddings are used "
        "(default: the embedded model).",
        None,
        of=FILE_OR_MODEL,
        opened_by="work:open_vectors",
    )
    scales: tuple[float, ...] = option(
        (1, 10, 100),
        "Scales that attention scores are divided by (lambda in Sun and Lu 2020), comma-separated.",
        above=0,
        below=math.inf,
    )
    encoders: tuple[str, ...] = option(
        ("none",),
        "Encoders, comma-separated; vectors (static) and model (hidden states) are frozen.",
        choices=ENCODERS,
    )
    attention: tuple[str, ...] = option(
        ("dot",), "Kinds of attention, comma-separated.", choices=ATTENTION
    )
    models: tuple[str, ...] | None = option(
        None,
        "Pairs of attention and encoder instead of all combinations: dot+none,additive+none "
        "(replaces --attention and --encoders).",
        choices=MODELS,
    )
    seeds: int = option(
        1, "Number of seeds for each classifier, from --seed upward.", at_least=1, at_most=1_000
    )
    seed: int = seed_option()
    tokenize: str = option(
        "words",
        "How texts are tokenised (lower-cased): words, or blanks if they are already tokenised.",
        choices=TOKENIZERS,
        flags=("--tokens", "--tokenize"),
    )
    min_count: int = option(
        1,
        "Tokens with fewer occurrences become the unknown token.",
        at_least=1,
        at_most=1_000_000_000,
    )
    epochs: int = option(40, "Number of epochs.", at_least=1, at_most=100_000)
    patience: int | None = option(
        10, "Stop after this many epochs without improvement on dev.", at_least=1, at_most=100_000
    )
    dim: int = option(100, "Size of word vectors.", at_least=1, at_most=10_000)
    dropout: float = option(0.5, "Dropout rate.", at_least=0, below=1)
    l2: float = option(
        0.01, "L2 penalty on encoders and on additive attention.", at_least=0, below=math.inf
    )
    vw_penalty: float = option(
        0.0,
        "Penalty on |V·W| of the attention vector V and the classifier's weights W.",
        at_least=0,
        below=math.inf,
    )
    optimizer: str = option("adagrad", "Optimizer.", choices=tuple(OPTIMIZERS))
    learning_rate: float | None = option(
        None, "Learning rate (default: the optimizer's usual one).", above=0, below=math.inf
    )
    lr_decay: float = option(
        0.001, "Decay of Adagrad's learning rate per step.", at_least=0, below=math.inf
    )
    batch_size: int = option(100, "Batch size.", at_least=1, at_most=100_000)
    init: float = option(
        0.1, "Initial word vectors are uniform between -init and init.", at_least=0, below=math.inf
    )
    record: int | None = option(
        None,
        "Record scores and gradient terms every N epochs (default: about ten times).",
        at_least=1,
        at_most=100_000,
    )
    rule: str = option(
        "code",
        "Polarity tokens: code, as in the code of Sun and Lu 2020, which includes words of one "
        "class only; paper, as in their text, which excludes them; balanced: as code, for classes "
        "of unequal size.",
        choices=RULES,
    )
    by_encoder: tuple[str, ...] | None = option(
        None, "Options of one encoder only, comma-separated: lstm.epochs=15,lstm.patience=5."
    )
    text: str | None = opening(None, "Column of the text.", of="texts")
    label: str = opening("label", "Column of the label.", of="texts")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("scales", "encoders", "attention", "models"):
            if getattr(self, name) == ():
                raise AttlasError(f"{name} is empty, so the grid is empty; give at least one")
        if self.by_encoder is not None:
            parts = sorted(self._by_encoder().items())
            plain = (f"{encoder}.{name}={_written(value)}" for (encoder, name), value in parts)
            object.__setattr__(self, "by_encoder", tuple(plain))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of attention and encoder of the grid, each once."""
        every = (f"{one}+{other}" for one in self.attention for other in self.encoders)
        chosen = dict.fromkeys(every if self.models is None else self.models)
        return [(one, other) for one, _, other in (model.partition("+") for model in chosen)]

    def settings(self, encoder: str | None = None) -> dict[str, Any]:
        """The options of a classifier, with those that hold for its encoder only."""
        own = {name: value for (of, name), value in self._by_encoder().items() if of == encoder}
        options = {name: getattr(self, name) for name in (*SETTINGS, "min_count")} | own
        return {**options, "record": options["record"] or max(1, options["epochs"] // 10)}

    def _by_encoder(self) -> dict[tuple[str, str], Any]:
        """The value of each encoder's own options."""
        about, hints, out = declared(self), types_of(type(self)), {}
        for one in self.by_encoder or ():
            key, equals, value = one.partition("=")
            encoder, _, name = key.strip().partition(".")
            if not equals or encoder not in ENCODERS or name not in SETTINGS:
                raise AttlasError(
                    f"by_encoder has {one!r}; it must be ENCODER.OPTION=VALUE as in lstm.epochs=15 "
                    f"(encoders: {', '.join(ENCODERS)}; options: {', '.join(SETTINGS)})"
                )
            plain = None if value.strip() == "none" else value.strip()
            domain = about[name]
            assert isinstance(domain, Option)
            out[encoder, name] = checked(key.strip(), plain, hints[name], domain)
        return out

    def completed(self) -> Dynamics:
        """Inputs of frozen encoders that the grid lacks are not opened; else the embedded model."""
        from attlas.models.sources import EMBEDDED  # which imports nothing heavy

        encoders = {encoder for _, encoder in self.pairs}
        chosen: dict[str, Any] = {}
        for name in FROZEN:
            value = getattr(self, name)
            chosen[name] = (EMBEDDED if value is None else value) if name in encoders else None
        is_vector_file(chosen["vectors"])  # refused before anything is opened
        return replace(self, **chosen)


def is_vector_file(source: Any) -> bool:
    """Whether vectors are given by a file; one that looks like it must exist."""
    if not isinstance(source, str | os.PathLike):
        return False
    path = Path(source).expanduser()
    if path.suffix in VECTOR_FILES and not path.is_file():
        raise MeasureError(
            f"there is no file of vectors {source}; give one in GloVe's format, or a model"
        )
    return path.is_file()


def _written(value: Any) -> str:
    return "none" if value is None else str(value)
