"""Run a pass: shards, resume, engines; store, manifest, atlas. Opening a study needs no model library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attlas.core.lazy import lazily

if TYPE_CHECKING:
    from attlas.studies.opened import Study
    from attlas.studies.run import study

__all__ = ["Study", "study"]
__getattr__ = lazily(__name__, {"Study": "attlas.studies.opened", "study": "attlas.studies.run"})
