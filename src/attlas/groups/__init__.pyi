from .differences import group_differences as group_differences
from .experiment import Groups as Groups
