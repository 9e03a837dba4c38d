"""The pages of a study: what each shows, and which command makes what it lacks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attlas.web.library import Entry

if TYPE_CHECKING:
    from attlas.studies.opened import Study
    from attlas.views.section import Section

PLAIN = re.compile(r"[\w.:/][\w.:/-]*")  # a name that a command can have without quotes


@dataclass(frozen=True)
class Tab:
    """A page of a study.

    `groups` are the headings of the sections that it shows. `about` is what it shows, and `command`
    makes that where it is missing.
    """

    name: str
    title: str
    groups: tuple[str, ...]
    about: str
    command: str
    lacks: str  # the title where there is nothing to show
    after: str = "Then load this page again."


TABS = (
    Tab(
        "atlas",
        "Atlas",
        ("Attention",),
        "what each head attends to, with its control",
        "attlas study --data {corpus}{model} --out {folder}-heads",
        "No heads in this study",
        "It is another result, in a folder of its own.",
    ),
    Tab(
        "texts",
        "Texts",
        (),
        "the texts, each with what its words receive",
        "attlas study --data {corpus}{model} --out {folder}-texts",
        "No texts in this study",
        "It is another result, in a folder of its own.",
    ),
    Tab(
        "topology",
        "Topology",
        ("Topology",),
        "the shape of attention graphs: connected components, cycles, and what they predict",
        "attlas topology --train {corpus} --test TEST.csv{model} --out {folder}/parts/topology",
        "No topology in this study yet",
    ),
    Tab(
        "explain",
        "Explain",
        ("Explanations",),
        "which words a prediction depends on, and whether attention agrees with attribution",
        "attlas explain --data {corpus}{model} --out {folder}/parts/explain",
        "No explanations in this study yet",
    ),
    Tab(
        "probes",
        "Probes",
        ("Probes",),
        "which heads find dependency relations and antecedents, next to the best fixed offset",
        "attlas probe syntax --data embedded:sentences{model} --out {folder}/parts/syntax",
        "No probes in this study yet",
    ),
    Tab(
        "relations",
        "Relations",
        ("Relations",),
        "which semantic relations attention between phrases encodes",
        "attlas relations fit --train embedded:relations{model} --out {folder}/parts/relations",
        "No relations in this study yet",
    ),
    Tab(
        "dynamics",
        "Dynamics",
        ("Training",),
        "how attention and polarity scores of words evolve during training",
        "attlas dynamics --data {corpus} --out {folder}/parts/dynamics",
        "No training dynamics in this study yet",
    ),
    Tab(
        "compare",
        "Compare",
        ("Comparison",),
        "two studies next to each other, head by head",
        "attlas compare {folder} OTHER --out {folder}/parts/compare",
        "Nothing to compare with yet",
        "OTHER is the folder of another study.",
    ),
    Tab(
        "try",
        "Try",
        (),
        "the attention of a text that you type, by a model that was named at the start",
        "attlas serve {folder}{model}",
        "No model to try",
        "Start the server again with a model.",
    ),
)
TAB = {one.name: one for one in TABS}


def filled_tabs(study: Study) -> frozenset[str]:
    """The pages that have something to show of a study; others name the command that fills them."""
    from attlas.catalogue import sections
    from attlas.views.section import shown

    able = [one for _, one in shown(study, sections())]
    names = {tab.name for tab in TABS for one in able if is_shown(one, tab)}
    return frozenset({*names, "try", *(["texts"] if study.has("texts") else [])})


def is_shown(section: Section, tab: Tab) -> bool:
    """Whether a page draws a section: that of all heads, also for the numbers it has of them."""
    return section.group in tab.groups or (tab.name == "atlas" and bool(section.columns))


def command(tab: Tab, entry: Entry) -> str:
    """The command that makes what a page lacks, with the names of a study."""
    return tab.command.format(**_names(entry.manifest), folder=shlex.quote(entry.shown))


def _names(manifest: Mapping[str, Any]) -> dict[str, str]:
    """How a command names the corpus and the model.

    >>> model = {"name": "bert-base-uncased"}
    >>> _names({"corpus": {"name": "reviews.csv"}, "model": model})
    {'corpus': 'reviews.csv', 'model': ' --model bert-base-uncased'}
    >>> _names({"corpus": {"name": "embedded:messages (35 texts)"}, "model": None})
    {'corpus': 'embedded:messages', 'model': ''}
    >>> _names({"corpus": {"name": "list"}})["corpus"]  # texts that were given in Python
    'YOUR.csv'
    """
    corpus = str((manifest.get("corpus") or {}).get("name", "")).partition(" (")[0]
    model = str((manifest.get("model") or {}).get("name", ""))
    named = f" --model {model}" if PLAIN.fullmatch(model) else ""
    is_named = PLAIN.fullmatch(corpus) and not corpus.isidentifier()
    return {"corpus": corpus if is_named else "YOUR.csv", "model": named}
