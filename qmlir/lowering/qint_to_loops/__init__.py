"""The lowering of integer networks (qint) to loops (pass `qint-to-loops`).

    convert.py   the pass

One file per operation family, named as in dialects/qint; each has a table from operation class to rule. If the only
user of a contraction, product or sum is a requantization, both become one kernel, and accumulators are never stored.
"""
