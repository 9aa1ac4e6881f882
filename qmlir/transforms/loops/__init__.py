"""Passes on the loops level: the end of the lowering to it, memory planning, and what several threads share."""
