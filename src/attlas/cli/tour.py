"""attlas tour: all five papers in miniature, on embedded models and corpora, in one report."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attlas.cli.app import (
    Json,
    ModelOption,
    Workers,
    app,
    print_study,
    report_page,
    status,
    whole,
)
from attlas.support.options import Option

if TYPE_CHECKING:
    from attlas.core.text import Text
    from attlas.corpora import Corpus
    from attlas.studies import Study
    from attlas.support.subject import Subject

PORT = Option("Port for --serve; 0 for any.", at_least=0, at_most=65_535)
OPT_IN = ("head_distance", "special_gradient")  # measures that `all` does not contain
LONG_MEASURES = ("position_bias",)  # of long texts, the others of short ones
HEATMAP = "heatmap(size=16,examples=0)"  # a message has about 27 tokens
LABELLED, TREES = "embedded:messages", "embedded:sentences"
TEST_TEXTS, DEV_TEXTS = 35, 30  # of the labelled texts, the others are for training
PARTS_OF_CORPORA = {
    "tour:test": (LABELLED, slice(TEST_TEXTS)),
    "tour:dev": (LABELLED, slice(TEST_TEXTS, TEST_TEXTS + DEV_TEXTS)),
    "tour:train": (LABELLED, slice(TEST_TEXTS + DEV_TEXTS, None)),
    "tour:trees-train": (TREES, slice(0, None, 2)),
    "tour:trees-test": (TREES, slice(1, None, 2)),
}
LONG_TEXTS, LONG_CHARACTERS = 2, 6_000  # about 1,400 tokens each


@app.command()
def tour(
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for results (default: runs/tour, or runs/tour-full)."),
    ] = None,
    model: ModelOption = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="All methods, and larger inputs; takes about eight minutes of CPU time."
        ),
    ] = False,
    workers: Workers = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete the results of an earlier tour in the folder.")
    ] = False,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve/--no-serve", help="Serve the results in the browser until interrupted."
        ),
    ] = False,
    port: Annotated[int, whole("--port", PORT)] = 8765,
    as_json: Json = False,
) -> None:
    """All five papers in miniature, on the embedded model and corpora, in one report.

    Interrupted tours resume when the command is repeated.
    """
    folder = out or Path("runs/tour-full" if full else "runs/tour")
    how = {"workers": workers, "fresh": fresh, "progress": False}
    result = Tour(folder, model, full, how).run()
    print_study(result, report_page(result), as_json, "attlas serve {folder}")
    if serve:
        from attlas.cli.serve import serve_folders

        serve_folders([folder], port=port)


@dataclass(frozen=True)
class Step:
    """One step of the tour: what it shows, and what runs it."""

    title: str
    run: Callable[[Callable[[str], None]], object]  # called with what reports its progress


@dataclass(frozen=True)
class Tour:
    """The study in `out`, and in `out/parts` what every subject has for the tour."""

    out: Path
    model: str | None
    full: bool
    how: Mapping[str, Any]

    def run(self) -> Study:
        """Run all steps, each announced in one line; finished ones are found again."""
        from attlas.studies.opened import Study

        steps = list(self.steps())
        for number, step in enumerate(steps, 1):
            print(f"{number}/{len(steps)}  {step.title}", file=sys.stderr, flush=True)
            with status(step.title) as line:
                step.run(getattr(line, "update", print))
        return Study.open(self.out).with_parts()

    def steps(self) -> Iterator[Step]:
        """A study, long texts, then the parts of subjects; those that need others come last."""
        from attlas.catalogue import subjects

        yield Step("Heads and tokens: What does each head attend to?", self._study)
        yield Step("Long texts: 4,096 tokens instead of 512", self._study_long)
        parts = [(one, name) for one in subjects() for name in one.tour]
        for subject, name in sorted(parts, key=lambda part: _needs_part(*part)):
            fields = {**subject.tour[name], **(subject.full.get(name, {}) if self.full else {})}
            question = inspect.getdoc(subject.experiment(name)) or ""
            title = f"{subject.name.capitalize()}: {question.splitlines()[0]}"
            yield Step(title, partial(run_part, subject, name, fields, self))

    def _study(self, log: Callable[[str], None]) -> Study:
        from attlas.api import study
        from attlas.catalogue import measures_of
        from attlas.models import load

        log("loading the model")
        others = (*LONG_MEASURES, "heatmap")
        chosen = [one for one in measures_of("all") if one.name not in others]
        measures = [*chosen, *measures_of([HEATMAP, *OPT_IN])]
        return study(load(self.model, task="auto"), LABELLED, measures, self.out, **self.how)

    def _study_long(self, log: Callable[[str], None]) -> Study:
        """The embedded model is lengthened; another one reads as much as it can."""
        from attlas.api import study
        from attlas.models import load
        from attlas.studies.folder import PARTS

        long = load(self.model or "embedded:long")
        texts, folder = tour_texts("tour:long"), self.out / PARTS / "long"
        return study(long, texts, ",".join(LONG_MEASURES), folder, **self.how)


def _needs_part(subject: Subject, name: str) -> bool:
    return any(str(value).startswith("part:") for value in subject.tour[name].values())


def run_part(
    subject: Subject,
    name: str,
    fields: Mapping[str, Any],
    tour: Tour,
    log: Callable[[str], None],
) -> Study | None:
    """One experiment of the tour; None, with a warning, for one of another package that fails."""
    from attlas.experiments.run import run
    from attlas.studies.folder import PARTS
    from attlas.support.options import MODEL, Given, declared

    kind = subject.experiment(name)
    about = declared(kind).get("model")
    own = {"model": tour.model} if isinstance(about, Given) and about.of == MODEL else {}
    try:
        given = {field: _input(value, tour.out / PARTS) for field, value in fields.items()}
        return run(kind(**{**own, **given}), tour.out / PARTS / kind.name, **tour.how, log=log)
    except Exception as error:
        if subject.package.startswith("attlas."):
            raise
        warnings.warn(f"the part {name} of the tour is skipped: {error}", stacklevel=2)
        return None


def _input(value: Any, parts: Path) -> Any:
    """A field of a part: `tour:NAME` are texts of the tour, `part:NAME` is the model of a part."""
    if isinstance(value, str) and value.startswith("part:"):
        return str(parts / value.removeprefix("part:"))
    return tour_texts(value) if isinstance(value, str) and value.startswith("tour:") else value


def tour_texts(name: str) -> Corpus:
    """Return texts of the tour: `long` are joined reviews, the others parts of a corpus.

    `test`, `dev` and `train` are messages; of the sentences every other one is for `trees-test`.
    """
    from attlas.corpora import Corpus, read

    if name == "tour:long":
        return Corpus("embedded:reviews (joined)", lambda: _long_texts(read("embedded:reviews")))
    source, rows = PARTS_OF_CORPORA[name]
    texts = list(read(source))[rows]
    return Corpus(f"{source} ({len(texts)} texts)", lambda: texts)


def _long_texts(texts: Corpus) -> list[Text]:
    from attlas.core.text import Text

    joined = "\n".join(text.text for text in texts)
    starts = range(0, LONG_TEXTS * LONG_CHARACTERS, LONG_CHARACTERS)
    return [Text(f"long-{start}", joined[start : start + LONG_CHARACTERS]) for start in starts]
