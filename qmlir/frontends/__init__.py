"""Readers: a model file becomes the nn dialect."""
