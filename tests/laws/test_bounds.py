"""Every number that a user may give has a domain, said in help and error, in the same words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin

import pytest
import typer

from attlas.catalogue import MEASURES, subjects
from attlas.cli.entry import app
from attlas.core.measure import MOST_BYTES
from attlas.measures.heatmap import Heatmap
from attlas.measures.parse import parse_measures
from attlas.measures.position_bias import PositionBias
from attlas.measures.topk import TopK
from attlas.support.errors import AttlasError, MeasureError
from attlas.support.options import MOST_VALUES, Option, kinds_of, option_fields, types_of
from tests.builders.runs import command_line

RECORDS: dict[str, Any] = {
    **{f"measure {name}": MEASURES[name] for name in MEASURES},
    **{
        f"experiment {name}": subject.experiment(name)
        for subject in subjects()
        for name in subject.verbs.values()
    },
}


def number_of(hint: Any) -> type | None:
    """int or float if a field is a number or a list of numbers; a string or a number is a name."""
    kinds = [get_args(kind)[0] if get_origin(kind) is tuple else kind for kind in kinds_of(hint)]
    numbers = [kind for kind in kinds if kind in (int, float)]
    return numbers[0] if numbers and str not in kinds else None


def numbers_of(record: type) -> dict[str, type]:
    hints = types_of(record) if is_dataclass(record) else {}
    named = {one.name: number_of(hints[one.name]) for one in fields(record)} if hints else {}
    return {name: kind for name, kind in named.items() if kind is not None}


CASES = [(name, field) for name, record in RECORDS.items() for field in numbers_of(record)]


@pytest.mark.parametrize(("name", "field"), CASES, ids=[f"{a}-{b}" for a, b in CASES])
def test_every_number_has_two_ends(name: str, field: str) -> None:
    about = option_fields(RECORDS[name]).get(field)
    assert about is not None, "declare it with option()"
    ends = (about.at_least, about.above), (about.at_most, about.below)
    assert all(any(end is not None for end in side) for side in ends), about.domain
    assert about.help


def outside(about: Option, kind: type) -> Iterator[Any]:
    """Values just outside a domain, on both sides, and values that are not numbers at all."""
    step = 1 if kind is int else 1e-3
    for end in (about.at_least, about.above):
        if end is not None:
            yield end - step
    for end in (about.at_most, about.below):
        if end is not None and not math.isinf(end):
            yield end + step
    yield from (math.nan, math.inf, "many", 10**30 if kind is int else -math.inf)


@pytest.mark.parametrize(("name", "field"), [one for one in CASES if one[0].startswith("measure")])
def test_measures_refuse_what_is_outside_in_the_words_of_the_domain(name: str, field: str) -> None:
    record = RECORDS[name]
    about, kind = option_fields(record)[field], numbers_of(record)[field]
    is_list = any(get_origin(one) is tuple for one in kinds_of(types_of(record)[field]))
    for value in outside(about, kind):
        with pytest.raises(MeasureError) as refusal:
            record(**{field: (value,) if is_list else value})
        assert "\n" not in str(refusal.value)
        if not is_list:
            assert str(refusal.value).startswith(f"{field} is {value!r}; it must be a ")
            assert str(refusal.value).endswith(about.domain)


def test_a_list_has_a_bounded_number_of_values() -> None:
    with pytest.raises(
        MeasureError, match=f"layers has {MOST_VALUES + 1} values; give at most {MOST_VALUES}"
    ):
        TopK(layers=tuple(range(MOST_VALUES + 1)))


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every verb of the command line, by its words."""
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*path, name))
    if not getattr(command, "commands", {}):
        yield path, command


NUMBERS = [
    (words, parameter.opts[0], parameter.help)
    for words, command in commands(typer.main.get_command(app))
    for parameter in command.params
    if parameter.type_descriptor.annotation in (int, float)
]


@pytest.mark.parametrize(
    ("words", "flag", "help"), NUMBERS, ids=[f"{' '.join(a)} {b}" for a, b, _ in NUMBERS]
)
def test_help_of_every_number_says_its_domain(words: tuple[str, ...], flag: str, help: str) -> None:
    assert "[at least " in help or "[above " in help
    assert " at most " in help or " below " in help or " and finite]" in help


@pytest.mark.parametrize(
    "words",
    [
        ("look", "a cat", "--layer", "-1"),
        ("look", "a cat", "--head", "10000"),
        ("study", "--data", "embedded:reviews", "--workers", "0"),
        ("study", "--data", "embedded:reviews", "--max-length", "2"),
        ("tour", "--port", "65536"),
        ("reproduce", "dynamics", "--data-root", ".", "--seeds", "0"),
        ("explain", "--data", "embedded:reviews", "--workers", "100000"),
    ],
    ids=lambda words: words[0] + words[-2],
)
def test_numbers_outside_are_refused_in_one_line(words: tuple[str, ...]) -> None:
    name = words[-2].removeprefix("--").replace("-", "_")
    with pytest.raises(
        AttlasError, match=rf"^attlas: {name} is {words[-1]}; it must be a whole number at least \d"
    ) as it:
        command_line(*words)
    assert "\n" not in str(it.value)


class Shape:
    n_layers = n_heads = 48


@pytest.mark.parametrize(
    "measure",
    [Heatmap(size=512), Heatmap(examples=1000), PositionBias(span=10**6, period=10**6)],
    ids=repr,
)
def test_memory_known_from_the_shape_is_refused_with_its_size(measure: Any) -> None:
    with pytest.raises(MeasureError, match=r"would hold [\d,.]+ GiB \(at most 4\.0 GiB\); lower "):
        measure.start(Shape())
    assert MOST_BYTES == 4 * 2**30


def test_topk_of_a_short_text_takes_no_more_than_its_tokens() -> None:
    """A k beyond the tokens of a text adds nothing: same tables, same memory."""
    import attlas
    from attlas.testing import tiny

    texts, quiet = ["the cat sat on the mat", "a dog"], {"progress": False, "workers": 1}
    few, many = (
        attlas.study(tiny("bert"), texts, f"topk(k={k},keep=all)", **quiet) for k in (30, 1000)
    )
    for name in few.tables:
        assert few.table(name).equals(many.table(name)), name


def test_topk_refuses_what_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    import attlas
    from attlas.testing import tiny

    monkeypatch.setattr("attlas.core.measure.MOST_BYTES", 1000)
    with pytest.raises(AttlasError, match=r"topk would hold .* lower k from 1000, or truncate"):
        attlas.study(
            tiny("bert"), ["the cat sat on the mat"], "topk(k=1000)", progress=False, workers=1
        )


def test_a_measure_with_a_number_outside_is_refused_by_name_too() -> None:
    with pytest.raises(
        MeasureError, match="k is 100000; it must be a whole number at least 1 and at most 1000"
    ):
        parse_measures("topk(k=100000)", MEASURES)
