"""Run a pass: shards, resume, engines; store, manifest, atlas."""

from attlas.studies.opened import Study
from attlas.studies.run import study

__all__ = ["Study", "study"]
