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

_NAME = re.compile(r"\s*([\w.-]+)\s*(?:(\()|,|$)")
_QUOTED = r"""'[^']*'(?=\s*[,)])|"[^"]*"(?=\s*[,)])"""
_PAIR = re.compile(rf"\s*([^=,()]*)(?:=\s*({_QUOTED}|[^,()]*))?(,|\)\s*(?:,|$))")


def parse_names(wanted: str) -> list[tuple[str, dict[str, Any]]]:
    """Names from a list with commas, each with its parameters in brackets.

    A value with commas or brackets stands in quotes, in which every other character is itself.

    >>> parse_names("surface, topk(k=5, keep=words), importance(ablation=2)")
    [('surface', {}), ('topk', {'k': 5, 'keep': 'words'}), ('importance', {'ablation': 2})]
    >>> parse_names("targets(words=no not never), targets(pattern='(un|in)[a-z]{3,}')")
    [('targets', {'words': 'no not never'}), ('targets', {'pattern': '(un|in)[a-z]{3,}'})]
    """
    out: list[tuple[str, dict[str, Any]]] = []
    start, end = 0, len(wanted.strip().rstrip(","))
    while start < end:
        match = _NAME.match(wanted, start)
        if match is None:
            raise _not_a_list(wanted[start:])
        pairs, after = _pairs(wanted, match.end()) if match[2] else ({}, match.end())
        for name, value in pairs.items():
            if not value:
                raise MeasureError(
                    f"{name!r} of {match[1]} has no value; write {match[1]}({name}=...)"
                )
        out.append((match[1], {name: _value(value) for name, value in pairs.items()}))
        start = after
    return out


def _pairs(wanted: str, start: int) -> tuple[dict[str, str], int]:
    """The parameters that begin at a bracket, as they are written, and where the next name is."""
    pairs: dict[str, str] = {}
    at, closed = start, False
    while not closed:
        match = _PAIR.match(wanted, at)
        if match is None:
            raise _not_a_list(wanted[start:])
        name, value = match[1].strip(), (match[2] or "").strip()
        if name or value:
            pairs[name] = value
        at, closed = match.end(), match[3] != ","
    return pairs, at


def _not_a_list(rest: str) -> MeasureError:
    return MeasureError(
        f"{rest.strip()!r} is not a list of measures; write surface,topk(k=5,keep=words)"
    )


def _value(text: str) -> Any:
    """A parameter as Python reads it, numbers joined by + as a tuple, or else a string."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
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


def _chosen(wanted: str | Measure[Any], known: Known) -> list[Measure[Any]]:
    if isinstance(wanted, type):  # of one's own, without parameters
        return [wanted()]
    if not isinstance(wanted, str):
        return [wanted]
    return [_make_measure(known[name], name, given) for name, given in parse_names(wanted)]


def parse_measures(
    wanted: str | Measure[Any] | Iterable[str | Measure[Any]], known: Known
) -> list[Measure[Any]]:
    """Measures from names, measures or both, by the registry of known ones.

    A string, also one of several, may list names with commas, each with parameters:
    `topk(k=5,keep=words,layers=0+5)`.
    `"all"` excludes what costs a forward pass or more (H1 of `barcode`, `head_distance`,
    `special_gradient`, `importance` and `explanations`) and `targets`, a question of one's own: ask
    for those by name.
    """
    if isinstance(wanted, str) and wanted.strip() == "all":
        usual = (known[name] for name in known)
        wanted = [kind.default() for kind in usual if not (kind.costly or kind.own)]
    elif isinstance(wanted, str) or not isinstance(wanted, Iterable):
        wanted = [wanted]
    chosen = [one for each in wanted for one in _chosen(each, known)]
    if not chosen:
        raise MeasureError(f"no measure was given; the measures are {', '.join(known)}")
    counts = Counter(measure.name for measure in chosen)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise MeasureError(f"{', '.join(repeated)} was given twice; name each measure once")
    return chosen
