"""Where there is nothing to find, sections hardly ever say *signal*."""

from __future__ import annotations

import pytest

from attlas.catalogue import sections
from benchmarks.false_findings import count

REPETITIONS = 4  # the benchmark has 50


@pytest.mark.slow
def test_random_weights_and_shuffled_labels_give_no_signal() -> None:
    """At most 5% of all sections that make claims; each of them makes some."""
    tally = count(range(REPETITIONS))
    claiming = {name for name, one in sections().items() if one.smallest_effect > 0}
    assert set(tally.sections) == claiming
    assert tally.sections.total() == REPETITIONS * len(claiming)
    assert tally.signals.total() <= 0.05 * tally.sections.total(), tally.sentences
