"""Is a model better than always predicting the most frequent class?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AtMajority:
    """A model that is not better than the majority class, and what follows for results about it.

    `weights` are the digests by which manifests know it.
    """

    model: str
    right: int
    texts: int
    majority: int
    so: str
    weights: frozenset[str]

    @property
    def counts(self) -> str:
        """How often it is right."""
        counts = f"right on {self.right:,} of {self.texts:,} texts"
        return f"{self.model} is {counts} (majority class: {self.majority:,})"

    @property
    def warning(self) -> str:
        """What a report says first.

        >>> AtMajority("The model", 5, 16, 8, "it knows no labels", frozenset()).warning
        'The model is right on 5 of 16 texts (majority class: 8): it knows no labels.'
        """
        return f"{self.counts}: {self.so}."

    def is_of(self, manifest: Mapping[str, Any]) -> bool:
        """Whether a result is of this model."""
        return bool(self.weights & weights_of(manifest))


def at_majority(
    model: str, right: int, texts: int, majority: int, so: str, weights: Collection[str]
) -> AtMajority | None:
    """The model, if it is right no more often than the majority class.

    >>> at_majority("The model", 9, 16, 8, "it knows no labels", ()) is None
    True
    """
    if right > majority:
        return None
    return AtMajority(model, right, texts, majority, so, frozenset(weights))


def weights_of(manifest: Mapping[str, Any]) -> frozenset[str]:
    """The digests of the model of a result: of its weights and of its file."""
    model = manifest.get("model") or {}
    digests = (model.get(name) for name in ("state_sha256", "file_sha256"))
    return frozenset(str(one) for one in digests if one)
