"""Train, dev and test: splits, texts on both sides of one, and the order of labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.core.text import Text
from attlas.support.errors import CorpusError
from attlas.support.fingerprint import fingerprint

Indices = npt.NDArray[np.int64]

HELD_OUT = 0.2  # of the texts, where none are given to score on


def split(texts: Iterable[Text], share: float, seed: int = 0) -> tuple[list[Text], list[Text]]:
    """The texts without a share of them, and that share, each in order; see `split_indices`.

    >>> rest, tenth = split([Text(str(n), f"text {n}", "ab"[n % 2]) for n in range(20)], 0.1)
    >>> len(rest), sorted(text.label for text in tenth)
    (18, ['a', 'b'])
    """
    given = list(texts)
    contents = [one.text for one in given]
    rest, part = split_indices(contents, [one.label for one in given], share, seed)
    if not len(part):
        raise CorpusError(
            f"at least two different texts are needed to set some aside, got {len(set(contents))}; "
            "give more texts, or others in a file of their own (--dev, --test)"
        )
    return [given[index] for index in rest], [given[index] for index in part]


def split_indices(
    groups: Sequence[Hashable], labels: Sequence[Hashable] | None, share: float, seed: int = 0
) -> tuple[Indices, Indices]:
    """Indices of all items but a random share of them, and of that share, each in order.

    Items of one group (copies of one text) stay together and have the label of the first of them.
    Of n groups, round(share * n) are in the second part: at least one, and not all; none if there
    are fewer than two groups. Each label has its share of these within one; the last group
    of a label is taken only if no other label has one to spare.

    >>> split_indices("abcabc", None, 0.3, seed=1)
    (array([1, 2, 4, 5]), array([0, 3]))
    """
    firsts: dict[Hashable, int] = {}
    for index, group in enumerate(groups):
        firsts.setdefault(group, index)
    by_label: defaultdict[Hashable, list[Hashable]] = defaultdict(list)
    for group, index in firsts.items():
        by_label[None if labels is None else labels[index]].append(group)
    rng = np.random.default_rng(seed)
    sizes = [len(members) for members in by_label.values()]
    chosen: set[Hashable] = set()
    for members, count in zip(by_label.values(), _label_counts(sizes, share, rng), strict=True):
        chosen.update(members[index] for index in rng.permutation(len(members))[:count])
    is_chosen = np.array([group in chosen for group in groups], dtype=bool)
    return np.flatnonzero(~is_chosen), np.flatnonzero(is_chosen)


def _label_counts(sizes: Sequence[int], share: float, rng: np.random.Generator) -> list[int]:
    """How many groups of each label to take, given how many it has: largest remainders first."""
    n = sum(sizes)
    if n < 2:
        return [0] * len(sizes)
    total = min(n - 1, max(1, round(share * n)))
    counts = [total * size // n for size in sizes]
    order = sorted(
        rng.permutation(len(sizes)).tolist(),
        key=lambda label: (counts[label] + 1 == sizes[label], -(total * sizes[label] % n)),
    )
    for label in order[: total - sum(counts)]:
        counts[label] += 1
    return counts


def overlap(train: Iterable[Text | str], test: Iterable[Text | str]) -> int:
    """The number of distinct texts in `test` that are also in `train`; each Text or its digest.

    >>> overlap([Text("a", "One."), Text("b", "Two.")], [Text("c", "Two."), Text("d", "Two.")])
    1
    """
    return len(text_digests(train) & text_digests(test))


def text_digests(texts: Iterable[Text | str]) -> set[str]:
    """Digests of the distinct texts, whatever their ids, labels and annotations.

    They are enough for `overlap` where the texts themselves are not kept.
    """
    return {one if isinstance(one, str) else fingerprint(one.text) for one in texts}


MOST_LABELS = 1_000
FEW_LABELS = 10  # may all be different, even in few texts


def check_label_column(texts: Sequence[Text], column: str | None) -> None:
    """Refuse labels that differ for almost every text: it is the wrong column.

    >>> check_label_column([Text(str(n), f"text {n}", f"title {n}") for n in range(300)], "title")
    Traceback (most recent call last):
        ...
    attlas.support.errors.CorpusError: 'title' has 300 different labels in 300 texts, such as \
'title 0'; is it the column of the label? name another with label=... (--label)
    """
    names = {str(one.label) for one in texts}
    if len(names) > MOST_LABELS or (len(names) > FEW_LABELS and 2 * len(names) > len(texts)):
        most = f" (at most {MOST_LABELS:,})" if len(names) > MOST_LABELS else ""
        raise CorpusError(
            f"{column or 'label'!r} has {len(names):,} different labels{most} "
            f"in {len(texts):,} texts, such as {str(texts[0].label)[:60]!r}; "
            "is it the column of the label? name another with label=... (--label)"
        )


def label_names(train: Iterable[Text], **others: Iterable[Text]) -> list[str]:
    """The labels of the training texts in order; those of other parts must be among them.

    >>> label_names([Text(str(n), f"text {n}", str(n)) for n in (10, 2, 1)])
    ['1', '2', '10']
    """
    names = [str(name) for name in ordered_labels([str(one.label) for one in train])]
    if len(names) < 2:
        raise CorpusError(
            f"all texts have the label {', '.join(names) or '(none)'}; "
            "a classifier needs at least two labels"
        )
    for part, texts in others.items():
        check_labels_known(part, [str(one.label) for one in texts], names)
    return names


def ordered_labels(labels: npt.ArrayLike) -> npt.NDArray[Any]:
    """The distinct labels in order: as numbers if all are, else as strings.

    >>> ordered_labels(["10", "9", "1", "9"]).tolist(), ordered_labels(["b", "10", "9"]).tolist()
    (['1', '9', '10'], ['10', '9', 'b'])
    """
    names = np.unique(np.asarray(labels))
    if all(map(_is_number, map(str, names))):
        return names[np.argsort([float(str(name)) for name in names], kind="stable")]
    return names


def label_codes(labels: npt.ArrayLike, names: npt.ArrayLike) -> Indices:
    """The number of each label in `names`.

    >>> label_codes(["10", "9", "10"], ["9", "10"])
    array([1, 0, 1])
    """
    codes = {name: code for code, name in enumerate(np.asarray(names).tolist())}
    return np.array([codes[label] for label in np.asarray(labels).tolist()], dtype=np.int64)


def check_labels_known(part: str, labels: npt.ArrayLike, known: npt.ArrayLike) -> None:
    """Refuse labels of dev or test texts that no training text has."""
    unknown = set(np.asarray(labels).tolist()) - set(np.asarray(known).tolist())
    if unknown:
        shown = ", ".join(sorted(map(str, unknown))[:5])
        raise CorpusError(
            f"{part} has labels that no training text has: {shown}; "
            f"add training texts with these labels, or remove their texts from {part}"
        )


def _is_number(name: str) -> bool:
    return name.removeprefix("-").replace(".", "", 1).isdecimal()
