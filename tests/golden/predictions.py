"""What loaded estimators and models predict, as plain numbers, to compare old folders with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.golden.scenario import SENTENCE

TEXTS = (
    "The waiters wear gloves and the lamp is good.",
    "It was not very good.",
    "A bad film, and we left.",
)


def relation_extractor(folder: str = "relation_extractor") -> Any:
    from attlas.relations import RelationExtractor

    found = RelationExtractor.load(folder, "model", workers=1, progress=False).extract(SENTENCE)
    return [one.record(SENTENCE) for one in found]


def tree_probe() -> Any:
    import attlas
    from attlas.tree import TreeProbe

    probe = TreeProbe.load("tree_probe", attlas.load("model"), workers=1, progress=False)
    scores = probe.evaluate(list(attlas.read("trees-test.conllu"))[:6])
    return {"uas": scores.uas, "tree_uas": scores.tree_uas, "scored": scores.scored}


def attention_classifier() -> Any:
    from attlas.dynamics import AttentionClassifier

    return AttentionClassifier.load("attention_classifier").predict_proba(list(TEXTS)).tolist()


def topology_classifier() -> Any:
    import pandas as pd

    from attlas.topology import TopologyClassifier

    classifier = TopologyClassifier.load("topology/classifier")
    features = np.arange(3 * classifier.n_features_in_, dtype=float).reshape(3, -1) % 7
    return classifier.predict_proba(
        pd.DataFrame(features, columns=classifier.feature_names_in_)
    ).tolist()


def finetuned() -> Any:
    return _logits("finetuned")


def long() -> Any:
    return _logits("long")


def _logits(folder: str) -> Any:
    import torch

    import attlas

    model = attlas.load(folder, task="classify")
    with torch.no_grad():
        return [
            model.network(**model.tokenizer(text, return_tensors="pt")).logits[0].tolist()
            for text in TEXTS
        ]


PREDICTIONS: dict[str, Callable[[], Any]] = {
    "relation_extractor": relation_extractor,
    "relations": lambda: relation_extractor("relations"),
    "tree_probe": tree_probe,
    "attention_classifier": attention_classifier,
    "topology": topology_classifier,
    "finetuned": finetuned,
    "long": long,
}
