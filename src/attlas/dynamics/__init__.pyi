from .classifier import AttentionClassifier as AttentionClassifier
from .flow import (
    Flow as Flow,
    Parameters as Parameters,
    check_flow as check_flow,
    flow_terms as flow_terms,
)
from .scores import separation as separation, token_kinds as token_kinds
