"""The export qint → tosa, for TOSA's compilers and devices; one file per family of operations."""
