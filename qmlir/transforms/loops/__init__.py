"""Passes on the loops level: memory planning."""
