"""Speed, as ratios measured side by side; nothing is asserted about time. `make bench` prints the figures."""
