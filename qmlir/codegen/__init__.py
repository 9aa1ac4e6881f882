"""What the lowerings to loops and to linalg share: the builder of IR that reads like a formula, kernels and packing.

It may import the dialects and what lies below; it must not know which lowering calls it.
"""
