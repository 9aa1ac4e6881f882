"""The bits of each part of a command, and how much work a command may ask for.

These are the limits of every device. The encoder refuses what does not fit its bits, the simulator refuses commands
that ask for more, the compiler chooses tiles within them, and an operation of which no tile keeps to them is not the
device's (devices/legality.py). All four read this table.
"""

QUEUE_BITS = MEMORY_BITS = CONTEXT_BITS = 4
"""Bits of the number of a queue, a memory or a context."""

ADDRESS_BITS = COUNT_BITS = 28
"""Bits of a byte address in a memory, and of the count of finished commands in a wait."""

WAIT_BITS = 2
"""Bits of the number of waits."""

WORD_BITS = 32
"""Bits of any other field."""
