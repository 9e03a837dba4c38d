"""A page with one text or document and its triples, read sentence by sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from attlas.core.text import Text
from attlas.language.sentences import sentence_spans
from attlas.relations.examples import pictures

if TYPE_CHECKING:
    from attlas.relations.extractor import RelationExtractor
    from attlas.relations.matching import ExtractedTriple


def write_text_page(
    extractor: RelationExtractor,
    text: str,
    extracted: list[ExtractedTriple],
    names: dict[str, str],
    path: Path,
    *,
    force: bool = False,
) -> Path:
    """Write a page of a text: its phrases, the attention between them, the graph of its triples."""
    from attlas.relations.section.triples import texts_of, write_page

    tables = by_sentence(extractor, text, extracted, names)
    whole = pd.DataFrame([{"text": "", "string": text}])
    (one,) = texts_of(whole, tables["relation_triples"], tables["relation_lines"], judged=False)
    return write_page(one, str(extractor.model_.name), path, force=force)


def by_sentence(
    extractor: RelationExtractor, text: str, extracted: list[ExtractedTriple], names: dict[str, str]
) -> dict[str, pd.DataFrame]:
    """The tables of triples and of lines between their phrases, in the characters of the text."""
    sentences = list(sentence_spans(text))
    texts = [Text(str(number), text[start:stop]) for number, (start, stop) in enumerate(sentences)]
    numbers = [
        [number for number, one in enumerate(extracted) if start <= one.head[0] < stop]
        for start, stop in sentences
    ]
    moved = [
        [_moved(extracted[number], -start) for number in mine]
        for (start, _), mine in zip(sentences, numbers, strict=True)
    ]
    model, named = extractor.model_, extractor.readers_.named
    tables = pictures(model, named, texts, moved, names, shown=len(texts), longest=len(text))
    for name in ("relation_triples", "relation_lines"):
        rows = tables[name]
        sentence = rows["text"].astype(int)
        start = sentence.map(lambda number: sentences[number][0])
        for column in (column for column in rows if str(column).endswith(("_start", "_stop"))):
            rows[column] = rows[column].where(rows[column] < 0, rows[column] + start)
        rows["triple"] = [
            numbers[at][number] for number, at in zip(rows["triple"], sentence, strict=True)
        ]
        rows["text"] = ""
    return tables


def _moved(triple: ExtractedTriple, by: int) -> ExtractedTriple:
    """A triple with its spans moved by a number of characters."""
    spans = {name: getattr(triple, name) for name in ("head", "tail", "words")}
    moved: dict[str, Any] = {
        name: span and (span[0] + by, span[1] + by) for name, span in spans.items()
    }
    return replace(triple, **moved)
