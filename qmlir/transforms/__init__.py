"""Passes that stay on their level; one per file, the file named like the pass."""
