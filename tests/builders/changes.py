"""Helpers of test_stale.py and test_damage.py: what is right after inputs or files have changed,
and how to interrupt a run.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers

import attlas
from attlas.core.annotations import DEPENDENCIES, ROOT, Dependencies
from attlas.core.states import State, Sums
from attlas.core.text import Text
from attlas.support.errors import AttlasError

QUIET: dict[str, Any] = {"progress": False}
WORDS = (
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "and",
    "dog",
    "saw",
    "it",
    "was",
    "a",
    "very",
    "good",
    "film",
    "not",
    "bad",
)
REFUSAL = re.compile(
    r"other|chang|differ|damag|missing|match|shorter|truncat|checksum|fresh", re.IGNORECASE
)


class WrongTestError(Exception):
    """What a test takes for granted does not hold, so that it shows nothing."""


def premise(holds: bool, what: str) -> None:
    """Check what a test takes for granted, so that it cannot pass or fail for another reason."""
    if not holds:
        raise WrongTestError(what)


def text(number: int, words: int = 30, **more: Any) -> Text:
    """A text of random words, always the same for a number."""
    return Text(str(number), " ".join(np.random.default_rng(number).choice(WORDS, words)), **more)


def labelled_rows(count: int = 24, words: int = 8, **more: Any) -> list[Text]:
    """Texts of two labels; the last word decides."""
    return [
        Text(
            str(number),
            f"{text(number, words).text} {'good' if number % 2 else 'bad'}",
            str(number % 2),
            **more,
        )
        for number in range(count)
    ]


def parsed(count: int, words: int = 8, **annotations: Any) -> list[Text]:
    """Sentences with dependency trees: every word depends on the next one, the last on ROOT."""
    relations = tuple("nsubj" if place % 2 else "det" for place in range(words - 1))
    tree = Dependencies((*range(1, words), ROOT), (*relations, "root"), ("NOUN",) * words)
    return [
        Text(
            str(number),
            words=tuple(text(number, words).text.split()),
            annotations={DEPENDENCIES: tree, **annotations},
        )
        for number in range(count)
    ]


def same(left: Any, right: Any) -> bool:
    """Whether two results are equal, numbers up to rounding."""
    if isinstance(left, pd.DataFrame):
        try:
            pd.testing.assert_frame_equal(left, right, rtol=1e-6, atol=1e-9)
        except AssertionError:
            return False
        return True
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, np.ndarray | float):
        return np.shape(left) == np.shape(right) and np.allclose(
            left, right, rtol=1e-5, atol=1e-7, equal_nan=True
        )
    if isinstance(left, Sequence) and not isinstance(left, str):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def refused(call: Callable[[], Any]) -> Any:
    """The result of a call, or None if it was refused with a reason; an error with another message
    is not a refusal.
    """
    try:
        return call()
    except AttlasError as error:
        premise(bool(REFUSAL.search(str(error))), f"an error, but not a refusal: {error}")
        return None


def refused_or(true: Any, call: Callable[[], Any], *, old: Any = None) -> None:
    """Assert that a call is refused or computes the true result; `old` is the stale result, which
    must differ.
    """
    premise(old is None or not same(true, old), "the true result is the same as the old one")
    result = refused(call)
    assert result is None or same(true, result), (
        f"neither refused nor true: {_short(result)}; true is {_short(true)}"
    )


def _short(value: Any) -> str:
    return str(value.to_dict("list") if isinstance(value, pd.DataFrame) else value)[:300]


@contextmanager
def interrupted(
    monkeypatch: pytest.MonkeyPatch, at: Callable[[], bool], *names: str
) -> Iterator[None]:
    """Stop (as Ctrl-C does) before the first call of one of these functions of `os` for which `at`
    holds.
    """

    def stopping(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if at():
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in names:
            patch.setattr(os, name, stopping(getattr(os, name)))
        yield


MOVING = ("replace", "rename")
CHANGING = ("unlink", "remove", "rmdir", *MOVING)


def stops(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any], every: int = 3
) -> Iterator[int]:
    """Stop a call at one of `every` changes of the disk, each time in `out`, a copy of the folder
    `made`.
    """
    for number in count(0, every):
        shutil.rmtree("out", ignore_errors=True)
        shutil.copytree("made", "out")
        now = chain(repeat(False, number), [True], repeat(False))
        try:
            with interrupted(monkeypatch, now.__next__, *CHANGING):
                call()
        except KeyboardInterrupt:
            yield number
        else:
            premise(number > 2 * every, "too little was changed")
            return


@contextmanager
def counting_loads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The classes of networks whose weights are read meanwhile."""
    seen: list[str] = []
    load = transformers.PreTrainedModel.from_pretrained.__func__

    def counted(cls: type, *arguments: Any, **options: Any) -> Any:
        seen.append(cls.__name__)
        return load(cls, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(transformers.PreTrainedModel, "from_pretrained", classmethod(counted))
        yield seen


def reads(model: Any, longer: int = 10) -> list[int]:
    """The lengths of texts that the network reads from now on, without the short ones that test a
    model.
    """
    seen: list[int] = []

    def note(module: Any, arguments: Any, options: Mapping[str, Any]) -> None:
        length = int((arguments[0] if arguments else options["input_ids"]).shape[1])
        if length > longer:
            seen.append(length)

    model.network.base_model.register_forward_pre_hook(note, with_kwargs=True)
    return seen


def upgrade(library: str, folder: Path) -> Path:
    """A folder that, first on the path, makes an installed library appear in a newer version."""
    newer = f"{version(library).partition('+')[0].rpartition('.')[0]}.99"
    about = folder / f"{library.replace('-', '_')}-{newer}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: {newer}\n")
    return folder


@dataclass
class Total(State):
    """How many texts were counted."""

    texts: Sums = field(default_factory=lambda: Sums.zeros(1))

    def count(self, values: Any) -> None:
        self.texts.add(0, np.array(values))

    def frame(self, factor: float = 1, more: float = 0) -> pd.DataFrame:
        return pd.DataFrame({"texts": self.texts.total * factor + more})


def changed_texts(text: Text) -> dict[str, Text]:
    """A text with each of its fields changed in turn."""
    notes = dict(text.annotations)
    out = {
        "id": replace(text, id=f"{text.id}x"),
        "label": replace(text, label=f"{text.label}x"),
        "no label": replace(text, label=None),
        "an annotation of one's own": replace(text, annotations={**notes, "mine": 1}),
    }
    if text.words is None:
        out["text"] = replace(text, text=f"{text.text} .")
        out["words"] = Text(
            text.id, words=tuple(text.text.split()), label=text.label, annotations=notes
        )
    else:
        out["text"] = Text(text.id, words=(*text.words, "."), label=text.label, annotations=notes)
        joined = (" ".join(text.words[:2]), *text.words[2:])
        out["words"] = Text(text.id, words=joined, label=text.label, annotations=notes)
    for name in notes:
        if name != "where":
            rest = {key: value for key, value in notes.items() if key != name}
            out[f"without {name}"] = replace(text, annotations=rest)
            out[f"{name} renamed"] = replace(text, annotations={**rest, f"{name}x": notes[name]})
    return {
        name: one for name, one in out.items() if one != text or one.annotations != text.annotations
    }


def _longer(tokenizer: Any) -> None:
    tokenizer.add_tokens(["zyx"])


def _scaled(network: Any) -> None:
    with torch.no_grad():
        next(network.parameters()).data.mul_(2)  # does not move its version counter


def _shifted(network: Any) -> None:
    dict(network.named_buffers())["embeddings.position_ids"].add_(1)


CHANGES: dict[str, tuple[str, Callable[[attlas.Model], attlas.Model | None]]] = {
    "a weight": ("weights", lambda model: _scaled(model.network)),
    "a buffer": ("buffers", lambda model: _shifted(model.network)),
    "the configuration": (
        "config",
        lambda model: setattr(model.network.config, "layer_norm_eps", 1e-3),
    ),
    "a module": (
        "config",
        lambda model: setattr(model.network.base_model.pooler, "activation", torch.nn.ReLU()),
    ),
    "a hook": (
        "hooks",
        lambda model: model.network.register_forward_hook(lambda *_: None) and None,
    ),
    "the vocabulary": ("tokenizer", lambda model: _longer(model.tokenizer)),
    "the normalizer": (
        "tokenizer",
        lambda model: setattr(model.tokenizer.backend_tokenizer, "normalizer", None),
    ),
    "a special token": ("tokenizer", lambda model: setattr(model.tokenizer, "sep_token", ".")),
    "truncation_side": (
        "tokenizer",
        lambda model: setattr(model.tokenizer, "truncation_side", "left"),
    ),
    "split_special_tokens": (
        "tokenizer",
        lambda model: setattr(model.tokenizer, "split_special_tokens", True),
    ),
    "the task": ("task", lambda model: replace(model, task="classify")),
    "max_length": ("max_length", lambda model: replace(model, limit=12)),
    "global tokens": ("global_tokens", lambda model: replace(model, global_tokens="special")),
    "dtype": ("dtype", lambda model: replace(model, network=model.network.double())),
}
