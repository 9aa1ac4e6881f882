"""Predicts how long a program takes from its commands alone; nothing is executed."""

from qmlir.backends.npu.report import Counter, Report
from qmlir.backends.npu.stream import Program
from qmlir.devices import Device
from qmlir.devices.footprints import footprints
from qmlir.devices.timeline import Timeline
from qmlir.devices.tokens import tokens


def predicted(program: Program, device: Device) -> Report:
    """The predicted cost of a run, layer by layer."""
    counter = Counter(device, program)
    for command, touched in footprints(program.commands, device, [r.footprint for r in program.routines]):
        counter.count(command, touched)
    return counter.report()


def predicted_cycles(program: Program, device: Device) -> int:
    """Cycles until the last command ends."""
    timeline = Timeline(device, tokens(program.commands, device))
    for command, touched in footprints(program.commands, device, [r.footprint for r in program.routines]):
        timeline.add(command, touched)
    return timeline.now
