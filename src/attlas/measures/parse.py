"""Measures by name, with their parameters: `surface,topk(k=5,keep=words)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from attlas.support.errors import MeasureError

if TYPE_CHECKING:
    from attlas.core.measure import Measure
    from attlas.core.registry import Registry

    Known = Registry[type[Measure[Any]]]

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
            raise MeasureError(
                f"{wanted[place:].strip()!r} is no list of measures; write surface,topk(k=5,keep=words)"
            )
        given = [pair.partition("=") for pair in (found[2] or "").split(",") if pair.strip()]
        for name, sign, value in given:
            if not sign or not value.strip():
                raise MeasureError(
                    f"{name.strip()!r} of {found[1]} has no value; write {found[1]}({name.strip()}=...)"
                )
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


def _made(kind: type[Measure[Any]], name: str, parameters: dict[str, Any]) -> Measure[Any]:
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


def parse_measures(
    wanted: str | Measure[Any] | Iterable[str | Measure[Any]], known: Known
) -> list[Measure[Any]]:
    """Measures from names, measures or both, by the registry of known ones.

    A string may list names with commas, each with parameters: `topk(k=5,keep=words,layers=0+5)`.
    `"all"` is every known one, without those that cost as much as the model's own pass or more
    (holes of `barcode`, `head_distance`, and `special_gradient`, `importance` and `explanations`,
    which go backward): name them to get them.
    """
    if isinstance(wanted, str) and wanted.strip() == "all":
        wanted = [known[name].among_all() for name in known if not known[name].costly]
    elif isinstance(wanted, str):
        wanted = [_made(known[name], name, parameters) for name, parameters in asked(wanted)]
    elif not isinstance(wanted, Iterable):
        wanted = [wanted]
    chosen = [known[measure]() if isinstance(measure, str) else measure for measure in wanted]
    names = [measure.name for measure in chosen]
    if not chosen:
        raise MeasureError(f"no measure was asked for; the measures are {', '.join(known)}")
    if len(set(names)) < len(names):
        raise MeasureError(
            f"a measure was asked for twice: {', '.join(sorted({name for name in names if names.count(name) > 1}))}"
        )
    return chosen
