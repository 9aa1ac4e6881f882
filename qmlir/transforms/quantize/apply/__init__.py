"""Quantized types: the casts between operations, the casts that imported networks have, and the operations on types.

It may import the ranges and the adjustments. Whatever stays float has its reason from reasons.py.
"""
