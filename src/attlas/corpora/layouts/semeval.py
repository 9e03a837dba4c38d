"""SemEval-2010 Task 8: one relation between two nominals per sentence (Hendrickx et al. 2010)."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

from attlas.core.annotations import RELATIONS, Relations
from attlas.corpora.layouts.base import Fields, Layout, name_of, string_of
from attlas.corpora.layouts.triples import listed_triples, relations_of
from attlas.support.errors import CorpusError

_TAG = re.compile(r"</?e[12]>")
_TAGGED = (["<e1>", "</e1>", "<e2>", "</e2>"], ["<e2>", "</e2>", "<e1>", "</e1>"])


def semeval(row: Fields) -> tuple[str, Relations]:
    """Text and relation of a row with `relation` and a `sentence` with `<e1>` and `<e2>`.

    The head is e1 and the tail e2, whichever comes first; the relation keeps its direction.

    >>> sentence = "A <e1>baker</e1> baked <e2>bread</e2>."
    >>> semeval({"sentence": sentence, "relation": "Product-Producer(e2,e1)"})[0]
    'A baker baked bread.'
    """
    sentence, relation = string_of(row, "sentence"), name_of(row, "relation")
    tags = _TAG.findall(sentence)
    if tags not in _TAGGED:
        raise CorpusError(
            f"its 'sentence' has the tags {' '.join(tags) or 'none'}; it must have one "
            "<e1>...</e1> and one <e2>...</e2>, not nested"
        )
    pieces = _TAG.split(sentence)
    ends = list(accumulate(map(len, pieces)))
    spans = (ends[0], ends[1]), (ends[2], ends[3])
    head, tail = spans if tags == _TAGGED[0] else spans[::-1]
    text = "".join(pieces)
    triple = {"head": head, "tail": tail, "relation": relation}
    return text, relations_of(listed_triples(text, [triple]))


SEMEVAL = Layout(
    RELATIONS, "sentence", lambda row: "relation" in row and _is_tagged(row["sentence"]), semeval
)


def _is_tagged(sentence: Any) -> bool:
    return isinstance(sentence, str) and _TAG.search(sentence) is not None
