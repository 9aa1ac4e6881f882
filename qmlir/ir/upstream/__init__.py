"""What stands in for something that upstream MLIR has and xDSL lacks or does otherwise: dialects, parser, printer.

Each file says which change of xDSL would make it unnecessary. It may import the rest of `ir`; nothing here knows of
quantization except that element types may be quantized.
"""
