"""Passes whose input and output are on the same IR level; each file holds one pass and is named after it."""
