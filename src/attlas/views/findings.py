"""What stands out in tables and what was read for them: sentences and facts of all their sections.

The terminal, the report and notebooks use the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attlas.views.section import Fact, Section, Tables, shown


def findings(study: Tables, sections: Mapping[str, Section]) -> list[str]:
    """One sentence for each thing worth a look: the order of sections from last to first."""
    able = sorted(shown(study, sections), key=lambda item: -item[1].order)
    return [line for _, section in able for line in section.findings(study)]


def excluded(manifest: Mapping[str, Any]) -> list[str]:
    """What a probe could not use, and texts that are on both sides."""
    probe = manifest.get("probe")
    if probe is None:
        return []
    kind, both, out = probe["kind"], probe["texts"]["in_both"], []
    if both:
        out.append(
            f"{both:,} of the texts scored on ({kind}) also stand among those chosen on: "
            "the scores flatter"
        )
    lost = [f"{count:,} {what}" for what, count in probe["lost"].items() if count]
    if lost:
        out.append(f"Not scored ({kind}): {', '.join(lost)}")
    return out


def facts(study: Tables, sections: Mapping[str, Section]) -> list[Fact]:
    """What was read: pairs of a name and a value."""
    out = _usual_facts(study.manifest)
    for _, section in shown(study, sections):
        out = section.facts(study, out)
    return out


def _usual_facts(manifest: Mapping[str, Any]) -> list[Fact]:
    model, counts, out = manifest.get("model") or {}, manifest["counts"], []
    if model:
        size = f"{model['n_layers']} layers x {model['n_heads']} heads"
        out.append(("model", f"{model['name']} ({model['class']}, {size})"))
    out.append(("corpus", manifest["corpus"]["name"]))
    if "analysed" in counts:
        read = f"{counts['analysed']:,} of {counts['read']:,} read"
        out.append(("texts", f"{read}, {counts.get('tokens', 0):,} tokens"))
    if model and "truncated" in counts:
        out.append(("cut", _cut(counts, model["max_length"])))
    left = counts.get("quarantined", 0)
    reasons = f"{left:,} rows; each with its reason in quarantine.jsonl"
    out.append(("left out", reasons if left else "no row was left out"))
    out.append(("time", f"{manifest['seconds']:.1f} s"))
    return out


def _cut(counts: Mapping[str, int], longest: int) -> str:
    if not counts["truncated"]:
        return "no text was cut"
    return (
        f"{counts['truncated']:,} texts were longer than {longest:,} tokens and were cut "
        f"({counts['tokens_cut']:,} tokens not read)"
    )
