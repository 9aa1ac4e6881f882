"""A device file as data: its keys with units and bounds, how it is read, and variants of it.

It imports numerics and the instruction set only, and must not know operations or costs.
"""
