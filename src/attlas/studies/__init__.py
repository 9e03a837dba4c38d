"""Run a pass: shards, resume, engines; store, manifest, atlas."""

from attlas.studies.run import study
from attlas.studies.opened import Study

__all__ = ["Study", "study"]
