"""The cards of all heads of a page as one part: compact data, in columns, for `static/card.js`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from attlas.support.json import to_json
from attlas.views.cards import KnownHeads
from attlas.views.claims import Finding
from attlas.views.findings import origin
from attlas.views.head_profiles import HeadProfile, pooled
from attlas.views.head_rows import Head, HeadExample, HeadRow
from attlas.views.modules import View
from attlas.views.numbers import written
from attlas.views.packing import deflated
from attlas.views.section import Section, Tables

CARD = View("card")
TILE, SMALL_TILE, FEW = 32, 16, 256  # cells to a side; smaller for models of more heads
VERDICTS = {"signal": "s", "weak": "w", "nothing beyond chance": "n", None: "-"}
STRONGEST = 6  # heads to begin with
NARROW = 256  # indices of tokens that one byte holds


@dataclass(frozen=True, eq=False)
class HeadCards:
    """The card of the head that is chosen on a page; before that, an invitation to choose one."""

    known: KnownHeads
    view: View = CARD

    @classmethod
    def of(cls, study: Tables, sections: Mapping[str, Section]) -> HeadCards | None:
        """The cards of a study; None if its result is of no model with heads."""
        if not study.manifest.get("model"):
            return None
        out = cls(KnownHeads.of(study, sections))
        return out if out.known.sections else None

    @property
    def data(self) -> Any:
        """The content, compressed."""
        words = json.dumps(self.content, ensure_ascii=False, allow_nan=False)
        return {"zlib": deflated(words.encode("utf-8", "replace"))}

    @cached_property
    def content(self) -> dict[str, Any]:
        """What is known of all heads, in columns."""
        known = self.known
        names = {
            name: {"title": section.title, "evidence": section.evidence}
            for name, section in known.sections
        }
        return {
            "shape": [known.study.n_layers, known.study.n_heads],
            "origin": origin(known.study.manifest),
            "sections": names,
            "leads": _leads(known),
            "rows": _row_columns(known),
            "profiles": [_profile(one) for one in known.profiles],
            "examples": _examples(known),
        }

    def html(self, number: int) -> str:
        return self.view.html(number)

    def pictures(self) -> list[str]:
        return []


def _leads(known: KnownHeads) -> dict[str, Any]:
    """The strongest finding about each head: what, numbers, verdict, and of how many."""
    found = [known.strongest(head) for head in known.heads]
    signals = [at for at, one in enumerate(found) if one and one.verdict == "signal"]
    return {
        "strongest": sorted(signals, key=lambda at: _rank(found[at]))[:STRONGEST],
        "words": [one.claim.words if one else "" for one in found],
        "numbers": [one.numbers if one else "" for one in found],
        "verdicts": "".join(VERDICTS[one.verdict if one else None] for one in found),
        "comparisons": [known.n_comparisons(head) for head in known.heads],
    }


def _rank(found: Finding | None) -> tuple[bool, bool, float]:
    return (True, True, 0.0) if found is None else (False, found.is_general, found.rank[-1])


def _row_columns(known: KnownHeads) -> list[dict[str, Any]]:
    """The rows of all heads: those that differ in their numbers only are one entry."""
    places = {head: at for at, head in enumerate(known.heads)}
    alike: dict[tuple[Any, ...], list[tuple[int, HeadRow]]] = {}
    for name, _ in known.sections:
        for head, rows in known.rows[name].items():
            for row in rows:
                same = (name, row.label, row.unit, row.control_name, row.kind, row.other)
                alike.setdefault(same, []).append((places[head], row))
    return [_entry(some, len(places), known.key_numbers) for some in alike.values()]


def _entry(
    some: Sequence[tuple[int, HeadRow]], n_heads: int, key_numbers: Iterable[str]
) -> dict[str, Any]:
    """One number of several heads; `heads` is missing where it is known of all of them."""
    ordered = sorted(some, key=lambda one: one[0])
    rows = [row for _, row in ordered]
    first = rows[0]
    out: dict[str, Any] = {
        "section": first.section,
        "label": first.label,
        "unit": first.unit,
        "control_name": first.control_name,
        "kind": first.kind,
        "other": first.other,
        "key": first.label in key_numbers,
    }
    if len(rows) < n_heads:
        out["heads"] = [place for place, _ in ordered]
    for name in ("value", "low", "high", "control"):
        out[name] = _alike([exact(getattr(row, name)) for row in rows])
    out["n"] = _alike([row.n for row in rows])
    out["verdicts"] = "".join(VERDICTS[row.verdict] for row in rows)
    return {
        name: value
        for name, value in out.items()
        if value is not None and value is not False and value != ""  # 0 is a number
    }


def _alike(values: list[Any]) -> Any:
    """A list of values, or the one that they all are."""
    return values[0] if len(values) > 1 and all(one == values[0] for one in values) else values


def exact(value: float | None) -> float | None:
    """A number with as few digits as it is written with.

    >>> exact(0.123456), exact(0.0050000001), exact(None)
    (0.1235, 0.005, None)
    """
    if value is None or not math.isfinite(value):
        return None
    for digits in (4, 6, 9):
        short = float(f"{value:.{digits}g}")
        if all(written(short, size) == written(value, size) for size in (0.0, 1.0)):
            return short
    return value


def _profile(one: HeadProfile) -> dict[str, Any]:
    """A small picture of all heads."""
    out: dict[str, Any] = {
        "title": one.title,
        "picture": one.picture,
        "section": one.section,
        "labels": list(one.labels),
        "x": one.x,
        "unit": one.unit,
        "kind": one.kind,
        "scale": one.scale,
        "control_name": one.control_name,
    }
    layers, heads = one.values.shape[:2]
    if one.picture == "tile":
        return {**out, **_codes(one)}
    flat = (layers * heads, -1)
    out["values"] = _numbers(one.values.reshape(flat))
    control = np.asarray(one.control, dtype=np.float64)
    every = one.controls.reshape(flat)
    same = bool(len(every)) and np.array_equal(every, np.tile(every[:1], (len(every), 1)), True)
    out["control"] = _numbers(every[:1] if same or control.ndim < 2 else every)
    return out


def _codes(one: HeadProfile) -> dict[str, Any]:
    """The cells of tiles as bytes, from 0, at uniform attention, to 255, a head's largest.

    `most` is a head's largest cell, of the picture as it is shown.
    """
    layers, heads = one.values.shape[:2]
    size = TILE if layers * heads <= FEW else SMALL_TILE
    values = pooled(one.values, size)
    small = replace(one, values=values, control=pooled(one.controls, size))
    codes = np.rint(255 * small.shades).astype(np.uint8)
    most = np.nan_to_num(values).max(axis=(2, 3), initial=0.0)
    return {
        "size": values.shape[-1],
        "codes": deflated(codes.tobytes()),
        "most": _numbers(most.reshape(1, -1)),
    }


def _numbers(rows: npt.NDArray[Any]) -> list[list[float | None]]:
    """Numbers to four digits; None where one is unknown."""
    return [[to_json(float(f"{value:.4g}")) for value in row] for row in rows.tolist()]


def _examples(known: KnownHeads) -> dict[str, Any] | None:
    """The example texts: each text once, and for each head which, with its score and lines."""
    of_heads = [known.examples.get(head, ()) for head in known.heads]
    every = [one for some in of_heads for one in some]
    if not every:
        return None
    texts = {one.text: one for one in every}
    numbers = {text: at for at, text in enumerate(texts)}
    longest = max(len(one.tokens) for one in texts.values())
    lines = np.array([line for one in every for line in one.lines], dtype=np.float64).reshape(-1, 3)
    index = np.uint8 if longest <= NARROW else np.uint16
    return {
        "label": every[0].label,
        "unit": every[0].unit,
        "section": every[0].section,
        "texts": [_text(one) for one in texts.values()],
        "per_head": [len(some) for some in of_heads],
        "text": [numbers[one.text] for one in every],
        "quantile": [one.quantile for one in every],
        "score": [exact(one.score) for one in every],
        "control": _alike([exact(one.control) for one in every]),
        "lines": [len(one.lines) for one in every],
        "wide": index is np.uint16,
        "query": deflated(lines[:, 0].astype(index).tobytes()),
        "key": deflated(lines[:, 1].astype(index).tobytes()),
        "weight": deflated(np.rint(255 * lines[:, 2].clip(0, 1)).astype(np.uint8).tobytes()),
    }


def _text(one: HeadExample) -> dict[str, Any]:
    """A text by its tokens, which of them follow without a space, and which are special."""
    if not one.tokens:
        return {"id": one.text, "begins": one.begins}
    return {
        "id": one.text,
        "tokens": [token.string for token in one.tokens],
        "joined": [at for at, token in enumerate(one.tokens) if token.is_joined],
        "special": [at for at, token in enumerate(one.tokens) if token.is_special],
    }


def card_of(data: Mapping[str, Any], head: Head) -> list[dict[str, Any]]:
    """The rows of one head, from the content of a part: what `static/card.js` shows."""
    at = head[0] * data["shape"][1] + head[1]
    out = []
    for entry in data["rows"]:
        where = entry.get("heads")
        if where is not None and at not in where:
            continue
        row = at if where is None else where.index(at)
        numbers = {
            name: value[row] if isinstance(value := entry.get(name), list) else value
            for name in ("value", "low", "high", "control", "n")
        }
        out.append({**entry, **numbers, "verdict": entry["verdicts"][row]})
    return out
