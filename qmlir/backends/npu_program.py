"""Assembles a module of placed and ordered commands into the program that a device or its simulator runs.

This file separates the compiler, which works on operations, from the machine (backends/npu), which knows only commands.
"""

from collections.abc import Iterable
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue

from qmlir.backends.npu.stream import DTYPES, Port, Program, Routine, Segment, flat
from qmlir.devices.module import LAYERS, buffers_of, device_of, function_of, steps_of
from qmlir.devices.relays import with_relays
from qmlir.dialects.npu import BufferOp, CallOp
from qmlir.dialects.npu.placed import Numbers
from qmlir.errors import LoweringError
from qmlir.ir.signature import signature_of

ELEMENTS = {dtype: name for name, dtype in DTYPES.items()}
"""numpy dtype → the program's name of the element type."""


def assemble(module: ModuleOp) -> Program:
    """Assembles a module into a program.

    Raises:
        PipelineError: The module names no device, has no commands, or has buffers without addresses.
        LoweringError: An input or output of the network or of a host routine has an element type that programs lack.
    """
    device, function = device_of(module), function_of(module, "assemble")
    steps, buffers = steps_of(function), buffers_of(function)
    calls = {step.routine.string_value(): step for step in steps if isinstance(step, CallOp)}
    functions = {f.sym_name.data: f for f in module.body.block.ops if isinstance(f, func.FuncOp)}
    numbers = Numbers([m.id for m in device.memory], [q.id for q in device.queue], [*calls])
    routines = [_routine(functions[name], call, numbers) for name, call in calls.items()]
    commands = [numbers.command(step) for step in steps]
    commands = with_relays(commands, device, [routine.footprint for routine in routines])
    return Program(
        flat(device),
        commands,
        [
            Segment(numbers.place(op.buffer), op.contents.array.tobytes())
            for op in buffers
            if op.contents is not None and op.address is not None
        ],
        _ports(buffers, "input", numbers),
        _ports(buffers, "output", numbers),
        _layers(module),
        routines,
    )


def _ports(buffers: Iterable[BufferOp], direction: str, numbers: Numbers) -> list[Port]:
    """Returns the network's inputs (`direction` "input") or outputs ("output") in the order of its signature."""
    found: dict[int, Port] = {}
    for op in buffers:
        if (port := op.port) is not None and port.direction.data == direction:
            shape = tuple(n.value.data for n in port.shape)
            found[port.index.value.data] = _port(port.tensor.data, op.buffer, shape, port.element.data, numbers)
    return [found[index] for index in sorted(found)]


def _routine(function: func.FuncOp, call: CallOp, numbers: Numbers) -> Routine:
    """Returns the program's entry of a host routine, whose tensors lie in the buffers that its call names."""
    signature = signature_of(function)
    inputs, outputs = (
        tuple(
            _port(spec.name, buffer, spec.shape, ELEMENTS.get(spec.dtype, spec.dtype.name), numbers)
            for buffer, spec in zip(buffers, specs, strict=True)
        )
        for buffers, specs in ((call.inputs, signature.inputs), (call.outputs, signature.outputs))
    )
    return Routine(function.sym_name.data, inputs, outputs)


def _port(name: str, buffer: SSAValue, shape: tuple[int, ...], element: str, numbers: Numbers) -> Port:
    if element not in DTYPES:
        raise LoweringError("tensor", name, f"must have elements of a type among {', '.join(DTYPES)}", got=element)
    return Port(name, numbers.place(buffer), shape, element)


def _layers(module: ModuleOp) -> list[str]:
    named = module.attributes.get(LAYERS)
    entries = cast(ArrayAttr[Attribute], named).data if isinstance(named, ArrayAttr) else ()
    return [name.data for name in entries if isinstance(name, StringAttr)]
