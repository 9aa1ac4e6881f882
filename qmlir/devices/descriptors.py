"""Waits as links between descriptors, for devices that start a command when its counter reaches zero.

Each command has a descriptor with a counter and a list of consumers. The counter says how many commands this command
waits for; each consumer is a command whose counter this command decrements when it is done. If a queue waits
for the same queue twice, the second wait names a later command. A command therefore has at most one consumer on each
queue, and its descriptor needs one field for each queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from qmlir.devices.description import Device
from qmlir.isa.encoding import Command


@dataclass(frozen=True)
class Descriptor:
    """How many commands a command waits for, and the numbers in the program of the commands that wait for it."""

    count: int = 0
    consumers: tuple[int, ...] = ()


def descriptors(commands: Sequence[Command], device: Device) -> list[Descriptor]:
    """The descriptor of each command, in program order.

    Args:
        commands: Commands that wait for earlier commands.
        device: The device.
    """
    places: list[list[int]] = [[] for _ in device.queue]
    waited: dict[tuple[int, int], int] = {}
    counts, consumers = [0] * len(commands), [list[int]() for _ in commands]
    for number, command in enumerate(commands):
        for queue, finished in command.waits:
            if finished > waited.get((queue, command.queue), 0):
                waited[queue, command.queue] = finished
                counts[number] += 1
                consumers[places[queue][finished - 1]].append(number)
        places[command.queue].append(number)
    return [Descriptor(count, tuple(links)) for count, links in zip(counts, consumers, strict=True)]
