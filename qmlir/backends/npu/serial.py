"""Serializes a program, as an oracle for programs whose queues overlap."""

from collections import Counter
from dataclasses import replace

from qmlir.backends.npu.stream import Program
from qmlir.devices import Device
from qmlir.devices.relays import with_relays
from qmlir.isa.encoding import Command, Wait


def serial(program: Program, device: Device) -> Program:
    """The program with each command waiting for the command before it, and therefore for all earlier commands."""
    issued: Counter[int] = Counter()
    commands: list[Command] = []
    for command in program.commands:
        last = commands[-1].queue if commands else None
        waits = () if last is None else (Wait(last, issued[last]),)
        commands.append(replace(command, waits=waits))
        issued[command.queue] += 1
    routines = [routine.footprint for routine in program.routines]
    return replace(program, commands=with_relays(commands, device, routines))
