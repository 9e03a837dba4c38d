"""What stands out in tables and what was read for them: findings, warnings and facts of sections.

The terminal, the report and notebooks use the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from attlas.stats.verdicts import ENOUGH
from attlas.views.claims import MOST, Finding, best_findings, section_verdict
from attlas.views.section import Fact, Section, Tables, shown


def section_findings(study: Tables, name: str, section: Section) -> list[Finding]:
    """The best claim of each group of a section, the strongest first; also those without signal."""
    where = origin(source(study, section).manifest)
    found = best_findings(section.claims(study), section.smallest_effect)
    return [replace(one, section=name, origin=where) for one in found]


def findings(study: Tables, sections: Mapping[str, Section]) -> list[Finding]:
    """The findings of all sections, at most three of each, the strongest first."""
    every = (section_findings(study, *item) for item in shown(study, sections))
    return sorted((one for some in every for one in beyond_chance(some)), key=lambda one: one.rank)


def beyond_chance(found: Sequence[Finding]) -> list[Finding]:
    """The findings of a section that a report lists."""
    return [one for one in found if one.verdict != "nothing beyond chance"][:MOST]


def opening(found: Iterable[Finding], most: int = 5) -> list[Finding]:
    """The findings that open a report: the best of each section."""
    by_section: dict[str, Finding] = {}
    for one in found:
        by_section.setdefault(one.section, one)
    return list(by_section.values())[:most]


def nothing_found(study: Tables, sections: Mapping[str, Section]) -> list[str]:
    """The titles of the sections whose comparisons all come to nothing."""
    return [
        section.title
        for name, section in shown(study, sections)
        if section_verdict(section_findings(study, name, section)) == "nothing beyond chance"
    ]


def warnings(study: Tables, sections: Mapping[str, Section]) -> list[str]:
    """Why results cannot be trusted, each reason once."""
    every = (line for _, one in shown(study, sections) for line in one.warnings(study))
    return list(dict.fromkeys([*few_texts(study.manifest), *every]))


def few_texts(manifest: Mapping[str, Any]) -> list[str]:
    """A warning if a study has too few texts for its means."""
    texts = manifest["counts"].get("analysed")
    if texts is None or texts >= ENOUGH or manifest.get("kind", "study") != "study":
        return []
    return [
        f"Only {texts:,} {'text was' if texts == 1 else 'texts were'} analysed: with fewer than "
        f"{ENOUGH}, differences between heads are weak evidence at best."
    ]


def source(study: Tables, section: Section) -> Tables:
    """The tables that a section draws: those of one of the results that stand together."""
    return study.holding(section.needs[0])


def origin(manifest: Mapping[str, Any]) -> str:
    """What a result is of: a model, or what was trained instead, on a corpus."""
    model, corpus = manifest.get("model") or {}, str(manifest["corpus"]["name"])
    subject = model.get("name") or manifest.get("subject")
    return f"{subject} on {corpus}" if subject else corpus


def origins(study: Tables, sections: Mapping[str, Section]) -> list[str]:
    """What the results that stand together are of, each once: that of the study itself first."""
    others = (origin(source(study, section).manifest) for _, section in shown(study, sections))
    return list(dict.fromkeys([origin(study.manifest), *others]))


def overlap(count: int, subject: str, where: str = "selection set") -> list[str]:
    """A warning if test texts also occur in the data of a fit.

    >>> overlap(12, "Syntax")
    ['Syntax: 12 test texts also appear in the selection set, so scores are optimistic.']
    """
    if not count:
        return []
    texts = f"{count:,} test {'text also appears' if count == 1 else 'texts also appear'}"
    return [f"{subject}: {texts} in the {where}, so scores are optimistic."]


def few_to_score(texts: float, subject: str, purpose: str = "score on") -> list[str]:
    """A warning if there are too few texts to choose or to score on.

    >>> few_to_score(4, "Syntax", "choose heads on")
    ['Syntax: only 4 texts to choose heads on (at least 30 are needed for a signal).']
    """
    if texts is None or texts != texts or texts >= ENOUGH:
        return []
    many = "1 text" if texts == 1 else f"{int(texts):,} texts"
    return [f"{subject}: only {many} to {purpose} (at least {ENOUGH} are needed for a signal)."]


def at_majority(model: str, right: int, texts: int, majority: int) -> str:
    """A warning that a model is no better than always its most frequent class.

    >>> at_majority("Your model", 5, 16, 8)[:58]
    'Your model is right on 5 of 16 texts (majority class: 8): '
    """
    return (
        f"{model} is right on {right:,} of {texts:,} texts (majority class: {majority:,}): "
        "explanations of its predictions carry no weight."
    )


def probe_warnings(manifest: Mapping[str, Any]) -> list[str]:
    """Why the scores of a probe cannot be trusted: few texts, or texts on both sides."""
    probe = manifest.get("probe")
    if probe is None:
        return []
    name, texts = probe["kind"].capitalize(), probe["texts"]
    return [
        *few_to_score(texts["train"], name, "choose on"),
        *few_to_score(texts["test"], name),
        *overlap(texts["in_both"], name),
    ]


def probe_notes(manifest: Mapping[str, Any]) -> list[str]:
    """What a probe could not use."""
    probe = manifest.get("probe")
    lost = (
        [f"{count:,} {reason}" for reason, count in probe["lost"].items() if count] if probe else []
    )
    return [f"Not scored: {', '.join(lost)}."] if lost else []


def facts(study: Tables, sections: Mapping[str, Section]) -> list[Fact]:
    """What was read: pairs of a name and a value."""
    out = _usual_facts(study.manifest)
    for _, section in shown(study, sections):
        out = section.facts(study, out)
    return out


def _usual_facts(manifest: Mapping[str, Any]) -> list[Fact]:
    model, counts, out = manifest.get("model") or {}, manifest["counts"], []
    if model:
        size = f"{model['n_layers']} layers × {model['n_heads']} heads"
        out.append(("model", f"{model['name']} ({model['class']}, {size})"))
    out.append(("corpus", manifest["corpus"]["name"]))
    if "analysed" in counts:
        read = f"{counts['analysed']:,} of {counts['read']:,} read"
        out.append(("texts", f"{read}, {counts.get('tokens', 0):,} tokens"))
    if model and "truncated" in counts:
        out.append(("truncated", _truncated(counts, model["max_length"])))
    out.append(("excluded", excluded_rows(counts)))
    out.append(("time", f"{manifest['seconds']:.1f} s"))
    return out


def excluded_rows(counts: Mapping[str, int]) -> str:
    """How many rows of a corpus could not be used."""
    rows = counts.get("quarantined", 0)
    return f"{rows:,} rows; each with its reason in quarantine.jsonl" if rows else "no rows"


def _truncated(counts: Mapping[str, int], longest: int) -> str:
    if not counts["truncated"]:
        return "no texts"
    return (
        f"{counts['truncated']:,} texts longer than {longest:,} tokens "
        f"({counts['tokens_cut']:,} tokens not read)"
    )
