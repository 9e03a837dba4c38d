"""Statistics: intervals, bootstrap, rankings, linear classifiers, scores. Numbers in, numbers out."""
