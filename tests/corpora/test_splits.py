"""Splits, texts on both sides of one, and the order of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st

from attlas.core.text import Text
from attlas.corpora.splits import (
    check_labels_known,
    label_codes,
    label_names,
    ordered_labels,
    overlap,
    split,
    split_indices,
    text_digests,
)
from attlas.support.errors import CorpusError

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "A", "a b"]), max_size=12)


def texts_of(words: Sequence[str], ids: str = "") -> list[Text]:
    return [Text(f"{ids}{number}", word, "x") for number, word in enumerate(words)]


@given(WORDS, WORDS)
def test_an_overlap_counts_distinct_texts_by_content(first: list[str], second: list[str]) -> None:
    train, test = texts_of(first), texts_of(second, "test")
    expected = sum(word in first for word in dict.fromkeys(second))
    assert overlap(train, test) == overlap(test, train) == expected
    assert overlap(sorted(text_digests(train)), test) == expected


def test_texts_that_share_a_checksum_are_two_texts() -> None:
    one, two = Text("a", "plumless"), Text("b", "buckeroo")  # the same CRC32
    assert one.number == two.number
    assert overlap([one], [two]) == 0
    assert overlap([one], [Text("c", words=("plumless",), label="x")]) == 1


ITEMS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["x", "y", "z", None])), max_size=40)
SHARES = st.floats(0.01, 0.99)


def of_groups(groups: Sequence[object], labels: Sequence[object]) -> dict[object, object]:
    """The label of each group, by loops: that of its first item."""
    out: dict[object, object] = {}
    for group, label in zip(groups, labels, strict=True):
        if group not in out:
            out[group] = label
    return out


@given(ITEMS, SHARES, st.integers(0, 9), st.booleans())
def test_a_split_is_disjoint_complete_in_order_and_by_label(
    items: list[tuple[int, str | None]], share: float, seed: int, has_labels: bool
) -> None:
    groups, labels = [group for group, _ in items], [label for _, label in items]
    rest, part = split_indices(groups, labels if has_labels else None, share, seed)
    assert sorted([*rest, *part]) == list(range(len(items)))
    assert sorted(rest) == [*rest]
    assert sorted(part) == [*part]
    one, two = ({groups[index] for index in side} for side in (rest, part))
    assert not one & two
    n = len({*groups})
    total = 0 if n < 2 else min(n - 1, max(1, round(share * n)))
    assert len(two) == total
    label_of = of_groups(groups, labels if has_labels else [None] * len(groups))
    sizes, taken = Counter(label_of.values()), Counter(label_of[group] for group in two)
    for label, size in sizes.items():
        assert abs(taken[label] - total * size / n) <= 1
    spare = [label for label, size in sizes.items() if taken[label] == total * size // n < size - 1]
    emptied = [label for label, size in sizes.items() if taken[label] == size]
    assert not (spare and emptied)  # a label's last text goes only if there is no other


@given(ITEMS, SHARES, st.integers(0, 9))
def test_texts_are_split_by_their_content(
    items: list[tuple[int, str | None]], share: float, seed: int
) -> None:
    texts = [Text(str(n), f"text {group}", label) for n, (group, label) in enumerate(items)]
    if len({text.text for text in texts}) < 2:
        with pytest.raises(CorpusError, match="two different texts are needed"):
            split(texts, share, seed)
        return
    rest, part = split(iter(texts), share, seed)
    assert rest
    assert part
    assert overlap(rest, part) == 0
    assert rest == [text for text in texts if text not in part]
    assert part == [text for text in texts if text not in rest]
    assert split(texts, share, seed) == (rest, part)


@given(SHARES, st.integers(0, 9))
def test_two_texts_are_one_and_one(share: float, seed: int) -> None:
    rest, part = split([Text("a", "One.", "x"), Text("b", "Two.", "y")], share, seed)
    assert (len(rest), len(part)) == (1, 1)


def test_every_text_is_set_aside_as_often_as_any_other() -> None:
    labels = ["x"] * 6 + ["y"] * 4
    taken = Counter(
        int(one) for seed in range(2000) for one in split_indices(range(10), labels, 0.5, seed)[1]
    )
    for count in taken.values():
        assert abs(count - 1000) < 5 * (2000 * 0.25) ** 0.5


NUMBERS = st.lists(st.integers(-20, 120), min_size=1, max_size=30)


@given(NUMBERS)
def test_labels_that_are_numbers_are_in_the_order_of_numbers(numbers: list[int]) -> None:
    names = [str(number) for number in numbers]
    ordered = ordered_labels(names)
    assert ordered.tolist() == [str(number) for number in sorted({*numbers})]
    assert ordered_labels(numbers).tolist() == sorted({*numbers})
    assert ordered[label_codes(names, ordered)].tolist() == names
    assert ordered_labels([*names, "b"]).tolist() == sorted({*names, "b"})


def test_labels_of_other_parts_must_be_known() -> None:
    train = [Text(str(n), f"text {n}", str(n)) for n in (11, 0, 2)]
    assert label_names(train, dev=train[:1], test=[]) == ["0", "2", "11"]
    with pytest.raises(
        CorpusError,
        match=r"test has labels that no training text has: 3, 4; add .* remove .* from test",
    ):
        label_names(
            train, dev=train, test=[Text("x", "a", "4"), Text("y", "b", "3"), Text("z", "c", "0")]
        )
    with pytest.raises(CorpusError, match=r"all texts have the label 11; .* two labels"):
        label_names(train[:1])
    check_labels_known("dev", np.array([1, 0]), np.array([0, 1, 2]))
    with pytest.raises(CorpusError, match="dev has labels that no training text has: 5"):
        check_labels_known("dev", np.array([5]), np.array([0, 1, 2]))
