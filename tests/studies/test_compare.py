"""Two studies of one corpus: paired intervals from their tables alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import stdtrit

import attlas
from attlas.stats.replicates import paired_interval, replicate_error
from attlas.stats.verdicts import Comparison, corrected
from attlas.studies import Study
from attlas.support.errors import StudyError
from attlas.testing import tiny
from tests.builders.texts import sentences

TEXTS = sentences(60, longest=9)
QUIET = {"workers": 1, "progress": False}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Study]:
    """A model and the same with other weights, over the same texts."""
    folder, model = tmp_path_factory.mktemp("pair"), tiny("bert")
    measures = "surface,entropy,betti"
    return (
        attlas.study(model, TEXTS, measures, folder / "own", **QUIET),
        attlas.study(model.randomized(0), TEXTS, measures, folder / "random", **QUIET),
    )


def by_text(model: attlas.Model) -> np.ndarray:
    """The entropy of every text and head: [text, layer, head]."""
    out = []
    for text in TEXTS:
        weights = attlas.attention(model, text).weights.double().numpy()
        rows = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1)
        out.append(rows.mean(-1))
    return np.array(out)


def test_a_paired_interval_is_that_of_differences_text_by_text(pair: tuple[Study, Study]) -> None:
    frame = pair[0].difference(pair[1], "entropy")
    model = tiny("bert")
    apart = (by_text(model) - by_text(model.randomized(0))).reshape(len(TEXTS), -1)
    np.testing.assert_allclose(frame["entropy_difference"], apart.mean(0), rtol=1e-4, atol=1e-6)
    half = (frame["entropy_high"] - frame["entropy_low"]) / 2
    error = pd.DataFrame(apart).sem().to_numpy() * 2.0010  # Student's t of 59 degrees of freedom
    noise = 4 / np.sqrt(2 * 199)  # of the standard deviation of 200 replicates
    assert (np.abs(half / error - 1) < noise + 1 / len(TEXTS)).all()
    assert list(frame.columns[:5]) == [
        "layer",
        "head",
        "entropy_difference",
        "entropy_low",
        "entropy_high",
    ]


def test_pairing_narrows_intervals_where_texts_are_alike_in_both(pair: tuple[Study, Study]) -> None:
    """Entropy depends on the length of a text in most heads of every model."""
    frame, model = pair[0].difference(pair[1], "entropy"), tiny("bert")
    half = (frame["entropy_high"] - frame["entropy_low"]).to_numpy() / 2
    errors = [one.table("entropy")["entropy_error"].to_numpy() for one in pair]
    unpaired = 2.0010 * np.hypot(*errors)
    values = [by_text(one).reshape(len(TEXTS), -1).T for one in (model, model.randomized(0))]
    alike = np.array([np.corrcoef(*both)[0, 1] for both in zip(*values, strict=True)]) > 0.7
    assert alike.mean() > 0.5
    assert (half[alike] < 0.8 * unpaired[alike]).all()


def test_a_study_does_not_differ_from_itself(pair: tuple[Study, Study]) -> None:
    for table in ("surface", "entropy", "betti_heads"):
        frame = pair[0].difference(pair[0], table).drop(columns=["layer", "head"])
        assert (frame.dropna(axis=1, how="all").to_numpy() == 0).all(), table
        assert len(frame.columns) % 6 == 0
    assert (pair[0].difference(pair[1], "betti_heads")["b0@0.1_difference"] != 0).any()
    swapped = pair[1].difference(pair[0], "surface")["self_low"]
    np.testing.assert_allclose(swapped, -pair[0].difference(pair[1], "surface")["self_high"])


def test_differences_are_corrected_for_all_heads_and_columns(pair: tuple[Study, Study]) -> None:
    """Intervals are as wide as Benjamini and Yekutieli's, by loops; more comparisons widen them."""
    frame, free = pair[0].difference(pair[1], "surface"), len(TEXTS) - 1
    names = [one.removesuffix("_significant") for one in frame if one.endswith("_significant")]
    sizes = []
    for name in names:
        half = (frame[f"{name}_high"] - frame[f"{name}_low"]) / 2
        sizes += list((frame[f"{name}_difference"].abs() / half).dropna())
    widths = [
        stdtrit(free, 1 - 0.025 * rejected / len(sizes)) / stdtrit(free, 0.975)
        for rejected in range(1, len(sizes) + 1)
    ]
    rejected = max(
        (number for number, wide in enumerate(widths, 1) if sum(np.array(sizes) > wide) >= number),
        default=0,
    )
    assert 0 < rejected < len(sizes)
    assert sum(frame[f"{name}_significant"].sum() for name in names) == rejected
    for name in names:
        half = (frame[f"{name}_high"] - frame[f"{name}_low"]) / 2
        wider = (frame[f"{name}_corrected_high"] - frame[f"{name}_corrected_low"]) / 2
        np.testing.assert_allclose(wider, half * widths[rejected - 1], rtol=1e-4)
        low, high = frame[f"{name}_corrected_low"], frame[f"{name}_corrected_high"]
        assert ((low > 0) | (high < 0)).equals(frame[f"{name}_significant"])


def test_noise_is_rarely_significant_after_correction() -> None:
    """Of 100 heads that do not differ some have an interval without zero, hardly any is left."""
    rng, alone, together = np.random.default_rng(0), 0, 0
    for _ in range(20):
        halves = rng.uniform(0.01, 0.1, 100)
        noise = rng.standard_t(59, 100) * halves / stdtrit(59, 0.975)
        comparisons = [
            Comparison(value, 0.0, value - half, value + half, 60, "either")
            for value, half in zip(noise, halves, strict=True)
        ]
        alone += int((np.abs(noise) > halves).any())
        together += int(corrected(comparisons)["significant"].any())
    assert alone == 20
    assert together <= 3


def test_other_parameters_of_a_measure_are_refused(pair: tuple[Study, Study]) -> None:
    dots = attlas.study(tiny("bert"), TEXTS, "surface(punctuation='.')", **QUIET)
    with pytest.raises(StudyError, match=r"of Surface\(punctuation='.'\).* the same parameters"):
        pair[0].difference(dots, "surface")


def test_what_is_not_paired_is_refused(pair: tuple[Study, Study]) -> None:
    other = attlas.study(tiny("bert"), TEXTS[:50], "surface,entropy,totals", **QUIET)
    with pytest.raises(StudyError, match="paired differences need two studies of one corpus"):
        pair[0].difference(other, "surface")
    for table in ("totals", "nothing"):
        with pytest.raises(StudyError, match=f"has no table '{table}.*'; compare tables of heads"):
            other.difference(other, table)
    flat = attlas.study(tiny("bert", num_hidden_layers=1), TEXTS, "surface", **QUIET)
    with pytest.raises(StudyError, match="compare models of one shape"):
        pair[0].difference(flat, "surface")
    stopped = Study(pair[1].folder, {**pair[1].manifest, "counts": {"read": 40}})
    with pytest.raises(StudyError, match=r"read 60 texts of the corpus.* 40; .* the same texts"):
        pair[0].difference(stopped, "surface")


def test_an_error_of_replicates_is_that_of_a_mean() -> None:
    rng, n = np.random.default_rng(0), 30
    values = rng.normal(size=n)
    weights = rng.poisson(1, (n, 20_000))
    replicates = values @ weights / weights.sum(0)
    error = values.std(ddof=1) / np.sqrt(n)
    assert replicate_error(replicates, n) == pytest.approx(error, rel=0.06)  # 1 / n, and noise
    assert np.isnan(replicate_error(replicates, 1))
    assert np.isnan(replicate_error([np.nan, 1.0], n))
    assert replicate_error([*replicates, np.nan], n) == pytest.approx(
        replicate_error(replicates, n)
    )


def test_few_texts_have_wide_intervals() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(2, 200))
    halves = []
    for texts in (2, 5, 30, 1000, 10**6):
        difference, low, high = paired_interval(0.5, 0.25, one, other, texts)
        assert difference == 0.25
        halves.append(float(high - low))
    assert halves == sorted(halves, reverse=True)
    assert halves[-1] / 2 == pytest.approx(1.972 * (one - other).std(ddof=1), rel=1e-3)
