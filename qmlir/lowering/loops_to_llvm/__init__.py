"""Loops, arithmetic and memory to the llvm dialect."""
