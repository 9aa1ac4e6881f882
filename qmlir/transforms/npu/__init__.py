"""Passes for custom accelerators: from layers to commands with addresses and waits."""
