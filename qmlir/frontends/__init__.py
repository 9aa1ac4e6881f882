"""Frontends: each reads one model file format and returns a module in the nn dialect."""
