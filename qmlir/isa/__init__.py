"""The instruction set of every device: the commands, their meaning and their encoding, independent of the compiler."""
