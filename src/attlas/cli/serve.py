"""Serve a study's report on this machine."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from attlas.support.errors import AttlasError


def serve_folder(folder: Path, port: int) -> None:
    """Serve a folder on loopback until interrupted."""
    try:
        server = ThreadingHTTPServer(
            ("127.0.0.1", port), partial(SimpleHTTPRequestHandler, directory=str(folder))
        )
    except OSError as error:
        raise AttlasError(
            f"port {port} cannot be used ({error.strerror}); choose another with --port"
        ) from error
    with server:
        print(
            f"serving   http://127.0.0.1:{server.server_port}/report.html  (Ctrl-C ends it)",
            flush=True,
        )
        server.serve_forever()
