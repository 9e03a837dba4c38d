"""Texts with labels: all of them have one, and they can be cut in two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from attlas.core.text import Text
from attlas.corpora.read import read
from attlas.support.errors import CorpusError


def labelled(texts: Any, text: str | None = None, label: str | None = "label") -> list[Text]:
    """Texts from anything that `read` takes, each with a label; the first without one is an error.

    >>> [one.label for one in labelled([{"text": "a cat", "label": 1}])]
    ['1']
    """
    corpus = read(texts, text=text, label=label)
    out = list(corpus)
    for one in out:
        if one.label is None:
            raise CorpusError(
                f"text {one.id!r} of {corpus.name} has no label; name the column with label=... (--label)"
            )
    return out


def split(texts: Sequence[Text], share: float, seed: int = 0) -> tuple[list[Text], list[Text]]:
    """The texts without a share of them, and that share; each label by its share.

    Texts with the same words go together, so that none stands on both sides.

    >>> rest, tenth = split([Text(str(n), f"text {n}", "ab"[n % 2]) for n in range(20)], 0.1)
    >>> len(rest), sorted(text.label for text in tenth)
    (18, ['a', 'b'])
    """
    from sklearn.model_selection import train_test_split

    firsts = list({one.text: one for one in texts}.values())
    seldom = {label for label, count in Counter(one.label for one in firsts).items() if count < 2}
    firsts = [one for one in firsts if one.label not in seldom]  # a label's only text stays
    labels = [one.label for one in firsts]
    enough = round(share * len(firsts)) >= len(set(labels)) and len(firsts) - round(share * len(firsts)) >= len(
        set(labels)
    )
    try:
        _, out = train_test_split(firsts, test_size=share, random_state=seed, stratify=labels if enough else None)
    except ValueError as error:
        raise CorpusError(
            f"{len(texts)} texts are too few to set {share:.0%} of them aside; give more, or a dev file"
        ) from error
    away = {one.text for one in out}
    return [one for one in texts if one.text not in away], [one for one in texts if one.text in away]
