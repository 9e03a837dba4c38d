"""Texts with dependency trees: read, and checked."""

from __future__ import annotations

from typing import Any

from attlas.core.annotations import ROOT, Dependencies, dependencies_of
from attlas.core.text import Text
from attlas.corpora import read
from attlas.support.errors import CorpusError


def sentences(source: Any) -> list[Text]:
    """Texts with dependency trees from anything that `attlas.read` takes; the first without one, or whose tree does not fit its words, is an error."""
    corpus = read(source)
    texts = list(corpus)
    for text in texts:
        check_tree(text, corpus.name)
    return texts


def check_tree(text: Text, source: str = "") -> Dependencies:
    """The tree of a text to learn from or to score on."""
    tree, n = dependencies_of(text.annotations), len(text.words or ())
    where = f" of {source}" if source else ""
    if tree is None or text.words is None:
        raise CorpusError(
            f"text {text.id!r}{where} has no dependency tree over words of its own; give a CoNLL-U file (.conllu), or note it in the annotations as DEPENDENCIES"
        )
    if len(tree.heads) != n or len(tree.relations) != n:
        raise CorpusError(
            f"text {text.id!r} has {n} words, but its tree {len(tree.heads)} heads and {len(tree.relations)} relations; give one of each a word"
        )
    strange = [word for word, head in enumerate(tree.heads) if not ROOT <= head < n or head == word]
    if strange:
        raise CorpusError(
            f"text {text.id!r}: the head of word {strange[0]} is {tree.heads[strange[0]]}; it must be another of its {n} words, or {ROOT} for ROOT"
        )
    return tree
