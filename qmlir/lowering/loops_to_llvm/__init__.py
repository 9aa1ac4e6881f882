"""The lowering of loops and memrefs to the llvm dialect (pass `loops-to-llvm`).

    convert.py    the pass, and the tables of all rules        lowering.py   the state of lowering one function
    types.py      index → i64, memref → ptr                    aliasing.py   facts about arguments from the memory plan

One file per dialect, each with a table from operation class to rule: arith.py math.py memory.py vector.py simd.py
control.py function.py.
"""
