"""Silence the progress bars and warnings of transformers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import transformers


@contextmanager
def silence_transformers() -> Iterator[None]:
    """While open, transformers shows no progress bars and no warnings."""
    logger = logging.getLogger("transformers")
    level, bars = logger.level, transformers.utils.logging.is_progress_bar_enabled()
    logger.setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        logger.setLevel(level)
        if bars:
            transformers.utils.logging.enable_progress_bar()
