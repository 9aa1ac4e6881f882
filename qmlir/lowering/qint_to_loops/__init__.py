"""The edge from the integer network to loops (pass `qint-to-loops`).

    convert.py   the pass

One file per operation family, named as in dialects/qint, each a table from operation class to rule. A contraction,
product or sum that only feeds a requantization becomes one kernel with it: accumulators never touch memory.
"""
