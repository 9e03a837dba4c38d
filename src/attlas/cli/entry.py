"""All verbs, and how a command ends; nothing heavy is imported before a verb runs."""

from __future__ import annotations

import os
import signal
import sys
import warnings

import typer

from attlas.cli import study  # its verbs register themselves, before the others

# isort: split
from attlas.cli import report

# isort: split
from attlas.cli import reproduce, serve, tour
from attlas.cli.app import app
from attlas.cli.extract import add_extract
from attlas.cli.subjects import add_verbs
from attlas.support.errors import AttlasError
from attlas.support.progress import is_followed

__all__ = ["app", "report", "reproduce", "run", "serve", "study", "tour"]

add_verbs()
add_extract()


def run() -> int:
    """Run a command; its exit code. A user's mistake is one line on standard error."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # idle threads of torch sleep, not spin
    if is_followed():  # a server in the background ignores Ctrl-C, its jobs must not
        signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.formatwarning = lambda message, *_, **__: f"attlas: {message}\n"
    try:
        code = app(standalone_mode=False)
    except AttlasError as error:
        return _fail(str(error))
    except typer.TyperException as error:
        return _fail(error.format_message())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print("attlas: " + " ".join(message.split()), file=sys.stderr)
    return 2
