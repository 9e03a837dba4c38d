from .agreement import Agreement as Agreement, agreement as agreement, rbo as rbo
from .explanation import (
    Explanation as Explanation,
    explain as explain,
    integrated_gradients as integrated_gradients,
)
from .faithfulness import Faithfulness as Faithfulness, faithfulness as faithfulness
from .measure import Explanations as Explanations
from .methods import METHODS as METHODS
from .plausibility import Plausibility as Plausibility, plausibility as plausibility
