"""qint → linalg, arith, tensor and math: a way out to upstream's tools; one file per family of operations."""
