"""What the terminal and `--json` have of a result, in words: made by `findings.summarize`.

It imports no table library, so that a summary that was written earlier is printed at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from attlas.support.fingerprint import fingerprint, program_digest
from attlas.support.json import to_json
from attlas.views.section import Fact
from attlas.views.tables import TextTable


def made_from(study: Any) -> str:
    """All that a summary or a page follows from: every manifest, and the code."""
    every = [one.manifest for one in (study, *getattr(study, "others", ()))]
    return fingerprint((every, program_digest()))


@dataclass(frozen=True)
class Summary:
    """What was read, tables for the terminal, warnings, findings as JSON has them, and notes."""

    facts: tuple[Fact, ...]
    tables: tuple[TextTable, ...]
    warnings: tuple[str, ...]
    findings: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON."""
        return dict(to_json(asdict(self)))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Summary:
        """The summary that `to_dict` wrote."""
        tables = (
            TextTable(
                tuple(one["titles"]),
                tuple(map(tuple, one["rows"])),
                tuple(one["words"]),
                one["note"],
            )
            for one in content["tables"]
        )
        return cls(
            tuple((name, value) for name, value in content["facts"]),
            tuple(tables),
            tuple(content["warnings"]),
            tuple(content["findings"]),
            tuple(content["notes"]),
        )
