"""Quantized nn to integers only."""
