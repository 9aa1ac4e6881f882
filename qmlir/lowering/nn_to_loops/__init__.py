"""Float nn and the quantize/dequantize casts to loops."""
