"""The verbs of the command line; no logic of their own, and nothing heavy imported before a verb runs."""

from attlas.cli.main import main

# isort: split
from attlas.cli import (  # their verbs register themselves, after the first ones
    dynamics,
    explain,
    probe,
    reproduce,
    topology,
)
from attlas.cli.extract import add_extract
from attlas.cli.subjects import add_verbs

add_verbs()
add_extract()

__all__ = ["dynamics", "explain", "main", "probe", "reproduce", "topology"]
