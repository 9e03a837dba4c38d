from .heads import SyntaxHeads as SyntaxHeads
from .pipeline import probe_syntax as probe_syntax
