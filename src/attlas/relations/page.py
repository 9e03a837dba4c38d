"""One text, or document, with its triples: read sentence by sentence, as the extractor reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from attlas.core.text import Text
from attlas.language.sentences import sentence_spans
from attlas.relations.examples import pictures

if TYPE_CHECKING:
    from attlas.relations.extractor import RelationExtractor
    from attlas.relations.matching import Found


def write_text_page(
    extractor: RelationExtractor,
    text: str,
    found: list[Found],
    names: dict[str, str],
    path: Path,
    *,
    force: bool = False,
) -> Path:
    """Write a page of a text: its phrases, the attention between them, the graph of its triples."""
    from attlas.relations.section.triples import texts_of, write_page

    tables = by_sentence(extractor, text, found, names)
    whole = pd.DataFrame([{"text": "", "string": text}])
    (one,) = texts_of(whole, tables["relation_triples"], tables["relation_lines"], judged=False)
    return write_page(one, str(extractor.model_.name), path, force=force)


def by_sentence(
    extractor: RelationExtractor, text: str, found: list[Found], names: dict[str, str]
) -> dict[str, pd.DataFrame]:
    """The tables of triples and of lines between their phrases, in the characters of the text."""
    cuts = list(sentence_spans(text))
    mine = [
        [(number, one) for number, one in enumerate(found) if start <= one.head[0] < stop]
        for start, stop in cuts
    ]
    moved = [
        [
            replace(
                one,
                head=_moved(one.head, start),
                tail=_moved(one.tail, start),
                words=one.words and _moved(one.words, start),
            )
            for _, one in group
        ]
        for (start, _), group in zip(cuts, mine, strict=True)
    ]
    texts = [Text(str(number), text[start:stop]) for number, (start, stop) in enumerate(cuts)]
    model, named = extractor.model_, extractor.readers_.named
    tables = pictures(model, named, texts, moved, names, shown=len(texts), longest=len(text))
    for name in ("relation_triples", "relation_lines"):
        rows = tables[name]
        sentence = rows["text"].astype(int)
        for column in (column for column in rows if str(column).endswith(("_start", "_stop"))):
            rows[column] = [
                place if place < 0 else place + cuts[at][0]
                for place, at in zip(rows[column], sentence, strict=True)
            ]
        rows["triple"] = [
            mine[at][place][0] for place, at in zip(rows["triple"], sentence, strict=True)
        ]
        rows["text"] = ""
    return tables


def _moved(span: tuple[int, int], start: int) -> tuple[int, int]:
    return span[0] - start, span[1] - start
