"""Custom accelerators: their commands, the binary stream that holds the commands, and a simulator that executes it."""
