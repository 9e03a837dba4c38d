from .corpus import BadRow as BadRow, Corpus as Corpus
from .labelled import labelled as labelled, read_labelled as read_labelled
from .read import embedded as embedded, read as read
from .splits import label_names as label_names, split as split
