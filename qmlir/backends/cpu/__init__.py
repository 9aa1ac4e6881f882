"""The llvm dialect to machine code in memory."""
