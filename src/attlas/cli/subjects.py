"""The verbs of all subjects, made from the fields of their experiments."""

from __future__ import annotations

import typer

from attlas.catalogue import subjects
from attlas.cli.app import app
from attlas.cli.verbs import add_verb

HELP = {
    "probe": "What the heads of a model encode about syntax and coreference.",
    "relations": "Which semantic relations attention encodes, and triples extracted from it.",
}


def add_verbs() -> None:
    """Add the verb of every experiment in the catalogue; `probe syntax` is in the group `probe`."""
    for subject in subjects():
        for verb, name in subject.verbs.items():
            group, _, own = verb.rpartition(" ")
            add_verb(group_of(group) if group else app, own, subject.experiment(name))


def group_of(name: str) -> typer.Typer:
    """A group of verbs, made when it is first asked for."""
    found = next((one.typer_instance for one in app.registered_groups if one.name == name), None)
    if found is None:
        found = typer.Typer(help=HELP.get(name), no_args_is_help=True)
        app.add_typer(found, name=name)
    return found
