"""A server over small results, asked in this process or by a browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import uvicorn
from fastapi.testclient import TestClient

from attlas.cli.serve import listening
from attlas.web.app import create_app
from attlas.web.library import Library
from attlas.web.safety import Guard, access_for
from tests.builders.studies import OLD, measured

ADDRESS = "http://127.0.0.1"


@cache
def library() -> Library:
    """A study with every measure, and results of earlier versions."""
    return Library([measured().folder, OLD])


@cache
def client() -> TestClient:
    """What asks the pages of the library, without a guard."""
    return TestClient(create_app(library()), ADDRESS)


def study_id(name: str = "") -> str:
    """The id of a result by the name of its folder; of the study with every measure."""
    wanted = name or Path(measured().folder).name
    return next(one.id for one in library().entries() if one.name == wanted)


@contextmanager
def running(results: Library) -> Iterator[str]:
    """A server as `attlas serve` starts it, in a thread; its address."""
    listener = listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    pages = create_app(results)
    pages.add_middleware(Guard, access=access_for("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(pages, log_level="warning", server_header=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(30)
    listener.close()
