"""The edge from the float network to loops (pass `nn-to-loops`).

    convert.py   the pass

One file per operation family, named as in dialects/nn, each a table from operation class to rule; casts.py has
`quant.qcast` and its like. Data movement works on elements of any type, all else on the plain ones
that the operation takes; operations on single elements bring their own formulas (pointwise.py).
"""
