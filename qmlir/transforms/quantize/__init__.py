"""From observed ranges to quantized types."""
