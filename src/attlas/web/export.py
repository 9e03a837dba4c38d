"""Tables as files: CSV that a spreadsheet does not run, and Parquet as it was written."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
BATCH = 10_000  # rows


def safe_cell(value: Any) -> Any:
    """A cell that a spreadsheet shows and does not compute: words that look like a formula.

    Numbers stay numbers.

    >>> safe_cell("=1+2"), safe_cell(" @SUM(A1)"), safe_cell("a film"), safe_cell(-0.5)
    ("'=1+2", "' @SUM(A1)", 'a film', -0.5)
    """
    if not isinstance(value, str):
        return value
    return f"'{value}" if value.lstrip(" ").startswith(FORMULA) else value


def csv_lines(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as comma-separated values, each cell safe."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(safe_cell, row) for row in rows)
    return out.getvalue()


def csv_parts(path: Path) -> Iterator[str]:
    """A Parquet file as comma-separated values, a part at a time."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        yield csv_lines([file.schema_arrow.names])
        for batch in file.iter_batches(BATCH):
            yield csv_lines(
                list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            )
