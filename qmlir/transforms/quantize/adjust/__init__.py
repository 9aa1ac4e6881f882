"""What is adjusted on ranges or on data before types are applied: scales of channels, weights, biases, inputs.

It may import the ranges. Nothing here writes a quantized type.
"""
