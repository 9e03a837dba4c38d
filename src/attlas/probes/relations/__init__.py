"""Which phrases of a sentence may stand in a relation, and which may say it, found by rules."""
