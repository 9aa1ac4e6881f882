"""Memory planning on the loops level."""
