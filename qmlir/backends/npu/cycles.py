"""How long a program will take, from its commands alone: nothing is executed."""

from collections.abc import Sequence

from qmlir.backends.npu.command import Command
from qmlir.backends.npu.timeline import Timeline
from qmlir.device import Device


def predicted_cycles(commands: Sequence[Command], device: Device) -> int:
    """Cycles until the last command ends."""
    timeline = Timeline(device)
    for command in commands:
        timeline.add(command)
    return timeline.now
