"""Slow twins: what the fast code must give, in loops anyone can check by eye."""
