"""What stands out in tables and what was read for them: sentences and facts of all their sections.

The terminal, the report and notebooks use the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attlas.views.section import Fact, Section, Tables, shown


def findings(study: Tables, sections: Mapping[str, Section]) -> list[str]:
    """The findings of all sections, those of the last section first."""
    return [line for _, lines in findings_by_origin(study, sections) for line in lines]


def findings_by_origin(
    study: Tables, sections: Mapping[str, Section]
) -> list[tuple[str, list[str]]]:
    """The findings of sections, grouped by their origin: a model and a corpus."""
    able = sorted(shown(study, sections), key=lambda item: -item[1].order)
    out: list[tuple[str, list[str]]] = []
    for _, section in able:
        if lines := section.findings(study):
            where = origin(source(study, section).manifest)
            if not out or out[-1][0] != where:
                out.append((where, []))
            out[-1][1].extend(lines)
    return out


def source(study: Tables, section: Section) -> Tables:
    """The tables that a section draws: those of one of the results that stand together."""
    return study.study_with_table(section.needs[0])


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

    >>> overlap(12, "syntax")
    ['Warning (syntax): 12 test texts also appear in the selection set, so scores are optimistic.']
    """
    if not count:
        return []
    texts = f"{count:,} test {'text also appears' if count == 1 else 'texts also appear'}"
    return [f"Warning ({subject}): {texts} in the {where}, so scores are optimistic."]


def excluded(manifest: Mapping[str, Any]) -> list[str]:
    """What a probe could not use, and texts that are on both sides."""
    probe = manifest.get("probe")
    if probe is None:
        return []
    lost = [f"{count:,} {reason}" for reason, count in probe["lost"].items() if count]
    out = overlap(probe["texts"]["in_both"], probe["kind"])
    return [*out, f"Not scored ({probe['kind']}): {', '.join(lost)}."] if lost else out


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
