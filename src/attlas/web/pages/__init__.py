"""One module per page; each has a `router`."""
