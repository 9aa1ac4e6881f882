"""Passes on integer networks, whose results stay the same bits."""
