"""Kernels that the float and integer lowerings share: loop nests and memory access; callers pass in the arithmetic."""
