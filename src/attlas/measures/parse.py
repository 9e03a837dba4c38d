"""Measures by name, with their parameters: `surface,topk(k=5,keep=words)`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from attlas.support.errors import MeasureError

if TYPE_CHECKING:
    from attlas.core.measure import Measure
    from attlas.core.registry import Registry

    Known = Registry[type[Measure[Any]]]

_NAME = re.compile(r"\s*([\w.-]+)\s*(?:\(([^()]*)\))?\s*(?:,|$)")


def parse_names(wanted: str) -> list[tuple[str, dict[str, Any]]]:
    """Names from a list with commas, each with its parameters in brackets.

    >>> parse_names("surface, topk(k=5, keep=words), importance(ablation=2)")
    [('surface', {}), ('topk', {'k': 5, 'keep': 'words'}), ('importance', {'ablation': 2})]
    """
    out: list[tuple[str, dict[str, Any]]] = []
    start, end = 0, len(wanted.strip().rstrip(","))
    while start < end:
        match = _NAME.match(wanted, start)
        if match is None:
            raise MeasureError(
                f"{wanted[start:].strip()!r} is not a list of measures; "
                "write surface,topk(k=5,keep=words)"
            )
        measure, pairs = match[1], (match[2] or "").split(",")
        parameters = {}
        for pair in filter(str.strip, pairs):
            name, _, value = map(str.strip, pair.partition("="))
            if not value:
                raise MeasureError(
                    f"{name!r} of {measure} has no value; write {measure}({name}=...)"
                )
            parameters[name] = _value(value)
        out.append((measure, parameters))
        start = match.end()
    return out


def _value(text: str) -> Any:
    """A parameter as Python reads it, numbers joined by + as a tuple, or else a string."""
    parts = text.split("+")
    if len(parts) > 1 and all(part.strip().isdecimal() for part in parts):
        return tuple(map(int, parts))
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _make_measure(kind: type[Measure[Any]], name: str, parameters: dict[str, Any]) -> Measure[Any]:
    known: list[str] = [one.name for one in fields(kind) if one.init] if is_dataclass(kind) else []
    unknown = [one for one in parameters if one not in known]
    if unknown:
        has = f"its parameters are {', '.join(known)}" if known else "it has no parameters"
        raise MeasureError(f"{name} has no parameter {unknown[0]!r}; {has}")
    try:
        return kind(**parameters)
    except (TypeError, ValueError, AttributeError) as error:
        given = ", ".join(f"{one}={value!r}" for one, value in parameters.items())
        raise MeasureError(f"{name}({given}) is not a valid measure: {error}") from error


def parse_measures(
    wanted: str | Measure[Any] | Iterable[str | Measure[Any]], known: Known
) -> list[Measure[Any]]:
    """Measures from names, measures or both, by the registry of known ones.

    A string may list names with commas, each with parameters: `topk(k=5,keep=words,layers=0+5)`.
    `"all"` excludes what costs a forward pass or more (H1 of `barcode`, `head_distance`,
    `special_gradient`, `importance` and `explanations`): ask for those by name.
    """
    if isinstance(wanted, str) and wanted.strip() == "all":
        wanted = [known[name].default() for name in known if not known[name].costly]
    elif isinstance(wanted, str):
        wanted = [_make_measure(known[name], name, given) for name, given in parse_names(wanted)]
    elif not isinstance(wanted, Iterable):
        wanted = [wanted]
    chosen = [known[measure]() if isinstance(measure, str) else measure for measure in wanted]
    if not chosen:
        raise MeasureError(f"no measure was given; the measures are {', '.join(known)}")
    counts = Counter(measure.name for measure in chosen)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise MeasureError(f"{', '.join(repeated)} was given twice; name each measure once")
    return chosen
