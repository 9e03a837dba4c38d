"""Compiled loops on attention graphs; each has a plain twin in the tests."""
