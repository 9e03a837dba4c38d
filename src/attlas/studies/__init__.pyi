from .opened import Study as Study
from .run import study as study
