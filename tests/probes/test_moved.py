"""Names that have moved lead to their new place for one release, with a warning that says where
that is.
"""

from __future__ import annotations

import importlib

import pytest

import attlas.probes


@pytest.mark.parametrize(("name", "package"), attlas.probes.MOVED.items())
def test_a_moved_name_warns_and_is_the_new_one(name: str, package: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"from {package} import {name}"):
        found = getattr(attlas.probes, name)
    assert found is getattr(importlib.import_module(package), name)


def test_other_names_are_not_there() -> None:
    assert dir(attlas.probes) == sorted(attlas.probes.MOVED)
    with pytest.raises(AttributeError, match="pipeline"):
        attlas.probes.pipeline  # noqa: B018
