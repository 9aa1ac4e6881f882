"""VTA in its default configuration: its instructions, a functional model, and an encoder of layers."""
