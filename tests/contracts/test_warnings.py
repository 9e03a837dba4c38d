"""Every warning is raised on a planted case, and not on a clean one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from attlas.testing.sections import Frames, Lazy
from attlas.views.findings import section_findings, verdict_of, warnings
from tests.builders.pages import SECTIONS

COUNTS = {"read": 40, "analysed": 40, "tokens": 400}


def tables(frames: Mapping[str, pd.DataFrame], **about: Any) -> Frames:
    """Tables in memory of one result."""
    manifest = {
        "kind": "study",
        "counts": COUNTS,
        "corpus": {"name": "texts"},
        "model": {"name": "model"},
        "tables": list(frames),
        **about,
    }
    return Frames(Lazy(frames, frames.__getitem__), manifest, dict.fromkeys(frames, manifest))


def explained(texts: int, right: float) -> Frames:
    """Explanations of texts, of which the model gets a share right."""
    labels = ["a", "b"] * (texts // 2)
    wrong = {"a": "b", "b": "a"}
    correct = np.arange(texts) < right * texts
    predicted = [one if known else wrong[one] for one, known in zip(labels, correct, strict=True)]
    frame = pd.DataFrame({"text": map(str, range(texts)), "label": labels, "predicted": predicted})
    gaps = {"method": "saliency", "gap": np.nan, "evaluations": 1, "converged": True}
    empty = pd.DataFrame({"text": []})
    return tables({"explanations": frame.assign(**gaps), "attributions": empty, "texts": empty})


def tuned(dev: int, accuracy: float) -> Frames:
    """A fine-tuned model that gets a share of dev right, where half are of each class."""
    frame = pd.DataFrame({"epoch": [1], "mcc": [0.0], "accuracy": [accuracy], "majority": [0.5]})
    about = {
        "scores": {"accuracy": accuracy, "mcc": 0.0},
        "majority": 0.5,
        "accuracy_interval": (accuracy - 0.1, min(1.0, accuracy + 0.1)),
        "counts": {"dev": dev},
    }
    return tables({"finetune": frame}, kind="finetune", finetune=about)


def shapes(in_train: int, accuracy: float) -> Frames:
    """A topological classifier next to a model that gets a share of 40 texts right."""
    score = {"mcc": 0.6, "mcc_low": 0.4, "mcc_high": 0.8, "accuracy": accuracy, "n": 40}
    alone = {**score, "mcc": 0.0, "mcc_low": -0.2, "mcc_high": 0.2}
    rows = [
        {"classifier": "model", **score},
        {"classifier": "all", **score},
        {"classifier": "length_only", **alone},
    ]
    about = {
        "texts": dict.fromkeys(("train", "dev", "test"), 40),
        "test_texts_in_train": in_train,
        "majority_accuracy": 0.5,
    }
    heads = pd.DataFrame({"layer": [0], "head": [0], "train": [0.1], "test": [0.1]})
    frames = {"topology": pd.DataFrame(rows), "topology_heads": heads, "topology_grid": heads}
    return tables(frames, kind="topology", topology=about)


def probed(in_both: int, difference: float, texts: int = 40) -> Frames:
    """A syntax head that is so far ahead of the best offset."""
    row = {"layer": 0, "head": 0, "relation": "obj", "offset": 1, "n": 200, "texts": texts}
    score = {"accuracy": 0.5 + difference, "low": 0.45 + difference, "high": 0.55 + difference}
    apart = {"difference_low": difference - 0.05, "difference_high": difference + 0.05}
    frame = pd.DataFrame([{**row, **score, "baseline": 0.5, "difference": difference, **apart}])
    counts = {"train": texts, "test": texts, "in_both": in_both}
    probe = {"kind": "syntax", "texts": counts, "lost": {}}
    return tables({"syntax": frame, "syntax_heads": frame}, kind="syntax", probe=probe)


def repeating(ratio: float) -> Frames:
    """Tokens at multiples of 8 that receive so many times as much attention as others."""
    positions = np.arange(40)
    received = np.where(positions % 8 == 0, ratio, 1.0)
    rest = {"tokens": 40, "uniform": 1.0}
    whole = pd.DataFrame({"position": positions, "all": received, **rest})
    period = pd.DataFrame({"residue": positions[:8], "all": received[:8], **rest})
    frames = {
        "position_bias": whole,
        "position_bias_period": period,
        "position_bias_heads": pd.DataFrame({"layer": [0], "head": [0]}),
    }
    return tables(frames)


def listed(times: float) -> Frames:
    """Tokens that are on so many times as many lists as by chance."""
    rows = [
        {"direction": way, "layers": "all", "rank": rank, "string": str(rank), "chance": 10.0}
        for way in ("attended", "attending")
        for rank in range(3)
    ]
    return tables({"topk_types": pd.DataFrame(rows).assign(count=10 * times, both=False)})


def looking(difference: float) -> Frames:
    """Heads that attend to the previous token by so much more than uniform attention."""
    frame = pd.DataFrame({"layer": [0, 0], "head": [0, 1]})
    value = {"previous": 0.1 + difference, "previous_uniform": 0.1, "previous_error": 0.001}
    return tables({"surface": frame.assign(**value)})


CASES: dict[str, tuple[str, str, Frames, Frames]] = {
    "a model at chance": (
        "explanations",
        "The model is right on 16 of 40 texts (majority class: 20): explanations of its predictions"
        " carry no weight.",
        explained(40, 0.4),
        explained(40, 0.9),
    ),
    "few explained texts": (
        "explanations",
        "Token attribution (12 explained texts)",
        explained(12, 0.9),
        explained(40, 0.9),
    ),
    "four dev texts": (
        "finetune",
        "(4 dev texts)",
        tuned(4, 0.9),
        tuned(40, 0.9),
    ),
    "a fine-tuned model at chance": (
        "finetune",
        "On dev, the fine-tuned model is right on 20 of 40 texts (majority class: 20)",
        tuned(40, 0.5),
        tuned(40, 0.9),
    ),
    "test texts in training": (
        "topology",
        "Topology: 3 test texts also appear in the training data",
        shapes(3, 0.9),
        shapes(0, 0.9),
    ),
    "the topology of a model at chance": (
        "topology",
        "The model is right on 18 of 40 texts (majority class: 20)",
        shapes(0, 0.45),
        shapes(0, 0.9),
    ),
    "test texts among those to choose on": (
        "syntax",
        "Syntax: 2 test texts also appear in the selection set",
        probed(2, 0.3),
        probed(0, 0.3),
    ),
    "repeating positions": (
        "position_bias",
        "Position embeddings repeat every 8 tokens",
        repeating(3.0),
        repeating(1.0),
    ),
    "all bars at chance, without claims": (
        "topk",
        "Nothing beyond the control: Most attended tokens.",
        listed(1.0),
        listed(2.0),
    ),
    "all claims at chance": (
        "syntax",
        "Nothing beyond the control: ",
        probed(0, 0.01),
        probed(0, 0.3),
    ),
    "effects too small to tint": (
        "surface",
        "Effects too small to tint or to matter: Attention targets (below 0.02).",
        looking(0.01),
        looking(0.3),
    ),
}


@pytest.mark.parametrize(("name", "words", "planted", "clean"), CASES.values(), ids=CASES)
def test_a_warning_is_raised_where_it_is_due(
    name: str, words: str, planted: Frames, clean: Frames
) -> None:
    section = {name: SECTIONS[name]}
    assert [line for line in warnings(planted, section) if words in line]
    assert not warnings(clean, section)


@pytest.mark.parametrize(("name", "at_chance"), [("topk", listed(1.0)), ("syntax", probed(0, 0.0))])
def test_a_section_at_chance_has_the_verdict_that_folds_it(name: str, at_chance: Frames) -> None:
    section = SECTIONS[name]
    found = section_findings(at_chance, name, section)
    assert verdict_of(at_chance, section, found) == "nothing beyond chance"
