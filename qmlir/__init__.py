"""A quantizing neural-network compiler on MLIR."""
