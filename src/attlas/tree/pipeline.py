"""Tree probes from file to report: fitted on some sentences, scored on others, with every control."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.corpora.annotated import sentences
from attlas.experiments.derived import Experiment
from attlas.experiments.probed import Said, Tables, counted, probed
from attlas.experiments.records import records
from attlas.models import Model
from attlas.models.vectors import GloveVectors, ModelVectors, Vectors
from attlas.stats.clustered import Shares
from attlas.support.errors import CorpusError
from attlas.tree.probe import TreeProbe

PROBES = ("attention", "attention_words", "right_branching", "previous_word", "distance_words", "random_attention", "random_attention_words")  # fmt: skip
# tried for random weights, whose maps hardly differ, so that no rate is known to serve: the best on held-out sentences is the control
RATES = {"random_attention": (0.01, 0.05, 0.5), "random_attention_words": (0.001, 0.01, 0.05)}


def _held_out(probe: TreeProbe) -> float:
    """The best score that a probe reached on the sentences it held out."""
    return max((row["uas"] or 0.0 for row in getattr(probe, "history_", [])), default=0.0)


def probe_tree(
    model: Any,
    train: Any,
    test: Any = None,
    out: str | Path = "runs/tree",
    *,
    vectors: str | Path | None = None,
    convention: str = "sound",
    cache: str | Path | None = None,
    seed: int = 0,
    workers: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    say: Said = lambda line: None,
) -> Experiment:
    """How much of dependency trees attention holds: probes fitted on `train`, scored on `test` (a fifth of `train` if None), beside every baseline.

    `vectors` is a GloVe file; the model's own embedding table if None. Experiments on the same sentences may share a `cache` of attention. The table `tree` has a row a probe: UAS by argmax and by the best tree, with intervals and the difference from the next word as head.
    """

    glove = None if vectors is None else GloveVectors(vectors)

    def work(loaded: Model, first: list[Text], second: list[Text], passes: Path) -> tuple[Tables, dict[str, Any], dict[str, int]]:  # fmt: skip
        known: Vectors = ModelVectors(loaded) if glove is None else glove
        options: dict[str, Any] = {"vectors": known, "convention": convention, "seed": seed, "cache": passes if cache is None else cache, "workers": workers, "progress": progress}  # fmt: skip
        control = loaded.randomized(seed)
        scores, rates = {}, {}
        for name in PROBES:
            say(name.replace("_", " "))
            read, features = control if name.startswith("random_") else loaded, name.removeprefix("random_")
            made = [
                TreeProbe(read, features, learning_rate=rate, **options).fit(first) for rate in RATES.get(name, (None,))
            ]
            best = max(made, key=_held_out)
            scores[name], rates[name] = best.evaluate(second), best.learning_rate
            if not scores[name].scored:
                raise CorpusError("no word of the texts to score on can be scored: all are punctuation or were cut off")
        rows = []
        for name, found in scores.items():
            shares = Shares.of(found.hits, scores["right_branching"].hits, found.counts)
            low, high = shares.interval(0)
            gap, gap_low, gap_high = shares.difference(0, 0)
            tree_low, tree_high = Shares.of(found.tree_hits, found.hits, found.counts).interval(0)
            rows.append({
                "probe": name, "tree_low": tree_low, "tree_high": tree_high, "uas": found.uas, "low": low, "high": high, "tree_uas": found.tree_uas, "difference": gap, "difference_low": gap_low, "difference_high": gap_high,
                "words": found.scored, "texts": shares.texts,
            })  # fmt: skip
        table, told = pd.DataFrame(rows), scores["attention"]
        result = {
            "uas": {name: found.uas for name, found in scores.items()}, "tree_uas": {name: found.tree_uas for name, found in scores.items()}, "rows": records(table),
            "words": {"scored": told.scored, "punctuation": told.punctuation, "unseen": told.unseen, "headless": told.headless}, "vectors": known.name, "convention": convention,
            "rates": rates, "lost": {"words cut off": told.unseen, "words whose head was cut off": told.headless, "sentences to fit on that were cut": counted(loaded, first)["truncated"]},
        }  # fmt: skip
        return {"tree": table}, result, counted(loaded, second)

    options = {"vectors": glove, "convention": convention}
    return probed("tree", model, train, test, out, options, sentences, work, seed=seed, fresh=fresh)
