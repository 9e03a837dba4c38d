"""Which heads attend from a mention to its antecedent?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.alignment import Words
from attlas.core.annotations import KINDS
from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.cases import add_cases, add_followed, sums_frame, width
from attlas.core.measure import Measure, Outputs, Shape
from attlas.core.states import Rows, State, Tally
from attlas.core.text import Text
from attlas.coreference.baselines import (
    BASELINES,
    Bools,
    Ints,
    antecedents,
    candidates,
    mentions_of,
    scored,
)
from attlas.stats.choose import best
from attlas.stats.clustered import DIFFERENCE, ClusteredProportions, proportions_of
from attlas.support.errors import CorpusError

ALL = "all"
NO_ANTECEDENT = (
    "no mention has an antecedent in its window; give more documents with coreference, "
    "or longer windows (--tokens)"
)
COLUMNS = [
    *("who", "kind", "accuracy", "low", "high", "n", "texts", "layer", "head", "direction"),
    *("difference", "difference_low", "difference_high"),
]
ALL_KINDS = (ALL, *KINDS)
DIRECTIONS = ("to", "from")  # the mention attends to the candidate; the candidate to the mention
COUNTS = ("texts", "texts_without_mentions", "mentions", "scored", "unscored", "unseen")
_HEADS = ("layer", "head", "kind", "direction", "accuracy", "low", "high", "n", "texts")
_BASELINES = ("kind", "baseline", "accuracy", "low", "high", "n", "texts")


@dataclass(frozen=True, eq=False)
class Mentions:
    """The scored mentions of one text whose head words the model sees, and their candidates."""

    words: Ints  # word: those that head a mention, in order, as words of the batch
    head: Ints  # mention: its head, as an index of `words`
    kinds: tuple[str, ...]  # mention
    candidates: Bools  # mention word
    right: Bools  # mention word: heads an antecedent
    baselines: Bools  # mention baseline: is right
    counts: dict[str, int]

    def __len__(self) -> int:
        return len(self.kinds)


def mentions_seen(text: Text, words: Words) -> Mentions | None:
    """A text's scored mentions in the words of a batch; None without coreference annotations."""
    annotated = mentions_of(text)
    if annotated is None:
        return None
    strings, whole = annotated
    word_of = {source: word for word, source in enumerate(words.source) if source >= 0}
    kept = tuple(mention for mention in whole.mentions if mention.head in word_of)
    seen = replace(whole, mentions=kept)
    rows = scored(seen)
    heads, of = np.unique(
        np.array([mention.head for mention in seen.mentions], dtype=np.int64), return_inverse=True
    )
    heading = of[:, None] == np.arange(len(heads))  # mention word
    right = _by_word(antecedents(seen)[rows], heading)
    # mention baseline
    chosen = np.stack([choose(strings, seen) for choose in BASELINES.values()], -1)
    right_baselines = chosen >= 0
    if len(rows):
        right_baselines &= right[np.arange(len(rows))[:, None], of[chosen]]
    return Mentions(
        words=np.array([word_of[head] for head in heads.tolist()], dtype=np.int64),
        head=of[rows],
        kinds=tuple(seen.mentions[row].kind for row in rows),
        candidates=_by_word(candidates(seen)[rows], heading),
        right=right,
        baselines=right_baselines,
        counts={
            "mentions": len(whole.mentions),
            "scored": len(rows),
            "unscored": len(seen.mentions) - len(rows),
            "unseen": len(whole.mentions) - len(seen.mentions),
        },
    )


def _by_word(marked: Bools, heading: Bools) -> Bools:
    """Which words head a marked mention: [row, mention], [mention, word] -> [row, word]."""
    return np.asarray(marked.astype(np.float32) @ heading > 0)


def heads_right(weights: npt.NDArray[np.float32], mentions: Mentions) -> Bools:
    """Whether the candidate with the largest weight is an antecedent; False if all weights are 0.

    [head, word, word] -> [mention, direction, head]. Of equal weights the earlier is taken.
    """
    to, back = weights[:, mentions.head], weights.transpose(0, 2, 1)[:, mentions.head]
    # direction head mention word
    both = np.where(mentions.candidates, np.stack([to, back]), -np.inf)
    right: Bools = mentions.right[np.arange(len(mentions)), both.argmax(-1)] & (both.max(-1) > 0)
    return right.transpose(2, 0, 1)


@dataclass
class AntecedentState(State):
    """Sums by kind of mention, counts, and the current batch."""

    right: Tally  # kind: sums of attlas.stats.clustered; answers are direction layer head
    counts: Tally
    antecedents_texts: Rows  # of the answers that are followed
    n_layers: int = field(default=0, metadata={"parameter": True})
    n_heads: int = field(default=0, metadata={"parameter": True})
    pending: list[Bools] = field(
        default_factory=list, metadata={"parameter": True}
    )  # layer: mention direction head
    mentions: list[Mentions | None] = field(
        default_factory=list, metadata={"parameter": True}
    )  # text


@dataclass(frozen=True, kw_only=True)
class AntecedentCounts(Measure[AntecedentState]):
    """How often a mention's head word attends most to that of an antecedent.

    Compared with all its candidates' head words, and with three baselines (Clark et al. 2019,
    section 4.2; their code was not released, so the candidates are ours: see
    `attlas.coreference.baselines`). Direction `to` is the mention that attends to the candidate,
    `from` the candidate that attends to the mention. 95% intervals are over texts. A mention whose
    head word was truncated is `unseen`; one without an antecedent among those seen is `unscored`.
    `followed` are kinds with the number of an answer each, for which `antecedents_texts` has a row
    per text.
    """

    name: ClassVar[str] = "antecedents"
    followed: tuple[tuple[str, int], ...] = ()

    def start(self, model: Shape) -> AntecedentState:
        answers = len(DIRECTIONS) * model.n_layers * model.n_heads
        sums = Tally(width(answers, len(BASELINES)))
        return AntecedentState(sums, Tally(1), Rows.empty(), model.n_layers, model.n_heads)

    def update(self, state: AntecedentState, layer: Attention) -> None:
        texts = layer.batch.once("antecedents", lambda: _texts(layer.batch))
        state.mentions = texts
        hits = [np.zeros((0, len(DIRECTIONS), layer.n_heads), dtype=bool)]
        for number, mentions in enumerate(texts):
            if mentions is not None and len(mentions):
                weights = layer.between_words(number, mentions.words).detach().float().cpu().numpy()
                hits.append(heads_right(weights, mentions))
        state.pending.append(np.concatenate(hits))

    def finish_batch(self, state: AntecedentState, batch: Batch, outputs: Outputs) -> None:
        answers, texts = np.stack(state.pending, 2), state.mentions  # mention direction layer head
        state.pending, state.mentions = [], []
        annotated = [mentions for mentions in texts if mentions is not None]
        for mentions in annotated:
            _add_counts(state, mentions.counts)
        without = len(texts) - len(annotated)
        _add_counts(state, {"texts": len(texts), "texts_without_mentions": without})
        if not len(answers):
            return
        kinds = [kind for mentions in annotated for kind in mentions.kinds]
        lengths = [0 if mentions is None else len(mentions) for mentions in texts]
        indices = np.repeat(np.array(batch.indices, dtype=np.int64), lengths)
        by_case = answers.reshape(len(answers), -1)
        baselines = np.concatenate([each.baselines for each in annotated])
        for names in ([ALL] * len(kinds), kinds):
            add_cases(state.right, names, indices, by_case, baselines)
            add_followed(state.antecedents_texts, dict(self.followed), names, indices, by_case)

    def result(self, state: AntecedentState) -> dict[str, pd.DataFrame]:
        layers, heads = state.n_layers, state.n_heads
        answers = len(DIRECTIONS) * layers * heads
        rows, controls = [], []
        for kind in (kind for kind in ALL_KINDS if kind in state.right.rows):
            shares = ClusteredProportions(state.right.rows[kind], answers, len(BASELINES))
            rows += [_head(kind, shares, answer, (layers, heads)) for answer in range(answers)]
            controls += [
                {"kind": kind, "baseline": name, **shares.baseline_row(number)}
                for number, name in enumerate(BASELINES)
            ]
        counts = [
            int(state.counts.rows[name][0]) if name in state.counts.rows else 0 for name in COUNTS
        ]
        return {
            "antecedents": pd.DataFrame(rows, columns=list(_HEADS)),
            "antecedents_baselines": pd.DataFrame(controls, columns=list(_BASELINES)),
            "antecedents_sums": sums_frame(state.right, "kind"),
            "antecedents_counts": pd.DataFrame({"count": COUNTS, "n": counts}),
        }


def _add_counts(state: AntecedentState, counts: Mapping[str, int]) -> None:
    state.counts.add(list(counts), np.array(list(counts.values()))[:, None])


def _texts(batch: Batch) -> list[Mentions | None]:
    return [
        mentions_seen(text, words) for text, words in zip(batch.texts, batch.words, strict=True)
    ]


@dataclass(frozen=True)
class Chosen:
    """The best head for all mentions and for each kind, by its number among all answers."""

    to: dict[str, int]  # kind: the head whose mentions attend most to an antecedent
    back: dict[str, int]  # kind: the head whose antecedents attend most to the mention

    def for_kind(self, kind: str) -> dict[str, int]:
        """The heads that are scored on a kind of mention, by what they were chosen for."""
        heads = {"head": self.to[ALL]}
        if kind != ALL and kind in self.to:
            heads["head_by_kind"] = self.to[kind]
        return {**heads, "head_back": self.back[ALL]}


def choose_heads(sums: pd.DataFrame, shape: tuple[int, int]) -> Chosen:
    """The best heads, from the table `antecedents_sums`; `shape` is (layers, heads)."""
    size, shares = shape[0] * shape[1], _shares(sums, shape)
    if ALL not in shares:
        raise CorpusError(NO_ANTECEDENT)
    answers = {kind: one.answers for kind, one in shares.items()}
    return Chosen(
        to={kind: best(each[:size].reshape(shape)) for kind, each in answers.items()},
        back={kind: size + best(each[size:].reshape(shape)) for kind, each in answers.items()},
    )


def score_heads(chosen: Chosen, sums: pd.DataFrame, shape: tuple[int, int]) -> pd.DataFrame:
    """Chosen heads and the baselines on the counts of other documents, one row per kind each."""
    rows: list[dict[str, Any]] = []
    shares = _shares(sums, shape)
    for kind in (kind for kind in ALL_KINDS if kind in shares):
        one, heads = shares[kind], chosen.for_kind(kind)
        rows += [{"who": who} | _head(kind, one, head, shape) for who, head in heads.items()]
        rows += [
            {"who": name, "kind": kind, **one.baseline_row(number)}
            for number, name in enumerate(BASELINES)
        ]
    if not rows:
        raise CorpusError(NO_ANTECEDENT)
    return pd.DataFrame(rows, columns=COLUMNS)


def compare_heads(chosen: Chosen, sums: pd.DataFrame, shape: tuple[int, int]) -> pd.DataFrame:
    """The differences of chosen heads from each baseline on the same mentions, paired by text."""
    rows = []
    for kind, one in _shares(sums, shape).items():
        for who, head in chosen.for_kind(kind).items():
            for number, name in enumerate(BASELINES):
                difference = dict(zip(DIFFERENCE, one.difference(head, number), strict=True))
                about = {"who": who, "kind": kind, "control": name}
                rows.append({**about, **difference, "n": one.cases, "texts": one.texts})
    return pd.DataFrame(rows)


def _shares(sums: pd.DataFrame, shape: tuple[int, int]) -> dict[str, ClusteredProportions]:
    return proportions_of(sums, "kind", len(DIRECTIONS) * shape[0] * shape[1], len(BASELINES))


def _head(
    kind: str, shares: ClusteredProportions, answer: int, shape: tuple[int, int]
) -> dict[str, Any]:
    """A head and direction on one kind of mention, and its difference from the rules."""
    direction, layer, head = np.unravel_index(answer, (len(DIRECTIONS), *shape))
    return {
        "kind": kind,
        "layer": int(layer),
        "head": int(head),
        "direction": DIRECTIONS[direction],
        **shares.row(answer, list(BASELINES).index("rules")),
    }
