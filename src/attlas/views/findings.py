"""What stands out in tables and what was read for them: findings, warnings and facts of sections.

The terminal, the report and notebooks use the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attlas.stats.verdicts import ENOUGH, Verdict
from attlas.views.claims import MOST_FINDINGS, Finding, best_findings, section_verdict
from attlas.views.majority import AtMajority, weights_of
from attlas.views.numbers import decimal
from attlas.views.section import Fact, Section, Tables, shown
from attlas.views.summary import Summary


def summarize(study: Tables, sections: Mapping[str, Section]) -> Summary:
    """All that the terminal prints of a result."""
    able = [section for _, section in shown(study, sections)]
    return Summary(
        facts=tuple(facts(study, sections)),
        tables=tuple(table for one in able for table in one.terminal(study)),
        warnings=tuple(warnings(study, sections)),
        findings=tuple(one.record() for one in findings(study, sections)),
        notes=tuple(line for one in able for line in one.notes(study)),
    )


def section_findings(study: Tables, name: str, section: Section) -> list[Finding]:
    """The best claim of each group of a section, the strongest first; also those without signal."""
    manifest = source(study, section).manifest
    where, away = origin(manifest), distance(study.manifest, manifest)
    found = best_findings(section.claims(study), section.smallest_effect)
    return [replace(one, section=name, origin=where, distance=away) for one in found]


def distance(main: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """0 for the result that is reported, 1 for its model on another corpus, 2 for another model."""
    if main is other or origin(main) == origin(other):
        return 0
    return 1 if weights_of(main) & weights_of(other) else 2


def findings(study: Tables, sections: Mapping[str, Section]) -> list[Finding]:
    """The findings of all sections, at most three of each, the strongest first."""
    poor, out = poor_models(study, sections), []
    for name, section in shown(study, sections):
        caveat = _caveat(study, section, poor)
        found = beyond_chance(section_findings(study, name, section))
        out += [replace(one, caveat=caveat) for one in found]
    return sorted(out, key=lambda one: one.rank)


def poor_models(study: Tables, sections: Mapping[str, Section]) -> list[AtMajority]:
    """The models of a report that are no better than the majority class."""
    every = (section.at_majority(study) for _, section in shown(study, sections))
    return [one for one in every if one is not None]


def _caveat(study: Tables, section: Section, poor: Sequence[AtMajority]) -> str:
    """What qualifies the findings of a section about predictions: the level of their model."""
    if not section.of_predictions:
        return ""
    manifest = source(study, section).manifest
    return next((f"{one.counts}." for one in poor if one.is_of(manifest)), "")


def beyond_chance(found: Sequence[Finding]) -> list[Finding]:
    """The findings of a section that a report lists."""
    out: list[Finding] = []
    for one in found:
        is_repeated = one.claim.fact and one.claim.fact in {other.claim.fact for other in out}
        if one.verdict != "nothing beyond chance" and not is_repeated:
            out.append(one)
    return out[:MOST_FINDINGS]


def opening(found: Iterable[Finding], most: int = 5) -> list[Finding]:
    """The findings that open a report: the best of each section, each fact and each head once.

    What is about most heads does not count as the best of its section.
    """
    out: list[Finding] = []
    for one in sorted(found, key=lambda one: one.rank):
        if not any(one.repeats(other) or _in_place_of(one, other) for other in out):
            out.append(one)
    return out[:most]


def _in_place_of(one: Finding, other: Finding) -> bool:
    """Whether both would be the best finding of a section."""
    return one.section == other.section and one.claim.is_of_most == other.claim.is_of_most


def verdict_of(study: Tables, section: Section, found: Sequence[Finding]) -> Verdict | None:
    """The verdict of a section: that of its best finding, or that all it shows is at chance."""
    verdict = section_verdict(found)
    at_chance = verdict is None and section.at_chance(study)
    return "nothing beyond chance" if at_chance else verdict


def without_effect(study: Tables, sections: Mapping[str, Section]) -> list[str]:
    """Warnings that name sections without an effect, and those with effects too small to tint."""
    nothing, small = [], []
    for name, section in shown(study, sections):
        found = section_findings(study, name, section)
        if verdict_of(study, section, found) == "nothing beyond chance":
            nothing.append(section.title)
        elif found and all(_is_small(one, section) for one in found):
            small.append(f"{section.title} (below {section.smallest_effect:g})")
    lines = {
        "Nothing beyond the control": nothing,
        "Effects too small to tint or to matter": small,
    }
    return [f"{why}: {', '.join(names)}." for why, names in lines.items() if names]


def _is_small(one: Finding, section: Section) -> bool:
    return abs(one.judged.comparison.difference) < section.smallest_effect


def warnings(study: Tables, sections: Mapping[str, Section]) -> list[str]:
    """Why results cannot be trusted, each reason once."""
    able = [section for _, section in shown(study, sections)]
    used = {one.title: one.texts_used(study) for one in able}
    every = [line for one in able for line in _own_warnings(study, one)]
    few = few_texts({"All heads": _analysed(study), **used})
    return list(dict.fromkeys([*few, *every, *without_effect(study, sections)]))


def _own_warnings(study: Tables, section: Section) -> list[str]:
    poor = section.at_majority(study)
    return [*section.warnings(study), *([] if poor is None else [poor.warning])]


def _analysed(study: Tables) -> Mapping[str, float]:
    """How many texts the means over a study are made of."""
    manifest = study.manifest
    counts = manifest["counts"] if manifest.get("kind", "study") == "study" else {}
    return {"texts": counts["analysed"]} if "analysed" in counts else {}


def analysed(study: Tables, table: str) -> int:
    """How many texts the means of a table are made of."""
    return int(study.study_with_table(table).manifest["counts"].get("analysed", 0))


def few_texts(used: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A warning that names every part with fewer than 30 texts for a purpose.

    >>> few_texts({"Syntax": {"training texts": 40, "test texts": 12}, "Trees": {"test texts": 99}})
    ['With fewer than 30 texts no difference counts as a signal: Syntax (12 test texts).']
    """
    few = []
    for title, purposes in used.items():
        small = [f"{int(n):,} {what}" for what, n in purposes.items() if n < ENOUGH]
        few += [f"{title} ({', '.join(small)})"] if small else []
    words = f"With fewer than {ENOUGH} texts no difference counts as a signal"
    return [f"{words}: {', '.join(few)}."] if few else []


def source(study: Tables, section: Section) -> Tables:
    """The tables that a section draws: those of one of the results that stand together."""
    return study.study_with_table(section.needs[0])


def origin(manifest: Mapping[str, Any]) -> str:
    """What a result is of: a model, or what was trained instead, on a corpus.

    >>> origin({"model": {"name": "/home/me/runs/finetune"}, "corpus": {"name": "reviews.csv"}})
    'finetune on reviews.csv'
    """
    model, corpus = manifest.get("model") or {}, str(manifest["corpus"]["name"])
    subject = model_name(str(model.get("name") or "")) or manifest.get("subject")
    return f"{subject} on {corpus}" if subject else corpus


def model_name(name: str) -> str:
    """A model as sentences call it: a folder by its own name.

    >>> model_name("runs/tour/parts/finetune"), model_name("org/model"), model_name("bert")
    ('finetune', 'org/model', 'bert')
    """
    is_path = name.startswith((".", "~")) or Path(name).is_absolute() or name.count("/") > 1
    return Path(name).name or name if is_path else name


def about_source(tables: Tables) -> list[str]:
    """What an exported picture says of its origin: the model, the corpus and how many texts."""
    texts, of = tables.manifest["counts"].get("analysed"), origin(tables.manifest)
    is_said = texts is None or of.endswith(f"({texts:,} texts)")
    return [of if is_said else f"{of}, {texts:,} texts"]


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
        out.append(("model", f"{model_name(str(model['name']))} ({model['class']}, {size})"))
    out.append(("corpus", manifest["corpus"]["name"]))
    if "analysed" in counts:
        read = f"{counts['analysed']:,} of {counts['read']:,} read"
        out.append(("texts", f"{read}, {counts.get('tokens', 0):,} tokens"))
    if "until" in manifest:
        out.append(("stopped", _stopped(manifest["until"], counts["read"])))
    if model and "truncated" in counts:
        out.append(("truncated", _truncated(counts, model["max_length"])))
    out.append(("excluded", excluded_rows(counts)))
    out.append(("time", f"{decimal(manifest['seconds'], 1)} s"))
    return out


def _stopped(until: Mapping[str, Any], read: int) -> str:
    """Why a study that may stop early read as many rows as it did."""
    wanted, widest = f"±{until['half_width']:g}", until["widest"]
    if until["reached"]:
        rows = f"{read:,} of {until['corpus_rows']:,} rows"
        return f"after {rows}: 95% intervals of all shares are within {wanted}"
    reached = "are unknown" if widest is None else f"reach ±{decimal(widest, 3)}"
    return f"at the end of the corpus: 95% intervals of shares {reached}, not {wanted}"


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
