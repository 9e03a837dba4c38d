"""The libraries of charts, imported when a chart is first drawn: tables and findings need none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    import altair as alt
    import vl_convert
else:
    alt = lazy_loader.load("altair")
    vl_convert = lazy_loader.load("vl_convert")

__all__ = ["alt", "vl_convert"]
