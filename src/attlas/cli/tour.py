"""attlas tour: a study of the embedded corpora, then every subject's part, in one report."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attlas.cli.app import Json, ModelOption, Workers, app, begun, say_study, status, whole
from attlas.support.options import Option

if TYPE_CHECKING:
    from attlas.studies import Study
    from attlas.support.subject import Subject

PORT = Option("Port for --serve; 0 for any.", at_least=0, at_most=65_535)
COSTLY = ("head_distance", "special_gradient")  # measures that are costly, on few texts here


@app.command()
def tour(
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("runs/tour"),
    model: ModelOption = None,
    workers: Workers = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Clear what an earlier tour left in the folder.")
    ] = False,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve/--no-serve", help="Serve the report on this machine until interrupted."
        ),
    ] = False,
    port: Annotated[int, whole("--port", PORT)] = 8765,
    as_json: Json = False,
) -> None:
    """Everything on the embedded model and corpora: a study, every subject, a summary and a report."""
    done = run_tour(model, out, workers, fresh)
    with status("writing the report"):
        page = done.report(out / "report.html")
    say_study(done, page, as_json)
    if serve:
        from attlas.cli.serve import serve_folder

        serve_folder(out, port)


def run_tour(model: str | None, out: Path, workers: int | None, fresh: bool) -> Study:
    """The study in `out`, and in `out/parts` what every subject of the catalogue has for the tour."""
    from attlas.catalogue import measures_of, subjects

    with status("loading the model"):
        from attlas.api import study
        from attlas.models import load

        loaded = load(model, task="auto")
    how: dict[str, Any] = {"workers": workers, "fresh": fresh}
    done = study(loaded, "embedded:all", [*measures_of("all"), *COSTLY], out, **how)
    for subject in subjects():
        for name in subject.tour:
            part = run_part(subject, name, loaded, out, how)
            if part is not None:
                done = done.beside(part)
    return done


def run_part(
    subject: Subject, name: str, model: Any, out: Path, how: dict[str, Any]
) -> Study | None:
    """One experiment of the tour; None, with a warning, for one of another package that fails."""
    from attlas.experiments.run import run
    from attlas.studies.folder import PARTS
    from attlas.support.options import MODEL, Given, declared

    kind = subject.experiment(name)
    about = declared(kind).get("model")
    own = {"model": model} if isinstance(about, Given) and about.of == MODEL else {}
    try:
        experiment = kind(**own, **subject.tour[name])
        return run(experiment, out / PARTS / kind.name, **how, say=begun)
    except Exception as error:
        if subject.package.startswith("attlas."):
            raise
        warnings.warn(f"the part {name} of the tour is left out: {error}", stacklevel=2)
        return None
