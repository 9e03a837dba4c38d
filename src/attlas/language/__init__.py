"""Words, sentences, stop words, tags and phrases, found by rules and lists."""
