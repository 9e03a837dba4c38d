"""Texts in: files, frames, lists, the hub, and our own embedded corpora."""

from attlas.corpora.corpus import BadRow, Corpus
from attlas.corpora.read import embedded, read
from attlas.corpora.split import split

__all__ = ["BadRow", "Corpus", "embedded", "read", "split"]
