from . import (
    compare as compare,
    coreference as coreference,
    dynamics as dynamics,
    explain as explain,
    finetune as finetune,
    groups as groups,
    lengthen as lengthen,
    relations as relations,
    syntax as syntax,
    topology as topology,
    tree as tree,
)
from .api import attention as attention, study as study
from .catalogue import MEASURES as MEASURES
from .compare.experiment import Compare as Compare
from .core.text import Text as Text
from .coreference.experiment import Coreference as Coreference
from .corpora import read as read
from .dynamics.experiment import Dynamics as Dynamics
from .experiments.experiment import Experiment as Experiment
from .experiments.run import run as run
from .explain.experiment import Explain as Explain
from .finetune.experiment import Finetune as Finetune
from .groups.experiment import Groups as Groups
from .lengthen.experiment import Lengthen as Lengthen
from .models import Model as Model, load as load
from .relations.experiment import FitRelations as FitRelations, ScoreRelations as ScoreRelations
from .studies import Study as Study
from .syntax.experiment import Syntax as Syntax
from .topology.experiment import Topology as Topology
from .tree.experiment import Tree as Tree
from .views.notebook import notebook as notebook

__version__: str
