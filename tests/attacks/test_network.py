"""No network unless asked: no verb on local inputs resolves a name or opens a connection."""

from __future__ import annotations

from pathlib import Path

import pytest
from uvicorn import Server

from attlas.cli.serve import serve_folders
from tests.attacks.verbs import VERBS
from tests.builders.processes import Start

LISTENING = """
import sys
from pathlib import Path
NAMES = ("socket.getaddrinfo", "socket.gethostbyname")
ADDRESSES = ("socket.connect", "socket.sendto", "socket.bind")  # a string is a local socket's
def heard(event, arguments):
    if event in NAMES or (event in ADDRESSES and not isinstance(arguments[-1], str)):
        with open({noted!r}, "a") as file:
            file.write(f"{{event}} {{arguments[1:]}}\\n")
sys.addaudithook(heard)
import huggingface_hub.constants
huggingface_hub.constants.HF_HUB_OFFLINE = False  # read when it was imported
import attlas.cli
attlas.cli.main()
"""


@pytest.mark.parametrize(
    "name",
    ["study", *(pytest.param(one, marks=pytest.mark.attack) for one in VERBS if one != "study")],
)
def test_no_verb_uses_the_network(
    name: str, home: Path, attlas_start: Start, tmp_path: Path
) -> None:
    verb, noted = VERBS[name], tmp_path / "noted"
    code = LISTENING.format(noted=str(noted))
    words = verb.words(home, verb.prepare(tmp_path / "out"))
    process = attlas_start(*words, code=code, HF_HUB_OFFLINE="0")
    _, error = process.communicate(timeout=240)
    assert process.returncode == 0, error
    assert not noted.exists(), noted.read_text()


def test_pages_are_served_on_loopback_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        Server, "run", lambda server, sockets: seen.append(sockets[0].getsockname()[0])
    )
    serve_folders([tmp_path], port=0)
    assert seen == ["127.0.0.1"]
