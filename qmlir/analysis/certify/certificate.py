"""The certificates that `qmlir certify` writes, as plain data."""

import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from qmlir.analysis.certify.machine_code import in_assembly, in_llvm_ir
from qmlir.analysis.certify.meaning import meaning_of
from qmlir.backends.npu.races import checked
from qmlir.backends.npu.stream import Program, unflattened
from qmlir.checker.code import Code
from qmlir.checker.document import certificate_of_entries, certificate_of_file, certificate_of_network
from qmlir.checker.unproven import RefusedError
from qmlir.compiler import Pipeline, context_of
from qmlir.dialects import nn
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of
from qmlir.ir.locations import place_of
from qmlir.ir.signature import entry_functions
from qmlir.running.files import staged_at
from qmlir.running.machine_code import to_machine_code
from qmlir.stages import FOLD_CASTS, TO_INTEGERS
from qmlir.transforms.quantize.apply.fold_qdq import is_as_imported
from qmlir.transforms.verify_integer_only import BETWEEN, float_operations, refuse

QMLIR = version("qmlir")


def certificate_of(module: ModuleOp) -> tuple[ModuleOp, dict[str, Any]]:
    """Proves that a network computes on integers only, and returns the proof.

    Args:
        module: A quantized network, on the nn level or on the qint level; it stays unchanged.

    Returns:
        The network on the qint level, which the proof is about, and the certificate without the hashes of files. Of a
        network with several entries, it is about all of them.

    Raises:
        NodeError: An operation computes on floats between the network's integers, or its integers may overflow.
    """
    integers, sources = lowered(module)
    ops = {function.sym_name.data: list(function.body.block.ops) for function in entry_functions(integers)}
    stated = {name: {"operations": _stated(own, sources)} for name, own in ops.items()}
    try:
        if len(ops) > 1:
            return integers, certificate_of_entries(integers, stated, QMLIR)
        (only,) = stated.values()
        return integers, certificate_of_network(integers, only, QMLIR)
    except RefusedError as error:
        own = ops[error.entry or next(iter(ops))]
        _raise(error, None if error.index is None else own[error.index])


def _stated(ops: Sequence[Operation], sources: Mapping[Operation, Operation]) -> list[dict[str, Any]]:
    """What the integers of a function's operations stand for."""
    return [{"index": index, **meaning_of(each, sources[each])} for index, each in enumerate(ops) if each in sources]


def _raise(error: RefusedError, op: Operation | None) -> NoReturn:
    """Raises an error about an operation, whose place in the text diagnostics find in this frame."""
    raise error


def is_quantized(module: ModuleOp) -> bool:
    """Whether values between inputs and outputs have quantized types, or it computes on no floats at all but in casts.

    Constants of quantized types do not count: a float network may store its weights so.
    """
    data = set[SSAValue]()
    for function in entry_functions(module):
        data.update(function.body.block.args)
        for op in function.body.block.ops:
            if not data.isdisjoint(op.operands):
                data.update(op.results)
    if any(isinstance(element_of(value), UniformType) for value in data):
        return True
    floats = float_operations(module, context_of(module))
    return all(each.place != BETWEEN or each.operation == nn.CastOp.name for each in floats)


def certificate_of_object(path: Path) -> dict[str, Any]:
    """Proves that an object file computes on floats in the casts at its entry and exit only, and returns the proof.

    Raises:
        FileError: There is no disassembler, or the file is no object file that it reads.
        NodeError: Another function computes on floats, or a cast may stand between the network's integers.
    """
    return certificate_of_file("object", path, QMLIR)


def certificate_of_program(path: Path) -> dict[str, Any]:
    """Proves that a device's program computes on integers only, and returns the proof.

    Args:
        path: The program; the routines that the host runs lie beside it, where `qmlir compile` wrote them.

    Raises:
        FileError: A file cannot be read, is no program, or the program needs routines that are not there.
        Fault: Queues of the program race, or the device cannot execute a command.
        NodeError: A command or a call of the host computes on floats, or integers may overflow.
    """
    program = Program.load(path)
    checked(program, unflattened(program.device))
    return certificate_of_file("program", path, QMLIR)


def code_of(integers: ModuleOp) -> list[dict[str, Any]]:
    """Compiles a network on the qint level for this processor, and returns what its code computes on floats.

    Raises:
        NodeError: A function other than a cast at the entry or the exit computes on floats.
    """
    executable = to_machine_code(integers.clone(), later=True)  # its text and its assembly are read
    found = [
        Code("LLVM IR", in_llvm_ir(executable.llvm_ir)),
        Code(executable.machine.architecture, in_assembly(executable.assembly())),
    ]
    for code in found:
        code.require_integers()
    return [code.fields() for code in found]


def lowered(module: ModuleOp) -> tuple[ModuleOp, Mapping[Operation, Operation]]:
    """A network on the qint level, and for its operations those on quantized types that they were made from.

    Operations keep their places in the text through the lowering. Here the places are numbers, by which they are found.

    Raises:
        NodeError: An operation computes on floats between the network's integers.
    """
    quantized = Pipeline(*FOLD_CASTS)(module) if is_as_imported(module) else module.clone()
    numbered: list[Operation] = []
    places = [op.location for op in _operations(quantized)]
    for op in _operations(quantized):
        op.location = FileLineColLoc(StringAttr(_NUMBERED), IntAttr(len(numbered)), IntAttr(0))
        numbered.append(op)
    integers = quantized.clone()
    Pipeline(*TO_INTEGERS).apply(integers, context_of(module))
    sources: dict[Operation, Operation] = {}
    for op in _operations(integers):
        place = place_of(op.location)
        if place is not None and place.file == _NUMBERED:
            source, op.location = numbered[place.line], places[place.line]
            if any(isinstance(element_of(v), UniformType) for v in data_operands(source)):
                sources[op] = source
    refuse([each for each in float_operations(integers, context_of(integers)) if each.place == BETWEEN])
    return integers, sources


_NUMBERED = "number of an operation"


def _operations(module: ModuleOp) -> list[Operation]:
    """The operations of all entries, in order."""
    return [op for function in entry_functions(module) for op in function.body.block.ops]


def file_hashes(files: Sequence[Path]) -> list[dict[str, str]]:
    """The names of files and the hashes of their contents."""
    return [{"file": path.name, "sha256": hashlib.sha256(staged_at(path).read_bytes()).hexdigest()} for path in files]
