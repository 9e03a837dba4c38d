"""The verbs of the command line; no logic of their own, and nothing heavy imported before a verb runs."""

from attlas.cli.main import main

__all__ = ["main"]
