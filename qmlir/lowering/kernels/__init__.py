"""Kernels that float and integer edges share: loop nests and memory access, with the arithmetic passed in."""
