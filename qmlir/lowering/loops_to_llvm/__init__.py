"""The edge from loops and memrefs to the llvm dialect (pass `loops-to-llvm`).

    convert.py    the pass: which function is lowered how      lowering.py   the state of lowering one function
    types.py      index → i64, memref → ptr                    aliasing.py   what the memory plan says of arguments

One file per dialect, each a table from operation class to rule: arith.py math.py memory.py vector.py simd.py
control.py function.py.
"""
