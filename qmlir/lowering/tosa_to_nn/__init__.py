"""The import tosa → nn of what torch-mlir, IREE and TFLite's importer write; one file per family of operations."""
