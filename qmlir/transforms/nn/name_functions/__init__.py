"""The pass `name-functions`, and the terms by which functions are recognized."""
