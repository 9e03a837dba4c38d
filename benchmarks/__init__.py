"""What Attlas costs, beside the plain way, both measured in one run: `make bench`."""
