"""The command-line drivers `qmlir` and `qmlir-opt`: thin shells over compiler.py."""
