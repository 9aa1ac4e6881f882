"""Waits as tokens: for devices whose queues see nothing of each other but what their neighbours push.

Between two neighbours lie two FIFOs of tokens, one each way. A command pops a token before it starts, or pushes one
when it is done. Tokens carry no name: the first that is popped is the first that was pushed. So it is with waits for
neighbours: those of one queue for another name later and later commands, each of which pushes one token. Waits for
other queues are no tokens until relays.py makes them such ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from qmlir.device.description import Device
from qmlir.isa.encoding import Command


@dataclass(frozen=True)
class Tokens:
    """What a command pops before it starts, and what it pushes when it is done: queues by their numbers."""

    pops: tuple[int, ...] = ()
    pushes: tuple[int, ...] = ()


def tokens(commands: Sequence[Command], device: Device) -> list[Tokens]:
    """The tokens of each command; none on a device that has no tokens.

    Args:
        commands: Commands that wait for earlier ones.
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
