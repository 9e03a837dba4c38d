"""Slow twins of measures. `head` is one head's square matrix, `visible` what its queries see."""

from __future__ import annotations

import math

from attlas.measures.special_gradient import COLUMNS
from tests.twins.attention import n_visible_queries, row_entropy, uniform


def surface(head, cls, sep, punctuation):
    """Clark et al. 2019, figure 2: masked attention over the number of rows it could come from;
    NaN if there is no such row or token."""
    n = len(head)
    rest = [not mark for mark in sep]

    def share(cells, rows):
        return sum(head[query][key] for query, key in cells) / rows if rows else math.nan

    def cells(queries, keys):
        return [
            (query, key) for query in range(n) for key in range(n) if queries[query] and keys[key]
        ]

    every = [True] * n
    return [
        share([(query, query) for query in range(n)], n),
        share([(query, query - 1) for query in range(1, n)], n),
        share([(query, query + 1) for query in range(n - 1)], n),
        share([(query, 0) for query in range(n)], n),
        share(cells(every, cls), n if any(cls) else 0),
        share(cells(every, sep), n if any(sep) else 0),
        share(cells(sep, sep), sum(sep)),
        share(cells(rest, sep), sum(rest) if any(sep) else 0),
        share(cells(every, punctuation), n),
    ]


def by_length(values):
    """Mean and standard error of pairs (tokens, value) of texts by length, up to the longest: rows
    of from, to, mean, error, texts."""
    out, start = [], 1
    while start <= max(tokens for tokens, _ in values):
        stop = 2 * start - 1
        chosen = [value for tokens, value in values if start <= tokens <= stop]
        n = len(chosen)
        mean = sum(chosen) / n if n else math.nan
        error = math.nan
        if n > 1:
            error = math.sqrt(sum((value - mean) ** 2 for value in chosen) / (n - 1) / n)
        out.append([start, stop, mean, error, n])
        start *= 2
    return out


def totals(layers, visibles):
    """Of one text, [layer][head][query][key] and [layer][query][key]: by token `all`, `uniform`,
    `all_per_query`, `L0`, ..., `L0_per_query`, ..."""
    n = len(visibles[0])
    out = []
    for token in range(n):
        got = [sum(row[token] for head in heads for row in head) / len(heads) for heads in layers]
        even = [sum(row[token] for row in uniform(visible)) for visible in visibles]
        per_query = [
            total / n_visible_queries(visible)[token]
            for total, visible in zip(got, visibles, strict=True)
        ]
        out.append(
            [
                sum(got) / len(got),
                sum(even) / len(even),
                sum(per_query) / len(per_query),
                *got,
                *per_query,
            ]
        )
    return out


def sizes_slowly(gradient, visible, tokens):
    """Mean size of the gradient over the weights that a query can give to each sort of token:
    [column] of one head."""
    marks = {
        "sep": [token == "[SEP]" for token in tokens],
        "cls": [token == "[CLS]" for token in tokens],
        "punctuation": [token in (".", ",") for token in tokens],
        "other": [token not in ("[SEP]", "[CLS]", ".", ",") for token in tokens],
        "all": [True for _ in tokens],
    }
    n, out = len(tokens), []
    for name in COLUMNS:
        found = [
            abs(gradient[query][key])
            for query in range(n)
            for key in range(n)
            if visible[query][key] and marks[name][key]
        ]
        out.append(sum(found) / len(found) if found else math.nan)
    return out


def entropy_below_uniform(head, visible):
    """How far the mean entropy of the rows of one head is below that of uniform attention."""
    gaps = [
        math.log(sum(seen)) - entropy
        for seen, entropy in zip(visible, row_entropy(head), strict=True)
    ]
    return sum(gaps) / len(gaps)


def examples(scores, sampled):
    """The texts at quantiles 0, 1/4, ... of a score of one head, among the sampled ones in the
    order of their keys."""
    order = sorted(sampled, key=lambda text: round(scores[text], 4))
    return [order[math.floor(part * (len(order) - 1) / 4 + 0.5)] for part in range(5)]


def largest_keys(head, visible, k):
    """(query, key) of the k largest visible weights of each row, the first of equals first."""
    out = []
    for query, row in enumerate(head):
        seen = [key for key in range(len(row)) if visible[query][key]]
        out += [(query, key) for key in sorted(seen, key=lambda key: -row[key])[:k]]
    return out


def targets(texts, is_target, is_plain, most, factor):
    """Of one head. `texts` are pairs of what heads, and uniform attention, give each word of a
    text (all of its tokens, a share of all rows), and the words: the columns of `targets`, with
    every other type as a control."""
    means, controls, counts, others = [], [], {}, {}
    for given, even, words in texts:
        mine = [place for place, word in enumerate(words) if is_target(word)]
        if mine:
            means.append(sum(given[place] for place in mine) / len(mine))
            controls.append(sum(even[place] for place in mine) / len(mine))
        for place, word in enumerate(words):
            if is_target(word):
                counts[word] = counts.get(word, 0) + 1
            elif is_plain(word):
                count, mass, uniform = others.get(word, (0, 0.0, 0.0))
                others[word] = count + 1, mass + given[place], uniform + even[place]
    ratios, weights, matched = {}, {}, {}
    for word in sorted(others):
        ratios[word], weights[word] = others[word][1] / others[word][2], 0.0
    for target, count in counts.items():
        far = sorted((abs(math.log(others[word][0] / count)), word) for word in others)
        near = [word for distance, word in far[:most] if distance <= math.log(factor) + 1e-9]
        matched[target] = len(near)
        for word in near:
            weights[word] += count / len(near)
    total = sum(weights.values())
    ratio = sum(weights[word] * ratios[word] for word in ratios) / total
    square = sum((weights[word] / total) ** 2 * (ratios[word] - ratio) ** 2 for word in ratios)
    types_error = square / (1 - sum((weight / total) ** 2 for weight in weights.values()))
    n = len(means)
    uniform = sum(controls) / n

    def error(values):
        mean = sum(values) / n
        return math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)

    def apart(factor):
        return [mean - factor * control for mean, control in zip(means, controls, strict=True)]

    return {
        "target": sum(means) / n,
        "target_uniform": uniform,
        "target_matched": ratio * uniform,
        "target_error": error(means),
        "target_difference_error": error(apart(1)),
        "target_matched_difference_error": math.sqrt(
            error(apart(ratio)) ** 2 + types_error * uniform**2
        ),
        "target_texts": n,
    }, matched
