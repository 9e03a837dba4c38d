"""Where in attention relations are: by direction, layer and number of heads; which are similar.

Each number has a control: the same reader on random weights and on hidden states, as many heads
drawn at random, classes merged at random. Every reader is a job of its own, so that an interrupted
run loses one of them at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform
from scipy.stats import hypergeom

from attlas.experiments.workspace import Workspace
from attlas.models import Model
from attlas.relations.answers import Answers
from attlas.relations.baselines import Surface
from attlas.relations.features import ATTENTION, RANDOM, Part
from attlas.relations.fitting import Labelled, Readers, fit_readers
from attlas.relations.head_selection import heads_order
from attlas.relations.reading import Sample
from attlas.stats.chance import REFITS, TESTS, p_value, permutations
from attlas.stats.choose import ranked_places
from attlas.stats.correlations import spearman
from attlas.stats.linear import LinearReader, by_macro_f1, fit_reader, whitening
from attlas.stats.scores import codes_of, confusion, f1
from attlas.support.arrays import Array as Floats
from attlas.support.errors import MeasureError

FEW = (0.03, 0.3)  # penalties tried for parts of the features
MERGED = (0.3,)  # the penalty for merged classes
COUNTS = (1, 2, 4, 8, 16, 32)  # heads
CLASSES = (0.8, 0.6, 0.4, 0.25, 0.15, 0.08)  # shares of the relations that are left when merged
TOP = 10  # heads of a relation that may be shared
PAIRS = 30  # of relations that share heads, in the table
LINKAGES = ("cosine", "ward")
STATES, STATES_FEW = "hidden_states", "hidden_states_few"
States = tuple[npt.NDArray[np.float16], ...]  # of train and dev, or none: case part layer size


class Sides(NamedTuple):
    """What readers are fitted to and what they are scored on."""

    train: Labelled
    dev: Labelled

    def with_columns(self, columns: npt.NDArray[Any]) -> Sides:
        """The same cases with some of their features."""
        return Sides(self.train.with_columns(columns), self.dev.with_columns(columns))


def interpreted(
    work: Workspace,
    train: Part,
    dev: Part,
    readers: Mapping[str, Readers],
    names: Mapping[str, str],
) -> dict[str, pd.DataFrame]:
    """Directions, layers, heads, and which relations are similar."""
    own, random = (Sides(train.features[name], dev.features[name]) for name in (ATTENTION, RANDOM))
    each = (part.sample.vectors.states for part in (train, dev))
    states = tuple(one for one in each if one is not None)
    shape, seed = (train.model.n_layers, train.model.n_heads), train.setup.seed
    pair = readers[ATTENTION]
    path, entered = path_table(work, own, shape, seed)
    heads, shared = heads_table(pair.named, shape, names)
    by_reader = {name: readers[name].named for name in (ATTENTION, RANDOM)}
    directions = train.setup.read_directions
    return {
        "relations_directions": directions_table(work, own, random, pair, directions),
        "relations_layers": layers_table(work, own, random, states, shape),
        "relations_depth": depth_table(pair, shape),
        "relations_path": path,
        "relations_entered": entered,
        "relations_tree": merges_frame(pair.named, names),
        "relations_merged": merged_table(work, own, pair.named, seed),
        "relation_heads": heads,
        "relations_shared": shared,
        "relations_likeness": similarity_table(train.model, train.sample, by_reader),
    }


# directions


def directions_table(
    work: Workspace, own: Sides, random: Sides, readers: Readers, directions: Sequence[str]
) -> pd.DataFrame:
    """The weight of each direction, and the scores of it alone and of the others without it.

    `weight` is the mean of |coefficient| on standardised features (for relations summed over the
    classes), as in Chizhikova et al. 2022.
    """
    numbers, common = list(range(len(directions))), (len(directions), own, random)
    scores = work.map(direction_scores, numbers, common=common, what="directions")
    related, named = (weights.reshape(len(directions), -1).mean(1) for weights in _sizes(readers))
    rows = [
        {
            "direction": name,
            "weight_related": float(related[number]),
            "weight_named": float(named[number]),
            **scores[number],
        }
        for number, name in enumerate(directions)
    ]
    return pd.DataFrame(rows)


def direction_scores(number: int, count: int, own: Sides, random: Sides) -> dict[str, float]:
    """Scores of readers of one direction, of all others, and of the one with random weights."""
    columns = np.arange(own.train.features.shape[1]).reshape(count, -1)
    alone, others = columns[number], np.delete(columns, number, 0).reshape(-1)
    parts = {"alone": own.with_columns(alone), "without": own.with_columns(others)}
    parts["alone_random"] = random.with_columns(alone)
    return {
        f"{score}_{way}": value
        for way, sides in parts.items()
        if sides.train.features.shape[1]
        for score, value in _both_scores(sides).items()
    }


def _both_scores(sides: Sides) -> dict[str, float]:
    """Binary accuracy and F1 of both readers of some features."""
    readers = fit_readers(*sides, grid=FEW)
    dev = sides.dev
    yes = readers.related_chances(dev.features) >= 0.5
    rows, relations = dev.related_cases
    named, gold = readers.named.predict(rows), np.array(relations, dtype=np.str_)
    one_text = np.zeros(len(yes), dtype=np.int64)
    scores = Answers(one_text, dev.related, yes == dev.related, gold, named).scores()
    return {name: scores[name] for name in ("binary_accuracy", "f1")}


def _sizes(readers: Readers) -> tuple[Floats, Floats]:
    """|coefficient| of each standardised feature in both readers, summed over relations."""
    coef = readers.related.coef
    related = np.abs((coef[1] - coef[0]) * readers.related.scale)
    return related, np.abs(readers.named.importance).sum(0)


# layers


def depth_table(readers: Readers, shape: tuple[int, int]) -> pd.DataFrame:
    """The weight of each layer in the readers: the mean of |coefficient|, standardised."""
    related, named = (weights.reshape(-1, *shape).mean((0, 2)) for weights in _sizes(readers))
    layers = np.arange(shape[0])
    return pd.DataFrame({"layer": layers, "weight_related": related, "weight_named": named})


def layers_table(
    work: Workspace, own: Sides, random: Sides, states: States, shape: tuple[int, int]
) -> pd.DataFrame:
    """F1 of each relation by readers of one layer: columns `layer reader relation f1`.

    Of its attention, of random weights' attention, of the hidden states after it, and of as many
    principal axes of those as attention has features.
    """
    kinds = (ATTENTION, RANDOM, *((STATES, STATES_FEW) if states else ()))
    jobs = [(layer, kind) for layer in range(shape[0]) for kind in kinds]
    rows = work.map(layer_rows, jobs, common=(own, random, states, shape), what="layers")
    return pd.DataFrame([row for part in rows for row in part])


def layer_rows(
    job: tuple[int, str], own: Sides, random: Sides, states: States, shape: tuple[int, int]
) -> list[dict[str, Any]]:
    """F1 of each relation by a reader of one layer."""
    layer, kind = job
    if kind in (ATTENTION, RANDOM):
        sides = own if kind == ATTENTION else random
        features = (side.features for side in sides)
        parts = [_flat(one.reshape(len(one), -1, *shape)[:, :, layer]) for one in features]
    else:
        parts = [_flat(part[:, :, layer + 1]).astype(np.float32) for part in states]
    if kind == STATES_FEW:
        parts = _principal(parts, own.train.features.shape[1] // shape[0])
    train, dev = (side._replace(features=part) for side, part in zip(own, parts, strict=True))
    reader = fit_reader(*train.related_cases, dev.related_cases, by_macro_f1, FEW)
    rows, gold = dev.related_cases
    relations, (labels, guesses) = codes_of(np.array(gold), reader.predict(rows))
    table = confusion(labels, guesses, len(relations))
    return [
        {"layer": layer, "reader": kind, "relation": str(relation), "f1": float(reached)}
        for relation, reached, cases in zip(relations, f1(table), table.sum(1), strict=True)
        if cases
    ]


def _flat(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[case, ...] -> [case, feature]."""
    return values.reshape(len(values), -1)


def _principal(parts: Sequence[Floats], few: int) -> list[Floats]:
    """Features along the principal axes of the first part that vary most: as many as `few`."""
    mean, scale, _ = whitening(parts[0])
    standard = [((part - mean) / scale).astype(np.float32) for part in parts]
    spread = (standard[0].T @ standard[0]).astype(np.float64)
    axes = np.linalg.eigh(spread)[1][:, ::-1][:, :few].astype(np.float32)
    return [part @ axes for part in standard]


# heads


def path_table(
    work: Workspace, own: Sides, shape: tuple[int, int], seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """F1 by how many heads are read, next to as many drawn at random; and `layer head entered`.

    Heads are those that a penalty on whole heads lets in first.
    """
    maps = shape[0] * shape[1]
    order = work.cached(entry_order, *own.train.related_cases, maps)
    counts = [*(count for count in COUNTS if count < maps), maps]
    groups = []
    for count in counts:
        draws = REFITS if count < maps else 0
        random = permutations(maps, draws, (seed, count))[:, :count].tolist()
        groups.append([sorted(heads) for heads in (order[:count], *random)])
    scores = _against_random(work, f1_of_heads, groups, (own, maps), "heads")
    rows = [{"heads": count, **row} for count, row in zip(counts, scores, strict=True)]
    entered = {"layer": np.array(order) // shape[1], "head": np.array(order) % shape[1]}
    return pd.DataFrame(rows), pd.DataFrame({**entered, "entered": np.arange(len(order))})


def entry_order(features: Floats, relations: list[str], maps: int) -> list[int]:
    """The order in which heads enter, all directions of a head together."""
    return heads_order(features, relations, _head_of_feature(features, maps))


def f1_of_heads(heads: list[int], own: Sides, maps: int) -> float:
    """F1 of a reader of some heads."""
    columns = np.isin(_head_of_feature(own.train.features, maps), heads)
    sides = own.with_columns(columns)
    return _named_f1(sides.train.related_cases, sides.dev.related_cases, FEW)


def _head_of_feature(features: Floats, maps: int) -> npt.NDArray[np.int64]:
    return np.tile(np.arange(maps), features.shape[1] // maps)


def _named_f1(
    train: tuple[Floats, list[str]], dev: tuple[Floats, list[str]], grid: Sequence[float]
) -> float:
    reader = fit_reader(*train, dev, by_macro_f1, grid)
    return by_macro_f1(reader, dev[0], np.array(dev[1]))


def _against_random(
    work: Workspace,
    score: Callable[..., float],
    groups: Sequence[Sequence[list[int]]],
    common: tuple[Any, ...],
    what: str,
) -> list[dict[str, float]]:
    """The F1 of the first job of each group, compared with the others, which are random."""
    jobs = [job for group in groups for job in group]
    scores = iter(work.map(score, jobs, common=common, what=what))
    rows = []
    for group in groups:
        own, *others = islice(scores, len(group))
        random = others or [own]
        row = {"f1": own, "f1_random": float(np.mean(random))}
        rows.append(row | {"f1_random_low": min(random), "f1_random_high": max(random)})
    return rows


def heads_table(
    reader: LinearReader, shape: tuple[int, int], names: Mapping[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The heads with most weight for each relation, and pairs of relations that share them.

    `share` is of a relation's weight; `share_uniform`, if all heads had the same weight. Pairs
    are those that share more of their TOP heads than chance gives.
    """
    layers, heads = shape
    weights = reader.by_map(layers * heads)
    share = weights / weights.sum(1, keepdims=True)
    top = np.stack([ranked_places(row.reshape(shape))[:TOP] for row in share])
    rows = [
        {
            "relation": name,
            "name": names.get(name, ""),
            "rank": rank,
            "layer": int(head) // heads,
            "head": int(head) % heads,
            "share": float(share[number, head]),
            "share_uniform": 1 / (layers * heads),
        }
        for number, name in enumerate(reader.classes)
        for rank, head in enumerate(top[number, :5])
    ]
    return pd.DataFrame(rows), _shared_table(reader.classes, top, layers * heads, names)


def _shared_table(
    classes: Sequence[str], top: npt.NDArray[Any], maps: int, names: Mapping[str, str]
) -> pd.DataFrame:
    """The pairs of relations that have most heads in common, with the chance of as many."""
    count = min(TOP, maps)
    sets = [set(row.tolist()) for row in top]
    pairs = [
        (len(sets[one] & sets[other]), one, other)
        for one in range(len(sets))
        for other in range(one + 1, len(sets))
    ]
    best = sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2]))[:PAIRS]
    rows = [
        {
            "left": classes[one],
            "right": classes[other],
            "left_name": names.get(classes[one], ""),
            "right_name": names.get(classes[other], ""),
            "shared": both,
            "shared_uniform": count**2 / maps,
            "p": float(hypergeom.sf(both - 1, maps, count, count)),
            "pairs": len(pairs),
        }
        for both, one, other in best
    ]
    return pd.DataFrame(rows)


# which relations are similar


def merges(reader: LinearReader, method: str = "cosine") -> Floats:
    """Agglomerative clustering of relations by their coefficients: scipy's linkage matrix.

    Cosine distance and average linkage, or Ward's.
    """
    if method not in LINKAGES:
        raise MeasureError(
            f"relations cannot be clustered by {method!r}; choose {' or '.join(LINKAGES)}"
        )
    vectors = reader.importance
    if method == "ward":
        return np.asarray(linkage(vectors, "ward"))
    return np.asarray(linkage(pdist(vectors, "cosine"), "average"))


def merges_frame(reader: LinearReader, names: Mapping[str, str]) -> pd.DataFrame:
    """Both dendrograms as tables: each row joins two nodes at a distance.

    Relations are the first nodes, in the order of the reader's classes.
    """
    count = len(reader.classes)
    labels = [names.get(name, name) for name in reader.classes]
    rows = []
    for method in LINKAGES:
        for number, (left, right, distance, size) in enumerate(merges(reader, method)):
            rows.append(
                {
                    "linkage": method,
                    "node": count + number,
                    "left": int(left),
                    "right": int(right),
                    "left_name": labels[int(left)] if left < count else "",
                    "right_name": labels[int(right)] if right < count else "",
                    "distance": float(distance),
                    "size": int(size),
                }
            )
    return pd.DataFrame(rows)


def merged_table(work: Workspace, own: Sides, reader: LinearReader, seed: int = 0) -> pd.DataFrame:
    """F1 of readers of fewer classes, as the tree merges them, next to merging at random.

    Groups at random have the same sizes: fewer classes alone are easier.
    """
    count, tree = len(reader.classes), merges(reader)
    wanted = sorted({round(count * share) for share in CLASSES} - {0, 1, count}, reverse=True)
    groupings = [np.arange(count), *(fcluster(tree, classes, "maxclust") for classes in wanted)]
    merged = []
    for number, groups in enumerate(groupings):
        if len(set(groups.tolist())) > 1:
            draws = permutations(count, REFITS, (seed, wanted[number - 1])) if number else ()
            merged.append([groups.tolist(), *(groups[order].tolist() for order in draws)])
    common = (own, list(reader.classes))
    scores = _against_random(work, f1_of_groups, merged, common, "merged relations")
    rows = [
        {"classes": len(set(own_groups)), **row}
        for (own_groups, *_), row in zip(merged, scores, strict=True)
    ]
    return pd.DataFrame(rows)


def f1_of_groups(groups: list[int], own: Sides, classes: list[str]) -> float:
    """F1 of a reader of merged classes."""
    group = dict(zip(classes, map(str, groups), strict=True))
    rows, relations = own.train.related_cases
    others, tuned = own.dev.related_cases
    known = np.array([name in group for name in tuned], dtype=bool)
    dev = [group[name] for name in tuned if name in group]
    return _named_f1((rows, [group[name] for name in relations]), (others[known], dev), MERGED)


def similarity_table(
    model: Model,
    sample: Sample,
    readers: Mapping[str, LinearReader],
    seed: int = 0,
    draws: int = TESTS,
) -> pd.DataFrame:
    """Do relations with similar coefficients have similar words?

    Spearman's correlation of the distances between relations, with a permutation test. Words are
    the mean input embeddings of a relation's phrases. With random weights, words alone correlate.
    """
    cases = [case for case in sample.cases if case.related]
    if cases[0].words is None:
        return pd.DataFrame(columns=["reader", "correlation", "p"])
    vectors = Surface(sample.texts).embeddings(cases, model)
    words = vectors.reshape(len(cases), 3, -1)[:, 2]
    names = np.array(sample.relations)
    rows = []
    for name, reader in readers.items():
        count = len(reader.classes)
        if count < 4:
            continue
        mean = np.array([words[names == relation].mean(0) for relation in reader.classes])
        square, upper = squareform(pdist(reader.importance, "cosine")), np.triu_indices(count, 1)
        by_words = pdist(mean, "cosine")
        correlation = spearman(square[upper], by_words)
        orders = permutations(count, draws, seed)
        permuted = [spearman(square[order][:, order][upper], by_words) for order in orders]
        p = p_value(correlation, permuted)
        rows.append({"reader": name, "correlation": correlation, "p": p, "relations": count})
    return pd.DataFrame(rows)
