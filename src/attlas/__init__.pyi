from . import (
    coreference as coreference,
    dynamics as dynamics,
    explain as explain,
    finetune as finetune,
    relations as relations,
    syntax as syntax,
    topology as topology,
    tree as tree,
)
from .api import attention as attention
from .core.text import Text as Text
from .coreference.experiment import Coreference as Coreference
from .corpora import read as read
from .experiments.experiment import Experiment as Experiment
from .experiments.run import run as run
from .measures import MEASURES as MEASURES
from .models import Model as Model, load as load
from .studies import Study as Study, study as study
from .syntax.experiment import Syntax as Syntax

__version__: str
