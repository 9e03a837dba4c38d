"""One family of errors: inner code states the fact, the edge adds file, row, text or measure."""

from __future__ import annotations


class AttlasError(Exception):
    """Base of every error a user can cause or fix; a command prints it in one line, exit code 2."""


class CorpusError(AttlasError):
    """A file, a column or a row cannot be read as texts."""


class ModelError(AttlasError):
    """A model or tokenizer cannot be loaded or does not fit the call."""


class CaptureError(AttlasError):
    """A model ran but its attention could not be seen."""


class MeasureError(AttlasError):
    """A measure is unknown or was given parameters or input it cannot use."""


class StudyError(AttlasError):
    """A study, or any file of results, cannot be written, opened or continued."""


class LockedError(StudyError):
    """A folder that another process is writing in."""
