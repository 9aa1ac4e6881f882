"""The lowering of integer networks (qint) to loops (pass `qint-to-loops`).

    convert.py   the pass

One file per operation family; each has a table from operation class to rule. Elementwise kernels compute the formula of
their operation (dialects/qint) under every rounding contract; contractions and pools have kernels of their own. If a
requantization is the only user of a contraction, product or sum, both become one kernel without stored accumulators.
"""
