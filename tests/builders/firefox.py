"""Firefox, spoken to by Marionette: its own remote protocol, JSON over a socket on loopback."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START = 60  # seconds that Firefox may take to start
PREFERENCES = {
    "marionette.port": 0,  # any that is free
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.prefetch-next": False,
    "extensions.getAddons.cache.enabled": False,
    "toolkit.telemetry.server": "",
}


class Firefox:
    """One window: `open` shows a page, `run` runs a script in it and returns what that returns."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=START)
        self.number = 0
        self._receive()  # a greeting
        self._send("WebDriver:NewSession", {"capabilities": {"alwaysMatch": {}}})

    def open(self, page: Path) -> None:
        """Show a page and wait until it has loaded."""
        self._send("WebDriver:Navigate", {"url": page.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns; a promise is waited for."""
        body = f"const done = arguments[arguments.length - 1]; (async () => {{ {script} }})()"
        body += ".then((value) => done({ value }), (error) => done({ error: String(error) }));"
        found = self._send("WebDriver:ExecuteAsyncScript", {"script": body, "args": arguments})
        assert "error" not in found["value"], found["value"]
        return found["value"].get("value")

    def _send(self, name: str, parameters: dict[str, Any]) -> Any:
        self.number += 1
        message = json.dumps([0, self.number, name, parameters])
        self.socket.sendall(f"{len(message.encode())}:{message}".encode())
        _, number, error, result = self._receive()
        assert number == self.number
        assert error is None, error
        return result

    def _receive(self) -> Any:
        length = b""
        while (letter := self.socket.recv(1)) != b":":
            assert letter, "Firefox has ended"
            length += letter
        content = b""
        while len(content) < int(length):
            content += self.socket.recv(int(length) - len(content))
        return json.loads(content)


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """Firefox without a screen, with a new profile in a folder; it ends with the context."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    assert program is not None
    lines = [
        f"user_pref({json.dumps(name)}, {json.dumps(to)});" for name, to in PREFERENCES.items()
    ]
    (folder / "user.js").write_text("\n".join(lines), encoding="utf-8")
    command = [program, "--headless", "--no-remote", "--marionette", "--profile", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            window = Firefox(_port(folder, process))
            with window.socket:
                yield window
        finally:
            process.terminate()
            process.wait(START)


def _port(folder: Path, process: subprocess.Popen[bytes]) -> int:
    """The port that Firefox chose, which it writes into its profile."""
    path, until = folder / "MarionetteActivePort", time.monotonic() + START
    while time.monotonic() < until:
        if path.is_file() and (content := path.read_text(encoding="utf-8").strip()):
            return int(content)
        assert process.poll() is None, "Firefox has ended"
        time.sleep(0.1)
    raise AssertionError("Firefox did not start")
