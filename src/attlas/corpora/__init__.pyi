from .corpus import BadRow as BadRow, Corpus as Corpus
from .labelled import labelled as labelled
from .read import embedded as embedded, read as read
from .splits import label_names as label_names, split as split
