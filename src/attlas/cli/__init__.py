"""The command line. Importing it imports nothing heavy, so Ctrl-C is one line at any time."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line.

    The exit code is 0 on success, 2 on a user error (one clear line), 130 if interrupted.
    """
    try:
        from attlas.cli.entry import run

        code = run()
    except BaseException as error:
        if not _is_interrupt(error):
            raise
        code = INTERRUPTED
    if code == INTERRUPTED:
        print("attlas: interrupted; run the same command again to resume", file=sys.stderr)
    sys.exit(code)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is the cause: some libraries turn it into an ImportError of their own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
