"""One file, one question about heads or tokens; MEASURES maps names to them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from attlas.core.registry import Registry
from attlas.support.errors import MeasureError

if TYPE_CHECKING:
    from attlas.core.measure import Measure

MEASURES: Registry[type[Measure[Any]]] = Registry("measure", MeasureError)
MEASURES.register(
    "surface",
    "attlas.measures.surface:Surface",
    "How much does each head attend to itself, its neighbours, [CLS], [SEP] and punctuation?",
)
MEASURES.register("entropy", "attlas.measures.entropy:Entropy", "Does each head attend to few tokens or to many?")
MEASURES.register(
    "positions", "attlas.measures.positions:Positions", "How far away, and on which side, does each head look?"
)
MEASURES.register("totals", "attlas.measures.totals:Totals", "How much attention does each token of each text receive?")
MEASURES.register(
    "topk",
    "attlas.measures.topk:TopK",
    "Which tokens are attended to most, and which attend most, in all heads together?",
)
MEASURES.register(
    "heatmap",
    "attlas.measures.heatmap:Heatmap",
    "Which pattern does each head's attention make, over whole texts of any length?",
)
MEASURES.register(
    "position_bias",
    "attlas.measures.position_bias:PositionBias",
    "Do tokens receive attention for where they stand rather than for what they are?",
)
MEASURES.register(
    "head_distance", "attlas.measures.head_distance:HeadDistance", "How alike are heads in what they attend to?"
)
MEASURES.register(
    "special_gradient",
    "attlas.measures.special_gradient:SpecialGradient",
    "Would the loss change if attention to [SEP], [CLS], punctuation or other tokens did?",
)
MEASURES.register("importance", "attlas.measures.importance:Importance", "Which heads matter for what the model says?")
MEASURES.register(
    "explanations",
    "attlas.explain.measure:Explanations",
    "Which tokens does the model's answer rest on, and does attention say so too?",
)
MEASURES.register(
    "betti",
    "attlas.topology.betti:Betti",
    "How many pieces and cycles has each head's attention graph, at several thresholds?",
)
MEASURES.register(
    "digraph",
    "attlas.topology.directed:DigraphMeasure",
    "How many strong components, edges and directed cycles has each head's attention graph?",
)
MEASURES.register(
    "barcode",
    "attlas.topology.barcode:BarcodeMeasure",
    "At which distances do the pieces of each head's attention graph join, and its holes open and close?",
)
MEASURES.register(
    "templates", "attlas.topology.templates:Templates", "How near is each head to a simple pattern of attention?"
)


_ASKED = re.compile(r"\s*([\w.-]+)\s*(?:\(([^()]*)\))?\s*(?:,|$)")


def asked(wanted: str) -> list[tuple[str, dict[str, Any]]]:
    """Names from a list with commas, each with its parameters, if any, in brackets.

    >>> asked("surface, topk(k=5, keep=words), importance(ablation=2)")
    [('surface', {}), ('topk', {'k': 5, 'keep': 'words'}), ('importance', {'ablation': 2})]
    """
    out: list[tuple[str, dict[str, Any]]] = []
    place = 0
    while place < len(wanted.strip().rstrip(",")):
        found = _ASKED.match(wanted, place)
        if found is None:
            raise MeasureError(f"{wanted[place:].strip()!r} is no list of measures; write surface,topk(k=5,keep=words)")
        given = [pair.partition("=") for pair in (found[2] or "").split(",") if pair.strip()]
        for name, sign, value in given:
            if not sign or not value.strip():
                raise MeasureError(f"{name.strip()!r} of {found[1]} has no value; write {found[1]}({name.strip()}=...)")
        out.append((found[1], {name.strip(): _value(value.strip()) for name, _, value in given}))
        place = found.end()
    return out


def _value(text: str) -> Any:
    """A parameter as Python would read it; several numbers are joined by +, anything else is a word."""
    parts = text.split("+")
    if len(parts) > 1 and all(part.strip().isdecimal() for part in parts):
        return tuple(map(int, parts))
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _made(name: str, parameters: dict[str, Any]) -> Measure[Any]:
    kind = MEASURES[name]
    known: list[str] = [one.name for one in fields(kind) if one.init] if is_dataclass(kind) else []
    strange = [one for one in parameters if one not in known]
    if strange:
        has = f"its parameters are {', '.join(known)}" if known else "it has no parameters"
        raise MeasureError(f"{name} has no parameter {strange[0]!r}; {has}")
    try:
        return kind(**parameters)
    except (TypeError, ValueError, AttributeError) as error:
        raise MeasureError(
            f"{name}({', '.join(f'{one}={value!r}' for one, value in parameters.items())}) cannot be: {error}"
        ) from error


def measures_of(wanted: str | Measure[Any] | Iterable[str | Measure[Any]] = "all") -> list[Measure[Any]]:
    """Measures from names, measures or both; a string may list names with commas, each with parameters: `topk(k=5,keep=words,layers=0+5)`.

    `"all"` is every registered one, without what costs as much as the model's own pass or more (holes of `barcode`, `head_distance`, and `special_gradient`, `importance` and `explanations`, which go
    backward): name them to get them.
    """
    if isinstance(wanted, str) and wanted.strip() == "all":
        wanted = [MEASURES[name].among_all() for name in MEASURES if not MEASURES[name].costly]
    elif isinstance(wanted, str):
        wanted = [_made(name, parameters) for name, parameters in asked(wanted)]
    elif not isinstance(wanted, Iterable):
        wanted = [wanted]
    chosen = [MEASURES[measure]() if isinstance(measure, str) else measure for measure in wanted]
    names = [measure.name for measure in chosen]
    if not chosen:
        raise MeasureError(f"no measure was asked for; the measures are {', '.join(MEASURES)}")
    if len(set(names)) < len(names):
        raise MeasureError(
            f"a measure was asked for twice: {', '.join(sorted({name for name in names if names.count(name) > 1}))}"
        )
    return chosen
