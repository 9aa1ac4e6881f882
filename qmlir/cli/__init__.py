"""The command-line drivers: thin shells over compiler.py."""
