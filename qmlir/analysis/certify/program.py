"""The certificate of a device's program: its commands, its constants, and the routines that the host runs for it."""

import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from qmlir.analysis.certify.certificate import (
    FORMAT,
    INTEGER_ONLY,
    bounds,
    constants_of,
    file_hashes,
    operations_of,
)
from qmlir.analysis.certify.commands import SCALES_REMEDY, CommandProof, prove_commands
from qmlir.analysis.certify.contents import ENTERING, LEAVING
from qmlir.analysis.certify.intervals import Interval, Proof, prove
from qmlir.backends.npu.stream import Program, Routine, unflattened
from qmlir.backends.simulated import host_file
from qmlir.compiler import context_of
from qmlir.devices import Device
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import FileError, NodeError
from qmlir.files import noted_files
from qmlir.ir.interfaces import element_of
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import set_names
from qmlir.ir.source import read_mlir
from qmlir.ir.traversal import reached
from qmlir.ir.verify import verify
from qmlir.isa.commands import Host
from qmlir.transforms.verify_integer_only import (
    BETWEEN,
    ENTRY,
    EXIT,
    FloatOperation,
    first_of,
    float_operations,
    float_type,
)


def certificate_of_program(path: Path) -> dict[str, Any]:
    """Proves that a device's program computes on integers only, and returns the proof.

    Args:
        path: The program; the routines that the host runs lie beside it, where `qmlir compile` wrote them.

    Raises:
        FileError: A file cannot be read, is no program, or the program needs routines that are not there.
        Fault: Queues of the program race, or the device cannot execute a command.
        NodeError: A command or a call of the host computes on floats, or integers may overflow.
    """
    program, files = Program.load(path), [path]
    device = unflattened(program.device)
    called = dict[str, _Called]()
    if program.routines:
        host = host_file(path)
        with noted_files() as beside:
            module = read_mlir(host)
        files += [host, *sorted(beside)]
        verify(module)
        functions = {f.sym_name.data: f for f in module.ops if isinstance(f, func.FuncOp)}
        for routine in program.routines:
            if routine.name not in functions:
                remedy = "compile the network again"
                raise FileError(host, f"must hold the routine {routine.name}", got=", ".join(functions), remedy=remedy)
            _name_arguments(functions[routine.name], routine, program)
            called[routine.name] = _Called.of(routine, functions[routine.name], _callers(program, routine))
    proofs = prove_commands(program, device, {name: each.outputs for name, each in called.items()})
    return {
        "format": FORMAT,
        "qmlir": version("qmlir"),
        "verdict": INTEGER_ONLY,
        "about": "program",
        "artefact": file_hashes(files),
        "device": device.name,
        "constants": _constants(program, device),
        "routines": [each.as_dict() for each in called.values()],
        "commands": [_command(each) for each in proofs],
    }


def _name_arguments(function: func.FuncOp, routine: Routine, program: Program) -> None:
    """Names a routine's arguments after its tensors; floats, which enter the network, after the network's inputs.

    Integers may lie where an input of the network has lain before.
    """
    names = {port.place: port.name for port in program.inputs}
    for value, port in zip(function.body.block.args, routine.inputs, strict=True):
        name = port.name if float_type(value.type) is None else names.get(port.place, port.name)
        set_names(value, NameAttr.of(tensors=[name]))


def _callers(program: Program, routine: Routine) -> list[int]:
    """The numbers of the commands that call a routine."""
    commands = enumerate(program.commands)
    return [n for n, c in commands if isinstance(c, Host) and program.routines[c.routine] is routine]


def _constants(program: Program, device: Device) -> list[dict[str, Any]]:
    """The bytes that lie in memories before the first command, each segment with its hash."""
    return [
        {
            "memory": device.memory[segment.place.memory].id,
            "address": segment.place.address,
            "bytes": len(segment.data),
            "sha256": hashlib.sha256(segment.data).hexdigest(),
        }
        for segment in program.segments
    ]


def _command(each: CommandProof) -> dict[str, Any]:
    """The fields of a command."""
    fields: dict[str, Any] = {"index": each.index, "command": each.command, "layer": each.layer}
    proof = each.proof
    if proof.result is not None:
        fields["range"] = [proof.result.low, proof.result.high]
    if proof.accumulators is not None:
        fields["accumulators"] = bounds(proof.accumulators) | {"bits": proof.bits, "slack": proof.slack}
    if proof.requantized is not None:
        fields["requantization"] = {"contract": each.contract, "slack": proof.requantized.slack}
    return fields


# ---------------------------------------------------------------------------------------------------------------
# Routines of the host


class _Called:
    """A routine that the host runs, with what is proved about it.

    outputs  for each output its interval, the label of its floats, or None if its bytes are unknown
    """

    def __init__(
        self, routine: Routine, function: func.FuncOp, commands: Sequence[int], proofs: Mapping[Operation, Proof]
    ):
        self.routine, self.function, self.commands, self.proofs = routine, function, commands, proofs
        returned = function.body.block.last_op
        assert returned is not None
        self.outputs = [self._output(value) for value in returned.operands]

    @staticmethod
    def of(routine: Routine, function: func.FuncOp, commands: Sequence[int]) -> "_Called":
        """Proves a routine.

        Raises:
            NodeError: It computes on floats, or its integers may overflow.
        """
        called = _Called(routine, function, commands, {})
        _refuse([each for each in called.floats if each.place == BETWEEN], routine, commands)
        return _Called(routine, function, commands, prove(function))

    @property
    def floats(self) -> list[FloatOperation]:
        """The operations on floats."""
        module = ModuleOp([self.function.clone()])
        return list(float_operations(module, context_of(module)))

    def _output(self, value: SSAValue) -> Interval | int | None:
        if float_type(value.type) is not None:
            return ENTERING if _is_moved_input(value) else LEAVING
        owner = value.owner
        if isinstance(owner, Operation) and owner in self.proofs and _is_signed(element_of(value)):
            result = self.proofs[owner].result
            return None if result is None else result.whole()
        return None

    def as_dict(self) -> dict[str, Any]:
        """The fields of a routine."""
        floats = self.floats
        return {
            "routine": self.routine.name,
            "commands": list(self.commands),
            "types": _types(self.function),
            "entry": [each.as_dict() for each in floats if each.place == ENTRY],
            "exit": [each.as_dict() for each in floats if each.place == EXIT],
            "weights": constants_of(self.function),
            "operations": operations_of(self.function, self.proofs, {}),
        }


def _types(function: func.FuncOp) -> list[str]:
    """The types of the elements that a function's operations read and write, without those of constants."""
    values = [
        value
        for op in function.body.block.ops
        if not isinstance(op, ConstantOp)
        for value in (*op.operands, *op.results)
        if not isinstance(value.owner, ConstantOp)
    ]
    return sorted({str(element_of(value)) for value in values})


def _is_moved_input(value: SSAValue) -> bool:
    """Whether floats are those of an argument, moved at most."""

    def moved(value: SSAValue) -> Sequence[SSAValue]:
        return value.owner.operands if isinstance(value.owner, MovementOp) else ()

    return all(isinstance(v, BlockArgument) or isinstance(v.owner, MovementOp) for v in reached([value], moved))


def _is_signed(element: Attribute) -> bool:
    if isinstance(element, UniformType):
        return element.is_signed
    return isinstance(element, IntegerType) and cast(IntegerType, element).width.data > 1


def _refuse(found: Sequence[FloatOperation], routine: Routine, commands: Sequence[int]) -> None:
    """Raises an error about the first operation of a routine that computes on floats.

    Raises:
        NodeError: There is one.
    """
    if not found:
        return
    first, others = first_of(found)
    called = ", ".join(map(str, commands)) or "none"
    raise NodeError(
        f"command {called}, host",
        routine.name,
        "must call a routine that computes on integers",
        got=f'{first.operation} "{first.node}" on {first.floats} ({first.reason}), '
        f"by way of {' → '.join(first.path)}{others}",
        remedy="quantize it, or give the device file a key for it" if first.types else SCALES_REMEDY,
    )
