from .experiment import Tree as Tree
from .probe import TreeProbe as TreeProbe
