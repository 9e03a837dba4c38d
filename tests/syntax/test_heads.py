"""Heads that find syntactic relations: chosen on some sentences, scored on others."""

from __future__ import annotations

import pandas as pd
import pytest

from attlas import Text
from attlas.core.annotations import (
    ROOT,
)
from attlas.support.errors import CorpusError
from attlas.syntax import SyntaxHeads
from attlas.syntax.arcs import DIRECTIONS
from attlas.testing import tiny
from tests.builders.probes import PLAIN, best, chained, rigged, sentence, treebank
from tests.twins.syntax import arcs_slowly, between_slowly

# syntax heads: chosen here, scored there


def test_the_rigged_network_looks_where_it_is_told() -> None:
    words = ["the", "dog", "sat", "on", "a", "mat", "with", "cat", "and", "it", "was", "good"]
    strings, weights = between_slowly(rigged(), Text("0", words=tuple(words)))
    cat = strings.index("cat")
    for place in range(3, len(strings) - 2):
        assert weights[0, :, place].argmax(-1).tolist() == [place - 1, place + 1, place - 2, cat]
        assert weights[0, :, place].max(-1).min() > 0.99


def test_head_and_offset_are_chosen_on_the_fitted_sentences_and_scored_on_the_others() -> None:
    before, after = [chained(n, -1) for n in range(5)], [chained(n, 1) for n in range(5, 12)]
    heads = SyntaxHeads(rigged(), min_cases=5, progress=False).fit(before)
    table = heads.evaluate(after).set_index("relation")
    for relation in ("all", "det"):
        row = table.loc[relation]
        assert (row["layer"], row["head"], row["direction"], row["offset"]) == (
            0,
            0,
            DIRECTIONS[0],
            -1,
        )
        assert (row["accuracy"], row["baseline"], row["n"], row["texts"]) == (0, 0, 14, 7)
        assert (row["chosen_accuracy"], row["chosen_n"]) == (1, 10)
    assert heads.score(after) == 0
    assert heads.score(before) == 1
    fitted = heads.chosen_.copy()
    heads.evaluate(after)
    pd.testing.assert_frame_equal(heads.chosen_, fitted)  # scoring chooses nothing
    other = (
        SyntaxHeads(rigged(), min_cases=5, progress=False)
        .fit(after)
        .evaluate(after)
        .set_index("relation")
    )
    row = other.loc[
        "det"
    ]  # head 1 looks at the next word, and head 0 is looked at by it: the lower head of equals
    assert (row["head"], row["direction"], row["offset"], row["accuracy"]) == (
        0,
        DIRECTIONS[1],
        1,
        1,
    )


def test_as_published_head_and_offset_are_chosen_on_the_sentences_they_are_scored_on() -> None:
    before, after = [chained(n, -1) for n in range(5)], [chained(n, 1) for n in range(5, 12)]
    for heads in (
        SyntaxHeads,
        lambda *given, **options: SyntaxHeads(*given, **options).fit(before),
    ):
        table = heads(rigged(), convention="published", min_cases=5, progress=False).evaluate(after)
        row = table.set_index("relation").loc["det"]
        assert (row["head"], row["direction"], row["offset"]) == (0, DIRECTIONS[1], 1), (
            "the lower head of equals"
        )
        assert (row["accuracy"], row["baseline"]) == (1, 1)
        assert (row["chosen_accuracy"], row["chosen_n"]) == (1, row["n"])
        assert not {"root", "punct"} & set(table["relation"]), (
            "they count among all, and have no row"
        )


def test_a_head_that_finds_a_relation_wherever_it_stands_is_above_every_offset() -> None:
    heads = SyntaxHeads(rigged(), min_cases=10, progress=False).fit(treebank(25, 1))
    table = heads.evaluate(treebank(25, 2)).set_index("relation")
    assert table.loc["obj", ["layer", "head", "direction", "accuracy"]].tolist() == [
        0,
        3,
        DIRECTIONS[0],
        1,
    ]
    assert table.loc["obj", "baseline"] < 0.5
    assert table.loc["obj", "difference_low"] > 0
    assert table.loc["det", ["head", "offset", "baseline", "difference"]].tolist() == [0, -1, 1, 0]
    assert table.loc["nmod:of", "accuracy"] < 0.7


@pytest.mark.parametrize(
    ("family", "convention"), [("bert", "sound"), ("gpt2", "sound"), ("bert", "published")]
)
def test_every_number_of_the_table_is_that_of_loops(family: str, convention: str) -> None:
    model = tiny(family, **({"num_hidden_layers": 2} if family == "bert" else {"n_layer": 2}))
    words = (*PLAIN, "unseeing", "x1", ".")  # some of several tokens
    train, test = treebank(9, 3, words), treebank(7, 4, words)
    published = convention == "published"
    there = arcs_slowly(model, test, published)
    here = there if published else arcs_slowly(model, train)
    least = 15
    heads = SyntaxHeads(model, convention=convention, min_cases=least, progress=False).fit(train)
    table = heads.evaluate(test)
    sizes = {
        name: [len(next(iter(part.get(name, [{0: []}])[0].values()))) for part in (here, there)]
        for name in here
    }
    listed = [name for name, both in sizes.items() if min(both) >= least]
    assert sorted(table["relation"]) == sorted(listed)
    assert len(listed) < len(there)  # some are too few
    assert table["relation"].iloc[0] == "all"
    assert table["n"].iloc[1:].is_monotonic_decreasing
    right = total = 0.0
    for row in table.to_dict("records"):
        name = row["relation"]
        (direction, layer, head), chosen = best(here[name][0])
        answers = there[name][0][row["direction"], row["layer"], row["head"]]
        assert row["chosen_accuracy"] == pytest.approx(chosen)
        mine = here[name][0][row["direction"], row["layer"], row["head"]]
        assert sum(mine) / len(mine) == pytest.approx(chosen)  # one of the best, the first of them
        assert (row["direction"], row["layer"], row["head"]) == (direction, layer, head)
        offset, _ = best(here[name][1])
        assert row["offset"] == offset
        assert row["accuracy"] == pytest.approx(sum(answers) / len(answers))
        assert row["baseline"] == pytest.approx(sum(there[name][1][offset]) / len(answers))
        assert row["difference"] == pytest.approx(row["accuracy"] - row["baseline"])
        assert row["low"] <= row["accuracy"] <= row["high"]
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]
        assert (row["n"], row["chosen_n"]) == (sizes[name][1], sizes[name][0])
        if name != "all":
            right, total = right + sum(answers), total + len(answers)
    assert heads.score(test) == pytest.approx(right / total)


def test_relations_with_too_few_cases_here_or_there_are_not_listed() -> None:
    def one(name: int, *relations: str) -> Text:
        size = len(relations)
        return sentence(name, PLAIN[:size], [ROOT, *range(size - 1)], ["root", *relations[1:]])

    few_here = [one(n, "root", "det", "obj") for n in range(3)] + [one(9, "root", "amod")]
    few_there = [one(n, "root", "det", "amod") for n in range(20, 23)] + [one(29, "root", "obj")]
    heads = SyntaxHeads(rigged(), min_cases=3, progress=False).fit(few_here)
    assert sorted(heads.chosen_["relation"]) == ["all", "det", "obj"]
    assert heads.evaluate(few_there)["relation"].tolist() == ["all", "det"]
    with pytest.raises(CorpusError, match=r"no relation has 100 cases; .*--min-cases"):
        SyntaxHeads(rigged(), progress=False).fit(few_here)
