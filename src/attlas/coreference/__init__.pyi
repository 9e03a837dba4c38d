from .experiment import Coreference as Coreference
from .heads import CoreferenceHeads as CoreferenceHeads
