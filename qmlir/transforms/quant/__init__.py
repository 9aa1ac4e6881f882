"""Upstream's passes on quantized types, with upstream's names and results."""
