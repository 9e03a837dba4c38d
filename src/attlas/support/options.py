"""What may be given to an experiment: its inputs, its options, and the values they may take.

An experiment is a frozen dataclass whose fields are made with `given`, `option` and `opening`. From
these its Python arguments, its command line, its checks and its identity follow.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from attlas.support.errors import AttlasError, MeasureError

TextsLike = Any  # what `attlas.read` takes: a file, a list of Texts, a DataFrame, ...
StudyLike = Any  # a result folder, or a Study
ModelLike = Any  # what `attlas.load` takes: a folder, a Hub ID, (model, tokenizer), a Model

CONVENTIONS = ("sound", "published")  # published: a paper's own way, where it is unsound

MOST_VALUES = 1_000  # of a list
_KEY = "attlas"  # in the metadata of a field


def check_convention(convention: str) -> None:
    """Refuse what is not a convention."""
    if convention not in CONVENTIONS:
        raise MeasureError(f"convention is {convention!r}; it must be {' or '.join(CONVENTIONS)}")


@dataclass(frozen=True)
class Given:
    """An input, known by its content.

    `of` is what it is: `TEXTS`, `MODEL`, `MODEL_OR_NONE`, `FILE`, `FILE_OR_MODEL`, `STUDY` or
    `STUDIES`. All but models and studies are opened by `opened_by`, a function in the experiment's
    package.
    """

    help: str
    of: str
    opened_by: str
    flags: tuple[str, ...] = ()

    @property
    def is_model(self) -> bool:
        return self.of in (MODEL, MODEL_OR_NONE)

    @property
    def is_study(self) -> bool:
        return self.of in (STUDY, STUDIES)


@dataclass(frozen=True)
class Option:
    """A plain value, with its domain."""

    help: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    multiple_of: int | None = None
    choices: tuple[Any, ...] | None = None
    flags: tuple[str, ...] = ()

    @property
    def domain(self) -> str:
        """Which values it may take, in words; empty if any."""
        if self.choices is not None:
            return " or ".join(map(str, self.choices))
        ends = {
            "at least": self.at_least,
            "above": self.above,
            "at most": self.at_most,
            "below": self.below,
            "a multiple of": self.multiple_of,
        }
        named = ((name, end) for name, end in ends.items() if end is not None)
        return " and ".join("finite" if end == math.inf else f"{name} {end}" for name, end in named)

    def holds(self, value: Any) -> bool:
        """Whether a value is in the domain."""
        return (
            (self.choices is None or value in self.choices)
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
            and (self.multiple_of is None or value % self.multiple_of == 0)
        )


@dataclass(frozen=True)
class Opening(Option):
    """How an input is opened: an option of the verb that the identity leaves out."""

    of: str = "model"  # the inputs that it opens: `model`, or `texts`


WORKERS = Option("Number of workers (default: one per core).", at_least=1, at_most=1_024)
MAX_LENGTH = Option("Truncate texts to this many tokens.", at_least=3, at_most=1_000_000)
UNTIL = Option(
    "Stop early: once every 95% interval of the measure surface has at most this half-width.",
    at_least=0.005,
    at_most=0.5,
)
SEED = Option("Random seed.", at_least=0, at_most=2**32 - 1)
PICKLE_HELP = "Also read pickled weights, which can run code: only if you trust them."
GLOBAL_HELP = "Global tokens of a Longformer: first, special, none, or indices such as 0,5."
DEVICE_HELP = (
    "Device of the model: cpu, cuda, cuda:1, mps, or auto, which spreads it over all devices "
    "(needs the package accelerate). Default: cpu."
)
LENSES = ("weights", "norms")
LENS_HELP = (
    "What is read: attention weights, or norms, the weights times the lengths of what tokens "
    "contribute."
)
DTYPES = ("float32", "bfloat16", "float16")
DTYPE_HELP = "Precision of the weights (default: the one they were saved in)."
MODEL_HELP = "Folder, Hub ID or embedded:long (default: the embedded model, all-MiniLM-L6-v2)."

TEXTS = "texts"  # what `attlas.read` takes; its opener gets the openings of texts as well
MODEL = "model"  # opened by `attlas.load`; None is the embedded model
MODEL_OR_NONE = "model or none"  # the same, but None stays None
FILE = "file"  # another file or folder, such as word vectors; its opener gets nothing else
STUDY = "study"  # the folder of a finished result, known by its tables
STUDIES = "studies"  # several of them
FILE_OR_MODEL = "file or model"  # the same, or a model: also by its name on the Hub, or an object


def given(
    help: str,
    default: Any = MISSING,
    *,
    of: str = TEXTS,
    opened_by: str = "work:read",
    flags: Sequence[str] = (),
) -> Any:
    """Declare an input, known by its content; one that is not a model is opened by `opened_by`."""
    metadata = {_KEY: Given(help, of, opened_by, tuple(flags))}
    return field(default=default, metadata=metadata)


def option(default: Any, help: str, *, flags: Sequence[str] = (), **domain: Any) -> Any:
    """Declare a plain value.

    `at_least`, `above`, `at_most`, `below`, `multiple_of` and `choices` bound it.
    """
    return field(default=default, metadata={_KEY: Option(help, flags=tuple(flags), **domain)})


def opening(
    default: Any, help: str, *, of: str = "model", flags: Sequence[str] = (), **domain: Any
) -> Any:
    """Declare how inputs are opened; what counts is the opened content, not this."""
    about = Opening(help, of=of, flags=tuple(flags), **domain)
    return field(default=default, metadata={_KEY: about})


def seed_option(default: int = 0) -> Any:
    """Declare a random seed."""
    return field(default=default, metadata={_KEY: SEED})


def workers_option() -> Any:
    """Declare a number of workers."""
    return field(default=None, metadata={_KEY: WORKERS})


def until_option() -> Any:
    """Declare how narrow intervals must be to stop reading; by default all texts are read."""
    return field(default=None, metadata={_KEY: UNTIL})


def same_option(record: type, name: str, default: Any) -> Any:
    """Declare a value with the domain that it has in another dataclass."""
    return field(default=default, metadata={_KEY: option_fields(record)[name]})


def max_length_opening() -> Any:
    """Declare where texts are truncated, which is how they are opened."""
    about = MAX_LENGTH
    return opening(None, about.help, at_least=about.at_least, at_most=about.at_most)


def model_input() -> Any:
    """Declare the model of an experiment."""
    return given(MODEL_HELP, None, of=MODEL)


def pickle_opening() -> Any:
    """Declare whether pickled weights may be opened."""
    return opening(False, PICKLE_HELP)


def global_tokens_opening() -> Any:
    """Declare the global tokens of a Longformer."""
    return opening(None, GLOBAL_HELP)


def device_opening() -> Any:
    """Declare the device that a model runs on."""
    return opening(None, DEVICE_HELP)


def lens_opening() -> Any:
    """Declare what is read of a model's attention."""
    return opening("weights", LENS_HELP, choices=LENSES)


def dtype_opening() -> Any:
    """Declare the precision of a model's weights."""
    return opening(None, DTYPE_HELP, choices=DTYPES)


def declared(experiment: Any) -> dict[str, Given | Option]:
    """The declaration of every field of an experiment, by name."""
    declarations: dict[str, Any] = {one.name: one.metadata.get(_KEY) for one in fields(experiment)}
    for name, about in declarations.items():
        if about is None:
            raise TypeError(f"{name} is not declared; use given(), option() or opening()")
    return declarations


def help_of(about: Given | Option) -> str:
    """The help of a field with its domain.

    >>> help_of(Option("Batch size.", at_least=1, at_most=64))
    'Batch size. [at least 1 and at most 64]'
    >>> help_of(Option("Learning rate.", above=0, below=math.inf))
    'Learning rate. [above 0 and finite]'
    """
    domain = about.domain if isinstance(about, Option) else ""
    return f"{about.help} [{domain}]" if domain else about.help


def check_fields(record: Any, error: type[AttlasError] = AttlasError) -> None:
    """Convert every declared option of a dataclass to its type; refuse one outside its domain."""
    options = option_fields(record)
    hints = types_of(type(record)) if options else {}
    for name, about in options.items():
        value = checked(name, getattr(record, name), hints[name], about, error)
        object.__setattr__(record, name, value)


def option_fields(record: Any) -> dict[str, Option]:
    """The options among the fields of a dataclass, by name; other fields need no declaration."""
    metadata = {one.name: one.metadata.get(_KEY) for one in fields(record)}
    return {name: about for name, about in metadata.items() if isinstance(about, Option)}


def types_of(experiment: type) -> Mapping[str, Any]:
    """The type of every field of an experiment's class."""
    return get_type_hints(experiment)


def checked(
    name: str, value: Any, hint: Any, about: Option, error: type[AttlasError] = AttlasError
) -> Any:
    """Convert a value to its field's type and refuse one outside the domain.

    >>> checked("min_cases", 10.0, int, Option("", at_least=1))
    10
    >>> checked("scales", "1,10", tuple[float, ...], Option("", above=0))
    (1.0, 10.0)
    >>> checked("target", "3", str | int, Option("")), checked("target", 3, str | int, Option(""))
    ('3', 3)
    >>> checked("n", 7, int, Option("", multiple_of=2))
    Traceback (most recent call last):
        ...
    attlas.support.errors.AttlasError: n is 7; it must be a whole number a multiple of 2
    >>> checked("convention", "mine", str, Option("", choices=CONVENTIONS))
    Traceback (most recent call last):
        ...
    attlas.support.errors.AttlasError: convention is 'mine'; it must be sound or published
    >>> checked("rate", math.inf, float, Option("", above=0, below=math.inf))
    Traceback (most recent call last):
        ...
    attlas.support.errors.AttlasError: rate is inf; it must be a number above 0 and finite
    """
    converted = _converted(value, hint)
    each = converted if isinstance(converted, tuple) else (converted,)
    if len(each) > MOST_VALUES:
        raise error(f"{name} has {len(each)} values; give at most {MOST_VALUES}")
    if converted is not None and (
        converted is _WRONG or any(one is _WRONG or not about.holds(one) for one in each)
    ):
        wanted = " ".join(part for part in (_named(hint, about), about.domain) if part)
        raise error(f"{name} is {_shown(value)}; it must be {wanted}")
    return converted


_WRONG = object()


def _shown(value: Any) -> str:
    """A value as an error shows it: not all of one that fills pages."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _converted(value: Any, hint: Any) -> Any:
    """A value as a type has it, of several types the first that fits; `_WRONG` if it cannot be."""
    if value is None:
        return None if type(None) in get_args(hint) else _WRONG
    each = (_as_kind(value, kind) for kind in kinds_of(hint))
    return next((one for one in each if one is not _WRONG), _WRONG)


def kinds_of(hint: Any) -> list[Any]:
    """The types that a field may have, without None.

    >>> kinds_of(str | int | None), kinds_of(float)
    ([<class 'str'>, <class 'int'>], [<class 'float'>])
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [one for one in kinds if one is not type(None)]


def _as_kind(value: Any, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, Sequence):
            return _WRONG
        inner = get_args(kind)[0]
        plain = (part.strip() if isinstance(part, str) else part for part in parts)
        return tuple(_converted(part, inner) for part in plain)
    return _PLAIN[kind](value) if kind in _PLAIN else value


def _whole(value: Any) -> Any:
    try:
        if isinstance(value, bool):
            return _WRONG
        if isinstance(value, float | str):
            return int(value) if float(value).is_integer() else _WRONG
        return operator.index(value)
    except (TypeError, ValueError, OverflowError):
        return _WRONG


def _number(value: Any) -> Any:
    try:
        return _WRONG if isinstance(value, bool) or value != value else float(value)
    except (TypeError, ValueError):
        return _WRONG


def _truth(value: Any) -> Any:
    plain = value.item() if hasattr(value, "item") else value
    return plain if isinstance(plain, bool) else _WRONG


def _string(value: Any) -> Any:
    return value if isinstance(value, str) else _WRONG


_PLAIN = {int: _whole, float: _number, bool: _truth, str: _string}
_NAMES = {int: "a whole number", float: "a number", bool: "True or False", str: "a string"}


def _named(hint: Any, about: Option) -> str:
    """What a value must be, in words; what is one of some strings needs no name."""
    names = {**_NAMES, str: ""} if about.choices is not None else _NAMES

    def named(kind: Any) -> str:
        if get_origin(kind) is tuple:
            each = names.get(get_args(kind)[0], "")
            return f"a list, each {each}".strip() if each or about.domain else "a list"
        return names.get(kind, "")

    return " or ".join(filter(None, map(named, kinds_of(hint))))
