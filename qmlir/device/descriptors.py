"""Waits as links between descriptors: for devices that start a command when a count has come down to nothing.

Each command stands in a descriptor with the count of those that it waits for, and with its consumers: those whose
counts go down by one when it is done. Who waits for one queue twice names a later command the second time, so that a
command has at most one consumer on each queue, and a descriptor one place for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from qmlir.device.description import Device
from qmlir.isa.encoding import Command


@dataclass(frozen=True)
class Descriptor:
    """How many commands one waits for, and which wait for it: numbers in the program."""

    count: int = 0
    consumers: tuple[int, ...] = ()


def descriptors(commands: Sequence[Command], device: Device) -> list[Descriptor]:
    """What stands in the descriptor of each command beside it.

    Args:
        commands: Commands that wait for earlier ones.
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
