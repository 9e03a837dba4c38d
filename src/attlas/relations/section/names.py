"""What classifiers and relations are called."""

from __future__ import annotations

import pandas as pd

ATTENTION, BOTH = "attention", "attention_and_words"
READERS = {
    "attention": "attention",
    "random_model": "attention, random weights",
    "relation_words": "relation words",
    "head_tail": "attention between head and tail only",
    "distance": "distance and order of phrases",
    "part_of_speech": "parts of speech",
    "word_embeddings": "word vectors of the phrases",
    "attention_and_words": "attention and relation words",
}


def reader_names(frame: pd.DataFrame) -> pd.Series[str]:
    """What the classifier of each row is called."""
    return frame["reader"].map(READERS).fillna(frame["reader"])


def named(frame: pd.DataFrame, column: str = "relation", title: str = "name") -> pd.Series[str]:
    """What each relation is called, or its id."""
    return frame[title].where(frame[title].fillna("") != "", frame[column]).astype(str)
