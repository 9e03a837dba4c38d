"""Windows: documents split between sentences, with their mentions and dependency trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from attlas.core.annotations import (
    COREFERENCE,
    DEPENDENCIES,
    ROOT,
    WHERE,
    Coreference,
    Dependencies,
    dependencies_of,
)
from attlas.core.text import Text
from attlas.coreference.baselines import mentions_of, scored
from attlas.models import Model
from attlas.support.errors import MeasureError

TOKENS = 128  # of a window in Clark et al. 2019


@dataclass(frozen=True)
class Cut:
    """The windows of documents and what is lost between them.

    `scored` counts the documents' mentions that have an antecedent; of these, `out_of_reach` have
    none in their own window. `across` are mentions that lie in no window as a whole.
    """

    texts: list[Text]
    documents: int = 0  # with mentions
    mentions: int = 0
    across: int = 0
    scored: int = 0
    out_of_reach: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """All but the windows."""
        return {name: value for name, value in vars(self).items() if name != "texts"}


def windows(model: Model, documents: Iterable[Text], tokens: int | None = TOKENS) -> Iterator[Text]:
    """The windows of each document in turn; `cut` also counts what is lost."""
    for document in documents:
        yield from cut_document(model, document, tokens).texts


def cut(model: Model, documents: Iterable[Text], tokens: int | None = TOKENS) -> Cut:
    """All windows of some documents, and the counts."""
    parts = [cut_document(model, document, tokens) for document in documents]
    counts = {name: sum(part.counts[name] for part in parts) for name in Cut([]).counts}
    return Cut([text for part in parts for text in part.texts], **counts)


def cut_document(model: Model, document: Text, tokens: int | None = TOKENS) -> Cut:
    """A document in windows of as many sentences as fit into `tokens` and into the model.

    Special tokens are counted; None: as many as fit into the model. A sentence that is longer makes
    a window by itself. Sentences are measured one by one: where a tokenizer treats the first word
    of a text differently (byte pairs without a leading blank) a window can be a token or two
    longer. Without mentions a document stays whole.
    """
    annotated = mentions_of(document)
    if annotated is None:
        return Cut([document])
    words, coreference = annotated
    starts = sorted({0, *(start for start in coreference.sentences if 0 < start < len(words))})
    room = _room(model, tokens)
    first = [0] if room is None else packed(_lengths(model, words, starts), room)
    begins = [starts[number] for number in first]
    texts = [
        _window(document, words, coreference, number, start, stop)
        for number, (start, stop) in enumerate(pairwise([*begins, len(words)]))
    ]
    inside = [text.annotations[COREFERENCE] for text in texts]
    kept, before = sum(len(part.mentions) for part in inside), len(scored(coreference))
    after = sum(len(scored(part)) for part in inside)
    return Cut(
        texts,
        1,
        len(coreference.mentions),
        len(coreference.mentions) - kept,
        before,
        before - after,
    )


def packed(lengths: Sequence[int], room: int) -> list[int]:
    """Which sentences begin a window, if as many as there is room for go into one.

    >>> packed([3, 4, 9, 1, 1], 7)
    [0, 2, 3]
    """
    begins: list[int] = []
    used = 0
    for number, length in enumerate(lengths):
        if not begins or used + length > room:
            begins.append(number)
            used = 0
        used += length
    return begins


def _room(model: Model, tokens: int | None) -> int | None:
    """How many tokens a window has for words; None if there is no limit."""
    limits = [limit for limit in (tokens, model.max_length) if limit is not None]
    if not limits:
        return None
    special = int(model.tokenizer.num_special_tokens_to_add())
    if min(limits) <= special:
        raise MeasureError(
            f"windows of {min(limits)} tokens hold no word next to {special} special tokens; "
            f"give tokens of {special + 1} or more, or None"
        )
    return min(limits) - special


def _lengths(model: Model, words: Sequence[str], starts: Sequence[int]) -> list[int]:
    """How many tokens each sentence has, without special ones."""
    sentences = [
        (number, Text(str(number), words=tuple(words[start:stop])))
        for number, (start, stop) in enumerate(pairwise([*starts, len(words)]))
    ]
    special = model.tokenizer.num_special_tokens_to_add()
    return [len(encoded) + encoded.truncated_by - special for encoded in model.encode(sentences)]


def _window(
    document: Text,
    words: Sequence[str],
    coreference: Coreference,
    number: int,
    start: int,
    stop: int,
) -> Text:
    """The words of a document from `start` up to `stop` as a text of their own."""
    annotations: dict[str, Any] = {COREFERENCE: _mentions(coreference, start, stop)}
    tree = dependencies_of(document.annotations)
    if tree is not None:
        annotations[DEPENDENCIES] = _tree(tree, start, stop)
    if WHERE in document.annotations:
        annotations[WHERE] = document.annotations[WHERE]
    return Text(
        f"{document.id}#{number}",
        words=tuple(words[start:stop]),
        label=document.label,
        annotations=annotations,
    )


def _mentions(coreference: Coreference, start: int, stop: int) -> Coreference:
    """The mentions that lie wholly within some words, and the sentences that begin there.

    Both are counted from the first of these words.
    """
    mentions = tuple(
        replace(one, start=one.start - start, stop=one.stop - start, head=one.head - start)
        for one in coreference.mentions
        if start <= one.start and one.stop <= stop
    )
    begins = {0, *(begin - start for begin in coreference.sentences if start <= begin < stop)}
    return replace(coreference, mentions=mentions, sentences=tuple(sorted(begins)))


def _tree(tree: Dependencies, start: int, stop: int) -> Dependencies:
    """The dependencies of some words, counted from the first of them; a head outside is ROOT."""
    heads = tuple(head - start if start <= head < stop else ROOT for head in tree.heads[start:stop])
    return Dependencies(heads, tree.relations[start:stop], tree.tags[start:stop])
