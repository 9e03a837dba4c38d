"""From texts to samples: cases drawn from texts, each with the attention between its phrases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attlas.core.text import Text
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.relations.candidates import Case, drawn_cases, has_words
from attlas.relations.vectors import Asked, CaseVectors, Lengths, directions_of, read_cases
from attlas.stats.linear import GRID
from attlas.support.arrays import Array as Floats
from attlas.support.errors import CorpusError, MeasureError

FLOOR = 1e-6  # added to a weight before its logarithm is taken
NEGATIVES = 5  # drawn for each triple to learn from; one to score on
RELATED = ("no", "yes")


@dataclass(frozen=True)
class Setup:
    """How cases are drawn and read: the same for all readers of one extractor."""

    worded: bool  # whether relation words are read
    directions: tuple[str, ...] | None = None  # None: all
    convention: str = "sound"
    parser: str = "rules"
    negatives: int = NEGATIVES
    grid: tuple[float, ...] = GRID
    seed: int = 0

    @property
    def published(self) -> bool:
        return self.convention == "published"

    @property
    def read_directions(self) -> tuple[str, ...]:
        """The directions that are read, in the order of the features."""
        return self.directions or directions_of(self.worded)


def checked(setup: Setup) -> Setup:
    """Refuse directions that cannot be read, and any that is given twice."""
    known, chosen = directions_of(setup.worded), setup.directions or ()
    wrong = sorted(set(chosen) - set(known))
    if wrong:
        why = "" if setup.worded else " (the triples have no relation words)"
        raise MeasureError(
            f"direction {wrong[0]!r} cannot be read; they are {', '.join(known)}{why}"
        )
    if len(set(chosen)) < len(chosen):
        raise MeasureError(f"directions are {', '.join(chosen)}; give each once")
    return setup


@dataclass(frozen=True, eq=False)
class Sample:
    """Cases of texts, triples and negatives, that the model saw whole; and what it did not see."""

    texts: Sequence[Text]
    cases: tuple[Case, ...]
    vectors: CaseVectors
    unseen: int  # triples with a phrase that was truncated

    @property
    def related(self) -> npt.NDArray[np.bool_]:
        return np.array([case.related for case in self.cases], dtype=bool)

    @property
    def relations(self) -> list[str]:
        """The relation of each related case."""
        return [case.relation for case in self.cases if case.related]

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """The text of each case."""
        return np.array([case.text for case in self.cases], dtype=np.int64)


def cases_of(texts: Sequence[Text], setup: Setup, count: int | None = None) -> list[Case]:
    """The triples of texts and `count` negatives for each (default: as many as to learn from)."""
    if setup.worded and not has_words(texts):
        raise CorpusError(
            "some triples do not say which words state them, and this extractor reads those; "
            "give `relation_words`, or fit it on triples without them"
        )
    wanted = (1 if setup.published else setup.negatives) if count is None else count
    return drawn_cases(
        texts,
        words=setup.worded,
        count=wanted,
        seed=setup.seed,
        published=setup.published,
        parser=setup.parser,
    )


def read_sample(
    work: Workspace,
    model: Model,
    texts: Sequence[Text],
    cases: Sequence[Case],
    *,
    published: bool = False,
    states: bool = False,
    asked: Asked | None = None,
) -> tuple[Sample, Lengths]:
    """Cases with their vectors, without those that were truncated; and the lengths of the texts."""
    vectors, lengths = read_cases(
        work, model, texts, cases, asked=asked, mean=not published, states=states
    )
    related = np.array([case.related for case in cases], dtype=bool)
    seen = vectors.seen
    if not (related & seen).any():
        raise CorpusError(
            f"none of the {related.sum()} triples is left: their phrases lie behind the "
            f"{model.max_length} tokens that the model reads"
        )
    inner = None if vectors.states is None else vectors.states[seen]
    kept = tuple(case for case, keep in zip(cases, seen, strict=True) if keep)
    own = CaseVectors(vectors.attention[seen], seen[seen], inner)
    return Sample(texts, kept, own, int((related & ~seen).sum())), lengths


def attention_features(
    vectors: CaseVectors,
    worded: bool,
    directions: Sequence[str] | None = None,
    published: bool = False,
) -> Floats:
    """What readers take, direction by direction, maps by layer and head: [case, feature]."""
    known = directions_of(worded)
    chosen = [known.index(name) for name in (directions or known)]
    weights = vectors.attention[:, chosen].reshape(len(vectors.attention), -1)
    return as_features(weights, published)


def as_features(weights: Floats, published: bool) -> Floats:
    """The logarithm of each weight; as published, the weight."""
    return weights if published else np.log(weights + FLOOR)


def phrases_of(texts: Sequence[Text], cases: Iterable[Case]) -> list[str]:
    """The relation words of cases, in lower case ("" without)."""
    return [
        "" if case.words is None else texts[case.text].text[slice(*case.words)].lower()
        for case in cases
    ]
