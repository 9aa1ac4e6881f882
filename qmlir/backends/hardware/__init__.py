"""Real accelerators: functional models of them, and programs in their own words."""
