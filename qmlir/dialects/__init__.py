"""The vocabulary: operations, types and attributes of every level."""
