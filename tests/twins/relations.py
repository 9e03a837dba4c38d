"""Slow twins of relations."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from attlas.relations import extraction
from attlas.relations.reading import FLOOR
from attlas.relations.vectors import DIRECTIONS


def units_slowly(head, members, mean):
    tokens = [[token for token, mine in enumerate(unit) if mine] for unit in members]
    out = [[0.0] * len(tokens) for _ in tokens]
    for one, queries in enumerate(tokens):
        for other, keys in enumerate(tokens):
            for query in queries:
                for key in keys:
                    out[one][other] += head[query][key] / (len(queries) if mean else 1)
    return out


def jaccard_slowly(one, other):
    if one in other or other in one:
        return True
    both = [character for character in set(one + other) if character in one and character in other]
    return 1 - len(both) / len(set(one + other)) < 0.4


def scores_slowly(text, found, gold, strict, relation):
    """Right predictions and found triples of one text, counted one by one."""
    right, hits, taken = 0, set(), set()
    for one in found:
        ok = False
        for number, triple in enumerate(gold):
            pairs = [(one.head, triple.head), (one.tail, triple.tail)]
            if one.words and triple.words:
                pairs.append((one.words, triple.words))
            if strict:
                same = all(left == right_ for left, right_ in pairs) and number not in taken
            else:
                same = all(
                    jaccard_slowly(text[slice(*left)], text[slice(*right_)])
                    for left, right_ in pairs
                )
            if same and (not relation or one.relation == triple.relation):
                ok = True
                hits.add(number)
                if strict:
                    taken.add(number)
                    break
        right += ok
    return right, len(hits)


def places_slowly(text, spans):
    """How many words of a text begin at or before each span."""
    starts = [start for start, _ in extraction.word_spans(text)]
    return [sum(start <= span[0] for start in starts) for span in spans]


def candidates_slowly(extractor, sentence, units, reach):
    """The probability of every candidate, from its vector: {(head, tail): {words: probability}}."""
    spans, count = units.spans, len(sentence.nominal)
    place = places_slowly(sentence.text, spans)
    found: dict[tuple[int, int], dict[int, float]] = {}
    keys, vectors = [], []
    for head, tail in permutations(range(count), 2):
        for words in range(count, len(spans)) if extractor.uses_relation_words_ else [None]:
            parts = [head, tail] if words is None else [head, tail, words]
            if not all(units.seen[part] for part in parts):
                continue
            if not all(
                spans[a][1] <= spans[b][0] or spans[b][1] <= spans[a][0]
                for a in parts
                for b in parts
                if a != b
            ):
                continue
            if any(abs(place[a] - place[b]) > reach for a in parts for b in parts):
                continue
            at = {"h": head, "t": tail, "r": words}
            names = extractor.directions or (
                DIRECTIONS if extractor.uses_relation_words_ else ("h-t", "t-h")
            )
            vector = np.concatenate([units.weights[at[name[0]], at[name[2]]] for name in names])
            keys.append((head, tail, words))
            vectors.append(
                vector if extractor.convention == "published" else np.log(vector + FLOOR)
            )
    chances = extractor.readers_.related.probabilities(np.array(vectors))[:, 1] if vectors else []
    for (head, tail, words), chance in zip(keys, chances, strict=True):
        found.setdefault((head, tail), {})[words] = float(chance)
    return found
