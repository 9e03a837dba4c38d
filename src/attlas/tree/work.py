"""What Tree does: attention between words read once, probes fitted, scored, and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attlas.core.text import Text
from attlas.corpora.annotated import sentences as read
from attlas.corpora.splits import overlap
from attlas.experiments.experiment import Outcome
from attlas.experiments.inputs import held_out as resolve
from attlas.experiments.records import records
from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.models.vectors import GloveVectors, ModelVectors, Vectors
from attlas.stats.clustered import DIFFERENCE, ClusteredProportions
from attlas.studies.folder import QUARANTINE
from attlas.studies.store import write_quarantine
from attlas.support.errors import CorpusError
from attlas.tree.data import Sentences, sentence_of
from attlas.tree.experiment import Tree
from attlas.tree.scorers import BASELINES, FROM_ATTENTION, FROM_WORDS
from attlas.tree.training import (
    ProbeOptions,
    TreeScores,
    baseline_heads,
    fit,
    heads_of,
    score_heads,
)
from attlas.tree.word_attention import WordAttention, read_word_attention

__all__ = ["PROBES", "read", "read_vectors", "resolve", "run"]

# Each probe with the learning rates to try; None: the one that serves its features. Attention of
# random weights hardly differs between heads, so that no rate is known to serve: the best on
# held-out sentences is the control.
PROBES: dict[str, tuple[float | None, ...]] = {
    "attention": (None,),
    "attention_words": (None,),
    "right_branching": (None,),
    "previous_word": (None,),
    "distance_words": (None,),
    "random_attention": (0.01, 0.05, 0.5),
    "random_attention_words": (0.001, 0.01, 0.05),
}
RANDOM = "random_"
SCORES = ("uas", "tree_uas")
CONTROLS = ("right_branching", "random_attention", "random_attention_words")
COMPARED = {  # on the same words: attention alone with rivals without words, and with words
    "attention": ("right_branching", "previous_word", "random_attention"),
    "attention_words": ("distance_words", "random_attention_words"),
}
COLUMNS = [
    *("probe", "tree_low", "tree_high", "uas", "low", "high", "tree_uas"),
    *("difference", "difference_low", "difference_high", "words", "texts"),
]
Read = tuple[WordAttention, WordAttention]  # of train, of test


def read_vectors(source: Any) -> Vectors:
    """Word vectors from a file, or vectors in memory as they are."""
    return GloveVectors(source) if isinstance(source, str | Path) else source


def run(
    tree: Tree,
    work: Workspace,
    *,
    train: list[Text],
    test: list[Text],
    model: Model,
    vectors: Vectors | None,
) -> Outcome:
    """Fit probes on `train` and score them on `test`, with every control."""

    def attention(of: Model) -> Read:
        return read_word_attention(work, of, train), read_word_attention(work, of, test)

    work.log("Tree 1/3: reading attention between words")
    own = attention(model)
    if not any(sentence.scored.any() for sentence in _seen(test, own[1]).all):
        raise CorpusError(
            "no word of the texts to score on can be scored: all are punctuation or were truncated"
        )
    work.log("Tree 2/3: the same with random weights")
    random = attention(model.randomized(tree.seed))
    work.log("Tree 3/3: fitting and scoring probes")
    fits = [
        Fit(probe, _options(tree, probe, rate)) for probe, rates in PROBES.items() for rate in rates
    ]
    scored = work.map(
        fit_and_score,
        fits,
        common=(train, test, own, random, model, vectors),
        what="fitting probes",
    )
    best = {probe: _best(probe, fits, scored) for probe in PROBES}
    scores = {probe: _scores(value["scores"]) for probe, (_, value) in best.items()}
    texts = {"train": len(train), "test": len(test), "in_both": overlap(train, test)}
    counts = dict(own[1].counts)
    table = score_table(scores)
    result = {
        **_result(table, scores, own[0].counts["truncated"]),
        "vectors": _vectors(model, vectors).name,
        "convention": tree.convention,
        "rates": {probe: chosen.options.learning_rate for probe, (chosen, _) in best.items()},
    }
    return Outcome(
        tables={"tree": table, "tree_differences": difference_table(scores)},
        result={**result, "texts": texts, "counts": counts},
        counts=counts,
        controls=[("tree", score, {"probe": control}) for score in SCORES for control in CONTROLS],
        about={"probe": {"kind": tree.name, "texts": texts, "lost": result["lost"]}},
        quarantine=work.files(write_quarantine, list(own[1].quarantine)) / QUARANTINE,
    )


@dataclass(frozen=True)
class Fit:
    """One fit of a probe."""

    probe: str
    options: ProbeOptions


def _options(tree: Tree, probe: str, rate: float | None) -> ProbeOptions:
    return ProbeOptions(
        features=probe.removeprefix(RANDOM),
        convention=tree.convention,
        learning_rate=rate,
        seed=tree.seed,
    )


def fit_and_score(
    job: Fit,
    train: list[Text],
    test: list[Text],
    own: Read,
    random: Read,
    model: Model,
    vectors: Vectors | None,
) -> dict[str, Any]:
    """Fit a probe on `train`; its hits in each text of `test`, and its best UAS on held-out ones.

    Without `vectors`, words have the input embeddings of `model`, also for random weights.
    """
    features = job.options.features
    attention = random if job.probe.startswith(RANDOM) else own
    words = _vectors(model, vectors) if features in FROM_WORDS else None
    first, second = (
        _seen(texts, seen, seen if features in FROM_ATTENTION else None, words)
        for texts, seen in zip((train, test), attention, strict=True)
    )
    held_out_uas = 0.0
    if features in BASELINES:
        heads = baseline_heads(features, second)
    else:
        fitted = fit(first, job.options)
        heads, held_out_uas = heads_of(fitted.scorer, second), fitted.held_out_uas
    scores = score_heads(heads, second)
    plain = {name: np.asarray(value).tolist() for name, value in asdict(scores).items()}
    return {"held_out_uas": held_out_uas, "scores": plain}


def _seen(
    texts: Sequence[Text],
    seen: WordAttention,
    attention: WordAttention | None = None,
    vectors: Vectors | None = None,
) -> Sentences:
    """The words of texts that the model saw, with what the features of a probe need."""
    every = [sentence_of(text, n, seen.missing[n]) for n, text in enumerate(texts)]
    return Sentences(every, attention, vectors)


def _vectors(model: Model, vectors: Vectors | None) -> Vectors:
    return ModelVectors(model) if vectors is None else vectors


def _best(
    probe: str, fits: Sequence[Fit], scored: Sequence[Mapping[str, Any]]
) -> tuple[Fit, Mapping[str, Any]]:
    """The fit of a probe that is best on held-out sentences, and its scores."""
    own = [(job, value) for job, value in zip(fits, scored, strict=True) if job.probe == probe]
    return max(own, key=lambda one: one[1]["held_out_uas"])


def _scores(value: Mapping[str, Any]) -> TreeScores:
    by_text = {name: np.array(value[name], np.int64) for name in ("hits", "tree_hits", "counts")}
    return TreeScores(**{**value, **by_text})


def score_table(scores: Mapping[str, TreeScores]) -> pd.DataFrame:
    """One row per probe: UAS by argmax and by the best tree, the difference from right branching.

    With 95% confidence intervals over texts.
    """
    rows = []
    for probe, one in scores.items():
        shares = ClusteredProportions.of(one.hits, scores["right_branching"].hits, one.counts)
        by_tree = ClusteredProportions.of(one.tree_hits, one.hits, one.counts)
        own = {"probe": probe, "uas": one.uas, "tree_uas": one.tree_uas, "words": one.scored}
        of_tree = dict(zip(("tree_low", "tree_high"), by_tree.interval(0), strict=True))
        rows.append(own | of_tree | shares.row(0, 0))
    return pd.DataFrame(rows, columns=COLUMNS)


def difference_table(scores: Mapping[str, TreeScores]) -> pd.DataFrame:
    """The differences in UAS between probes and their rivals, with paired intervals over texts."""
    rows = []
    for probe, rivals in COMPARED.items():
        for rival in rivals:
            one, other = scores[probe], scores[rival]
            both = ClusteredProportions.of(one.hits, other.hits, one.counts)
            difference = dict(zip(DIFFERENCE, both.difference(0, 0), strict=True))
            rows.append({"probe": probe, "control": rival, **difference, "texts": both.texts})
    return pd.DataFrame(rows)


def _result(
    table: pd.DataFrame, scores: Mapping[str, TreeScores], truncated: int
) -> dict[str, Any]:
    """What `--json` prints of the scores; `truncated` of the sentences to fit on were."""
    own = scores["attention"]
    return {
        "uas": {probe: one.uas for probe, one in scores.items()},
        "tree_uas": {probe: one.tree_uas for probe, one in scores.items()},
        "rows": records(table),
        "words": {
            "scored": own.scored,
            "punctuation": own.punctuation,
            "unseen": own.unseen,
            "headless": own.headless,
        },
        "lost": {
            "words cut off": own.unseen,
            "words whose head was cut off": own.headless,
            "sentences to fit on that were cut": truncated,
        },
    }
