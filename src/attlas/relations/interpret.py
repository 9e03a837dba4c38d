"""Where in attention relations are: by direction, by layer, by how many heads; and which relations are alike.

Each number has one beside it that says what it would be without the claim: the same probe on random weights and on hidden states, as many heads drawn
at random, classes merged at random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist
from scipy.stats import hypergeom

from attlas.relations.baselines import Surface
from attlas.relations.evidence import ATTENTION, RANDOM, Evidence
from attlas.relations.reading import Readers, Told, fit_readers
from attlas.relations.vectors import directions_of
from attlas.stats.chance import REFITS, TESTS, p_value, permutations
from attlas.stats.choose import ranked_places
from attlas.stats.correlations import spearman
from attlas.stats.linear import Floats, LinearReader, balanced, by_macro_f1, fit_reader, whitening
from attlas.stats.scores import codes_of, confusion, f1
from attlas.support.errors import MeasureError
from attlas.support.machine import one_thread

Say = Callable[[str], None]
FEW = (0.03, 0.3)  # penalties tried for parts of the features
COUNTS = (1, 2, 4, 8, 16, 32)  # heads
TOP = 10  # heads of a relation that may be shared
LINKAGES = ("cosine", "ward")


def directions_table(train: Evidence, tune: Evidence, readers: Readers, say: Say) -> pd.DataFrame:
    """How much each direction weighs in the readers, what it reads alone, and what the others read without it; random weights beside.

    `weight` is the mean of |coefficient| on standardised features (for relations summed over the classes), as the paper has it.
    """
    names = train.extractor.directions or directions_of(train.extractor.worded_)
    heads = np.arange(train.features(ATTENTION).shape[1]).reshape(len(names), -1)
    related, named = _sizes(readers)
    rows = []
    for number, name in enumerate(names):
        say(f"direction {name}")
        mine, others = heads[number], np.delete(heads, number, 0).reshape(-1)
        row = {"direction": name, "weight_related": float(related[mine].mean()), "weight_named": float(named[mine].mean())}  # fmt: skip
        for way, columns in (("alone", mine), ("without", others)):
            if not len(columns):
                continue
            row |= {f"{score}_{way}": value for score, value in _both(train, tune, ATTENTION, columns).items()}
        row |= {f"{score}_alone_random": value for score, value in _both(train, tune, RANDOM, mine).items()}
        rows.append(row)
    return pd.DataFrame(rows)


def _sizes(readers: Readers) -> tuple[Floats, Floats]:
    """|coefficient| of each standardised feature, in the reader of related or not and, summed over the classes, in that of relations."""
    related = np.abs((readers.related.coef[1] - readers.related.coef[0]) * readers.related.scale)
    return related, np.abs(readers.named.importance).sum(0)


def _both(train: Evidence, tune: Evidence, name: str, columns: npt.NDArray[Any]) -> dict[str, float]:
    """Binary accuracy and F1 of readers of some of the features."""
    x, y = train.features(name)[:, columns], tune.features(name)[:, columns]
    made = fit_readers((x, train.own), (y, tune.own), grid=FEW)
    scores = Told.by(made, y, tune.own).scores()
    return {"binary_accuracy": scores["binary_accuracy"], "f1": scores["f1"]}


def depth_table(readers: Readers, shape: tuple[int, int]) -> pd.DataFrame:
    """How much each layer weighs in the readers: the mean of |coefficient| on standardised features, for relations summed over the classes."""
    by_layer = [weights.reshape(-1, *shape).mean((0, 2)) for weights in _sizes(readers)]
    return pd.DataFrame({"layer": np.arange(shape[0]), "weight_related": by_layer[0], "weight_named": by_layer[1]})


def layers_table(train: Evidence, tune: Evidence, say: Say) -> pd.DataFrame:
    """F1 of each relation by readers of one layer: of its attention, of random weights' attention, of the hidden states after it, and of as many
    principal axes of those as attention has features: columns `layer reader relation f1`."""
    layers, heads = train.extractor.shape_
    rows: list[dict[str, Any]] = []
    for layer in range(layers):
        say(f"layer {layer}")
        for name in (ATTENTION, RANDOM):
            parts = [of.features(name).reshape(len(of.own.cases), -1, layers, heads)[:, :, layer].reshape(len(of.own.cases), -1) for of in (train, tune)]  # fmt: skip
            rows += _layer_rows(layer, name, parts, train, tune)
        if train.own.vectors.states is None or tune.own.vectors.states is None:
            continue
        states = [of.own.vectors.states[:, :, layer + 1].reshape(len(of.own.cases), -1).astype(np.float32) for of in (train, tune) if of.own.vectors.states is not None]  # fmt: skip
        rows += _layer_rows(layer, "hidden_states", states, train, tune)
        few = len(train.features(ATTENTION)[0]) // layers
        rows += _layer_rows(layer, "hidden_states_few", _principal(states, few), train, tune)
    return pd.DataFrame(rows)


def _principal(parts: Sequence[Floats], few: int) -> list[Floats]:
    """Features along the principal axes of the first part that spread most: as many as `few`."""
    mean, scale, _ = whitening(parts[0])
    standard = ((parts[0] - mean) / scale).astype(np.float32)
    axes = np.linalg.eigh((standard.T @ standard).astype(np.float64))[1][:, ::-1][:, :few].astype(np.float32)
    return [((part - mean) / scale).astype(np.float32) @ axes for part in parts]


def _layer_rows(layer: int, name: str, parts: Sequence[Floats], train: Evidence, tune: Evidence) -> list[dict[str, Any]]:  # fmt: skip
    mine, theirs = train.own.related, tune.own.related
    reader = _named(parts[0][mine], train.own.relations, parts[1][theirs], tune.own.relations)
    gold = np.array(tune.own.relations)
    relations, (labels, guesses) = codes_of(gold, reader.predict(parts[1][theirs]))
    table = confusion(labels, guesses, len(relations))
    return [
        {"layer": layer, "reader": name, "relation": str(relation), "f1": float(reached)}
        for relation, reached, cases in zip(relations, f1(table), table.sum(1), strict=True)
        if cases
    ]


def _named(x: Floats, names: Sequence[str], y: Floats, told: Sequence[str], grid: Sequence[float] = FEW) -> LinearReader:  # fmt: skip
    return fit_reader(x, names, (y, told), by_macro_f1, grid)


@one_thread()
def heads_order(x: Floats, names: Sequence[str], groups: npt.NDArray[np.int64], steps: int = 40, points: int = 24) -> list[int]:  # fmt: skip
    """The order in which heads enter as a penalty on whole heads (group lasso) is weakened; those that never enter follow by their weight.

    `groups` is the head of each feature. Features are standardised and whitened within a head, so that heads with few or alike features are not favoured.
    """
    classes = np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)[1].astype(np.int64)
    heads = int(groups.max()) + 1
    inner = np.zeros(x.shape, dtype=np.float32)
    for head in range(heads):
        mine = groups == head
        mean, scale, axes = whitening(x[:, mine])
        inner[:, mine] = ((x[:, mine] - mean) / scale) @ axes
    data, y = torch.from_numpy(inner), torch.from_numpy(classes)
    share, of = torch.from_numpy(balanced(classes).astype(np.float32)), torch.from_numpy(groups)
    weighed = data * share.sqrt()[:, None]
    rate = 1 / (0.5 * float(torch.linalg.eigvalsh(weighed.T @ weighed)[-1]))  # of the loss' curvature, bounded
    count = int(classes.max()) + 1
    w, bias = torch.zeros(data.shape[1], count), torch.zeros(count)
    target = torch.zeros(len(y), count)
    target[torch.arange(len(y)), y] = 1

    def gradient(w: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        residual = (torch.softmax(torch.addmm(bias, data, w), 1) - target) * share[:, None]
        return data.T @ residual, residual.sum(0)

    def sizes(w: torch.Tensor) -> torch.Tensor:
        return torch.zeros(heads).index_add_(0, of, w.square().sum(1)).sqrt()

    most = float(sizes(gradient(w, bias)[0]).max())
    order: list[int] = []
    for penalty in np.geomspace(most * 0.95, most * 0.01, points):
        ahead, ahead_bias, pace = w.clone(), bias.clone(), 1.0
        for _ in range(steps):
            slope, slope_bias = gradient(ahead, ahead_bias)
            moved = ahead - rate * slope
            norms = sizes(moved).clamp(min=1e-12)
            new = moved * (1 - rate * penalty / norms).clamp(min=0)[of][:, None]
            new_bias = ahead_bias - rate * slope_bias
            after = (1 + (1 + 4 * pace * pace) ** 0.5) / 2
            ahead, ahead_bias = new + (pace - 1) / after * (new - w), new_bias + (pace - 1) / after * (new_bias - bias)
            w, bias, pace = new, new_bias, after
        size = sizes(w)
        entered = [head for head in torch.argsort(-size, stable=True).tolist() if size[head] > 0 and head not in order]
        order += entered
        if len(order) == heads:
            break
    rest = [head for head in torch.argsort(-sizes(w), stable=True).tolist() if head not in order]
    return order + rest


def path_table(train: Evidence, tune: Evidence, say: Say, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """F1 by how many heads are read, those that a penalty on whole heads lets in first, beside as many drawn at random; and the order: `layer head entered`."""
    layers, heads = train.extractor.shape_
    mine, theirs = train.own.related, tune.own.related
    x, y = train.features(ATTENTION)[mine], tune.features(ATTENTION)[theirs]
    of = np.tile(np.arange(layers * heads), x.shape[1] // (layers * heads))
    say("the order of heads")
    order = heads_order(x, train.own.relations, of)
    rows = []
    for count in [count for count in COUNTS if count < layers * heads] + [layers * heads]:
        say(f"{count} heads")

        def f1(chosen: Sequence[int]) -> float:
            columns = np.isin(of, chosen)
            reader = _named(x[:, columns], train.own.relations, y[:, columns], tune.own.relations)
            return by_macro_f1(reader, y[:, columns], np.array(tune.own.relations))

        alone = f1(order[:count])
        drawn = [f1(row[:count].tolist()) for row in permutations(layers * heads, REFITS, (seed, count))] if count < layers * heads else [alone]  # fmt: skip
        rows.append({"heads": count, "f1": alone, "f1_random": float(np.mean(drawn)), "f1_random_low": min(drawn), "f1_random_high": max(drawn)})  # fmt: skip
    entered = pd.DataFrame({"layer": np.array(order) // heads, "head": np.array(order) % heads, "entered": np.arange(len(order))})  # fmt: skip
    return pd.DataFrame(rows), entered


def merges(reader: LinearReader, method: str = "cosine") -> Floats:
    """Agglomerative clustering of relations by their coefficient vectors: scipy's linkage matrix, cosine distance and average linkage, or Ward's."""
    if method not in LINKAGES:
        raise MeasureError(f"relations cannot be clustered by {method!r}; choose {' or '.join(LINKAGES)}")
    vectors = reader.importance
    found: Floats = linkage(vectors, "ward") if method == "ward" else linkage(pdist(vectors, "cosine"), "average")
    return found


def merges_frame(reader: LinearReader, names: dict[str, str]) -> pd.DataFrame:
    """Both dendrograms as tables: each row joins two nodes (relations are the first ones, in the order of the reader's classes) at a distance."""
    rows = []
    count = len(reader.classes)
    for method in LINKAGES:
        for number, (left, right, distance, size) in enumerate(merges(reader, method)):
            label = [names.get(reader.classes[int(node)], reader.classes[int(node)]) if node < count else "" for node in (left, right)]  # fmt: skip
            rows.append({"linkage": method, "node": count + number, "left": int(left), "right": int(right), "left_name": label[0], "right_name": label[1], "distance": float(distance), "size": int(size)})  # fmt: skip
    return pd.DataFrame(rows)


def merged_table(train: Evidence, tune: Evidence, reader: LinearReader, say: Say, seed: int = 0) -> pd.DataFrame:
    """F1 of readers of fewer classes, as the tree merges them, beside merging at random into groups of the same sizes: fewer classes alone are easier."""
    count = len(reader.classes)
    tree = merges(reader)
    place = {name: number for number, name in enumerate(reader.classes)}
    mine, theirs = train.own.related, tune.own.related
    x, y = train.features(ATTENTION)[mine], tune.features(ATTENTION)[theirs]
    rows = []
    wanted = sorted({round(count * share) for share in (0.8, 0.6, 0.4, 0.25, 0.15, 0.08)} - {0, 1, count}, reverse=True)

    def f1(groups: npt.NDArray[Any]) -> float:
        learnt = [str(groups[place[name]]) for name in train.own.relations]
        told = [str(groups[place[name]]) for name in tune.own.relations if name in place]
        known = np.array([name in place for name in tune.own.relations], dtype=bool)
        made = _named(x, learnt, y[known], told, (0.3,))
        return by_macro_f1(made, y[known], np.array(told))

    whole = f1(np.arange(count))
    rows.append({"classes": count, "f1": whole, "f1_random": whole, "f1_random_low": whole, "f1_random_high": whole})
    for classes in wanted:
        say(f"{classes} classes")
        groups = fcluster(tree, classes, "maxclust")
        if len(set(groups.tolist())) < 2:
            continue
        drawn = [f1(groups[order]) for order in permutations(count, REFITS, (seed, classes))]
        rows.append(
            {
                "classes": len(set(groups.tolist())),
                "f1": f1(groups),
                "f1_random": float(np.mean(drawn)),
                "f1_random_low": min(drawn),
                "f1_random_high": max(drawn),
            }
        )
    return pd.DataFrame(rows)


def heads_table(reader: LinearReader, shape: tuple[int, int], names: dict[str, str]) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """The heads that weigh most for each relation (`share` of its weight, `share_uniform` if all weighed the same), and the pairs of relations that
    share more of their TOP heads than chance gives."""
    layers, heads = shape
    weights = reader.by_map(layers * heads)
    share = weights / weights.sum(1, keepdims=True)
    top = np.stack([ranked_places(row.reshape(shape))[:TOP] for row in share])
    rows = [
        {"relation": name, "name": names.get(name, ""), "rank": rank, "layer": int(head) // heads, "head": int(head) % heads, "share": float(share[number, head]), "share_uniform": 1 / (layers * heads)}
        for number, name in enumerate(reader.classes)
        for rank, head in enumerate(top[number, :5])
    ]  # fmt: skip
    sets = [set(row.tolist()) for row in top]
    chance = min(TOP, layers * heads) ** 2 / (layers * heads)
    pairs = [
        (len(sets[one] & sets[other]), one, other) for one in range(len(sets)) for other in range(one + 1, len(sets))
    ]
    best = sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2]))[:30]
    shared = [
        {"left": reader.classes[one], "right": reader.classes[other], "left_name": names.get(reader.classes[one], ""), "right_name": names.get(reader.classes[other], ""),
         "shared": both, "shared_uniform": chance, "p": float(hypergeom.sf(both - 1, layers * heads, min(TOP, layers * heads), min(TOP, layers * heads))), "pairs": len(pairs)}
        for both, one, other in best
    ]  # fmt: skip
    return pd.DataFrame(rows), pd.DataFrame(shared)


def likeness(train: Evidence, readers: dict[str, LinearReader], seed: int = 0, draws: int = TESTS) -> pd.DataFrame:
    """How far relations that have like coefficients have like words: Spearman's correlation of the distances between relations, with a permutation test.

    Words are the mean input embeddings of a relation's phrases. For attention, and for random weights: what remains there is words alone.
    """
    surface = Surface(train.own.texts)
    cases = [case for case in train.own.cases if case.related]
    if not train.extractor.worded_:
        return pd.DataFrame(columns=["reader", "correlation", "p"])
    vectors = surface.embeddings(cases, train.extractor.model_)
    words = vectors.reshape(len(cases), 3, -1)[:, 2]
    names = np.array(train.own.relations)
    rows = []
    for name, reader in readers.items():
        mean = np.array([words[names == relation].mean(0) for relation in reader.classes])
        count = len(reader.classes)
        if count < 4:
            continue
        square = np.zeros((count, count))
        upper = np.triu_indices(count, 1)
        square[upper] = pdist(reader.importance, "cosine")
        square += square.T
        by_words = pdist(mean, "cosine")
        found = spearman(square[upper], by_words)
        drawn = [spearman(square[order][:, order][upper], by_words) for order in permutations(count, draws, seed)]
        p = p_value(found, drawn)
        rows.append({"reader": name, "correlation": found, "p": p, "relations": count})
    return pd.DataFrame(rows)
