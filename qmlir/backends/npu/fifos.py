"""Checks that a program respects the token FIFOs of a device; nothing is executed.

Tokens pass between neighbouring queues only. In program order, a FIFO never holds more tokens than it has room for, so
that program order is a valid schedule.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from qmlir.devices import Device
from qmlir.devices.blocks import Fault
from qmlir.devices.tokens import tokens
from qmlir.isa.encoding import Command


def beyond_tokens(commands: Sequence[Command], device: Device) -> Iterator[tuple[int, Fault]]:
    """Yields the numbers of the commands whose waits the device cannot express as tokens, and why.

    Args:
        commands: Commands that wait for earlier commands.
        device: The device; without tokens, every program passes.
    """
    if device.sync.kind != "tokens":
        return
    names = [queue.id for queue in device.queue]
    neighbours = device.sync.neighbours(names)
    held: Counter[tuple[int, int]] = Counter()
    for number, (command, own) in enumerate(zip(commands, tokens(commands, device), strict=True)):
        for queue in own.pops:
            held[queue, command.queue] -= 1
            if queue not in neighbours[command.queue]:
                others = ", ".join(names[other] for other in sorted(neighbours[command.queue]))
                need = f"queue {names[command.queue]} must wait for neighbours, {others}"
                yield number, Fault(need, got=f"a wait for {names[queue]}")
        for queue in own.pushes:
            held[command.queue, queue] += 1
            if held[command.queue, queue] > device.sync.tokens:
                between = f"from {names[command.queue]} to {names[queue]}"
                need = f"at most {device.sync.tokens} tokens must be on the way {between}"
                yield number, Fault(need, got=str(held[command.queue, queue]))
