"""Recipes in parts: each is measured by itself, and what earlier runs in the same folder measured stands beside."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from attlas.core.files import write_bytes, write_json, writing


@dataclass
class Part:
    """One part of a reproduction: what was measured, the lines that say it, pictures, and the heads it has names for."""

    results: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    named: list[list[Any]] = field(default_factory=list)  # layer, head, name


@dataclass
class Reproduced:
    """What was measured, by part, in the order of `order`; `published` is what the paper says."""

    model: str
    order: Sequence[str]
    published: Mapping[str, Any]
    parts: dict[str, Part] = field(default_factory=dict)

    @property
    def pictures(self) -> list[Path]:
        return [Path(path) for name in self.order if name in self.parts for path in self.parts[name].pictures]

    def to_dict(self) -> dict[str, Any]:
        ours = {name: value for part in self.parts.values() for name, value in part.results.items()}
        return {"model": self.model, "published": dict(self.published), "ours": ours, "parts": {name: asdict(part) for name, part in self.parts.items()}}  # fmt: skip

    def markdown(self) -> str:
        """The numbers of all parts."""
        return "\n".join(line for name in self.order if name in self.parts for line in self.parts[name].lines)


class Running(Protocol):
    """A reproduction under way: it has a method for each part, which fills `part`."""

    part: Part


def run_parts(
    name: str, done: Reproduced, folder: Path, fresh: bool, chosen: Sequence[str], run: Running, say: Callable[[str], None] = lambda line: None
) -> Reproduced:  # fmt: skip
    """Run the chosen parts one by one, writing NAME.json and NAME.md after each; parts that an earlier run with the same model left are kept. `say` hears which is begun."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    known = json.loads(path.read_text()) if path.is_file() and not fresh else {}
    if known.get("model") == done.model:
        done.parts |= {part: Part(**found) for part, found in known.get("parts", {}).items()}
    for part in chosen:
        say(f"part {part}")
        run.part = Part()
        getattr(run, part)()
        done.parts[part] = run.part
        write_json(path, done.to_dict())
        write_bytes(folder / f"{name}.md", done.markdown().encode())
    return done
