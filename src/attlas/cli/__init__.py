"""The verbs of the command line; nothing heavy is imported before a verb runs."""

from attlas.cli.main import main

# isort: split
from attlas.cli import (  # their verbs register themselves, after the first ones
    reproduce,
    tour,
)
from attlas.cli.extract import add_extract
from attlas.cli.subjects import add_verbs

add_verbs()
add_extract()

__all__ = ["main", "reproduce", "tour"]
