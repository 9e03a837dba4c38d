"""A subject of its own: the smallest experiment that uses all of a Workspace."""
