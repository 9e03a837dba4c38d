"""Texts in: files, frames, lists, the hub, and our own embedded corpora."""

from attlas.corpora.corpus import BadRow, Corpus
from attlas.corpora.labelled import labelled, split
from attlas.corpora.read import embedded, read

__all__ = ["BadRow", "Corpus", "embedded", "labelled", "read", "split"]
