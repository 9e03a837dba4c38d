"""The verbs of the command line; no logic of their own, and nothing heavy imported before a verb runs."""

from attlas.cli.main import main

# isort: split
from attlas.cli import explain, probe, reproduce, topology  # their verbs register themselves, after the first ones

__all__ = ["explain", "main", "probe", "reproduce", "topology"]
