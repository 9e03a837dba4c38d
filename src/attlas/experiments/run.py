"""run: one driver for all experiments: check, identify, find or run, write the result folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from attlas.corpora.corpus import Labelled
from attlas.corpora.sources import check_source, files_of
from attlas.experiments.experiment import Excluded, Experiment, Outcome, TableFile
from attlas.models.sources import check_model, folder_of
from attlas.studies.folder import (
    COMPLETE,
    FILES,
    FORMAT,
    MANIFEST,
    QUARANTINE,
    RESULT,
    SOURCE,
    TABLES,
    Folder,
    read_manifest,
)
from attlas.studies.named import COMMAND, OPENED_FROM, named_files
from attlas.studies.opened import Study, in_folder
from attlas.support.errors import ModelError, StudyError
from attlas.support.files import link, write_errors, write_json
from attlas.support.fingerprint import fingerprint, source_digest, versions
from attlas.support.json import to_json
from attlas.support.options import (
    FILE,
    FILE_OR_MODEL,
    MODEL_OR_NONE,
    STUDIES,
    TEXTS,
    Given,
    check_fields,
    declared,
    option,
    workers_option,
)

if TYPE_CHECKING:
    from attlas.experiments.workspace import Workspace

EXCLUDED = "excluded"  # rows of the inputs, in the identity
ENGINES = ("local",)
NAMED = ("text", "label", "id", "column")  # openings that name columns


@dataclass(frozen=True, kw_only=True)
class How:
    """How an experiment is run, which changes neither its numbers nor its identity."""

    workers: int | None = workers_option()
    engine: str = option("local", "What runs the passes.", choices=ENGINES)
    fresh: bool = False  # clear what an earlier run wrote to the folder
    cache: str | Path | None = None  # a folder of passes that experiments may share
    keep_states: bool = False
    progress: bool | None = None  # show bars and lines; None: on a terminal
    log: Callable[[str], None] | None = None  # gets the lines instead of standard error
    named: Callable[[], str | None] = lambda: None  # a command's fingerprint, to find its result by

    def __post_init__(self) -> None:
        check_fields(self, StudyError)


class RunKeywords(TypedDict, total=False):
    """The fields of `How`, as keywords of `run`."""

    workers: int | None
    engine: str
    fresh: bool
    cache: str | Path | None
    keep_states: bool
    progress: bool | None
    log: Callable[[str], None] | None
    named: Callable[[], str | None]


def run(experiment: Experiment, out: str | Path | None = None, **how: Unpack[RunKeywords]) -> Study:
    """Run an experiment, or open its finished folder; `result` has its numbers, `table` its tables.

    An interrupted run resumes. The fields of `How` are keywords: `workers`, `engine`, `fresh`
    (clear what an earlier run wrote to `out`), `cache` (a folder that experiments may share),
    `keep_states`, `progress` and `log`. Without `out` the result lives in a temporary folder as
    long as it is used.
    """
    settings = How(**how)
    experiment, inferred = completed(experiment)
    texts = []
    for name, value in experiment.inputs.items():
        if _given(experiment, name).of == TEXTS:
            check_source(value)
            texts.append(value)
        elif _given(experiment, name).of == FILE:
            check_path(name, value)
        elif _given(experiment, name).is_study:
            opened_studies(value)
        elif _is_model(experiment, name) and name not in inferred:
            check_model(value)

    def go(path: Path) -> Study:
        _refuse_inputs_of(path, experiment)
        folder = Folder(path, experiment.name)
        finished = None if settings.fresh else _finished(folder, experiment)
        if finished is not None:
            return finished
        for value in texts:
            check_columns(value, experiment.openings("texts"))
        cache = None if settings.cache is None else Path(settings.cache).expanduser()
        if cache is not None and cache.resolve().is_relative_to(path.resolve()):
            raise StudyError(
                f"the cache {cache} is inside the result folder {path}; choose another cache folder"
            )
        from attlas.experiments.workspace import Workspace  # torch begins here

        work = Workspace(
            folder,
            cache=cache,
            workers=settings.workers,
            engine=settings.engine,
            progress=settings.progress,
            log=settings.log,
        )
        return _run(experiment, work, inferred, settings)

    return in_folder(out, go)


def check_columns(source: Any, names: Mapping[str, Any]) -> None:
    """Refuse a file that is empty or has no such columns, before a model library is imported."""
    if files_of(source):
        from attlas.corpora.read import check_first_row, read

        columns = {name: names[name] for name in NAMED if name in names}
        check_first_row(read(source, **columns))


def check_path(name: str, value: Any) -> None:
    """Refuse the path of an input if there is no such file or folder."""
    if isinstance(value, str | os.PathLike) and not os.path.exists(Path(value).expanduser()):
        raise StudyError(f"there is no file {str(value)[:200]!r}; give the path of {name}")


def opened_studies(value: Any) -> list[Study]:
    """The results that an input names: one, several or none."""
    several = [] if value is None else value if isinstance(value, list | tuple) else [value]
    return [one if isinstance(one, Study) else Study.open(one) for one in several]


def _refuse_inputs_of(out: Path, experiment: Experiment) -> None:
    """Refuse a result folder that is or contains an input."""
    for name, value in experiment.inputs.items():
        for path in _files(_given(experiment, name), value) or ():
            if path.resolve().is_relative_to(out.resolve()):
                raise StudyError(
                    f"the result folder contains {path}, which is the input {name}; "
                    "choose another folder (--out)"
                )


def _given(experiment: Experiment, name: str) -> Given:
    about = declared(experiment)[name]
    assert isinstance(about, Given)
    return about


def _is_model(experiment: Experiment, name: str) -> bool:
    return _given(experiment, name).is_model


def completed(experiment: Experiment) -> tuple[Experiment, set[str]]:
    """An experiment with the inputs that follow from others, and the names of these inputs."""
    whole = experiment.completed()
    before, after = experiment.inputs, whole.inputs
    return whole, {name for name in after if after[name] is not before[name]}


def _run(experiment: Experiment, work: Workspace, inferred: Set[str], how: How) -> Study:
    began = time.perf_counter()
    work.folder.refuse_foreign() if how.fresh else read_manifest(work.folder.path)
    files = _opened_from(experiment, how)
    opened = open_inputs(experiment, work, inferred)
    if experiment.checks:
        experiment.part(experiment.checks)(experiment, work, **opened)
    known = {name: work.identity(value) for name, value in opened.items()}
    identity = identify(experiment, known) | _known_by(work.excluded)
    if _opened_from(experiment, how) != files:
        raise StudyError("an input changed while it was read; run the same command again")
    details = {name: parts for name, parts in known.items() if isinstance(parts, Mapping)}
    with work.folder.claim(identity, how.fresh, details) as finished:
        if finished is not None:
            return Study(work.folder.path, finished)
        outcome = experiment.part(experiment.does)(experiment, work, **opened)
        if work.excluded:
            outcome = with_excluded(outcome, work)
        about = _about(experiment, opened, known, outcome)
        for name in inferred:
            about["inputs"][name]["from"] = "another input"
        about[OPENED_FROM] = files
        about["seconds"] = round(time.perf_counter() - began, 3)
        write_outcome(work.folder, outcome, about, how.keep_states)
    return Study.open(work.folder.path)


def open_inputs(
    experiment: Experiment, work: Workspace, inferred: Set[str] = frozenset()
) -> dict[str, Any]:
    """Open every input by what its field names, and complete those that are not given.

    A model that nobody gave and that the experiment may lack is None if it cannot be loaded.
    """
    opened, work.excluded = open_texts(experiment)
    if experiment.resolves:
        opened = experiment.part(experiment.resolves)(experiment, opened)
    for name, value in experiment.inputs.items():
        if _is_model(experiment, name):
            stays = value is None and _given(experiment, name).of == MODEL_OR_NONE
            how = experiment.openings("model")
            try:
                opened[name] = None if stays else work.load(value, **how)
            except ModelError:
                if name not in inferred or name not in experiment.may_lack:
                    raise
                opened[name] = None
    return opened


def open_texts(experiment: Experiment) -> tuple[dict[str, Any], Excluded]:
    """Open every input but models, and the excluded rows; an input not given stays None."""
    opened: dict[str, Any] = {}
    excluded: Excluded = []
    for name, value in experiment.inputs.items():
        if not _is_model(experiment, name):
            about = _given(experiment, name)
            if about.is_study:
                results = opened_studies(value)
                opened[name] = results if about.of == STUDIES else next(iter(results), None)
                continue
            opener = experiment.part(about.opened_by)
            how = experiment.openings("texts") if about.of == TEXTS else {}
            content = None if value is None else opener(value, **how)
            if isinstance(content, Labelled):
                excluded += [(name, index, row) for index, row in content.excluded]
                content = content.texts
            opened[name] = content
    return opened, excluded


def _known_by(excluded: Excluded) -> dict[str, str]:
    """The part of the identity for excluded rows; nothing if there are none."""
    return {EXCLUDED: fingerprint(excluded)} if excluded else {}


def with_excluded(outcome: Outcome, work: Workspace) -> Outcome:
    """An outcome that counts the excluded rows of its inputs and has them with their reasons."""
    from attlas.studies.store import write_quarantine

    count = len(work.excluded)
    counts = {**outcome.counts}
    for name in ("read", "quarantined"):
        counts[name] = counts.get(name, 0) + count
    rows = [
        {"input": name, "place": index, "id": row.id, "where": row.where, "reason": row.reason}
        for name, index, row in work.excluded
    ]
    before = b"" if outcome.quarantine is None else outcome.quarantine.read_bytes()
    return replace(
        outcome,
        counts=counts,
        result={**outcome.result, "quarantined": count},
        quarantine=work.files(write_quarantine, rows, before) / QUARANTINE,
    )


def identify(experiment: Experiment, known: Mapping[str, Any]) -> dict[str, str]:
    """Each input and option with its fingerprint, and the code that computes."""
    return {
        **{
            name: fingerprint(parts) if isinstance(parts, Mapping) else parts
            for name, parts in known.items()
        },
        **_plain_identity(experiment),
    }


def _plain_identity(experiment: Experiment) -> dict[str, str]:
    """Options and code: the part of the identity that needs no input. A plug-in's code counts."""
    options = {name: fingerprint(value) for name, value in experiment.options.items()}
    return {**options, SOURCE: source_of(type(experiment))}


def source_of(kind: type[Experiment]) -> str:
    """The code that computes an experiment."""
    return fingerprint((source_digest(), kind))


def identity_of(experiment: Experiment) -> dict[str, str]:
    """The identity that a run would have: inputs are opened, nothing is run."""
    from attlas.experiments.workspace import Workspace

    experiment, inferred = completed(experiment)
    work = Workspace(Folder(Path(), experiment.name), progress=False)
    opened = open_inputs(experiment, work, inferred)
    known = {name: work.identity(value) for name, value in opened.items()}
    return identify(experiment, known) | _known_by(work.excluded)


def input_files(experiment: Experiment) -> dict[str, str]:
    """Each input that is made of local files, by these files and how they are opened."""
    out = {}
    for name, value in experiment.inputs.items():
        about = _given(experiment, name)
        is_model, files = about.is_model, _files(about, value)
        if files is None:
            continue
        how = experiment.openings("model" if is_model else "texts" if about.of == TEXTS else "")
        out[name] = named_files(value, files, how, is_model)
    return out


def _opened_from(experiment: Experiment, how: How) -> dict[str, str]:
    """The inputs that are made of local files, and what a command named, if it can be known."""
    command = how.named()
    return input_files(experiment) | ({} if command is None else {COMMAND: command})


def _files(about: Given, value: Any) -> list[Path] | None:
    """The files of an input, none if it is not given; None for an object or a name on the Hub."""
    if value is None and (about.of == MODEL_OR_NONE or not about.is_model):
        return []
    if about.is_model:
        folder = folder_of(value)
        return None if folder is None else [folder]
    if about.is_study:
        several = opened_studies(value)
        return [one.folder / MANIFEST for study in several for one in (study, *study.others)]
    if about.of in (FILE, FILE_OR_MODEL):
        if not isinstance(value, str | os.PathLike):
            return None
        path = Path(value).expanduser()
        source = path if about.of == FILE or os.path.exists(path) else folder_of(value)
        return None if source is None else [source]
    return files_of(value)


def _finished(folder: Folder, experiment: Experiment) -> Study | None:
    """The finished result of the same files, opened the same way: no model is loaded."""
    manifest = read_manifest(folder.path)
    if manifest is None or manifest["attlas"] < FORMAT or manifest["status"] != COMPLETE:
        return None
    if manifest["kind"] != folder.kind or OPENED_FROM not in manifest:
        return None
    plain = _plain_identity(experiment)
    if any(manifest["identity"].get(name) != value for name, value in plain.items()):
        return None
    files, others = input_files(experiment), manifest[OPENED_FROM]
    rest = {name for name in experiment.inputs if name not in files or name not in others}
    if any(files[name] != others[name] for name in set(files) - rest):
        return None
    if rest and not _are_texts_of(experiment, rest, manifest["identity"]):
        return None
    folder.check_files(manifest)
    return Study(folder.path, manifest)


def _are_texts_of(experiment: Experiment, names: Set[str], identity: Mapping[str, str]) -> bool:
    """Whether inputs that are texts in memory have the content that an identity says."""
    if any(_is_model(experiment, name) for name in names):
        return False
    opened, excluded = open_texts(experiment)
    if experiment.resolves:
        opened = experiment.part(experiment.resolves)(experiment, opened)
    return identity.get(EXCLUDED) == _known_by(excluded).get(EXCLUDED) and all(
        fingerprint(opened[name]) == identity.get(name) for name in opened
    )


def _about(
    experiment: Experiment, opened: Mapping[str, Any], known: Mapping[str, Any], outcome: Outcome
) -> dict[str, Any]:
    """What the manifest says of inputs, options and counts."""
    from attlas.models import Model
    from attlas.studies.run import about_model

    models = {name: one for name, one in opened.items() if isinstance(one, Model)}
    first = next(iter(models), "")
    names = [name for name in experiment.inputs if _given(experiment, name).of == TEXTS]
    corpus = next((name for name in reversed(names) if opened[name] is not None), "")
    given = next((name for name in reversed(names) if experiment.inputs[name] is not None), "")
    return {
        "model": about_model(models[first], known[first]["weights"]) if models else None,
        "corpus": {
            "name": source_name(experiment.inputs.get(given)),
            "fingerprint": known.get(corpus),
            "labels": {},
            **outcome.corpus,
        },
        "measures": {experiment.name: str(experiment.options)},
        "inputs": {
            name: {"name": _input_name(_given(experiment, name), value, models.get(name))}
            for name, value in experiment.inputs.items()
        },
        "counts": dict(outcome.counts),
        "controls": to_json([list(one) for one in outcome.controls]),
        "seed": experiment.options.get("seed", 0),
        "versions": versions(),
        **outcome.about,
    }


def _input_name(about: Given, value: Any, model: Any) -> str:
    """What an input is called: a model by its own name, a result by that of its folder."""
    if about.is_study:
        return ", ".join(one.folder.resolve().name for one in opened_studies(value))
    return str(model.name) if model is not None else source_name(value)


def source_name(source: Any) -> str:
    """What an input is called in a manifest."""
    name = str(getattr(source, "name", source if isinstance(source, str | Path) else "texts"))
    return name if name.startswith(("embedded:", "synthetic")) else Path(name).name


def write_outcome(
    folder: Folder, outcome: Outcome, about: Mapping[str, Any], keep_states: bool = False
) -> None:
    """Stage tables, result and files, then publish them together."""
    from attlas.studies.run import table_kind
    from attlas.studies.store import arrow, write_parquet

    model = about["model"] or {"n_layers": 0, "n_heads": 0}
    shape = (model["n_layers"], model["n_heads"])
    tables = {}
    with folder.staging() as stage, write_errors(folder.path):
        for name, thing in outcome.files.items():
            if name != ".":  # a model stands in the folder itself, so that from_pretrained finds it
                (stage / FILES).mkdir(exist_ok=True)
            thing.save(stage if name == "." else stage / FILES / name)
        (stage / TABLES).mkdir()
        for name, table in outcome.tables.items():
            if isinstance(table, TableFile):
                link(table.path, stage / TABLES / f"{name}.parquet")
                tables[name] = dict(table.about)
            else:
                rows = write_parquet(stage / TABLES / f"{name}.parquet", [arrow(table)])
                tables[name] = {"rows": rows, "kind": table_kind(table, *shape)}
        write_json(stage / RESULT, to_json(outcome.result))
        if outcome.quarantine is not None:
            link(outcome.quarantine, stage / QUARANTINE)
        folder.publish(stage, {**about, "tables": tables}, keep_states)
