"""How long a program will take, from its commands alone: nothing is executed."""

from collections.abc import Sequence

from qmlir.device import Device
from qmlir.device.timeline import Timeline
from qmlir.isa.encoding import Command


def predicted_cycles(commands: Sequence[Command], device: Device) -> int:
    """Cycles until the last command ends."""
    timeline = Timeline(device)
    for command in commands:
        timeline.add(command)
    return timeline.now
