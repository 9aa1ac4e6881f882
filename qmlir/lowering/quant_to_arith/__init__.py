"""From casts of the quant dialect to arithmetic on tensors, as upstream's pass `lower-quant-ops` does."""
