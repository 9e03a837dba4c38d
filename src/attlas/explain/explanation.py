"""explain: the scores of a text's tokens by any method, beside what was explained, what it cost and how much it misses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.alignment import word_sums
from attlas.core.text import Text
from attlas.corpora import read
from attlas.explain.importance import importance_grid
from attlas.explain.methods import Explained, Settings, explain_batch, settings_of
from attlas.models import Model, load
from attlas.support.errors import CorpusError
from attlas.support.progress import progress_bar

if TYPE_CHECKING:
    from torch import Tensor

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a model says what it says of one text, by one method: a score for each token."""

    text: Text
    method: str
    model: str
    tokens: tuple[str, ...]  # what a reader sees of each
    scores: Floats  # token
    special: npt.NDArray[np.bool_]  # token
    offsets: npt.NDArray[np.int64]  # token 2: characters from, to
    word_of: npt.NDArray[np.int64]  # token
    words: tuple[str, ...]
    target: str  # the class or token that is explained
    of: str  # its probability or its logit
    value: float  # that number
    predicted: str
    probability: float  # of what the model gives
    evaluations: int  # of the gradient, or of the model where the method takes none
    gap: float = np.nan  # |total - (value - baseline_value)|, a share of that difference; NaN where nothing must add up
    error: float = (
        np.nan
    )  # how far off the scores are, all tokens together, a share of their sizes; estimated
    baseline_value: float = np.nan
    converged: bool = True
    position: int | None = None  # of a language model: at which token
    parts: dict[str, Floats] = field(default_factory=dict)  # word, position, type: token

    @property
    def total(self) -> float:
        """The sum of all scores."""
        return float(self.scores.sum())

    def by_word(self) -> Floats:
        """Scores of words, the sums of their tokens': [word]."""
        return word_sums(self.scores.astype(np.float64), self.word_of, len(self.words))

    def to_frame(self) -> pd.DataFrame:
        """A row for each token."""
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

    def __repr__(self) -> str:
        missed = (
            ""
            if np.isnan(self.gap)
            else f", gap {self.gap:.2%}{'' if self.converged else ' (not converged)'}"
        )
        return f"Explanation({self.method} of {self.of} {self.target!r} = {self.value:.3f}, {len(self.tokens)} tokens, {self.evaluations} evaluations{missed})"

    def _repr_html_(self) -> str:
        from attlas.explain.section.page import explanation_html

        return explanation_html(self)


def explain(
    model: Any,
    texts: Any,
    method: str = "integrated_gradients",
    *,
    target: str | int | None = None,
    of: str = "probability",
    position: int | None = None,
    baseline: str | Tensor = "padding",
    at: str = "embeddings",
    tolerance: float = 0.01,
    max_evaluations: int = 500,
    importance: Any = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Any:
    """Explain what a model says: one text gives an Explanation, several a list. `model` is anything `attlas.load` takes, as a classifier or language model.

    `target` is a class by name or number ("label" for the text's own), or a token; None is what the model gives. `of` is its probability or logit. `baseline` is what stands in the place of
    each word at the path's start: padding, mask, zero or mean. `at` is where: the whole `embeddings`, `words` alone, or word, position and type `parts` apart. Integrated gradients go on until
    the gap is below `tolerance`, a share of the difference between text and baseline. `importance` is for scaled attention: a study, its folder or an array [layer, head].
    """
    model = load(model, task="auto") if not isinstance(model, Model) else model
    settings = settings_of(
        target=target,
        of=of,
        position=position,
        baseline=baseline,
        at=at,
        tolerance=tolerance,
        max_evaluations=max_evaluations,
        importance=importance_grid(importance),
        seed=seed,
    )
    settings.check(model, [method])
    one = isinstance(texts, str | Text)
    found = _explained(
        model,
        [Text("text", texts) if isinstance(texts, str) else texts] if one else list(read(texts)),
        method,
        settings,
        progress,
    )
    return found[0] if one else found


def integrated_gradients(model: Any, texts: Any, **options: Any) -> Any:
    """Integrated gradients of one text or several: scores, the gap, and how many gradients it took; see `explain` for the options."""
    return explain(model, texts, "integrated_gradients", **options)


def _explained(
    model: Model, texts: Sequence[Text], method: str, settings: Settings, progress: bool | None
) -> list[Explanation]:
    for text in texts:
        if (defect := text.problem()) is not None:
            raise CorpusError(f"text {text.id!r} cannot be explained: {defect}")
    encoder = model.full_encoder
    encoded = encoder.encode(list(enumerate(texts)))
    for one in encoded:
        if all(one.special):
            raise CorpusError(
                f"text {one.text.id!r} cannot be explained: the tokenizer makes no token of it"
            )
    found: dict[int, Explanation] = {}
    many = len(encoded) > 1
    with progress_bar("explaining", "texts" if many else "gradients", wanted=progress) as report:
        used = 0

        def tell(evaluations: int) -> None:
            nonlocal used
            used += evaluations
            if not many:
                report(used, settings.max_evaluations)

        for group in encoder.groups(encoded):
            done = explain_batch(
                model, encoder.batch(group, model.device), [method], settings, tell
            )
            for number, place in enumerate(done.batch.places):
                found[place] = explanation_of(model, done, method, number, settings.tolerance)
            if many:
                report(len(found), len(encoded))
    return [found[place] for place in range(len(texts))]


def explanation_of(
    model: Model, done: Explained, method: str, number: int, tolerance: float
) -> Explanation:
    """The explanation of one text of a batch."""
    batch, aim, scores = done.batch, done.aim, done.scores[method]
    words = batch.words[number]
    return Explanation(
        batch.texts[number],
        method,
        model.name,
        batch.surfaces[number],
        scores.scores[number],
        batch.special[number],
        batch.offsets[number],
        words.of,
        words.strings,
        aim.names[number],
        aim.of,
        float(done.values[number]),
        aim.predicted[number],
        aim.probabilities[number],
        int(scores.evaluations[number]),
        float(scores.gap[number]),
        float(scores.error[number]),
        float(scores.baseline[number]),
        bool(scores.converged(tolerance)[number]),
        None if aim.positions is None else int(aim.positions[number]),
        {name: part[number] for name, part in scores.parts.items()},
    )
