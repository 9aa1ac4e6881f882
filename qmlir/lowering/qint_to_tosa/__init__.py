"""qint → tosa: a way out to TOSA's compilers and devices; one file per family of operations."""
