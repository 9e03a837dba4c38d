"""Heads that find antecedents: chosen on some documents, scored on others."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from attlas import Text
from attlas.core.annotations import (
    COREFERENCE,
    KINDS,
)
from attlas.coreference import CoreferenceHeads
from attlas.support.errors import AttlasError, CorpusError
from attlas.testing import tiny
from tests.builders.coreference import make_document
from tests.builders.probes import best, document, rigged, stories
from tests.twins.coreference import antecedents_slowly, candidates_slowly
from tests.twins.syntax import between_slowly, own_words

# coreference heads


def apart(name: object, back: int) -> Text:
    """ "it" names what stands so many words before it."""
    chains = ["d", "c", "f"]
    chains[3 - back] = "same"
    kinds = ("common", "proper", "common")
    return document(
        name,
        "dog mat film it was very good",
        *zip(range(3), chains, kinds, strict=True),
        (3, "same", "pronoun"),
    )


def test_the_head_of_antecedents_is_chosen_on_some_documents_and_scored_on_others() -> None:
    looks = (-1, 1, -2, 2)
    two, one = [apart(n, 2) for n in range(4)], [apart(n, 1) for n in range(6)]
    heads = CoreferenceHeads(rigged(looks), progress=False).fit(two)
    found = heads.evaluate(two).set_index(["who", "kind"])
    for kind in ("all", "pronoun"):
        assert found.loc[("head", kind), ["layer", "head", "direction", "accuracy"]].tolist() == [
            0,
            2,
            "to",
            1,
        ]
        assert found.loc[
            ("head_back", kind), ["layer", "head", "direction", "accuracy"]
        ].tolist() == [0, 3, "from", 1]
        assert found.loc[("nearest", kind), "accuracy"] == 0
    table = heads.evaluate(one).set_index(["who", "kind"])
    for who, head in (("head", 2), ("head_back", 3)):  # still the ones that were chosen
        assert table.loc[(who, "all"), ["head", "accuracy"]].tolist() == [head, 0]
    assert table.loc[("nearest", "all"), "accuracy"] == 1
    assert (table["n"] == 6).all()
    assert heads.score(one) == 0
    assert heads.score(two) == 1
    other = (
        CoreferenceHeads(rigged(looks), progress=False)
        .fit(one)
        .evaluate(one)
        .set_index(["who", "kind"])
    )
    assert other.loc[("head", "all"), ["head", "accuracy"]].tolist() == [0, 1]
    assert other.loc[("head_back", "all"), ["direction", "accuracy"]].tolist() == ["from", 1]


def test_coreference_is_that_of_loops() -> None:
    model, rng = tiny("bert", num_hidden_layers=2), np.random.default_rng(7)
    parts = [
        [make_document(rng, int(rng.integers(8, 20)), f"{part}{n}") for n in range(8)]
        for part in "ab"
    ]
    counted: list[dict[str, dict[tuple[str, int, int], list[bool]]]] = []
    for part in parts:
        right: dict[str, dict[tuple[str, int, int], list[bool]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for text in part:
            own, noted = own_words(model, text), text.annotations[COREFERENCE]
            weights = between_slowly(model, text)[1][:, :, own][:, :, :, own]
            for number, mention in enumerate(noted.mentions):
                gold = {noted.mentions[other].head for other in antecedents_slowly(noted, number)}
                allowed = sorted(
                    {noted.mentions[other].head for other in candidates_slowly(noted, number)}
                )
                if not gold:
                    continue
                for layer, head in np.ndindex(weights.shape[:2]):
                    square = weights[layer, head]
                    for direction, row in (
                        ("to", square[mention.head]),
                        ("from", square[:, mention.head]),
                    ):
                        chosen = max(allowed, key=lambda word: (row[word], -word))
                        for kind in ("all", mention.kind):
                            right[kind][direction, layer, head].append(chosen in gold)
        counted.append(right)
    here, there = counted
    heads = CoreferenceHeads(model, tokens=None, progress=False).fit(parts[0])
    table = heads.evaluate(parts[1])
    assert set(table["kind"]) == {"all", *KINDS}
    for row in table[table["who"].isin(["head", "head_back", "head_by_kind"])].to_dict("records"):
        way = "from" if row["who"] == "head_back" else "to"
        chosen = here[row["kind"] if row["who"] == "head_by_kind" else "all"]
        wanted, _ = best({key: right for key, right in chosen.items() if key[0] == way})
        assert (row["direction"], row["layer"], row["head"]) == wanted, row["who"]
        answers = there[row["kind"]][wanted]
        assert row["accuracy"] == pytest.approx(sum(answers) / len(answers))
        assert row["n"] == len(answers)
        assert row["low"] <= row["accuracy"] <= row["high"]
    rules = table[table["who"] == "rules"].set_index("kind")["accuracy"]
    mine = table[table["who"] == "head"].set_index("kind")
    np.testing.assert_allclose(mine["difference"], mine["accuracy"] - rules[mine.index])


def test_documents_that_cannot_be_scored_are_refused_clearly() -> None:
    model, alone = (
        rigged(),
        [document(n, "dog mat it", (0, "a", "common"), (2, "b", "pronoun")) for n in range(3)],
    )
    with pytest.raises(
        CorpusError, match=r"text 'bare' .*has no coreference; give CoNLL-U with Entity="
    ):
        CoreferenceHeads(model, progress=False).fit([*stories(2), Text("bare", words=("a", "cat"))])
    with pytest.raises(
        CorpusError, match=r"no mention has an antecedent in its window; .*--tokens"
    ):
        CoreferenceHeads(model, progress=False).fit(alone)
    fitted = CoreferenceHeads(model, progress=False).fit(stories(3))
    with pytest.raises(AttlasError, match="antecedent"):
        fitted.score(alone)


def test_what_cutting_documents_loses_is_counted() -> None:
    texts = stories(3)
    whole = CoreferenceHeads(rigged(), tokens=None, progress=False).fit(texts)
    assert (whole.cut_.documents, whole.cut_.scored, whole.cut_.out_of_reach) == (3, 12, 0)
    parts = CoreferenceHeads(rigged(), tokens=16, progress=False).fit(texts)
    assert len(parts.cut_.texts) == 6  # a window a sentence
    assert (
        parts.cut_.out_of_reach == 6
    )  # "it" and "she" have their antecedents in the other sentence; the second dog has "it"
