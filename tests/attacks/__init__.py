"""What tests that attack Attlas share: tiny inputs, the command line, and damage to files."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

import attlas
from attlas.cli import main
from attlas.measures.entropy import Entropy
from attlas.support.errors import AttlasError
from attlas.testing import tiny

Files = dict[str, bytes]  # path in the folder -> content
QUIET: dict[str, Any] = {"progress": False}


@cache
def model(task: str = "base") -> attlas.Model:
    return tiny("bert", task, num_hidden_layers=1, num_attention_heads=2)


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


# damage


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def removed(path: Path) -> None:
    path.unlink()


def flipped(path: Path) -> None:
    """Change one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def changed(path: Path) -> None:
    """Change the numbers (in tables and arrays, those with a fraction); the file stays valid."""
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
        numbers = frame.select_dtypes("floating").columns
        frame[numbers] += 1
        frame.to_parquet(path, index=False)
    elif path.suffix == ".safetensors":
        save_file(_more(load_file(path)), path)
    elif path.suffix == ".npz":
        with np.load(path) as arrays:
            more = _more(arrays)
        np.savez(path, **more)
    elif path.suffix == ".f16":
        path.write_bytes(np.frombuffer(path.read_bytes(), np.float16)[::-1].tobytes())
    else:
        path.write_text(json.dumps(_plus_one(json.loads(path.read_text()))))


def _more(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: one + 1 if one.dtype.kind == "f" else one for name, one in arrays.items()}


def _plus_one(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plus_one(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plus_one(one) for one in value]
    return value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else value


DAMAGE: dict[str, Callable[[Path], None]] = {
    one.__name__: one for one in (emptied, cut, removed, flipped, changed)
}
