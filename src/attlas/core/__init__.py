"""The nouns and contracts: texts, batches, attention, measures, states, errors."""
