"""Custom accelerators: their commands, the binary stream that holds these, and a simulator that executes it."""
