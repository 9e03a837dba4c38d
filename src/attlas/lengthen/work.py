"""What Lengthen does: a long model, saved in the result folder itself."""

from __future__ import annotations

from attlas.experiments.experiment import Outcome
from attlas.experiments.workspace import Workspace
from attlas.lengthen.experiment import Lengthen
from attlas.models import Model
from attlas.models.lengthened import check_lengthened, lengthened


def check(lengthen: Lengthen, work: Workspace, *, model: Model) -> None:
    """Refuse a model that cannot be lengthened, or not to this length."""
    check_lengthened(model, lengthen.length, lengthen.window, lengthen.skip)


def run(lengthen: Lengthen, work: Workspace, *, model: Model) -> Outcome:
    """Make the long model."""
    work.log(f"Lengthen: {model.name} to {lengthen.length:,} tokens, window {lengthen.window}")
    long = lengthened(model, lengthen.length, lengthen.window, lengthen.skip)
    result = {"length": lengthen.length, "window": lengthen.window, "n_layers": long.n_layers}
    return Outcome(tables={}, result=result, files={".": long})
