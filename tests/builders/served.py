"""A server in this process, in a thread, as a browser uses it; with tiny models."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

import attlas
from attlas.web.app import create_app
from attlas.web.jobs import Jobs
from attlas.web.library import Library
from attlas.web.looks import Looks
from attlas.web.safety import Access, Guard, access_for
from tests.builders.pages import PATIENCE, VIEWS_ARE_DRAWN

PAGE = {"accept": "text/html,*/*"}
CHANGE = {"content-type": "application/json", "x-attlas": "1"}


@dataclass(frozen=True)
class Served:
    """An application behind its guard, and what it is made of."""

    app: FastAPI
    access: Access
    looks: Looks
    jobs: Jobs | None
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def link(self, path: str) -> str:
        """The address of a page as the terminal prints it, with the token."""
        return f"{self.address}{path}{'&' if '?' in path else '?'}token={self.access.token}"

    def client(self) -> TestClient:
        """A reader who has opened the address of the terminal."""
        client = TestClient(self.app, base_url=self.address, follow_redirects=False)
        client.headers.update(CHANGE)
        assert client.get(self.link("/"), headers=PAGE).status_code == 303
        return client


def served(
    folders: Sequence[Path],
    models: Mapping[str, attlas.Model],
    jobs: Jobs | None = None,
    port: int = 8_765,
) -> Served:
    """An application over folders, with models by name."""
    access = access_for("127.0.0.1", port)
    looks = Looks(list(models), access.opaque, opener=models.__getitem__)
    app = create_app(Library(folders), looks, jobs)
    app.add_middleware(Guard, access=access)
    return Served(app, access, looks, jobs, port)


@contextmanager
def listening(
    folders: Sequence[Path], models: Mapping[str, attlas.Model], jobs: Jobs | None = None
) -> Iterator[Served]:
    """The same on a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = served(folders, models, jobs, listener.getsockname()[1])
        settings = uvicorn.Config(one.app, log_level="warning", server_header=False)
        server = uvicorn.Server(settings)
        run = server.serve(sockets=[listener])
        thread = threading.Thread(target=lambda: asyncio.run(run), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield one
        finally:
            server.should_exit = True
            thread.join(10)


def until_ready(client: TestClient, about: Mapping[str, Any], seconds: float = 60) -> str:
    """The id of a pass once it has ended well."""
    end = time.monotonic() + seconds
    while (state := about["state"]) in ("waiting", "running"):
        assert time.monotonic() < end, about
        time.sleep(0.01)
        about = client.get(f"/api/looks/{about['id']}").json()
    assert state == "ready", about
    return str(about["id"])


def watched(browser: Any, address: str, **options: Any) -> tuple[Any, list[str]]:
    """An empty page, and what will go wrong in it, requests to other servers included."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(PATIENCE)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append("a script of a text ran"), dialog.dismiss()))
    page.on(
        "console",
        lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None,
    )
    own = "/".join(address.split("/")[:3])
    page.on(
        "request",
        lambda request: (
            wrong.append(request.url)
            if not request.url.startswith((own, "data:", "blob:"))
            else None
        ),
    )
    return page, wrong


def shown(page: Any) -> Any:
    """A page of the server once its views are drawn."""
    page.wait_for_selector("html[data-ready]", state="attached")
    page.wait_for_function(VIEWS_ARE_DRAWN)
    return page


def opened(browser: Any, address: str, **options: Any) -> tuple[Any, list[str]]:
    """A page of the server and what went wrong in it."""
    page, wrong = watched(browser, address, **options)
    page.goto(address)
    return shown(page), wrong
