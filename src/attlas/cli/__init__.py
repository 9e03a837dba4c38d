"""The verbs of the command line; no logic of their own, and nothing heavy imported before a verb runs."""

from attlas.cli.main import main

# isort: split
from attlas.cli import (  # their verbs register themselves, after the first ones
    explain,
    probe,
    relations,
    reproduce,
    topology,
)
from attlas.cli.subjects import add_verbs

add_verbs()

__all__ = ["explain", "main", "probe", "relations", "reproduce", "topology"]
