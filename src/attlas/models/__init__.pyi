from .lengthen import lengthen as lengthen
from .load import load as load
from .model import Model as Model
