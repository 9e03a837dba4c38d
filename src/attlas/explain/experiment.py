"""Explain: the fields of the experiment behind `attlas explain`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from attlas.experiments.experiment import Experiment
from attlas.support.errors import AttlasError
from attlas.support.options import (
    FILE,
    ModelLike,
    TextsLike,
    device_opening,
    dtype_opening,
    given,
    global_tokens_opening,
    lens_opening,
    max_length_opening,
    model_input,
    opening,
    option,
    pickle_opening,
    seed_option,
)

ALL, NONE = "all", "none"  # all methods but random; no test of faithfulness
METHODS = (
    "integrated_gradients",
    "saliency",
    "input_x_gradient",
    "deeplift",
    "gradient_shap",
    "occlusion",
    "attention_last",
    "attention_all",
    "attention_last_scaled",
    "attention_all_scaled",
    "cls_row",
    "rollout",
    "attention_x_gradient",
    "gradient_rollout",
    "random",
)
USUAL = (
    "integrated_gradients",
    "attention_last",
    "attention_all",
    "cls_row",
    "rollout",
    "attention_x_gradient",
    "gradient_rollout",
)
KEEPS = ("all", "ordinary", "words", "keywords")  # keywords may name languages: keywords:de+fr


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Explain(Experiment):
    """Which tokens do a model's predictions depend on, and does attention agree?

    Every token of every text is scored by several methods; attention is
    compared with attribution and with chance, and tokens are removed to test whether the
    prediction depends on them.
    """

    name: ClassVar[str] = "explain"
    clause: ClassVar[str] = (
        "every token was scored by attribution methods and by attention; their agreement was "
        "compared with permuted scores, their faithfulness with a random order of tokens, and "
        "human rationales, where there are any, with chance"
    )
    references: ClassVar[tuple[str, ...]] = ("hou2022", "deyoung2020")
    checks: ClassVar[str] = "work:check"

    data: TextsLike = given(
        "Texts, as for attlas study; human rationales (ERASER, HateXplain) are used if present."
    )
    model: ModelLike | None = model_input()
    importance: Any = given(
        "Result folder of a study with the measure importance, which weights the heads "
        "(default: it is measured).",
        None,
        of=FILE,
        opened_by="importance:importance_grid",
    )
    methods: tuple[str, ...] = option(
        USUAL,
        "Methods, separated by commas; the first is the reference.",
        choices=(ALL, *METHODS),
        flags=("--method", "--methods"),
    )
    target: str | int | None = option(
        None, "Class or token to explain; label: the text's label (default: the prediction)."
    )
    of: str = option(
        "probability",
        "Explain the target's probability or its logit.",
        choices=("probability", "logit"),
    )
    position: int | None = option(
        None,
        "Token at which a language model predicts (default: the mask token, or the last one).",
        at_least=-1_000_000,
        at_most=1_000_000,
    )
    baseline: str = option(
        "padding",
        "Baseline input: every word replaced by padding, the mask token, zeros or the mean.",
        choices=("padding", "mask", "zero", "mean"),
    )
    at: str = option(
        "embeddings",
        "Gradients with respect to the first layer's input (embeddings) or to word vectors alone.",
        choices=("embeddings", "words"),
    )
    tolerance: float = option(
        0.01,
        "Completeness gap and estimated error at which integrated gradients stop.",
        above=0,
        below=math.inf,
    )
    max_evaluations: int = option(
        500,
        "Maximum number of gradients per text; texts that do not converge are counted.",
        at_least=9,
        at_most=100_000,
    )
    keep: tuple[str, ...] = option(
        ("all", "ordinary", "keywords"),
        "Tokens that are compared: all; ordinary (no special tokens); words (no punctuation); "
        "keywords (no stop words; keywords:de for German).",
    )
    p: float = option(
        0.9,
        "Parameter of rank-biased overlap: the lower, the more the top counts.",
        above=0,
        below=1,
    )
    top: float = option(
        0.05, "Share of top tokens that the Jaccard index compares.", above=0, at_most=1
    )
    permutations: int = option(
        100, "Number of permutations per text, to estimate chance.", at_least=1, at_most=100_000
    )
    faithfulness: tuple[str, ...] = option(
        ("remove",),
        "How tokens are removed to test explanations.",
        choices=("remove", "mask", NONE),
    )
    bins: tuple[float, ...] = option(
        (0.01, 0.05, 0.1, 0.2, 0.5),
        "Shares of a text's tokens that are removed.",
        above=0,
        below=1,
    )
    draws: int = option(
        5,
        "Number of random orders of tokens, the control of faithfulness.",
        at_least=1,
        at_most=1_000,
    )
    share: float | None = option(
        None,
        "Plausibility: share of words that a method marks (default: as many as people marked).",
        above=0,
        at_most=1,
    )
    seed: int = seed_option()
    text: str | None = opening(None, "Column of the text.", of="texts")
    label: str | None = opening(None, "Column of the label.", of="texts")
    task: str = opening(
        "auto",
        "Task of the model; auto: the one its weights were saved for.",
        choices=("auto", "classify", "mlm", "lm"),
    )
    max_length: int | None = max_length_opening()
    global_tokens: str | None = global_tokens_opening()
    device: str | None = device_opening()
    dtype: str | None = dtype_opening()
    lens: str = lens_opening()
    allow_pickle: bool = pickle_opening()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.methods == (ALL,):
            object.__setattr__(self, "methods", METHODS[:-1])
        if self.faithfulness == (NONE,):
            object.__setattr__(self, "faithfulness", ())
        _check_names("methods", self.methods, ALL)
        _check_names("faithfulness", self.faithfulness, NONE)
        if not self.methods:
            raise AttlasError("methods is empty; name at least one")
        if not self.bins and self.faithfulness:
            raise AttlasError("bins is empty; give at least one share, such as 0.1")
        unknown = [one for one in self.keep if one.partition(":")[0] not in KEEPS]
        if unknown:
            raise AttlasError(f"keep is {','.join(self.keep)!r}; each must be {' or '.join(KEEPS)}")


def _check_names(field: str, names: tuple[str, ...], alone: str) -> None:
    """Refuse a name that is given twice, or `alone` among others."""
    if len(set(names)) < len(names):
        raise AttlasError(f"{field} is {','.join(names)!r}; name each once")
    if alone in names:
        raise AttlasError(f"{field} is {','.join(names)!r}; {alone} cannot be combined")
