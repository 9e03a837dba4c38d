"""Shards: a corpus cut in pieces of fixed size, the same pieces whoever runs them."""

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
COSTLY_TEXTS, COSTLY_CHARACTERS = (
    64,
    2**15,
)  # where every text takes many passes: less is lost when a study is stopped


@dataclass(frozen=True)
class Shard:
    """Some consecutive rows of a corpus: texts with their places, and rows that are none."""

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
    """Cut a corpus: a shard ends when it has so many rows or so many characters.

    Every row that is read is added to `whole`; without it, as for texts in memory that are known already, rows are not hashed.
    """
    index, characters, rows = 0, 0, Fingerprint()
    texts: list[tuple[int, Text]] = []
    bad: list[tuple[int, BadRow]] = []
    for place, row in enumerate(corpus.rows()):
        if whole is not None:
            content = content_of(row)
            rows.update(content)
            whole.update(content)
        if isinstance(row, BadRow):
            bad.append((place, row))
        else:
            texts.append((place, row))
            characters += len(row.text)
        if len(texts) + len(bad) >= n_texts or characters >= n_characters:
            yield Shard(index, tuple(texts), tuple(bad), str(rows))
            index, characters, texts, bad, rows = index + 1, 0, [], [], Fingerprint()
    if texts or bad:
        yield Shard(index, tuple(texts), tuple(bad), str(rows))


@dataclass
class Survey:
    """What one reading of the corpus shows before anything is written: how many rows, and a digest of all of them."""

    rows: int = 0
    bad: int = 0
    first_bad: BadRow | None = None
    digest: str = ""
    labels: dict[str, int] = field(default_factory=dict)


def survey_of_texts(texts: Sequence[Text], digest: str) -> Survey:
    """The same of texts in memory whose digest is known."""
    if not texts:
        raise CorpusError("there are no texts to read")
    labels = Counter(one.label for one in texts if one.label is not None)
    return Survey(len(texts), digest=digest, labels=dict(labels.most_common(100)))


def survey(corpus: Corpus, bad: str = "quarantine") -> Survey:
    """Read a corpus once; a corpus without a single good text is an error."""
    found, digest = Survey(), Fingerprint()
    for row in corpus.rows():
        found.rows += 1
        digest.add(row)
        if isinstance(row, BadRow):
            if bad == "error":
                raise row.error()
            found.bad += 1
            found.first_bad = found.first_bad or row
        elif row.label is not None and (row.label in found.labels or len(found.labels) < 100):
            found.labels[row.label] = found.labels.get(row.label, 0) + 1
    if found.rows == found.bad:
        reason = (
            f"; the first row: {found.first_bad.where}: {found.first_bad.reason}"
            if found.first_bad
            else ""
        )
        raise CorpusError(
            f"{corpus.name} holds no text that can be analysed ({found.rows} rows read){reason}"
        )
    found.digest = str(digest)
    return found
