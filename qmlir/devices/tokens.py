"""Waits as tokens, for devices whose queues only see the tokens that their neighbours push.

Between two neighbouring queues there are two FIFOs of tokens, one in each direction. A command pops a token before it
starts, or pushes a token when it is done. Tokens carry no name: the first token pushed is the first token popped. Waits
between neighbours have the same order: the waits of one queue for another name later and later commands, and each named
command pushes one token. A wait for a queue that is not a neighbour becomes a token once relays.py forwards it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from qmlir.devices.description import Device
from qmlir.isa.encoding import Command


@dataclass(frozen=True)
class Tokens:
    """The tokens that a command pops before it starts and pushes when it is done, as numbers of queues."""

    pops: tuple[int, ...] = ()
    pushes: tuple[int, ...] = ()


def tokens(commands: Sequence[Command], device: Device) -> list[Tokens]:
    """The tokens of each command; empty tokens if the device does not synchronise by tokens.

    Args:
        commands: Commands that wait for earlier commands.
        device: The device.
    """
    if device.sync.kind != "tokens":
        return [Tokens()] * len(commands)
    popped: dict[tuple[int, int], int] = {}
    places: list[list[int]] = [[] for _ in device.queue]
    pops, pushes = ([list[int]() for _ in commands] for _ in range(2))
    for number, command in enumerate(commands):
        for queue, finished in command.waits:
            edge = queue, command.queue
            if queue != command.queue and finished > popped.get(edge, 0):
                popped[edge] = finished
                pops[number].append(queue)
                pushes[places[queue][finished - 1]].append(command.queue)
        places[command.queue].append(number)
    return [Tokens(tuple(taken), tuple(given)) for taken, given in zip(pops, pushes, strict=True)]
