"""Studies compared: a planted change is named, and identical studies give none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from scipy.spatial.distance import jensenshannon

import attlas
from attlas.catalogue import sections
from attlas.compare.differences import HeadTables, halves, head_changes
from attlas.compare.matching import match_heads, text_divergences
from attlas.core.text import Text
from attlas.stats.welch import Estimate
from attlas.studies import Study
from attlas.support.errors import AttlasError
from attlas.support.fingerprint import fingerprint
from attlas.testing import tiny
from attlas.views.findings import findings, warnings
from attlas.views.section import shown
from tests.builders.processes import CommandOutput
from tests.builders.studies import OLD
from tests.builders.texts import sentences
from tests.twins.stats import beyond_both, welch as slow_welch

TEXTS = sentences(200)
QUIET = {"workers": 1, "progress": False}


def model(off: tuple[int, int] | None = None, seed: int = 0, times: float = 20.0) -> attlas.Model:
    """A tiny model whose heads attend unevenly; one may be switched off: it attends evenly."""
    made = tiny("bert", seed=seed)
    with torch.no_grad():
        for number, layer in enumerate(made.network.encoder.layer):
            query = layer.attention.self.query
            query.weight *= times
            if off is not None and number == off[0]:
                rows = slice(off[1] * 8, (off[1] + 1) * 8)
                assert query.weight.shape[0] == made.n_heads * 8
                query.weight[rows] = 0
                query.bias[rows] = 0
    return replace(made, name="planted" if off else "whole")


def studied(one: attlas.Model, folder: Path, texts: Any = TEXTS) -> Study:
    return attlas.study(one, texts, "surface,entropy", folder, **QUIET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole model, the same with L2H2 switched off, and one with L1H1 switched off."""
    place = tmp_path_factory.mktemp("compare")
    for name, off in (("a", None), ("b", (2, 2)), ("c", (1, 1))):
        studied(model(off), place / name)
    return place


@pytest.fixture(scope="module")
def planted(folder: Path) -> Study:
    return attlas.run(attlas.Compare(studies=[folder / "a", folder / "b"]), **QUIET)


def test_a_head_that_is_switched_off_is_named_and_no_other(planted: Study) -> None:
    """In the last layer, after which no attention follows; corrected, on 200 texts."""
    assert planted.result["heads"] == ["L2H2"]
    assert planted.result["paired"] is True
    assert planted.result["comparisons"] == 12 * 11
    table = planted.table("head_changes")
    others = table[(table["layer"] != 2) | (table["head"] != 2)]
    assert not others["significant"].any()
    found = findings(planted, sections())
    assert found
    assert {one.claim.words.split()[0] for one in found} == {"L2H2"}
    assert found[0].verdict == "signal"
    (grids,) = sections()["compare"].figures(planted)[0].page
    assert grids.data["names"] == ["whole", "planted"]


def test_two_identical_studies_give_no_head(folder: Path, tmp_path: Path) -> None:
    again = studied(model(), tmp_path / "again")
    same = Study.open(folder / "a").compare(again, **QUIET)
    assert same.result["heads"] == []
    assert same.result["significant"] == 0
    assert (same.table("head_changes")["difference"] == 0).all()
    assert findings(same, sections()) == []


def test_earlier_layers_do_not_change_and_later_ones_may(folder: Path) -> None:
    one = attlas.run(attlas.Compare(studies=[folder / "a", folder / "c"]), **QUIET)
    heads = set(one.result["heads"])
    assert "L1H1" in heads
    assert not {name for name in heads if name.startswith(("L0", "L1"))} - {"L1H1"}


def test_paired_differences_are_those_of_the_studies(folder: Path, planted: Study) -> None:
    a, b = (Study.open(folder / name) for name in "ab")
    paired, table = b.difference(a, "entropy"), planted.table("head_changes")
    rows = table[table["column"] == "cls_entropy"]
    for mine, theirs in (
        ("difference", "difference"),
        ("beyond_low", "low"),
        ("beyond_high", "high"),
    ):
        np.testing.assert_array_equal(rows[mine], paired[f"cls_entropy_{theirs}"])
    assert (rows["value_a"].to_numpy() == a.table("entropy")["cls_entropy"].to_numpy()).all()
    assert (rows["uniform_difference"] == 0).all()


def test_other_texts_are_compared_without_pairs(folder: Path, tmp_path: Path) -> None:
    """As by Welch, on the differences from uniform attention; the texts of B are longer."""
    other = studied(model(), tmp_path / "other", sentences(80, seed=3, longest=30))
    one = Study.open(folder / "a").compare(other, **QUIET)
    table = one.table("head_changes")
    assert one.result["paired"] is False
    assert not table["paired"].any()
    entropy = table[(table["column"] == "entropy") & (table["layer"] == 0)]
    assert (entropy["uniform_difference"] > 0.2).all()
    assert table["texts"].max() == 80
    assert any("unpaired" in line for _, part in shown(one, sections()) for line in part.notes(one))


def heads(values: np.ndarray, uniform: np.ndarray) -> pd.DataFrame:
    """A table of two heads from values [text, head], as a measure makes it."""
    apart, n = values - uniform, np.sqrt(len(values))
    return pd.DataFrame(
        {
            "layer": [0, 0],
            "head": [0, 1],
            "one": values.mean(0),
            "one_uniform": uniform.mean(0),
            "one_error": values.std(0, ddof=1) / n,
            "one_difference_error": apart.std(0, ddof=1) / n,
        }
    )


def test_unpaired_changes_are_those_of_a_slow_twin() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.3, 0.1, (40, 2)), rng.normal(0.35, 0.2, (90, 2))
    uniform = rng.normal(0.1, 0.02, (40, 2)), rng.normal(0.2, 0.02, (90, 2))
    tables = HeadTables("mine", *map(heads, values, uniform), (40, 90))
    for head, row in enumerate(head_changes(tables).to_dict("records")):
        apart = [
            (one - other)[:, head].tolist() for one, other in zip(values, uniform, strict=True)
        ]
        without, error, free = slow_welch(apart[1], apart[0])
        half = stats.t.ppf(0.975, np.floor(free)) * error
        own = tuple(row[name] for name in ("difference", "difference_low", "difference_high"))
        ends = beyond_both(own, (without, without - half, without + half))
        found = row["beyond"], row["beyond_low"], row["beyond_high"]
        assert found == pytest.approx(ends, rel=1e-3)
        even = uniform[1][:, head].mean() - uniform[0][:, head].mean()
        assert row["uniform_difference"] == pytest.approx(even)
        assert row["difference"] == pytest.approx(without + even)


def test_halves_are_random_halves_of_the_texts() -> None:
    """95% of the differences between random halves are within the control, by 4,000 draws."""
    rng = np.random.default_rng(1)
    values = rng.gamma(2.0, 1.0, 100)
    draws = [rng.permutation(values) for _ in range(4_000)]
    apart = [one[:50].mean() - one[50:].mean() for one in draws]
    error = np.array([values.std(ddof=1) / 10])
    within = halves(Estimate(values[:1], error, np.array([100.0])))
    assert 0.94 < (np.abs(apart) < within).mean() < 0.965


def test_a_change_that_another_seed_reverses_is_a_warning(folder: Path, tmp_path: Path) -> None:
    """A has the head switched off, B and the seed do not, but one is blunter."""
    studied(model(times=10), tmp_path / "blunt")
    studied(model(times=40), tmp_path / "sharp")
    blunt = Study.open(folder / "a").compare(
        tmp_path / "blunt", seed_study=tmp_path / "sharp", **QUIET
    )
    rows = blunt.table("head_changes")
    rows = rows[(rows["column"] == "entropy") & rows["significant"]]
    assert (rows["difference"] > 0).all()
    assert (rows["seed_difference"] < 0).all()
    assert any("Another training run reverses" in one for one in warnings(blunt, sections()))
    assert "another seed -" in findings(blunt, sections())[0].sentence
    same = Study.open(folder / "a").compare(
        tmp_path / "blunt", seed_study=tmp_path / "blunt", **QUIET
    )
    assert not any("reverses" in one for one in warnings(same, sections()))


def test_a_series_has_every_checkpoint_in_its_order(folder: Path) -> None:
    names = ["a", "c", "b"]
    one = attlas.run(
        attlas.Compare(studies=[folder / name for name in names], series=True), **QUIET
    )
    table = one.table("head_series")
    assert one.result["heads"] == ["L2H2"]  # first and last
    rows = table[(table["column"] == "entropy") & (table["layer"] == 1) & (table["head"] == 1)]
    values = [
        Study.open(folder / name).table("entropy").set_index(["layer", "head"])["entropy"][1, 1]
        for name in names
    ]
    assert rows["value"].tolist() == values
    total = abs(values[1] - values[0]) + abs(values[2] - values[1])
    assert rows["total_change"].tolist() == pytest.approx([total] * 3)
    assert one.result["series"]["studies"] == 3


def swapped(one: attlas.Model) -> attlas.Model:
    """The same model with the heads of every layer in the opposite order."""
    with torch.no_grad():
        for layer in one.network.encoder.layer:
            own = layer.attention
            for part in (own.self.query, own.self.key, own.self.value):
                part.weight.copy_(part.weight.view(4, 8, -1).flip(0).reshape(part.weight.shape))
                part.bias.copy_(part.bias.view(4, 8).flip(0).reshape(-1))
            dense = own.output.dense.weight
            dense.copy_(dense.view(-1, 4, 8).flip(1).reshape(dense.shape))
    return one


def test_heads_that_changed_places_are_matched(folder: Path, tmp_path: Path) -> None:
    studied(swapped(model()), tmp_path / "swapped")
    one = attlas.run(
        attlas.Compare(
            studies=[folder / "a", tmp_path / "swapped"],
            match=True,
            model_a=model(),
            model_b=swapped(model()),
            texts=20,
        ),
        **QUIET,
    )
    pairs = one.table("head_matches")
    assert (pairs["layer"] == pairs["other_layer"]).all()
    assert (pairs["other_head"] == 3 - pairs["head"]).all()
    assert (pairs["divergence"] < 1e-5).all()
    assert pairs["significant"].all()
    assert pairs["stable"].all()
    summary = one.result["matches"]
    assert (summary["nearer_than_any_other"], summary["elsewhere"]) == (12, 12)
    assert summary["texts"] == 10


def test_divergences_are_those_of_scipy() -> None:
    one, other = model(), model(seed=1)
    text = Text("0", "the cat sat on the mat .")
    apart = text_divergences(one, other, [text] * 4)
    rows = [
        attlas.attention(each, text).weights.double().flatten(0, 1).numpy() for each in (one, other)
    ]
    for a in range(12):
        for b in range(12):
            slow = np.mean(jensenshannon(rows[0][a], rows[1][b], axis=-1) ** 2)
            assert apart["between"][0, a, b] == pytest.approx(slow, abs=1e-6)


def test_models_with_other_vocabularies_are_matched_by_word() -> None:
    """Rows are those of words that both see; they still sum to one."""
    one, other = tiny("bert"), tiny("roberta")
    texts = [Text(str(n), row) for n, row in enumerate(sentences(6))]
    apart = text_divergences(one, other, texts)
    assert apart["between"].shape == (6, 12, other.n_layers * other.n_heads)
    assert (apart["between"] <= np.log(2) + 1e-6).all()
    assert np.isfinite(
        match_heads(apart["between"], apart["within"], (4, other.n_heads))["divergence"]
    ).all()


def test_pairs_are_chosen_and_scored_on_different_texts() -> None:
    """Noise alone: pairs chosen on the texts that score them would look nearer than they are."""
    rng = np.random.default_rng(0)
    between = rng.uniform(0.2, 0.6, (40, 12, 12))
    pairs = match_heads(between, rng.uniform(0.2, 0.6, (40, 12, 12)), (4, 4))
    chosen = between[:20, pairs.index, 4 * pairs["other_layer"] + pairs["other_head"]].mean()
    assert chosen < 0.37
    assert pairs["divergence"].mean() == pytest.approx(0.4, abs=0.02)
    assert not pairs["significant"].any()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"studies": ["a"]}, "give two result folders, as in attlas compare A B"),
        ({"studies": ["a", "b", "c"]}, "add --series"),
        ({"studies": ["a", "nothing"]}, "there is no study folder .*nothing"),
        ({"studies": ["a", "small"]}, "3 layers of 4 heads, .* 1 of 4; match heads .*--match"),
        ({"studies": ["a", "other"]}, "no table of heads of the same measure"),
        ({"studies": ["a", "b"], "match": True, "model_b": "whole"}, "--model-b"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    folder: Path, options: dict[str, Any], problem: str
) -> None:
    if "small" in options["studies"] and not (folder / "small").exists():
        studied(tiny("bert", num_hidden_layers=1), folder / "small", TEXTS[:9])
    if "other" in options["studies"] and not (folder / "other").exists():
        attlas.study(model(), TEXTS[:9], "positions", folder / "other", **QUIET)
    named = {**options, "studies": [folder / name for name in options["studies"]]}
    if "model_b" in options:
        named |= {"model_a": model(), "model_b": model()}
    with pytest.raises(AttlasError, match=problem) as error:
        attlas.run(attlas.Compare(**named), **QUIET)
    assert "\n" not in str(error.value)


def test_a_study_is_known_by_its_content(folder: Path, tmp_path: Path) -> None:
    """The same study elsewhere is the same input; one of other texts is not."""
    again = studied(model(), tmp_path / "elsewhere")
    assert fingerprint(again) == fingerprint(Study.open(folder / "a"))
    assert fingerprint(again) != fingerprint(Study.open(folder / "b"))
    fewer = studied(model(), tmp_path / "fewer", TEXTS[:-1])
    assert fingerprint(fewer) != fingerprint(again)
    old = [Study.open(OLD / name) for name in ("study", "study", "syntax")]  # without checksums
    assert len({fingerprint(one) for one in old}) == 2


def test_the_command_and_the_report(
    folder: Path, attlas_command: Callable[..., CommandOutput]
) -> None:
    done = attlas_command("compare", folder / "a", folder / "b", "--out", folder / "ab", "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["heads"] == ["L2H2"]
    page = Path(printed["report"]).read_text()
    assert "Changes:" in page
    assert "attlas/changes.js" in page
    assert Study.open(folder / "ab").manifest["inputs"]["studies"] == {"name": "a, b"}
