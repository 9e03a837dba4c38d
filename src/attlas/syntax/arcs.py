"""Which heads attend from a word to its syntactic head, or back?

Clark et al. 2019, section 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from attlas.core.annotations import ROOT, Dependencies, dependencies_of
from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.cases import add_cases, add_followed, sums_frame, width
from attlas.core.measure import Measure, Outputs, Shape
from attlas.core.states import Rows, State, Tally
from attlas.stats.choose import best, first_best
from attlas.stats.clustered import ClusteredProportions, proportions_of
from attlas.support.errors import CorpusError
from attlas.support.options import check_convention
from attlas.syntax import kernels

DIRECTIONS = ("dependent->head", "head->dependent")  # who attends to whom
OFFSETS = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)
PUBLISHED_OFFSETS = (-3, -2, -1, 0, 1, 2)
ALL = "all"  # every relation together
NOT_SCORED = ("root", "punct")  # no word is the head of a root, and that of a comma is arbitrary
NOWHERE = -2  # an answer that no attention head can give
COUNTED = ("texts", "words", "unseen", "without_tree")
MIN_CASES = 100  # of a relation
MORE = "give more sentences, or lower min_cases (--min-cases)"
COLUMNS = [
    *("layer", "head", "relation", "direction", "accuracy", "low", "high", "baseline", "offset"),
    *("difference", "difference_low", "difference_high", "n", "texts"),
    *("chosen_accuracy", "chosen_n"),
]
_POSSESSIVE = ("'s", "s'", "’s")


@dataclass(frozen=True)
class ArcTargets:
    """The words of one text that are scored, with their syntactic heads."""

    asking: npt.NDArray[np.int64]  # case: the word whose attention is read
    right: npt.NDArray[np.int64]  # case: its syntactic head
    relations: tuple[str, ...]  # case
    offsets: npt.NDArray[np.bool_]  # case offset: whether the word at this offset is the head
    unseen: int  # words that were truncated, or whose head was


def arc_targets(
    tree: Dependencies,
    words: tuple[str, ...],
    seen: npt.NDArray[np.bool_],
    convention: str,
    offsets: tuple[int, ...],
) -> ArcTargets:
    """The cases of a text, some words of which may have been truncated.

    As published, roots and punctuation count too, and a possessor is read from its 's.
    """
    published = convention == "published"
    heads = np.array(tree.heads, dtype=np.int64)
    wanted = np.array(
        [
            published or (head != ROOT and relation.partition(":")[0] not in NOT_SCORED)
            for head, relation in zip(tree.heads, tree.relations, strict=True)
        ],
        dtype=bool,
    )
    both_seen = seen & np.where(heads == ROOT, True, seen[np.maximum(heads, 0)])
    chosen = np.flatnonzero(wanted & both_seen)
    asking = chosen.copy()
    if published:
        mark = np.array([word.casefold() in _POSSESSIVE for word in words[1:]] + [False])
        mark &= np.append(seen[1:], False)
        owner = np.array([relation.endswith("poss") for relation in tree.relations], dtype=bool)
        asking += (mark & owner)[chosen]
    at_offset = asking[:, None] + np.array(offsets)
    if published:  # clamped to the sentence, with ROOT before it
        at_offset = np.clip(at_offset, ROOT, len(words) - 1)
    return ArcTargets(
        asking,
        np.where(heads[chosen] == ROOT, NOWHERE, heads[chosen]),
        tuple(tree.relations[word] for word in chosen),
        at_offset == heads[chosen][:, None],
        int((wanted & ~both_seen).sum()),
    )


@dataclass
class ArcState(State):
    """Sums by relation (see core/cases.py), counts, and the current batch."""

    sums: Tally
    counted: Tally
    arcs_texts: Rows  # of the answers that are followed
    shape: tuple[int, int] = field(metadata={"parameter": True})
    # layer text: direction head case
    hits: list[list[npt.NDArray[np.bool_]]] = field(
        default_factory=list, metadata={"parameter": True}
    )
    # text
    targets: list[ArcTargets | None] = field(default_factory=list, metadata={"parameter": True})


@dataclass(frozen=True, kw_only=True)
class ArcCounts(Measure[ArcState]):
    """How often the most attended (or attending) word is the syntactic head, by relation.

    Fixed offsets are the baseline. Attention to a word is the sum over its tokens, from a word the
    mean; special tokens and the word itself are not candidates. A word that was truncated, or whose
    head was, is counted as unseen and not scored. `convention="published"` is the authors' code:
    offsets -3 to 2, roots and punctuation among `all`, a possessor read from its 's. `followed` are
    relations with the number of an answer each, for which `arcs_texts` has a row per text.
    """

    name: ClassVar[str] = "arcs"
    costly: ClassVar[bool] = True
    convention: str = "sound"
    followed: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        check_convention(self.convention)

    @property
    def offsets(self) -> tuple[int, ...]:
        return PUBLISHED_OFFSETS if self.convention == "published" else OFFSETS

    def start(self, model: Shape) -> ArcState:
        answers = len(DIRECTIONS) * model.n_layers * model.n_heads
        shape = (model.n_layers, model.n_heads)
        sums = Tally(width(answers, len(self.offsets)))
        return ArcState(sums, Tally(len(COUNTED)), Rows.empty(), shape)

    def update(self, state: ArcState, layer: Attention) -> None:
        batch = layer.batch
        texts = batch.once(
            ("arcs", self.convention),
            lambda: [self._targets(batch, text) for text in range(batch.n_texts)],
        )
        weights = layer.dense().weights.detach().float().cpu().numpy()
        hits = []
        for (of, targets), square in zip(texts, weights, strict=True):
            if targets is None:
                hits.append(np.zeros((0, 0, 0), dtype=bool))
                continue
            count = int(of.max(initial=-1)) + 1
            most = np.stack(kernels.most_attended(np.ascontiguousarray(square), of, count))
            hits.append(most[:, :, targets.asking] == targets.right)  # direction head case
        state.hits.append(hits)
        state.targets = [targets for _, targets in texts]

    def _targets(self, batch: Batch, text: int) -> tuple[npt.NDArray[np.int64], ArcTargets | None]:
        """The word of each token of a text (-1 for a special token), and its cases, if any."""
        words, own = batch.words[text], batch.texts[text].words
        of = np.array(words.source, dtype=np.int64)[words.of]
        tree = dependencies_of(batch.texts[text].annotations)
        if tree is None or own is None:
            return of, None
        seen = np.ones(len(own), dtype=bool)
        seen[list(words.missing)] = False
        return of, arc_targets(tree, own, seen, self.convention, self.offsets)

    def finish_batch(self, state: ArcState, batch: Batch, outputs: Outputs) -> None:
        layers, every = state.hits, state.targets
        state.hits, state.targets = [], []
        counted = np.zeros((1, len(COUNTED)))
        for targets in every:
            counted += (
                [1, 0, 0, 1] if targets is None else [1, len(targets.right), targets.unseen, 0]
            )
        state.counted.add(["counted"], counted)
        scored = [
            (text, targets)
            for text, targets in enumerate(every)
            if targets is not None and len(targets.right)
        ]
        if not scored:
            return
        answers = np.concatenate(
            [
                np.stack([layer[text] for layer in layers], 1).reshape(-1, len(targets.right)).T
                for text, targets in scored
            ]
        )  # case, direction x layer x head
        offsets = np.concatenate([targets.offsets for _, targets in scored])
        relations = [relation for _, targets in scored for relation in targets.relations]
        indices = np.repeat(
            [batch.indices[text] for text, _ in scored],
            [len(targets.right) for _, targets in scored],
        )
        for kinds in (relations, [ALL] * len(relations)):
            add_cases(state.sums, kinds, indices, answers, offsets)
            add_followed(state.arcs_texts, dict(self.followed), kinds, indices, answers)

    def result(self, state: ArcState) -> dict[str, pd.DataFrame]:
        layers, heads = state.shape
        sums = sums_frame(state.sums, "relation")
        read = proportions_of(sums, "relation", len(DIRECTIONS) * layers * heads, len(self.offsets))
        counted = state.counted.table()[1].sum(0) if state.counted.rows else np.zeros(len(COUNTED))
        return {
            "arcs": _heads(read, layers, heads),
            "arcs_offsets": self._offsets(read),
            "arcs_sums": sums,
            "arcs_counts": pd.DataFrame([dict(zip(COUNTED, map(int, counted), strict=True))]),
        }

    def _offsets(self, read: dict[str, ClusteredProportions]) -> pd.DataFrame:
        rows = [
            {"relation": name, "offset": offset, "accuracy": accuracy, "n": shares.cases}
            for name, shares in read.items()
            for offset, accuracy in zip(self.offsets, shares.baselines.tolist(), strict=True)
        ]
        return pd.DataFrame(rows, columns=["relation", "offset", "accuracy", "n"])


def _heads(read: dict[str, ClusteredProportions], layers: int, heads: int) -> pd.DataFrame:
    """The accuracy of every head for every relation, in both directions."""
    direction, layer, head = np.indices((len(DIRECTIONS), layers, heads)).reshape(3, -1)
    parts = [
        pd.DataFrame(
            {
                "layer": layer,
                "head": head,
                "relation": name,
                "direction": np.array(DIRECTIONS, dtype=object)[direction],
                "accuracy": shares.answers,
                "n": shares.cases,
            }
        )
        for name, shares in read.items()
    ]
    columns = ["layer", "head", "relation", "direction", "accuracy", "n"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def choose_heads(
    sums: pd.DataFrame, shape: tuple[int, int], measure: ArcCounts, min_cases: int = MIN_CASES
) -> pd.DataFrame:
    """The best head and the best fixed offset of every relation with enough cases.

    `sums` is the table `arcs_sums`, `shape` is (layers, heads).
    """
    rows = []
    for name, shares in _shares(sums, shape, measure).items():
        if shares.cases < min_cases or name.partition(":")[0] in NOT_SCORED:
            continue
        answer = best(shares.answers.reshape(len(DIRECTIONS), *shape))
        offset = first_best(shares.baselines.tolist())
        direction, layer, head = np.unravel_index(answer, (len(DIRECTIONS), *shape))
        rows.append(
            {
                "layer": int(layer),
                "head": int(head),
                "relation": name,
                "direction": DIRECTIONS[direction],
                "offset": measure.offsets[offset],
                "accuracy": float(shares.answers[answer]),
                "n": shares.cases,
                "answer": answer,
                "baseline": offset,
            }
        )
    if not rows:
        raise CorpusError(f"no relation has {min_cases} cases; {MORE}")
    return pd.DataFrame(rows)


def score_heads(
    chosen: pd.DataFrame,
    sums: pd.DataFrame,
    shape: tuple[int, int],
    measure: ArcCounts,
    min_cases: int = MIN_CASES,
) -> pd.DataFrame:
    """Chosen heads and offsets on the counts of other sentences.

    One row per relation, by frequency, after one for `all`.
    """
    shares = _shares(sums, shape, measure)
    rows = [
        _scored(one, shares[one["relation"]])
        for one in chosen.to_dict("records")
        if one["relation"] in shares and shares[one["relation"]].cases >= min_cases
    ]
    if not any(row["relation"] != ALL for row in rows):
        raise CorpusError(
            f"no relation has {min_cases} cases both to choose on and to score on; {MORE}"
        )
    table = pd.DataFrame(rows, columns=COLUMNS)
    first = table["relation"] == ALL
    rest = table[~first].sort_values("n", ascending=False, kind="stable")
    return pd.concat([table[first], rest], ignore_index=True)


def _shares(
    sums: pd.DataFrame, shape: tuple[int, int], measure: ArcCounts
) -> dict[str, ClusteredProportions]:
    answers = len(DIRECTIONS) * shape[0] * shape[1]
    return proportions_of(sums, "relation", answers, len(measure.offsets))


def _scored(chosen: dict[Any, Any], shares: ClusteredProportions) -> dict[str, Any]:
    """A chosen head and offset on the cases of its relation."""
    answer, offset = chosen["answer"], chosen["baseline"]
    return {
        **{name: chosen[name] for name in ("layer", "head", "relation", "direction", "offset")},
        **shares.row(answer, offset),
        "baseline": float(shares.baselines[offset]),
        "chosen_accuracy": chosen["accuracy"],
        "chosen_n": chosen["n"],
    }
