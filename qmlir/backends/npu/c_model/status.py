"""What the C model answers when it executes a command."""

from enum import IntEnum


class Status(IntEnum):
    """The answers of the model; each value but `DONE` is a fault, for which the Python simulator has a sentence."""

    DONE = 0
    COMMAND = 1
    WORDS = 2
    WIDTH = 3
    CONTEXT = 4
    CONTRACT = 5
    FACTOR = 6
    ACCUMULATOR = 7
    INDEX = 8
    SUM = 9
    REDUCED = 10
    MODE = 11
    WEIGHT_ZERO_POINT = 12
    EXPONENTIALS = 13


MEANING = {
    Status.DONE: "the command is executed, or is its caller's",
    Status.COMMAND: "a command that is unknown, or that the model was made without",
    Status.WORDS: "a command with another number of words than it has",
    Status.WIDTH: "a number of bits that the field cannot have",
    Status.CONTEXT: "a context that was not set",
    Status.CONTRACT: "a rounding contract that is unknown, or that the model was made without",
    Status.FACTOR: "a multiplier or a shift that the contract does not take",
    Status.ACCUMULATOR: "a number that is too large for the contract",
    Status.INDEX: "a table is looked up with a number of more than 8 bits",
    Status.SUM: "a sum beyond the accumulators of a device whose sums trap",
    Status.REDUCED: "a sum over an image beyond 32 bits",
    Status.MODE: "types of data and weights that the array does not multiply",
    Status.WEIGHT_ZERO_POINT: "a zero point of weights on a device without them",
    Status.EXPONENTIALS: "a row of exponentials that cannot be divided by their sum",
}
"""Status → what is the matter, for the header and for errors."""
