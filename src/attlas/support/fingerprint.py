"""What was this made from? A digest of everything in a thing that a result can depend on.

`fingerprint(thing)` covers the content, never the name: the same texts under another path have the
same fingerprint, and any field that differs gives another one. A thing without a rule is an error.
Rules are added where a class is defined, with `@feed.register`.

>>> fingerprint({"a": 1, "b": (2.0,)}) == fingerprint({"b": [2.0], "a": 1})
True
>>> len({fingerprint(thing) for thing in (1, 1.0, True, "1", b"1", None, [1], {1}, {1: None})})
9
"""

from __future__ import annotations

import dis
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, singledispatch
from hashlib import sha256, shake_128
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from attlas.support.errors import StudyError
from attlas.support.files import file_sha256, files_below

__all__ = [
    "File",
    "Fingerprint",
    "FingerprintError",
    "Put",
    "content_of",
    "described",
    "feed",
    "feed_fields",
    "fingerprint",
    "framed",
    "program_digest",
    "sha256",
    "sha256_of",
    "source_digest",
    "versions",
]

Put = Callable[[bytes], object]

# what draws, prints or reads a command line changes no number of a result
NOT_COMPUTING = ("views", "papers", "cli", "web", "testing", "catalogue.py", "api.py")
NUMERICAL = (
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "numba",
    "scipy",
    "scikit-learn",
    "captum",
    "gudhi",
    "safetensors",
    "pandas",
    "pyarrow",
    "regex",
    "spacy",
    "accelerate",
    "llvmlite",
    "sentencepiece",
    "en-core-web-sm",
    "en-core-web-md",
    "en-core-web-lg",
    "en-core-web-trf",  # of spaCy
)
_RULES_IN = {"numpy": "attlas.core.contents", "pandas": "attlas.core.contents"}


class FingerprintError(StudyError):
    """A value that has no fingerprint."""


def fingerprint(thing: Any) -> str:
    """Digest everything in a thing that a result can depend on."""
    digest = sha256()
    feed(thing, digest.update)
    return digest.hexdigest()


class Fingerprint:
    """The fingerprint of things that come one after the other, such as the rows of a corpus."""

    def __init__(self) -> None:
        self._digest = sha256()

    def add(self, thing: Any) -> None:
        feed(thing, self._digest.update)

    def update(self, content: bytes) -> None:
        """Add a thing by its `content`, which may be added to several fingerprints."""
        self._digest.update(content)

    def __str__(self) -> str:
        return self._digest.copy().hexdigest()


@dataclass(frozen=True)
class File:
    """A file known by its bytes, or a folder known by the names and bytes of all files in it."""

    path: Path


def framed(put: Put, kind: bytes, content: bytes) -> None:
    """Write one piece of content with its kind and length, so that neighbors never run together."""
    put(b"%b%d:" % (kind, len(content)))
    put(content)


@singledispatch
def feed(thing: Any, put: Put) -> None:
    """Write all content of a thing to `put`, each piece with its type and its length."""
    module = type(thing).__module__.partition(".")[0]
    if module in _RULES_IN and _RULES_IN[module] not in sys.modules:
        importlib.import_module(_RULES_IN[module])
        feed(thing, put)
    elif is_dataclass(thing):
        feed_fields(thing, put)
    else:
        raise FingerprintError(
            f"a {type(thing).__qualname__} has no fingerprint and cannot be part of an identity; "
            "use plain values, arrays or dataclasses, or register a rule with "
            "attlas.support.fingerprint.feed"
        )


def feed_fields(thing: Any, put: Put) -> None:
    """Write the class of a dataclass and all its fields, also those that `repr` and `==` omit."""
    feed(type(thing), put)
    feed({field.name: getattr(thing, field.name) for field in fields(thing)}, put)


@feed.register
def _(thing: None, put: Put) -> None:
    put(b"n;")


@feed.register
def _(thing: bool, put: Put) -> None:
    put(b"b1;" if thing else b"b0;")


@feed.register
def _(thing: int, put: Put) -> None:
    put(b"i%d;" % thing)


@feed.register
def _(thing: float, put: Put) -> None:
    framed(put, b"f", float(thing).hex().encode())


@feed.register
def _(thing: complex, put: Put) -> None:
    framed(put, b"j", f"{thing.real.hex()} {thing.imag.hex()}".encode())


@feed.register
def _(thing: str, put: Put) -> None:
    framed(put, b"s", thing.encode("utf-8", "surrogatepass"))


@feed.register(bytes)
@feed.register(bytearray)
def _(thing: bytes | bytearray, put: Put) -> None:
    framed(put, b"y", bytes(thing))


@feed.register(date)
@feed.register(datetime)
@feed.register(time)
@feed.register(timedelta)
@feed.register(Decimal)
@feed.register(Fraction)
def _(thing: Any, put: Put) -> None:
    framed(put, type(thing).__name__.encode(), str(thing).encode())


@feed.register
def _(thing: Enum, put: Put) -> None:
    feed(type(thing), put)
    feed(thing.name, put)


@feed.register(list)
@feed.register(tuple)
def _(thing: list[Any] | tuple[Any, ...], put: Put) -> None:
    if type(thing) not in (list, tuple):  # a named tuple
        feed(type(thing), put)
    put(b"l%d:" % len(thing))
    for one in thing:
        feed(one, put)


@feed.register
def _(thing: range, put: Put) -> None:
    feed((thing.start, thing.stop, thing.step), put)


@feed.register
def _(thing: AbstractSet, put: Put) -> None:  # type: ignore[type-arg]
    put(b"t%d:" % len(thing))
    for one in sorted(map(content_of, thing)):
        put(one)


@feed.register
def _(thing: Mapping, put: Put) -> None:  # type: ignore[type-arg]
    put(b"m%d:" % len(thing))
    for key in sorted(thing, key=content_of):
        feed(key, put)
        feed(thing[key], put)


def content_of(thing: Any) -> bytes:
    """All content of a thing, as its fingerprint digests it."""
    parts: list[bytes] = []
    feed(thing, parts.append)
    return b"".join(parts)


def random_bytes(thing: Any, count: int) -> bytes:
    """Bytes that follow from the content of a thing alone, and look random."""
    return shake_128(content_of(thing)).digest(count)


@feed.register
def _(thing: PurePath, put: Put) -> None:
    raise FingerprintError(
        f"the path {str(thing)!r} has no fingerprint: a result depends on what is in a file, not "
        "on its name; use File(path) for its content, or str(path) for the name"
    )


@feed.register
def _(thing: File, put: Put) -> None:
    path = thing.path.expanduser()
    try:
        if path.is_dir():
            names = {str(one.relative_to(path)): sha256_of(one) for one in files_below(path)}
            feed(("folder", names), put)
        else:
            feed(("file", sha256_of(path)), put)
    except OSError as error:
        raise FingerprintError(f"{path} cannot be read: {error.strerror or error}") from error


def sha256_of(path: Path) -> str:
    """The sha256 of a file, computed once per process as long as the file stays the same."""
    stat = path.stat()
    return _known_sha256(
        str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_ctime_ns
    )


@cache
def _known_sha256(path: str, size: int, mtime: int, inode: int, ctime: int) -> str:
    """The digest of a file, cached within this process as long as the file is unchanged."""
    return file_sha256(Path(path))


@feed.register(type)
@feed.register(FunctionType)
@feed.register(BuiltinFunctionType)
def _(thing: Any, put: Put) -> None:
    """The qualified name, and the source of the package if that is not Attlas or Python."""
    name = thing.__qualname__
    if isinstance(thing, FunctionType) and ("<" in name or thing.__closure__):
        raise FingerprintError(
            f"{name} has no fingerprint; use a function defined in a module "
            "instead of a lambda, a local function or a closure"
        )
    feed(("named", str(thing.__module__), name), put)
    package = str(thing.__module__).partition(".")[0]
    if package in ("attlas", "sklearn", *NUMERICAL) or package in sys.stdlib_module_names:
        return  # known by `source_digest`
    if _is_of_notebook(thing):
        feed(_code_of(thing), put)
    else:
        feed(_package_digest(package), put)


def _is_of_notebook(thing: Any) -> bool:
    """Whether a function or a class is of a notebook or a prompt: there is no file to read."""
    main = sys.modules.get("__main__")
    return thing.__module__ == "__main__" and getattr(main, "__file__", None) is None


def _code_of(thing: Any) -> list[Any]:
    """What a function, or the functions of a class, consist of.

    In a notebook that is also what they find by name there. Nothing is followed twice, as
    functions may call each other.
    """
    known = _FOLLOWED.get()
    if known is None:
        token = _FOLLOWED.set(set())
        try:
            return _code_of(thing)
        finally:
            _FOLLOWED.reset(token)
    if id(thing) in known:
        return []
    known.add(id(thing))
    return list(_code_of_class(thing) if isinstance(thing, type) else _code_of_function(thing))


_FOLLOWED: ContextVar[set[int] | None] = ContextVar("followed", default=None)


def _code_of_class(kind: type) -> Iterable[Any]:
    yield from (base for base in kind.__bases__ if base.__module__ == "__main__")
    for name, member in sorted(vars(kind).items()):
        if isinstance(_inside(member), FunctionType):
            yield name, *described(member)
        elif not name.startswith("__"):
            yield name, _plainly(member)


def _code_of_function(function: FunctionType) -> Iterable[Any]:
    yield _plainly((function.__defaults__, function.__kwdefaults__))
    yield from _code(function.__code__)
    if _is_of_notebook(function):
        for name in sorted(_names(function.__code__) & set(function.__globals__)):
            found = function.__globals__[name]
            is_function = isinstance(_inside(found), FunctionType)
            yield name, described(found) if is_function else _plainly(found)


def _names(code: CodeType) -> set[str]:
    """The names that code looks up outside of its function."""
    own = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    inside = (one for one in code.co_consts if isinstance(one, CodeType))
    return own.union(*map(_names, inside))


def _inside(thing: Any) -> Any:
    """The function inside a method, a property, a partial or a cached function."""
    if not isinstance(thing, FunctionType | type):
        for name in ("__func__", "fget", "func", "__wrapped__"):
            if callable(found := getattr(thing, name, None)):
                return _inside(found)
    return thing


def described(function: Any) -> list[Any]:
    """The name, code, defaults and plain values of any function, also of a closure."""
    inner = _inside(function)
    if not isinstance(inner, FunctionType):
        return [
            type(inner).__module__,
            type(inner).__qualname__,
            _plainly(getattr(inner, "__dict__", None)),
        ]
    given = [*getattr(function, "args", ()), *sorted(getattr(function, "keywords", {}).items())]
    cells = [cell.cell_contents for cell in inner.__closure__ or ()]
    code = _code_of(inner)
    return [inner.__module__, inner.__qualname__, *code, *map(_plainly, (*given, *cells))]


def _plainly(value: Any) -> Any:
    """The content of a value; only the kind of what has no fingerprint."""
    try:
        return content_of(value)
    except FingerprintError:
        return type(value).__qualname__


def _code(code: CodeType) -> Iterable[Any]:
    yield code.co_code, code.co_names, code.co_varnames
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield "..." if constant is ... else constant


def _package_digest(package: str) -> str:
    """Digest the Python source of a package, or of a single module."""
    module: ModuleType | None = sys.modules.get(package)
    if module is None:
        module = importlib.import_module(package)
    file = inspect.getsourcefile(module) if getattr(module, "__file__", None) else None
    if file is not None and not hasattr(module, "__path__"):
        return fingerprint(File(Path(file)))
    roots = [Path(root) for root in getattr(module, "__path__", ())]
    sources = [path for root in roots for path in sorted(root.rglob("*.py"))]
    names = [f"{path.parent.name}/{path.name}" for path in sources]
    return fingerprint([names, [sha256_of(path) for path in sources]])


@cache
def source_digest() -> str:
    """Digest what computes: Attlas's own source, and the versions of the libraries behind it."""
    return _digest_of_files(_computes)


@cache
def program_digest() -> str:
    """Digest all of Attlas, also what draws and prints, and the versions of the libraries."""
    return _digest_of_files(lambda path: path.suffix in (".py", ".md", ".html", ".css", ".js"))


def _digest_of_files(counts: Callable[[Path], bool]) -> str:
    """Digest those files of Attlas that count, by their paths, and the versions of libraries."""
    root = Path(__file__).parents[1]
    paths = ((path, path.relative_to(root)) for path in files_below(root))
    files = {name.as_posix(): sha256_of(path) for path, name in paths if counts(name)}
    return fingerprint((files, versions()))


def _computes(path: Path) -> bool:
    return not (
        len(path.parts) == 1
        or path.parts[0] in NOT_COMPUTING
        or "section" in (*path.parts[:-1], path.stem)  # a module, or a folder of them
        or "__pycache__" in path.parts
        or path.parts[:2] == ("corpora", "embedded")  # known by its rows, as every corpus is
        or path.suffix in (".toml", ".md", ".pyi", ".pyc", ".nbi", ".nbc")
    )


def versions() -> dict[str, str]:
    """List the versions of everything that numbers can depend on."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    own = {"attlas": _version("attlas"), "python": ".".join(map(str, sys.version_info[:2]))}
    return {name: number for name in NUMERICAL if (number := _version(name))} | own


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
