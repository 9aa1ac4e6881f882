"""The instruction set of every device: commands, what they mean and how they are written. It knows no compiler."""
