"""Passes whose input and output are on the same IR level; each pass has its own file, named after it."""
