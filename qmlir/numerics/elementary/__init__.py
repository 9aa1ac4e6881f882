"""Elementary functions in f64, built from IEEE operations in a fixed order, for numpy arrays and for CPU kernels.

    lanes.py               the operations that formulas may use, and their implementation on numpy arrays
    exponential.py         exp, log and functions built from them: powers, hyperbolic functions, sigmoid, softplus, erf
    trigonometric.py       sin, cos, tan and their inverses, and the exact remainder of two f32
    gemmlowp.py            gemmlowp's functions on fixed-point integers

The results do not depend on the version of any math library. Each function in f64 has a relative error below 2^-40,
unless its docstring says otherwise. That is far below the last bit of an f32: a result rounded to f32 is the nearest
f32 or, rarely, its neighbour.
"""
