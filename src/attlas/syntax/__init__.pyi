from .experiment import Syntax as Syntax
from .heads import SyntaxHeads as SyntaxHeads
