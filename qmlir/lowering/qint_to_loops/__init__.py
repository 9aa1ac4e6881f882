"""Integer operations to loops."""
