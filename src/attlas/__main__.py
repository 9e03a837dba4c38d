"""`python -m attlas` is the command line."""

from attlas.cli import main

if __name__ == "__main__":
    main()
