"""The lowering of float networks (nn) to loops (pass `nn-to-loops`).

    convert.py   the pass

One file per operation family, named as in dialects/nn; each has a table from operation class to rule. elementwise.py
also lowers `quant.qcast`, `quant.dcast` and `quant.scast`. Data movement is lowered for elements of any type, all other
nn operations only on types that are not quantized. Operations on single elements provide their own formulas.
"""
