"""The lowering of quantized nn operations to integer arithmetic (pass `nn-to-qint`)."""
