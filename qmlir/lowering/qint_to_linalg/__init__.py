"""The export qint → linalg, arith, tensor and math, for upstream's tools; one file per family of operations."""
