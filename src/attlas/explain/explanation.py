"""explain: token scores by any method, with the explained number, the cost and the error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import pandas as pd

from attlas.core.alignment import word_sums
from attlas.core.text import Text
from attlas.corpora import read
from attlas.explain.agreement import Agreement, agreement
from attlas.explain.attention import received_attention
from attlas.explain.importance import importance_grid
from attlas.explain.methods import Explained, Settings, explain_batch, settings_of
from attlas.explain.shifts import Band, tau_band
from attlas.models import Model, load
from attlas.support.arrays import Bools, Floats, Ints
from attlas.support.errors import CorpusError
from attlas.support.progress import progress_bar
from attlas.views.notebook import Panel, Selection, Shown
from attlas.views.numbers import decimal, percent

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Explanation(Shown):
    """The scores of one text's tokens by one method, and what they explain."""

    text: Text
    method: str
    model: str
    tokens: tuple[str, ...]  # as shown to readers
    scores: Floats  # token
    special: Bools  # token
    offsets: Ints  # token 2: characters from, to
    word_of: Ints  # token
    words: tuple[str, ...]
    target: str  # the explained class or token
    of: str  # its probability or its logit
    value: float  # that number
    predicted: str
    probability: float  # of the prediction
    evaluations: int  # of the gradient, or of the model where the method takes none
    gap: float = np.nan  # |total - difference| / difference; NaN if scores need not add up
    error: float = np.nan  # estimated error over all tokens, relative to their sizes
    baseline_value: float = np.nan
    converged: bool = True
    position: int | None = None  # token at which a language model predicts
    parts: dict[str, Floats] = field(default_factory=dict)  # word, position, type: token
    uniform: Floats | None = None  # token: scores by uniform attention; None if it has no such
    attention: Floats | None = None  # token: attention received, mean of all heads
    attention_uniform: Floats | None = None  # token: the same by uniform attention
    selection: Selection = field(default_factory=Selection, repr=False)  # of its widget

    @property
    def agreement(self) -> tuple[Agreement, Band] | None:
        """How far attention agrees with the scores on ordinary tokens, and where chance is.

        None without attention, or with fewer than two tokens to compare.
        """
        keep = ~self.special
        if self.attention is None or keep.sum() < 2:
            return None
        sizes = self.attention, np.abs(self.scores)
        return agreement(*sizes, keep), tau_band(*sizes, keep)

    @property
    def total(self) -> float:
        """The sum of all scores."""
        return float(self.scores.sum())

    def by_word(self) -> Floats:
        """Scores of words, the sums of their tokens': [word]."""
        return word_sums(self.scores.astype(np.float64), self.word_of, len(self.words))

    def to_frame(self) -> pd.DataFrame:
        """One row per token."""
        return pd.DataFrame(
            {
                "token": np.arange(len(self.tokens)),
                "start": np.where(self.special, -1, self.offsets[:, 0]),
                "stop": np.where(self.special, -1, self.offsets[:, 1]),
                "string": list(self.tokens),
                "score": self.scores,
                **self.parts,
            }
        )

    @property
    def panel(self) -> Panel:
        from attlas.explain.section.page import explanation_panel

        return explanation_panel(self)

    def _plain(self) -> str:
        """A language model's target is a word."""
        return repr(self if self.position is None else replace(self, target="a token"))

    def __repr__(self) -> str:
        gap = "" if np.isnan(self.gap) else f", gap {percent(self.gap, 2)}"
        note = "" if self.converged or not gap else " (not converged)"
        return (
            f"Explanation({self.method} of {self.of} {self.target!r} = {decimal(self.value, 3)}, "
            f"{len(self.tokens)} tokens, {self.evaluations} evaluations{gap}{note})"
        )

    def _repr_html_(self) -> str:
        from attlas.explain.section.page import explanation_html

        return explanation_html(self)


class ExplainOptions(TypedDict, total=False):
    """The options of `explain`; defaults are those of `Target` and `Settings`."""

    target: str | int | None
    of: str
    position: int | None
    baseline: str | Tensor
    at: str
    tolerance: float
    max_evaluations: int
    importance: Any
    seed: int


def explain(
    model: Any,
    texts: Any,
    method: str = "integrated_gradients",
    *,
    progress: bool | None = None,
    **options: Unpack[ExplainOptions],
) -> Any:
    """Explain predictions: one text gives an Explanation, several a list.

    `model` is anything `attlas.load` takes, as a classifier or language model. The options:

    - `target` (None): a class by name or number ("label" for the text's own), or a token; None for
      the prediction.
    - `of` ("probability"): explain the probability or the "logit".
    - `position` (None): the token at which a language model predicts.
    - `baseline` ("padding"): what replaces each word where the path starts: padding, mask, zero,
      mean, or a tensor.
    - `at` ("embeddings"): whole embeddings, "words" only, or word, position and type as "parts".
    - `tolerance` (0.01), `max_evaluations` (500): integrated gradients are refined until the gap,
      relative to the difference between text and baseline, is below the tolerance.
    - `importance` (None): for scaled attention: a study, its folder or an array [layer, head].
    - `seed` (0): of random methods.
    """
    model = load(model, task="auto") if not isinstance(model, Model) else model
    options["importance"] = importance_grid(options.get("importance"))
    settings = settings_of(**options)
    settings.check(model, [method])
    if isinstance(texts, str | Text):
        text = Text("text", texts) if isinstance(texts, str) else texts
        return _explain_texts(model, [text], method, settings, progress)[0]
    return _explain_texts(model, list(read(texts)), method, settings, progress)


def integrated_gradients(model: Any, texts: Any, **options: Any) -> Any:
    """Integrated gradients of one text or several; see `explain` for the options."""
    return explain(model, texts, "integrated_gradients", **options)


def _explain_texts(
    model: Model, texts: Sequence[Text], method: str, settings: Settings, progress: bool | None
) -> list[Explanation]:
    for text in texts:
        if (problem := text.problem()) is not None:
            raise CorpusError(f"text {text.id!r} cannot be explained: {problem}")
    encoder = model.full_encoder
    encoded = encoder.encode(list(enumerate(texts)))
    for one in encoded:
        if all(one.special):
            raise CorpusError(
                f"text {one.text.id!r} cannot be explained: the tokenizer produces no tokens for it"
            )
    explanations: dict[int, Explanation] = {}
    several = len(encoded) > 1
    with progress_bar("explaining", "texts" if several else "gradients", wanted=progress) as report:
        used = 0

        def on_progress(evaluations: int) -> None:
            nonlocal used
            used += evaluations
            if not several:
                report(used, settings.max_evaluations)

        for group in encoder.groups(encoded):
            batch = encoder.batch(group, model.device)
            explained = explain_batch(model, batch, [method], settings, on_progress)
            received, uniform = received_attention(model, batch)
            for number, index in enumerate(batch.indices):
                explanations[index] = replace(
                    explanation_of(model, explained, method, number, settings.tolerance),
                    attention=received[number],
                    attention_uniform=uniform[number],
                )
            if several:
                report(len(explanations), len(encoded))
    return [explanations[index] for index in range(len(texts))]


def explanation_of(
    model: Model, explained: Explained, method: str, number: int, tolerance: float
) -> Explanation:
    """The explanation of one text of a batch."""
    batch, target, scores = explained.batch, explained.target, explained.scores[method]
    words = batch.words[number]
    return Explanation(
        text=batch.texts[number],
        method=method,
        model=model.name,
        tokens=batch.surfaces[number],
        scores=scores.scores[number],
        special=batch.special[number],
        offsets=batch.offsets[number],
        word_of=words.of,
        words=words.strings,
        target=target.names[number],
        of=target.of,
        value=float(explained.values[number]),
        predicted=target.predicted[number],
        probability=target.probabilities[number],
        evaluations=int(scores.evaluations[number]),
        gap=float(scores.gap[number]),
        error=float(scores.error[number]),
        baseline_value=float(scores.baseline[number]),
        converged=bool(scores.converged(tolerance)[number]),
        position=None if target.positions is None else int(target.positions[number]),
        parts={name: part[number] for name, part in scores.parts.items()},
        uniform=None if scores.uniform is None else scores.uniform[number],
    )
