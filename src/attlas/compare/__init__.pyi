from .differences import head_changes as head_changes
from .experiment import Compare as Compare
from .matching import match_heads as match_heads
