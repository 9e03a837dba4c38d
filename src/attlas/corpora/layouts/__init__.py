"""One file per format: how a data set writes down texts with annotations."""
