"""What runs: the numpy reference and the CPU."""
