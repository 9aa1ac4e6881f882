"""Marks: attributes by which an operation records how the source model computes it; every rewrite passes them on."""

INTEGER_OPERATOR = "qmlir.integer_operator"
"""The attribute key that marks an operation whose source operator computes on integers, such as QLinearConv."""

ON_FLOATS = "qmlir.on_floats"
"""The attribute key that marks casts and operations which the source model computes on floats.

A marked cast is an operator of the source model, such as TFLite's QUANTIZE, that a float operator reads or feeds. A
marked operation of quantized types is computed on floats between such casts in the source model.
"""

POWER = "qmlir.power"
"""The attribute key, on a step of an operator that sums powers of its input, of the exponent of the powers.

A square has twice the digits of its base. The source model has no tensors between the steps of such an operator, so the
quantizer chooses their precision (transforms/quantize/recipes.py).
"""

QUANTIZATION = "qmlir.quantization"
"""Attribute of a `quant.qcast` that selects how it divides and rounds: a name in `numerics.QUANTIZATIONS`."""

MARKS = (INTEGER_OPERATOR, ON_FLOATS, POWER, QUANTIZATION)
"""All marks."""
