"""attlas serve: results in the browser, on this machine."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from attlas.cli.app import app, whole
from attlas.support.errors import AttlasError
from attlas.support.options import Option

if TYPE_CHECKING:
    from attlas.models.model import Model
    from attlas.web.looks import Looks

LOOPBACK, PORT = "127.0.0.1", 8765
PORTS = Option("Port; 0 for any free one.", at_least=0, at_most=65_535)
NEEDED = ("fastapi", "uvicorn")
DEFAULT, JOBS = Path("runs"), Path("runs/jobs")


@app.command()
def serve(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR]...",
            help="Result folders, or folders that hold some (default: runs).",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="Model that pages may run; may be repeated."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Corpus that jobs may read; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results of jobs.")] = JOBS,
    port: Annotated[int, whole("--port", PORTS)] = PORT,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = LOOPBACK,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the first page in a browser.")
    ] = False,
) -> None:
    """Serve results as pages in the browser until interrupted."""
    served = Served(models=model or (), corpora=data or (), out=out)
    serve_folders(folders or [DEFAULT], served, port=port, host=host, open_page=open_page)


@dataclass(frozen=True)
class Served:
    """What pages may run: models and corpora by name, into a folder; the text of the first page."""

    models: Sequence[str] = ()
    corpora: Sequence[str] = ()
    out: Path = JOBS
    opener: Callable[[str], Model] | None = None  # of models, if they are not loaded by name
    text: str = ""


def serve_folders(
    folders: Sequence[Path],
    served: Served = Served(),  # noqa: B008
    *,
    port: int = PORT,
    host: str = LOOPBACK,
    open_page: bool = False,
) -> None:
    """Serve the results in folders until interrupted."""
    if any(find_spec(name) is None for name in NEEDED):
        raise AttlasError("attlas serve needs two more packages: pip install 'attlas[web]'")
    import uvicorn

    from attlas.corpora.sources import check_source
    from attlas.models.sources import check_model
    from attlas.web.app import create_app
    from attlas.web.jobs import Jobs
    from attlas.web.library import Library
    from attlas.web.looks import EMBEDDED, Looks
    from attlas.web.safety import TOKEN, Guard, access_for, own_name

    for check, names in ((check_model, served.models), (check_source, served.corpora)):
        for one in names:
            check(one)
    library = Library([*folders, *([served.out] if served.out.is_dir() else [])])
    with _listening(host, port) as listener:
        name, number = own_name(host), listener.getsockname()[1]
        access = access_for(host, number)
        looks = Looks(served.models, access.opaque, opener=served.opener)
        page = _first_page(looks, served.text, {TOKEN: access.token})
        address = f"http://{name}:{number}/{page}"
        print(f"serving   {address}  (Ctrl-C ends it)", flush=True)
        if open_page:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        jobs = Jobs(served.out, served.models or EMBEDDED, served.corpora)
        pages = create_app(library, looks, jobs)
        pages.add_middleware(Guard, access=access)
        settings = uvicorn.Config(pages, log_level="warning", server_header=False)
        uvicorn.Server(settings).run(sockets=[listener])


def _first_page(looks: Looks, text: str, fields: dict[str, str]) -> str:
    """The list of results, or the page of a text whose pass is queued here; with more fields."""
    if text:
        from attlas.core.text import Text

        about = looks.start(next(iter(looks.models)), Text("text", text))
        fields = {**fields, "look": str(about["id"])}
    return ("try" if text else "") + "?" + urlencode(fields)


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens, bound before the address is printed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", "") or error
        raise AttlasError(
            f"port {port} of {host} cannot be used ({reason}); choose another with --port"
        ) from error
    return listener
