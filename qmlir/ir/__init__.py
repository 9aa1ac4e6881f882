"""What xDSL is completed with: context, parsing, printing, weights, names, verification, passes and rewriting.

Everything here is about IR of any dialect. It may import `numerics`, `files` and `errors`; it must not know any of
qmlir's operations.
"""
