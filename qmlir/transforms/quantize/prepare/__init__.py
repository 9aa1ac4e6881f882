"""What happens to a float network before it is quantized: the policy is written on operations, patterns are rewritten.

It may import the ranges, and must not know how weights are adjusted or types applied.
"""
