"""Small runs of Attlas in this process, and what they leave on disk."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attlas
from attlas.cli import main
from attlas.core.text import Text
from attlas.measures.entropy import Entropy
from attlas.support.errors import AttlasError
from tests.builders.models import shared

Files = dict[str, bytes]  # path in the folder -> content


QUIET: dict[str, Any] = {"progress": False}


def model(task: str = "base") -> attlas.Model:
    return shared("bert", task, num_hidden_layers=1, num_attention_heads=2)


def reviews(count: int, seed: int = 0) -> list[dict[str, str]]:
    draw = np.random.default_rng(seed)
    words = ["the", "cat", "sat", "on", "a", "mat", "it", "was"]
    return [
        {"text": " ".join([*draw.choice(words, 4), ("good", "bad")[i % 2]]), "label": "ab"[i % 2]}
        for i in range(count)
    ]


def command_line(*arguments: object) -> None:
    """Run the command line in this process; a user's mistake is an AttlasError again."""
    out, error = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(error):
        patch.setattr(sys, "argv", ["attlas", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
    if end.value.code:
        raise AttlasError(error.getvalue().strip())


def outcome(run: Callable[[], Any]) -> Any:
    """What a call gives, or None if it is refused in one line."""
    try:
        return run()
    except AttlasError as error:
        if "\n" in str(error).strip():
            raise
        return None


def files_in(folder: Path) -> Files:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write_files(folder: Path, files: Files) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class Interrupted(Entropy):
    """Entropy that is interrupted after all texts were read, as long as `now` is true."""

    now = True

    def result(self, state: Any) -> Any:
        if Interrupted.now:
            raise KeyboardInterrupt
        return super().result(state)


TEXTS = ["a cat sat on the mat", "the dog was not very good"]


def run_grid(folder: Path) -> Any:
    parts = {"train": reviews(20), "dev": reviews(8, 1), "test": reviews(8, 2)}
    return attlas.run(
        attlas.Dynamics(**parts, scales=(10.0,), epochs=1, dim=2), folder, workers=1, **QUIET
    )


def tuned(base: str | Path, folder: Path, *, fresh: bool = False, **options: Any) -> attlas.Study:
    tuning = attlas.Finetune(texts=reviews(40), model=str(base), head_only=True, **options)
    return attlas.run(tuning, folder, fresh=fresh, **QUIET)


def rows(prefix: str, count: int = 2) -> list[Text]:
    """Texts whose ids say which corpus they belong to."""
    return [Text(f"{prefix}{number}", f"{TEXTS[number % 2]} {prefix}") for number in range(count)]


def new_study(folder: Path, fresh: bool) -> attlas.Study:
    return attlas.study(model(), rows("new", 3), "entropy", folder, fresh=fresh, **QUIET)
