"""Passes that turn observed ranges into quantized types, and the steps that these passes consist of."""
