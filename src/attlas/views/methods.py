"""The methods paragraph of a result: what was computed, on what, against which control.

It is made from the manifest; the BibTeX of the papers behind it follows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from attlas.stats.verdicts import ENOUGH
from attlas.views.numbers import some

TASKS = {
    "base": "no task head",
    "classify": "classifier",
    "mlm": "masked language model",
    "lm": "language model",
}
CORRECTION = ("benjamini1995", "benjamini2005")
SHOWN_VERSIONS = ("attlas", "transformers", "torch")


@dataclass(frozen=True)
class Method:
    """What a measure or an experiment computes, in a clause, and the papers that it follows."""

    name: str
    clause: str
    references: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The clause with its papers, after its name."""
        papers = f" ({'; '.join(map(citation, self.references))})" if self.references else ""
        return f"{self.name.replace('_', ' ')}: {self.clause}{papers}"


def methods_text(manifest: Mapping[str, Any], methods: Sequence[Method]) -> str:
    """The paragraph and, below it, the BibTeX of every paper that it cites."""
    judged = [_judged()] if manifest.get("tables") else []
    sentences = [_model(manifest), _texts(manifest), _computed(manifest, methods), *judged]
    paragraph = " ".join([*sentences, _made_with(manifest)])
    keys = [key for method in methods for key in method.references]
    entries = bibliography()
    cited = [entries[key] for key in dict.fromkeys([*keys, *(CORRECTION if judged else ())])]
    return "\n\n".join([paragraph, *cited]) + "\n"


def _model(manifest: Mapping[str, Any]) -> str:
    model = manifest.get("model")
    if not model:
        subject = manifest.get("subject")
        return f"We trained {subject}." if subject else "No pretrained model was used."
    task = TASKS.get(model["task"], model["task"])
    size = f"{model['n_layers']} layers × {model['n_heads']} heads"
    return f"We analysed the attention of {model['name']} ({model['class']}, {task}, {size})."


def _texts(manifest: Mapping[str, Any]) -> str:
    counts, name = manifest["counts"], manifest["corpus"]["name"]
    if "analysed" not in counts:
        return f"The data are {name}."
    read = counts.get("read", counts["analysed"])
    tokens = f" ({counts['tokens']:,} tokens)" if counts.get("tokens") else ""
    return (
        f"The corpus is {name}: {counts['analysed']:,} of {read:,} texts were analysed{tokens}, "
        f"{_number(counts, 'truncated')} truncated and {_number(counts, 'quarantined')} excluded."
    )


def _number(counts: Mapping[str, int], name: str) -> str:
    """How many texts were truncated or excluded.

    >>> _number({"truncated": 1}, "truncated"), _number({}, "truncated")
    ('1 was', 'none was')
    """
    count = counts.get(name, 0)
    return f"{count:,} were" if count > 1 else "1 was" if count else "none was"


def _computed(manifest: Mapping[str, Any], methods: Sequence[Method]) -> str:
    clauses = "; ".join(f"({at}) {one.sentence}" for at, one in enumerate(methods, 1))
    what = "experiment" if manifest.get("kind", "study") != "study" else "measure"
    many = "" if len(methods) == 1 else "s"
    scores = manifest.get("controls") or []
    controls = list(dict.fromkeys(_control(control) for _, _, control in scores))
    compared = f" Scores are compared with {some(controls, 8)}." if controls else ""
    return f"The {what}{many} {'are' if many else 'is'} {clauses}.{compared}"


def _control(control: str | Mapping[str, str]) -> str:
    """What a control is called: a column, or rows of the same table."""
    if isinstance(control, str):
        return control.replace("_", " ")
    return " and ".join(str(value).replace("_", " ") for value in control.values())


def _judged() -> str:
    papers = "; ".join(map(citation, CORRECTION))
    return (
        "Differences from controls have 95% confidence intervals, and are called a signal only if "
        "the interval corrected for all comparisons of a section (Benjamini-Hochberg at 5%; "
        f"{papers}) excludes zero, the difference is at least the section's "
        f"smallest effect of interest, and there are at least {ENOUGH} texts."
    )


def _made_with(manifest: Mapping[str, Any]) -> str:
    versions = manifest.get("versions", {})
    names = {"attlas": "Attlas"}
    made = [f"{names.get(one, one)} {versions[one]}" for one in SHOWN_VERSIONS if one in versions]
    listed = " and ".join(", ".join(made).rsplit(", ", 1))
    return f"Computed with {listed}; random seed {manifest.get('seed', 0)}."


@cache
def bibliography() -> dict[str, str]:
    """The BibTeX entries by key."""
    text = (files("attlas.views") / "references.bib").read_text(encoding="utf-8")
    entries = [
        entry.strip() for entry in re.split(r"^(?=@)", text, flags=re.MULTILINE) if entry.strip()
    ]
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}


def citation(key: str) -> str:
    """A paper as it is cited in a sentence.

    >>> citation("clark2019"), citation("sun2020"), citation("hou2022")
    ('Clark et al. 2019', 'Sun and Lu 2020', 'Hou 2022')
    """
    entry = bibliography()[key]
    authors = [one.split(",")[0] for one in _field(entry, "author").split(" and ")]
    names = f"{authors[0]} et al." if len(authors) > 2 else " and ".join(authors)
    return f"{names} {_field(entry, 'year')}"


def _field(entry: str, name: str) -> str:
    found = re.search(rf"^\s*{name} = \{{(.*)\}},?$", entry, flags=re.MULTILINE)
    return found[1] if found else ""
