"""The dialects: operations, types and attributes of every level of the compiler."""
