"""Pages with parts of figures and nothing else, and tables of heads to draw on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attlas.views.modules import View, page_scripts
from attlas.views.page import templates
from attlas.views.parts import Part
from attlas.views.tables import Column

COLUMNS = (
    Column("share", "share on [CLS]", kind="above", control="share_uniform", least=0.02),
    Column("entropy", "entropy", "nats", kind="below", control="entropy_uniform", least=0.1),
    Column("gate", "signed gate", kind="signed"),
    Column("cycles", "cycles"),
    Column("tiny", "gradient", kind="above", control="tiny_all"),
)


def head_frame(layers: int, heads: int, seed: int = 0) -> pd.DataFrame:
    """A table of heads with a column of every kind; some heads have no number."""
    random, count = np.random.default_rng(seed), layers * heads
    frame = pd.DataFrame({"layer": np.arange(count) // heads, "head": np.arange(count) % heads})
    frame["share"] = random.random(count) ** 3
    frame["share_uniform"] = 0.05
    frame["entropy"] = 3.2 * random.random(count)
    frame["entropy_uniform"] = 3.1 + 0.01 * frame["layer"]
    frame["gate"] = random.normal(size=count)
    frame["cycles"] = np.floor(90 * random.random(count))
    frame["tiny"] = 3e-5 * random.random(count)
    frame["tiny_all"] = 1e-5
    frame.loc[frame.index[1::17], "entropy"] = np.nan
    return frame


def parts_page(
    path: Path, parts: Sequence[Part], chosen: Mapping[str, Any] | None = None, style: str = ""
) -> Path:
    """A page with these parts one below the other, each in an element with its number as id."""
    data: dict[View, list[Any]] = {}
    shown = []
    for number, part in enumerate(parts):
        known = data.setdefault(part.view, [])
        shown.append(f'<div id="part{number}">{part.html(len(known))}</div>')
        known.append(part.data)
    scripts = page_scripts(data, chosen)
    body = templates().from_string('{% include "views.html" %}').render(**scripts)
    css = f"<style>{scripts['view_css']}{style}</style>"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width">{css}{"".join(shown)}{body}',
        encoding="utf-8",
    )
    return path
