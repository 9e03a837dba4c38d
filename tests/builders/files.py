"""Files of texts, and the rows that are read from them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from attlas.core.text import Text


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def texts_of(rows) -> list[Text]:
    texts = []
    for where, row in rows:
        assert isinstance(row, Text), row
        assert row.annotations["where"] == where
        texts.append(row)
    return texts


def write_rows(path, rows):
    data = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
