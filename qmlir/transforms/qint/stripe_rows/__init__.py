"""The pass `stripe-rows`, and the regions of operations that it divides."""
