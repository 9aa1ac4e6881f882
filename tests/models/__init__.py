"""Real trained models on real data; `make models` prints the figures."""
