"""Texts with dependency trees, and documents with coreferent mentions: read, and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attlas.core.annotations import ROOT, Dependencies, coreference_of, dependencies_of
from attlas.core.text import Text
from attlas.corpora.corpus import Corpus
from attlas.corpora.formats import ending_of
from attlas.corpora.layouts.conllu import conllu_documents
from attlas.corpora.read import file_corpus, read
from attlas.corpora.sources import SENTENCES, embedded_file
from attlas.support.errors import CorpusError

WITH_COREFERENCE = (
    "CoNLL-U with Entity= in MISC (.conllu), CoNLL-2012 as in LitBank (.conll), "
    "GAP's .tsv, or Texts with mentions"
)


def sentences(source: Any) -> list[Text]:
    """Texts with dependency trees from anything that `attlas.read` takes; refuse any other text."""
    corpus = read(source)
    texts = list(corpus)
    for text in texts:
        check_tree(text, corpus.name)
    return texts


def documents(source: Any) -> list[Text]:
    """Documents with coreference from anything that `attlas.read` takes; refuse any other text.

    CoNLL-U files (also "embedded:sentences") give whole documents, whereas `read` gives sentences:
    coreference chains cross sentences.
    """
    corpus = _document_corpus(source)
    texts = list(corpus)
    for text in texts:
        if coreference_of(text.annotations) is None:
            raise CorpusError(
                f"text {text.id!r} of {corpus.name} has no coreference; give {WITH_COREFERENCE}"
            )
    return texts


def _document_corpus(source: Any) -> Corpus:
    """Like `read`, but whole documents of CoNLL-U."""
    corpus = read(source)
    is_embedded = isinstance(source, str) and source == f"embedded:{SENTENCES}"
    is_file = isinstance(source, str | Path) and ending_of(Path(source)) == ".conllu"
    if not is_embedded and not is_file:
        return corpus
    path = embedded_file(SENTENCES) if is_embedded else Path(source).expanduser()
    return file_corpus(corpus.name, path, lambda: (row for _, row in conllu_documents(path)))


def check_tree(text: Text, source: str = "") -> Dependencies:
    """The dependency tree of a text; refuse a text without one, or whose tree does not fit."""
    tree, n = dependencies_of(text.annotations), len(text.words or ())
    where = f" of {source}" if source else ""
    if tree is None or text.words is None:
        raise CorpusError(
            f"text {text.id!r}{where} has no dependency tree over words of its own; "
            "give a CoNLL-U file (.conllu), or add it to the annotations as DEPENDENCIES"
        )
    if len(tree.heads) != n or len(tree.relations) != n:
        raise CorpusError(
            f"text {text.id!r} has {n} words, but its tree has {len(tree.heads)} heads and "
            f"{len(tree.relations)} relations; give one of each per word"
        )
    for word, head in enumerate(tree.heads):
        if not ROOT <= head < n or head == word:
            raise CorpusError(
                f"text {text.id!r}: the head of word {word} is {head}; "
                f"it must be another of its {n} words, or {ROOT} for ROOT"
            )
    return tree
