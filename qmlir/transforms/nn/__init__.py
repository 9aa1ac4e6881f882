"""Passes that simplify the float graph on the nn level."""
