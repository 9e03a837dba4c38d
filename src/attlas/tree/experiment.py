"""Tree: the fields of the experiment behind `attlas probe tree`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.options import (
    CONVENTIONS,
    FILE,
    ModelLike,
    TextsLike,
    device_opening,
    dtype_opening,
    given,
    lens_opening,
    max_length_opening,
    model_input,
    option,
    pickle_opening,
    seed_option,
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tree(Experiment):
    """How much of a sentence's dependency tree does attention encode?

    Probes that predict each word's head from attention, or from attention and words, are fitted on
    one treebank and scored on another, next to word order, words and distances without attention,
    and the same model with random weights (Clark et al. 2019).
    """

    name: ClassVar[str] = "tree"
    clause: ClassVar[str] = (
        "probes that predict each word's syntactic head from attention, and from attention and "
        "word vectors, were fitted on one treebank and scored on another by unlabelled attachment, "
        "compared with word order, words and distances without attention, and random weights"
    )
    references: ClassVar[tuple[str, ...]] = ("clark2019",)
    resolves: ClassVar[str] = "work:resolve"

    train: TextsLike = given("Treebank to fit probes on (.conllu).", flags=("--train", "--data"))
    test: TextsLike | None = given("Treebank to score them on (default: a fifth of train).", None)
    model: ModelLike | None = model_input()
    vectors: Any = given(
        "Word vectors in GloVe's text format (default: the model's own input embeddings).",
        None,
        of=FILE,
        opened_by="work:read_vectors",
    )
    convention: str = option(
        "sound",
        "sound: corrected; published: word vectors shifted by one word, as in Clark et al. 2019.",
        choices=CONVENTIONS,
    )
    seed: int = seed_option()
    max_length: int | None = max_length_opening()
    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()
