"""The map of heads: points, clusters, neighbours and behaviours."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform

import attlas
from attlas.catalogue import MEASURES
from attlas.measures.head_distance import HeadDistance
from attlas.measures.head_map import behaviours, head_map, neighbours, square, within_layers
from attlas.measures.section import profiles
from attlas.testing import assert_same, tiny
from tests.builders.heads import TEXTS, joined, run, tables
from tests.builders.studies import table_bytes

# the map of heads


def table_of(means, heads, uniform=0.1):
    """A table `head_distance` of given means."""
    one, other = np.indices(means.shape).reshape(2, -1)
    return pd.DataFrame(
        {
            "layer": one // heads,
            "head": one % heads,
            "other_layer": other // heads,
            "other_head": other % heads,
            "distance": means.reshape(-1) * 50,
            "mean": means.reshape(-1),
            "mean_uniform": uniform + one / 100,
        }
    )


def in_a_plane(seed, count=12):
    points = np.random.default_rng(seed).normal(size=(count, 2)) * [0.3, 0.1]
    return np.linalg.norm(points[:, None] - points, axis=-1)


@pytest.mark.parametrize("seed", range(2))
def test_points_of_a_plane_are_where_they_were(seed):
    means = in_a_plane(seed)
    drawn = head_map(table_of(means, 4))
    places = drawn[["x", "y"]].to_numpy()
    np.testing.assert_allclose(np.linalg.norm(places[:, None] - places, axis=-1), means, atol=2e-3)
    assert drawn["stress"].nunique() == 1
    assert drawn["stress"][0] < 1e-3
    np.testing.assert_allclose(places.mean(0), 0, atol=1e-12)
    assert drawn["x"].std() > drawn["y"].std()
    assert abs(np.corrcoef(places.T)[0, 1]) < 1e-9  # the axes are the main ones
    for axis in ("x", "y"):
        assert (
            drawn[axis].max() == drawn[axis].abs().max()
        )  # the furthest is on the right, and above
    pd.testing.assert_frame_equal(head_map(table_of(means, 4)), drawn)
    other = head_map(table_of(means, 4), seed=seed + 7)[["x", "y"]].to_numpy()
    np.testing.assert_allclose(other, places, atol=5e-3)  # turned and mirrored the same way
    assert drawn["mean_uniform"].tolist() == [0.1 + one / 100 for one in range(12)]
    assert drawn[["layer", "head"]].to_numpy().tolist() == [
        [layer, head] for layer in range(3) for head in range(4)
    ]


def test_stress_is_kruskals_and_says_what_two_dimensions_lose():
    means = 1 - np.eye(8)  # all equally far: no plane holds that
    drawn = head_map(table_of(means, 4))
    places = drawn[["x", "y"]].to_numpy()
    shown = np.linalg.norm(places[:, None] - places, axis=-1)
    expected = math.sqrt(((shown - means) ** 2).sum() / (means**2).sum())
    assert drawn["stress"][0] == pytest.approx(expected)
    assert 0.1 < expected < 0.5


@pytest.mark.parametrize("clusters", [1, 3, 8, 50])
def test_clusters_and_order_are_scipys(clusters):
    means = in_a_plane(5)
    drawn = head_map(table_of(means, 4), clusters=clusters)
    tree = linkage(squareform(means), "average")
    expected = fcluster(tree, min(clusters, 12), "maxclust")
    assert (drawn["cluster"].to_numpy()[:, None] == drawn["cluster"].to_numpy()).tolist() == (
        expected[:, None] == expected
    ).tolist()
    assert drawn["cluster"].nunique() == min(clusters, 12)
    assert drawn["cluster"].min() == 0
    assert drawn.sort_values("order").index.tolist() == leaves_list(tree).tolist()


def test_groups_that_lie_apart_are_the_clusters():
    of = np.arange(12) % 3
    means = np.where(of[:, None] == of, 0.1, 0.6) * ~np.eye(12, dtype=bool)
    drawn = head_map(table_of(means, 4), clusters=3)
    assert (drawn["cluster"].to_numpy()[:, None] == drawn["cluster"].to_numpy()).tolist() == (
        of[:, None] == of
    ).tolist()


def test_neighbours_are_the_nearest_others():
    means = in_a_plane(2)
    means[0, 3] = means[0, 7] = means[3, 0] = means[7, 0] = 1e-4  # a tie
    for k in (1, 3, 20):
        rows = neighbours(table_of(means, 4), k).to_dict("records")
        expected = []
        for one in range(12):
            near = sorted((means[one, other], other) for other in range(12) if other != one)[:k]
            expected += [
                {
                    "layer": one // 4,
                    "head": one % 4,
                    "rank": rank,
                    "other_layer": other // 4,
                    "other_head": other % 4,
                    "mean": mean,
                }
                for rank, (mean, other) in enumerate(near)
            ]
        assert rows == expected


BROAD = 3.8 / math.log(128)  # the paper's 3.8 nats of 128 tokens


RULES = [
    ((0, 0, 0, 0, 0, 0), "other"),
    ((0.51, 0, 0, 0, 0, 0), "next"),
    ((0.5, 0.5, 0.6, 0.6, 0.6, BROAD), "other"),  # more than, not as much as
    ((0, 0.51, 0, 0, 0, 0), "previous"),
    ((0.51, 0.51, 0, 0, 0, 0), "previous"),
    ((0.9, 0.9, 0, 0, 0, 0.79), "broad"),
    ((0, 0, 0.61, 0, 0, 0.9), "[CLS]"),
    ((0.9, 0, 0.61, 0.61, 0, 0.9), "[SEP]"),
    ((0.9, 0.9, 0.9, 0.9, 0.61, 0.9), "punctuation"),
    ((0, 0, math.nan, math.nan, 0, 0.77), "other"),  # a model without marks
]


def test_behaviours_follow_the_papers_rule_and_order():
    surface, entropy = tables([row for row, _ in RULES])
    assert behaviours(surface, entropy) == [name for _, name in RULES]
    without = ["previous" if name == "broad" else name for _, name in RULES]
    assert behaviours(surface) == without
    means = in_a_plane(0, len(RULES))
    named = {(0, 2): "determiner", (0, 8): "coreference"}
    drawn = head_map(table_of(means, len(RULES)), surface, entropy, named)
    assert drawn["behaviour"].tolist() == [
        named.get((0, head), name) for head, (_, name) in enumerate(RULES)
    ]
    drawn = head_map(table_of(means, len(RULES)), named=named)
    assert drawn["behaviour"].tolist() == [named.get((0, head), "") for head in range(len(RULES))]


def test_heads_of_a_layer_are_nearer_where_they_are():
    random = np.random.default_rng(0)
    layer = np.arange(16) // 4
    noise = random.random((16, 16)) * 0.1
    means = np.where(layer[:, None] == layer, 0.2, 0.4) + noise + noise.T
    np.fill_diagonal(means, 0)
    found = within_layers(table_of(means, 4), draws=300)
    pairs = [(one, other) for one in range(16) for other in range(one)]
    same = [means[one, other] for one, other in pairs if layer[one] == layer[other]]
    others = [means[one, other] for one, other in pairs if layer[one] != layer[other]]
    assert found["within"] == pytest.approx(np.mean(same))
    assert found["across"] == pytest.approx(np.mean(others))
    assert found["p"] == 1 / 301  # no random assignment does as well
    assert within_layers(table_of(means, 4), draws=300) == found
    shuffled = []
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(16)
        shuffled.append(
            within_layers(table_of(means[np.ix_(order, order)], 4), draws=99, seed=seed)["p"]
        )
    assert 0.3 < np.mean(shuffled) < 0.7  # even between 0 and 1
    assert np.mean(np.array(shuffled) <= 0.05) <= 0.2


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (1, 2), (2, 1), (3, 1), (2, 2)])
def test_models_of_few_heads_have_a_map(layers, heads, tmp_path):
    model = tiny("bert", num_hidden_layers=layers, num_attention_heads=heads)
    done = attlas.study(
        model, ["a cat sat", "the dog ."], "surface,entropy,head_distance", tmp_path / "study"
    )
    drawn = done.table("head_map")
    count = layers * heads
    assert len(drawn) == count
    assert np.isfinite(drawn[["x", "y", "stress", "mean_uniform"]].to_numpy()).all()
    assert sorted(drawn["order"]) == list(range(count))
    assert len(done.table("head_neighbours")) == count * min(3, count - 1)
    distance = square(done.table("head_distance"))
    if count == 2:
        assert np.hypot(*(drawn[["x", "y"]].diff().iloc[1])) == pytest.approx(distance[0, 1])
    p = within_layers(done.table("head_distance"))["p"]
    assert math.isnan(p) == (layers == 1 or heads == 1)


def test_heads_that_are_all_the_same_have_a_map():
    """As of a causal model whose texts have one token each."""
    drawn = head_map(table_of(np.zeros((6, 6)), 3))
    assert np.abs(drawn[["x", "y"]].to_numpy()).max() < 1e-3
    assert drawn["stress"][0] == pytest.approx(0, abs=1e-6)


def test_texts_of_one_token_have_a_map():
    done = attlas.study(tiny("gpt2"), ["cat", "dog", "mat"], "head_distance")
    assert done.table("head_distance")["mean"].max() < 1e-6
    assert len(done.table("head_map")) == 12


# what follows from the tables of a study


def test_a_map_has_behaviours_where_surface_and_entropy_stand_beside_it(tmp_path):
    model = tiny("bert")
    alone = attlas.study(model, list(TEXTS), "head_distance", tmp_path / "alone")
    assert {"head_distance", "head_map", "head_neighbours"} <= set(alone.tables)
    drawn = alone.table("head_map")
    assert drawn["behaviour"].tolist() == [""] * 12
    assert alone.manifest["tables"]["head_map"]["kind"] == "head"
    assert alone.manifest["tables"]["head_map"]["measure"] == "head_distance"
    assert alone.manifest["tables"]["head_distance"]["rows"] == 144
    for number, asked in enumerate(
        ("head_distance,surface,entropy", "entropy,surface,head_distance")
    ):
        other = attlas.study(model, list(TEXTS), asked, tmp_path / str(number))
        expected = behaviours(other.table("surface"), other.table("entropy"))
        assert other.table("head_map")["behaviour"].tolist() == expected
        assert set(expected) - {"other"}
        pd.testing.assert_frame_equal(
            other.table("head_map").drop(columns="behaviour"), drawn.drop(columns="behaviour")
        )
        atlas = other.atlas()
        assert len(atlas) == 12
        assert atlas["entropy"].equals(other.table("entropy")["entropy"])
    surface = attlas.study(model, list(TEXTS), "surface,head_distance", tmp_path / "surface")
    assert surface.table("head_map")["behaviour"].tolist() == behaviours(surface.table("surface"))
    measure = HeadDistance()
    batches = joined(model, TEXTS)
    assert_same(
        {"": alone.table("head_distance")},
        {"": run(measure, batches, model)["head_distance"]},
        1e-6,
    )
    expected = measure.derive({"head_distance": alone.table("head_distance")})
    pd.testing.assert_frame_equal(expected["head_map"], drawn)
    pd.testing.assert_frame_equal(expected["head_neighbours"], alone.table("head_neighbours"))
    few = HeadDistance(clusters=2).derive({"head_distance": alone.table("head_distance")})[
        "head_map"
    ]
    assert few["cluster"].nunique() == 2


def test_other_measures_derive_nothing():
    for name in MEASURES:
        if name != "head_distance" and "network" not in MEASURES[name].needs:
            assert MEASURES[name]().derive({}) == {}


def test_costly_measures_are_those_that_run_the_model_more_than_once():
    costly = {name for name in MEASURES if MEASURES[name].costly}
    assert costly == {"head_distance", "special_gradient", "importance", "explanations"}
    assert {name for name in MEASURES if MEASURES[name].needs} == costly - {"head_distance"}


def test_a_study_that_was_broken_off_has_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("attlas.studies.run.SHARD_TEXTS", 6)
    model, texts = tiny("bert", "mlm"), [*TEXTS] * 3
    asked, calls, limit = "head_distance,special_gradient,surface,entropy", 0, 0
    make = type(model.encoder).batch

    def counted(*arguments):
        nonlocal calls
        calls += 1
        if calls == limit:
            raise OSError("the machine goes down")
        return make(*arguments)

    monkeypatch.setattr(type(model.encoder), "batch", counted)
    attlas.study(model, texts, asked, tmp_path / "whole", workers=2)
    needed, calls = calls, 0
    limit = needed - 3
    with pytest.raises(OSError, match="goes down"):
        attlas.study(model, texts, asked, tmp_path / "broken", workers=1)
    assert len(list((tmp_path / "broken" / "states").glob("*/entry.json"))) > 1
    limit = -1
    attlas.study(model, texts, asked, tmp_path / "broken", workers=1)
    whole = table_bytes(tmp_path / "whole")
    assert {"head_map.parquet", "head_neighbours.parquet", "special_gradient.parquet"} <= set(whole)
    assert table_bytes(tmp_path / "broken") == whole


def test_what_is_attended_to_has_one_colour_in_all_charts():
    columns = [one for panel in profiles.SURFACE for one in panel]
    heads = {"layer": [0, 1], "head": [0, 0]}
    surface = pd.DataFrame({**heads, **dict.fromkeys(columns, 0.1)})
    sorts = ("sep", "cls", "punctuation", "other")
    gradient = pd.DataFrame({**heads, **dict.fromkeys(sorts, 0.1)})
    drawn = [profiles.surface_by_layer(surface), profiles.gradient_by_layer(gradient)]
    found = {}
    for panel in (panel for chart in drawn for panel in chart.to_dict()["hconcat"]):
        scale = panel["layer"][0]["encoding"]["color"]["scale"]
        for name, colour in zip(scale["domain"], scale["range"], strict=True):
            assert found.setdefault(name, colour) == colour
    assert len(found) == len({*found.values()}) == 9
    (cls,) = profiles.behaviour_colours(["[CLS]"])
    assert cls == found["[CLS]"]
