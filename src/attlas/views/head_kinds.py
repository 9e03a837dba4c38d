"""What do the heads of a model do? How many give much of their attention to which simple target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attlas.views.claims import Finding, judged_claims
from attlas.views.modules import View
from attlas.views.numbers import head_name, listed
from attlas.views.section import HeadKind, Section, Tables

KINDS = View("kinds")
MUCH = {"half": 0.5, "quarter": 0.25}  # of a head's attention, or of the tokens that it sees


@dataclass(frozen=True)
class KindOfHeads:
    """What one target receives from every head: shares from 0 to 1, the largest first.

    `shares` are by head, `control` is what uniform attention gives. `counted` are the heads that
    count: those beyond the control, or, of the breadth of attention, near it. `ends` are the
    corrected intervals.
    """

    kind: HeadKind
    column: str
    shares: Mapping[str, float]
    ends: Mapping[str, tuple[float, float]]
    counted: frozenset[str]
    control: float

    def heads(self, least: float) -> list[str]:
        """The heads with at least this share."""
        return [one for one in self.shares if one in self.counted and self.shares[one] >= least]

    def between(self, least: float) -> tuple[int, int]:
        """The smallest and the largest number of such heads within the intervals."""
        ends = [self.ends[one] for one in self.counted]
        return sum(low >= least for low, _ in ends), sum(high >= least for _, high in ends)

    def uniform(self, least: float) -> int:
        """How many heads would have the share under uniform attention."""
        return len(self.shares) if self.control >= least else 0

    @property
    def data(self) -> dict[str, Any]:
        """The kind as JSON."""
        return {
            "label": self.kind.label,
            "column": self.column,
            "shares": {name: round(share, 3) for name, share in self.shares.items()},
            "control": round(self.control, 3),
            **{
                name: {
                    "heads": self.heads(least),
                    "between": self.between(least),
                    "uniform": self.uniform(least),
                }
                for name, least in MUCH.items()
            },
        }


@dataclass(frozen=True, eq=False)
class HeadKinds:
    """All kinds of heads of a model, as a part of a page."""

    kinds: tuple[KindOfHeads, ...]
    heads: int
    is_weak: bool = False
    view: View = KINDS

    @property
    def data(self) -> Any:
        return {
            "heads": self.heads,
            "isWeak": self.is_weak,
            "kinds": [one.data for one in self.kinds],
        }

    def html(self, number: int) -> str:
        return self.view.html(number)

    def pictures(self) -> list[str]:
        return []

    @property
    def sentence(self) -> str:
        """How many heads give a quarter of their attention to each target, and how many are broad.

        Under uniform attention none would, or all.
        """
        quarter, half = MUCH["quarter"], MUCH["half"]
        targets = [one for one in self.kinds if not one.kind.is_breadth]
        counts = {one.kind.words: len(one.heads(quarter)) for one in targets}
        some = [(count, words) for words, count in counts.items() if count]
        none = [words for words, count in counts.items() if not count]
        parts = []
        if some:
            (count, words), *rest = some
            gives = (
                "gives at least a quarter of its"
                if count == 1
                else ("give at least a quarter of their")
            )
            first = f"{count:,} {gives} attention to {words}"
            parts.append(listed([first, *(f"{n:,} to {other}" for n, other in rest)]))
        if none:
            much = "that much" if some else "a quarter of its attention"
            parts.append(f"none gives {much} to {listed(none, 'or')}")
        for one in self.kinds:
            if one.kind.is_breadth:
                broad = len(one.heads(half))
                parts.append(f"{broad:,} {'has' if broad == 1 else 'have'} {one.kind.words}")
        return f"Of {self.heads:,} heads, {'; '.join(parts)}."


def head_kinds(study: Tables, sections: Iterable[tuple[str, Section]]) -> HeadKinds | None:
    """What the sections that are of the model of a study say of its heads; None without claims."""
    out, found = [], []
    for name, section in sections:
        if not section.kinds:
            continue
        judged = judged_claims(section.claims(study), section.smallest_effect)
        table = next(iter(section.columns), name)
        for kind in section.kinds:
            own = [one for one in judged if one.claim.group == kind.group and one.claim.head]
            if own:
                out.append(_kind_of_heads(kind, f"{table}.{kind.group}", own))
                found += own
    if not out:
        return None
    targets = [one for one in out if not one.kind.is_breadth]
    targets.sort(key=lambda one: [-len(one.heads(MUCH[name])) for name in ("quarter", "half")])
    breadth = [one for one in out if one.kind.is_breadth]
    is_weak = not any(one.verdict == "signal" for one in found)
    return HeadKinds((*targets, *breadth), study.n_layers * study.n_heads, is_weak)


def _kind_of_heads(kind: HeadKind, column: str, found: Sequence[Finding]) -> KindOfHeads:
    shares, ends, counted, controls = {}, {}, set(), []
    for one in found:
        assert one.claim.head is not None
        name = head_name(dict(zip(("layer", "head"), one.claim.head, strict=True)))
        control = one.claim.control
        shares[name] = kind.share(one.claim.value, control)
        low, high = one.ends
        ends[name] = kind.share(low, control), kind.share(high, control)
        controls.append(kind.share(control, control))
        if kind.is_breadth or one.verdict != "nothing beyond chance":
            counted.add(name)
    ranked = dict(sorted(shares.items(), key=lambda item: -item[1]))
    mean = math.fsum(controls) / len(controls)
    return KindOfHeads(kind, column, ranked, ends, frozenset(counted), mean)
