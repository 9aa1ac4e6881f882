"""Gemmini in its default configuration: its commands, a functional model of them, and an encoder of whole layers."""
