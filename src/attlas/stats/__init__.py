"""Statistics: intervals, bootstrap, rankings, linear classifiers, scores: numbers in and out."""
