from .pipeline import probe_tree as probe_tree
from .probe import TreeProbe as TreeProbe
