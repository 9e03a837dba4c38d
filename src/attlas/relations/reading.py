"""From texts to samples: cases drawn from texts, each with the attention between its phrases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.core.text import Text
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.relations.candidates import Case, draw_cases, has_words
from attlas.relations.experiment import FitRelations
from attlas.relations.vectors import CaseSpans, CaseVectors, directions_of, read_cases
from attlas.stats.linear import GRID
from attlas.support.arrays import Array as Floats
from attlas.support.errors import CorpusError, MeasureError
from attlas.support.options import check_fields, option, same_option, seed_option

FLOOR = 1e-6  # added to a weight before its logarithm is taken
SHARED = ("directions", "convention", "parser", "seed")  # options of experiment and extractor
NEGATIVES = 5  # drawn for each triple to fit on; one to score on
RELATED = ("no", "yes")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How cases are drawn and read: the same for all readers of one extractor."""

    relation_words: bool = True  # whether they are read
    directions: tuple[str, ...] | None = None  # None: all
    convention: str = same_option(FitRelations, "convention", "sound")
    parser: str = same_option(FitRelations, "parser", "rules")
    negatives: int = option(NEGATIVES, "Negatives for each triple.", at_least=1)
    grid: tuple[float, ...] = option(GRID, "Penalties C to try.", above=0)
    seed: int = seed_option()

    @classmethod
    def of(cls, options: Any, relation_words: bool = True, **others: Any) -> Setup:
        """The setup of an experiment or extractor with the options SHARED."""
        shared = {name: getattr(options, name) for name in SHARED}
        if shared["directions"] is not None:
            shared["directions"] = tuple(shared["directions"])
        return cls(relation_words=relation_words, **shared, **others)

    def __post_init__(self) -> None:
        check_fields(self, MeasureError)
        if not self.grid:
            raise MeasureError("grid is empty; give at least one penalty C above 0")
        known, chosen = directions_of(self.relation_words), self.directions or ()
        unknown = sorted(set(chosen) - set(known))
        if unknown:
            why = "" if self.relation_words else " (the triples have no relation words)"
            raise MeasureError(
                f"direction {unknown[0]!r} cannot be read; choose from {', '.join(known)}{why}"
            )
        if len(set(chosen)) < len(chosen):
            raise MeasureError(f"directions are {', '.join(chosen)}; give each once")

    @property
    def published(self) -> bool:
        return self.convention == "published"

    @property
    def read_directions(self) -> tuple[str, ...]:
        """The directions that are read, in the order of the features."""
        return self.directions or directions_of(self.relation_words)


@dataclass(frozen=True, eq=False)
class Sample:
    """Cases of texts, triples and negatives, of which the model saw all phrases."""

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
    def text_of_case(self) -> npt.NDArray[np.int64]:
        return np.array([case.text for case in self.cases], dtype=np.int64)


def cases_of(texts: Sequence[Text], setup: Setup, count: int | None = None) -> list[Case]:
    """The triples of texts and `count` negatives for each (default: as many as to fit on)."""
    if setup.relation_words and not has_words(texts):
        raise CorpusError(
            "some triples do not say which words state them, and this extractor reads those; "
            "give `relation_words`, or fit it on triples without them"
        )
    if count is None:
        count = 1 if setup.published else setup.negatives
    return draw_cases(
        texts,
        words=setup.relation_words,
        count=count,
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
    spans: CaseSpans | None = None,
) -> Sample:
    """Cases with their vectors, without those that were truncated."""
    vectors = read_cases(work, model, texts, cases, spans=spans, mean=not published, states=states)
    related = np.array([case.related for case in cases], dtype=bool)
    seen = vectors.seen
    if not (related & seen).any():
        raise CorpusError(
            f"none of the {related.sum()} triples can be used: their phrases lie beyond the "
            f"{model.max_length} tokens that the model reads; give shorter texts"
        )
    kept = tuple(case for case, keep in zip(cases, seen, strict=True) if keep)
    return Sample(texts, kept, vectors.where(seen), int((related & ~seen).sum()))


def attention_features(
    vectors: CaseVectors, setup: Setup, directions: Sequence[str] | None = None
) -> Floats:
    """What readers take, direction by direction, maps by layer and head: [case, feature]."""
    known = directions_of(setup.relation_words)
    chosen = [known.index(name) for name in directions or setup.read_directions]
    weights = vectors.attention[:, chosen].reshape(len(vectors.attention), -1)
    return as_features(weights, setup.published)


def as_features(weights: Floats, published: bool) -> Floats:
    """The logarithm of each weight; as published, the weight."""
    return weights if published else np.log(weights + FLOOR)


def phrases_of(texts: Sequence[Text], cases: Iterable[Case]) -> list[str]:
    """The relation words of cases, in lower case ("" without)."""
    return [
        "" if case.words is None else texts[case.text].text[slice(*case.words)].lower()
        for case in cases
    ]
