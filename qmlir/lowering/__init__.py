"""Edges between levels, named from_to: this folder is the diagram of the compiler."""
