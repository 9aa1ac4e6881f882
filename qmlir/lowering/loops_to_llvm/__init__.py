"""The lowering of loops and memrefs to the llvm dialect (pass `loops-to-llvm`).

    convert.py    the pass, and the tables of all rules
    lowering.py   the state of lowering one function, and types: index → i64, memref → ptr
    aliasing.py   facts about arguments from the memory plan
    sharing.py    calls whose items several threads share
    words.py      what simd's operations become on processors without vectors

The other files have tables from operation class to rule: arith.py (arith, math), memory.py, vector.py (vector, simd),
control.py (control flow, functions).
"""
