"""What Attlas costs compared with a plain implementation, timed in one run: `make bench`."""
