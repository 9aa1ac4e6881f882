"""Lowerings from one IR level to another: each folder is one edge, named `from_to`."""
