"""Reproductions in parts: parts of earlier runs are kept if their inputs are the same.

    DIR/NAME.json, NAME.md, pictures    rendered from the parts, after each of them
    DIR/parts/                          the experiments behind them, each in a result folder

A part is identified by model, options, code, the data files it read and the other parts it used.
One that no longer matches is excluded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from attlas.models import Model
from attlas.papers import PAPERS
from attlas.papers.data import present_sha256, recorded
from attlas.studies.folder import PARTS, SOURCE, Folder, check_file, read_manifest
from attlas.support.errors import StudyError
from attlas.support.files import read_json, write_bytes, write_json
from attlas.support.fingerprint import File, fingerprint, source_digest, versions
from attlas.views import charts


@dataclass
class PaperTable:
    """One part of a reproduction: its results, how they are shown, and its inputs."""

    results: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)  # of the Markdown
    pictures: list[str] = field(default_factory=list)  # names in the folder of the recipe
    named: list[list[Any]] = field(default_factory=list)  # heads with a name: layer, head, name
    made_from: dict[str, str] = field(default_factory=dict)  # input -> fingerprint
    data: dict[str, str] = field(default_factory=dict)  # file below the data root -> sha256
    uses: dict[str, str | None] = field(default_factory=dict)  # other part -> its fingerprint

    def record(self) -> dict[str, Any]:
        """Everything in it, as JSON has it."""
        record: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return record


@dataclass
class Reproduction:
    """The parts of a reproduction, and the published values."""

    model: str
    order: Sequence[str]
    published: Mapping[str, Any]
    folder: Path = Path()
    parts: dict[str, PaperTable] = field(default_factory=dict)

    def ordered(self) -> dict[str, PaperTable]:
        """The parts in the order of the recipe."""
        return {name: self.parts[name] for name in self.order if name in self.parts}

    def known_by(self, name: str) -> str | None:
        """The fingerprint of a part; None if it is not there."""
        return fingerprint(self.parts[name].record()) if name in self.parts else None

    @property
    def pictures(self) -> list[Path]:
        return [self.folder / name for part in self.ordered().values() for name in part.pictures]

    def to_dict(self) -> dict[str, Any]:
        parts = self.ordered()
        return {
            "model": self.model,
            "published": dict(self.published),
            "ours": {key: value for part in parts.values() for key, value in part.results.items()},
            "parts": {name: part.record() for name, part in parts.items()},
        }

    def markdown(self) -> str:
        """The numbers of all parts."""
        return "\n".join(line for part in self.ordered().values() for line in part.lines)


@dataclass(kw_only=True)
class Recipe:
    """A running reproduction, with one method per part, which fills `part`."""

    name: ClassVar[str]
    order: ClassVar[tuple[str, ...]] = ()  # in which parts are run, if not as they are shown
    announces: ClassVar[bool] = True  # whether it logs the name of each part
    root: Path  # of the data sets
    reproduction: Reproduction
    model_parts: Mapping[str, str] = field(default_factory=dict)  # of the model's fingerprint
    options: dict[str, Any] = field(default_factory=dict)  # workers, fresh, progress
    log: Callable[[str], None] = lambda line: None
    part: PaperTable = field(default_factory=PaperTable)
    stage: Path = Path()  # where pictures are drawn until the part is published

    @classmethod
    def subject(cls, model: Model) -> str:
        """What the numbers are of."""
        return model.name

    @property
    def folder(self) -> Path:
        return self.reproduction.folder

    def inside(self, name: str) -> Path:
        """The folder of an experiment that is run inside the recipe."""
        return self.folder / PARTS / name

    def run_part(self, name: str) -> None:
        """Fill `part` with one part."""
        getattr(self, name)()

    def depends_on(self, part: str) -> Any:
        """What a part depends on besides model, data and code: seeds, conventions, ..."""
        return None

    def use(self, *names: str) -> dict[str, PaperTable]:
        """Those of some other parts that exist; the present part is outdated when they change."""
        self.part.uses |= {name: self.reproduction.known_by(name) for name in names}
        parts = self.reproduction.parts
        return {name: parts[name] for name in names if name in parts}

    def picture_path(self, name: str) -> Path:
        """Where to draw a picture that shall have this name in the folder of the recipe."""
        return self.picture_folder(Path(name).parent.as_posix()) / Path(name).name

    def picture_folder(self, name: str) -> Path:
        """Where to draw pictures that shall stand in a folder of this name."""
        folder = self.stage / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def show(self, title: str, *blocks: str | Sequence[str]) -> None:
        """Add a section to the Markdown: a heading, and paragraphs or tables."""
        self.part.lines += [f"### {title}", ""]
        for block in blocks:
            if block:
                self.part.lines += [*([block] if isinstance(block, str) else block), ""]

    def add_pictures(self, *paths: Path) -> None:
        self.part.pictures += [path.relative_to(self.stage).as_posix() for path in paths]

    def draw(self, chart: Any, name: str) -> None:
        self.add_pictures(charts.export(chart, self.picture_path(f"{name}.png")))


def run_options(
    workers: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """How a recipe and the experiments inside it are run; `log` gets progress lines."""
    return {"options": {"workers": workers, "fresh": fresh, "progress": progress}, "log": log}


def run_recipe(
    recipe: type[Recipe],
    root: Path,
    out: str | Path,
    chosen: Sequence[str],
    published: Mapping[str, Any],
    of: Model | str,
    options: Mapping[str, Any],
    **fields: Any,
) -> Reproduction:
    """Run the chosen parts of a recipe on a model, or on what is no model but has a name."""
    named, identity = (of, {}) if isinstance(of, str) else (recipe.subject(of), of.identity())
    parts, folder = PAPERS[recipe.name].parts, Path(out).expanduser()
    made = recipe(
        root=root,
        reproduction=Reproduction(named, parts, published, folder),
        model_parts=identity,
        **run_options(**options),
        **fields,
    )
    return run_reproduction(made, chosen)


def run_reproduction(recipe: Recipe, chosen: Sequence[str]) -> Reproduction:
    """Run the chosen parts one by one and publish NAME.json, NAME.md and pictures after each.

    Parts of earlier runs stay if their inputs are the same. `log` gets a line for each part that is
    run or excluded.
    """
    reproduction = recipe.reproduction
    results = Folder(reproduction.folder, f"reproduce {recipe.name}", grows=True)
    identity = {**_model(recipe), SOURCE: source_digest()}
    details = {"model": recipe.model_parts} if recipe.model_parts else None
    about = {"model": {"name": reproduction.model}, "versions": versions()}
    with results.claim(identity, recipe.options.get("fresh", False), details, **about):
        excluded = _restore(recipe, read_manifest(results.path) or {})
        for name in (part for part in recipe.order or reproduction.order if part in chosen):
            if recipe.announces:
                recipe.log(f"part {name}")
            with results.staging() as stage:
                recipe.part, recipe.stage = PaperTable(), stage
                with recorded(recipe.root) as files:
                    recipe.run_part(name)
                recipe.part.made_from, recipe.part.data = _made_from(recipe, name), files
                reproduction.parts[name] = recipe.part
                excluded |= _drop_outdated(reproduction)
                _publish(recipe, results)
        for name, reason in excluded.items():
            if name not in chosen:
                recipe.log(f"part {name} of an earlier run is excluded: {reason}; run it again")
    return reproduction


def _publish(recipe: Recipe, results: Folder) -> None:
    """Write the results of all parts; pictures of parts of earlier runs stay."""
    reproduction, stage = recipe.reproduction, recipe.stage
    write_json(stage / f"{recipe.name}.json", reproduction.to_dict())
    write_bytes(stage / f"{recipe.name}.md", reproduction.markdown().encode())
    others = [part for part in reproduction.parts.values() if part is not recipe.part]
    kept = [name for part in others for name in part.pictures]
    known = {name: reproduction.known_by(name) for name in reproduction.parts}
    results.publish(stage, {"parts": known}, kept=kept)


def _restore(recipe: Recipe, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Restore the parts of earlier runs; returns why others are excluded."""
    content = read_json(recipe.folder / f"{recipe.name}.json") or {}
    records, known = content.get("parts", {}), manifest.get("parts", {})
    excluded: dict[str, str] = {}
    sha256_of = cache(lambda name: present_sha256(recipe.root, name))
    for name in recipe.reproduction.order:
        if name not in known:
            continue
        reason = next(_reasons(recipe, name, records.get(name), manifest, sha256_of), None)
        if reason is None:
            recipe.reproduction.parts[name] = PaperTable(**records[name])
        else:
            excluded[name] = reason
    return excluded | _drop_outdated(recipe.reproduction)


def _reasons(
    recipe: Recipe,
    name: str,
    record: dict[str, Any] | None,
    manifest: Mapping[str, Any],
    sha256_of: Callable[[str], str | None],
) -> Iterator[str]:
    """Reasons to exclude a part of an earlier run."""
    if record is None or fingerprint(record) != manifest["parts"][name]:
        yield "it was not finished, or has changed since"
        return
    made_from = _made_from(recipe, name)
    changed = [one for one in made_from if record["made_from"].get(one) != made_from[one]]
    if changed:
        yield f"it was made with other inputs ({', '.join(changed)})"
    files = [file for file, sha256 in record["data"].items() if sha256_of(file) != sha256]
    if files:
        yield f"it was made from other data ({', '.join(files)})"
    for picture in record["pictures"]:
        try:
            check_file(recipe.folder, picture, manifest)
        except StudyError:
            yield f"its picture {picture} is damaged"


def _drop_outdated(reproduction: Reproduction) -> dict[str, str]:
    """Drop parts that used other parts which are different now, and what used those in turn."""
    dropped: dict[str, str] = {}
    while True:
        outdated = {
            name: other
            for name, part in reproduction.parts.items()
            for other, used in part.uses.items()
            if reproduction.known_by(other) != used
        }
        if not outdated:
            return dropped
        for name, other in outdated.items():
            del reproduction.parts[name]
            dropped[name] = f"it used part {other}, which is different now"


def _made_from(recipe: Recipe, part: str) -> dict[str, str]:
    """The fingerprints of everything that a part depends on, apart from its data."""
    return {
        **_model(recipe),
        "options": fingerprint(recipe.depends_on(part)),
        SOURCE: source_digest(),
        "recipe": _recipe_digest(),
    }


def _model(recipe: Recipe) -> dict[str, str]:
    return {"model": fingerprint(recipe.model_parts)} if recipe.model_parts else {}


@cache
def _recipe_digest() -> str:
    """Digest what turns results into lines and pictures, which `source_digest` does not cover."""
    package = Path(__file__).parents[1]
    drawing = (
        "papers/*.py",
        "papers/published/*.csv",
        "views/*.py",
        "*/section.py",
        "*/section/*.py",
    )
    sources = [path for pattern in drawing for path in package.glob(pattern)]
    names = {path.relative_to(package).as_posix(): fingerprint(File(path)) for path in sources}
    return fingerprint(names)
