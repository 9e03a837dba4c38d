"""Shards: parts of a corpus of fixed size, the same for every engine and number of workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from attlas.core.text import Text
from attlas.corpora import BadRow, Corpus
from attlas.support.errors import CorpusError
from attlas.support.fingerprint import Fingerprint, content_of

SHARD_TEXTS = 512
SHARD_CHARACTERS = 2**18
COSTLY_TEXTS, COSTLY_CHARACTERS = 64, 2**15  # if every text takes many passes


@dataclass(frozen=True)
class Shard:
    """Some consecutive rows of a corpus: texts, and rows that are not texts, with their indices."""

    index: int
    texts: tuple[tuple[int, Text], ...]
    bad: tuple[tuple[int, BadRow], ...]
    rows: str  # the fingerprint of its rows, as they were read

    @property
    def n_rows(self) -> int:
        return len(self.texts) + len(self.bad)


def shards(
    corpus: Corpus,
    n_texts: int = SHARD_TEXTS,
    n_characters: int = SHARD_CHARACTERS,
    whole: Fingerprint | None = None,
) -> Iterator[Shard]:
    """Split a corpus; a shard ends when it has this many rows or characters.

    Every row is added to `whole`; without it, for texts whose fingerprint is known, none is hashed.
    """
    index, characters, rows = 0, 0, Fingerprint()
    texts: list[tuple[int, Text]] = []
    bad: list[tuple[int, BadRow]] = []
    for text_index, row in enumerate(corpus.rows()):
        if whole is not None:
            content = content_of(row)
            rows.update(content)
            whole.update(content)
        if isinstance(row, BadRow):
            bad.append((text_index, row))
        else:
            texts.append((text_index, row))
            characters += len(row.text)
        if len(texts) + len(bad) >= n_texts or characters >= n_characters:
            yield Shard(index, tuple(texts), tuple(bad), str(rows))
            index, characters, texts, bad, rows = index + 1, 0, [], [], Fingerprint()
    if texts or bad:
        yield Shard(index, tuple(texts), tuple(bad), str(rows))


@dataclass
class Survey:
    """Row counts, labels and fingerprint of a corpus, read once before anything is written."""

    rows: int = 0
    bad: int = 0
    first_bad: BadRow | None = None
    digest: str = ""
    labels: dict[str, int] = field(default_factory=dict)


def survey_of_texts(texts: Sequence[Text], digest: str) -> Survey:
    """The survey of texts in memory whose fingerprint is known."""
    if not texts:
        raise CorpusError("there are no texts to read")
    labels = Counter(one.label for one in texts if one.label is not None)
    return Survey(len(texts), digest=digest, labels=dict(labels.most_common(100)))


def survey(corpus: Corpus, bad: str = "quarantine") -> Survey:
    """Read a corpus once; a corpus without a single good text is an error."""
    surveyed, digest = Survey(), Fingerprint()
    for row in corpus.rows():
        surveyed.rows += 1
        digest.add(row)
        if isinstance(row, BadRow):
            if bad == "error":
                raise row.error()
            surveyed.bad += 1
            surveyed.first_bad = surveyed.first_bad or row
        elif row.label is not None and (row.label in surveyed.labels or len(surveyed.labels) < 100):
            surveyed.labels[row.label] = surveyed.labels.get(row.label, 0) + 1
    if surveyed.rows == surveyed.bad:
        first = surveyed.first_bad
        reason = f"; the first row: {first.where}: {first.reason}" if first else ""
        raise CorpusError(
            f"{corpus.name} holds no text that can be analysed ({surveyed.rows} rows read){reason}"
        )
    surveyed.digest = str(digest)
    return surveyed
