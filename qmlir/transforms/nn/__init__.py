"""Float graph simplifications."""
