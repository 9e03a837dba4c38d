"""A map of heads: which are similar, which form clusters, and what each does, from tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.manifold import smacof

from attlas.stats.chance import TESTS, p_value, permutations
from attlas.support.arrays import Floats, Ints

HALF, LARGE_SHARE = 0.5, 0.6  # of a row's attention
BROAD = 3.8 / np.log(128)  # of the largest entropy: 3.8 nats in Clark et al., for 128 tokens
OTHER = "other"
# column of `surface`: the share from which a head has that name; the last match wins
BY_SHARE = (("next", "next", HALF), ("previous", "previous", HALF))
BY_TARGET = (
    ("cls", "[CLS]", LARGE_SHARE),
    ("sep", "[SEP]", LARGE_SHARE),
    ("punctuation", "punctuation", LARGE_SHARE),
)


def square(table: pd.DataFrame, column: str = "mean") -> Floats:
    """The table `head_distance` as a matrix [head of all layers, head of all layers]."""
    size = int(np.sqrt(len(table)))
    return table[column].to_numpy(dtype=np.float64).reshape(size, size)


def behaviours(surface: pd.DataFrame, entropy: pd.DataFrame | None = None) -> list[str]:
    """What each head does: next, previous, broad, [CLS], [SEP], punctuation, or other.

    The rule of Clark et al. 2019, where the last match wins. Broad is an entropy above 0.78 of the
    largest possible: their 3.8 nats for texts of 128 tokens, for texts of any length.
    """
    out = np.full(len(surface), OTHER, dtype=object)
    for column, name, share in BY_SHARE:
        out[(surface[column] > share).to_numpy()] = name
    if entropy is not None:
        out[(entropy["entropy"] > BROAD * entropy["entropy_uniform"]).to_numpy()] = "broad"
    for column, name, share in BY_TARGET:
        out[(surface[column] > share).to_numpy()] = name
    return [str(name) for name in out]


def head_map(
    distances: pd.DataFrame,
    surface: pd.DataFrame | None = None,
    entropy: pd.DataFrame | None = None,
    named: Mapping[tuple[int, int], str] | None = None,
    *,
    clusters: int = 8,
    seed: int = 0,
) -> pd.DataFrame:
    """A map of similar heads, one row per head, from the table `head_distance`.

    `x` and `y` are from metric MDS (x is the longer side; `stress` is what two dimensions lose),
    `cluster` and `order` from average linkage, `behaviour` from `behaviours` if `surface` is given,
    overridden by `named` (a relation that a head finds, say).
    """
    means = square(distances)
    heads = distances.drop_duplicates(["layer", "head"]).reset_index(drop=True)
    points, stress = _spread_out(means, seed)
    tree = linkage(squareform(means, checks=False), "average") if len(means) > 1 else None
    behaviour = behaviours(surface, entropy) if surface is not None else [""] * len(heads)
    for (layer, head), name in (named or {}).items():
        behaviour[heads.index[(heads["layer"] == layer) & (heads["head"] == head)][0]] = name
    order, cluster = np.arange(len(means)), np.zeros(len(means), dtype=np.int64)
    if tree is not None:
        order = np.argsort(leaves_list(tree))
        cluster = fcluster(tree, min(clusters, len(means)), "maxclust") - 1
    return pd.DataFrame(
        {
            "layer": heads["layer"],
            "head": heads["head"],
            "x": points[:, 0],
            "y": points[:, 1],
            "stress": stress,
            "cluster": cluster,
            "order": order,
            "mean_uniform": heads["mean_uniform"],
            "behaviour": behaviour,
        }
    )


def _spread_out(means: Floats, seed: int) -> tuple[Floats, float]:
    """Metric MDS in two dimensions: [head, 2], and Kruskal's stress."""
    if len(means) < 3 or not means.any():
        return np.stack([np.arange(len(means)) * float(means.max()), np.zeros(len(means))], 1), 0.0
    settings = {"n_components": 2, "n_init": 5, "max_iter": 1000, "eps": 1e-10}
    points, _ = smacof(means, random_state=seed, normalized_stress=False, **settings)
    points = points - points.mean(0)
    points = points @ np.linalg.svd(points, full_matrices=False)[2].T  # the longer side is x
    points = points * np.where(points[np.abs(points).argmax(0), [0, 1]] < 0, -1, 1)
    lost = np.square(np.linalg.norm(points[:, None] - points, axis=-1) - means).sum()
    return points, float(np.sqrt(lost / max(np.square(means).sum(), 1e-30)))


def neighbours(distances: pd.DataFrame, k: int = 3) -> pd.DataFrame:
    """The k nearest other heads of each head: `layer head rank other_layer other_head mean`."""
    head, columns = ["layer", "head"], ["rank", "other_layer", "other_head", "mean"]
    own = (distances[["other_layer", "other_head"]].to_numpy() == distances[head].to_numpy()).all(1)
    others = distances[~own].sort_values([*head, "mean"], kind="stable")
    rank = others.groupby(head, sort=False).cumcount()
    near = others.assign(rank=rank)[rank < k]
    return near[[*head, *columns]].reset_index(drop=True)


def within_layers(distances: pd.DataFrame, draws: int = TESTS, seed: int = 0) -> dict[str, float]:
    """Mean divergence `within` a layer and `across` layers, with a permutation test.

    The p-value is how often a random assignment of heads to layers gives as large a gap.
    """
    means = square(distances)
    layers = distances.drop_duplicates(["layer", "head"])["layer"].to_numpy()
    pairs = np.triu_indices(len(means), 1)

    def within_and_across(layers: Ints) -> tuple[float, float]:
        same = layers[pairs[0]] == layers[pairs[1]]
        return float(means[pairs][same].mean()), float(means[pairs][~same].mean())

    if len(set(layers)) < 2 or len(layers) == len(set(layers)):
        return dict.fromkeys(("within", "across", "p"), float("nan"))
    within, across = within_and_across(layers)
    permuted = [within_and_across(layers[one]) for one in permutations(len(layers), draws, seed)]
    gaps = [other_across - other_within for other_within, other_across in permuted]
    return {"within": within, "across": across, "p": p_value(across - within, gaps)}
