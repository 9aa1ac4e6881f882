"""The integer dialect: the same computation in integers only."""
