"""Elementary functions in f64 from IEEE operations in a fixed order, for arrays and for kernels alike.

    lanes.py               what formulas may use; numpy arrays as such numbers
    exponential.py         exp, log and what is made of them: powers, hyperbolic functions, sigmoid, softplus
    trigonometric.py       sin, cos, tan and their inverses
    error_function.py      erf, erfc

No library's version can change a bit of them. Each is accurate to a relative error below 2^-40, far under the last bit
of an f32, so that rounding a result to f32 gives the nearest f32 or, rarely, its neighbour.
"""
