"""The verbs of the command line; nothing heavy is imported before a verb runs."""

from attlas.cli.main import main

# isort: split
from attlas.cli import (  # their verbs register themselves, after the first ones
    relations,
    reproduce,
    tour,
)
from attlas.cli.subjects import add_verbs

add_verbs()

__all__ = ["main", "relations", "reproduce", "tour"]
