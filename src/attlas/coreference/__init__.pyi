from .heads import CoreferenceHeads as CoreferenceHeads
from .pipeline import probe_coreference as probe_coreference
