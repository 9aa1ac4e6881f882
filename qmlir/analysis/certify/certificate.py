"""The certificate of a network: what `qmlir certify` writes, as plain data."""

import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from qmlir.analysis.certify.errors import rounded
from qmlir.analysis.certify.intervals import Interval, Proof, prove
from qmlir.analysis.certify.machine_code import in_assembly, in_llvm_ir, scan, scan_object
from qmlir.analysis.certify.rounding import in_steps, largest_error
from qmlir.analysis.certify.tables import table_errors
from qmlir.compiler import FOLD_CASTS, TO_INTEGERS, Pipeline, context_of, to_machine_code
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.quantizable import QuantizableOp, data_operands
from qmlir.dialects.quant.types import UniformType
from qmlir.files import staged_at
from qmlir.ir.interfaces import Array, element_of
from qmlir.ir.locations import place_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.ir.signature import main_function
from qmlir.transforms.quantize.fold_qdq import is_as_imported
from qmlir.transforms.verify_integer_only import BETWEEN, ENTRY, EXIT, FloatOperation, float_operations, refuse

FORMAT = "qmlir-certificate-1"
"""The format of certificates, with its version."""

INTEGER_ONLY = "integer-only"
"""The verdict of a certificate; a network that is not integer-only gets none."""


def certificate_of(module: ModuleOp) -> tuple[ModuleOp, dict[str, Any]]:
    """Proves that a network computes on integers only, and returns the proof.

    Args:
        module: A quantized network, on the nn level or on the qint level; it stays unchanged.

    Returns:
        The network on the qint level, which the proof is about, and the certificate without the hashes of files.

    Raises:
        NodeError: An operation computes on floats between the network's integers, or its integers may overflow.
    """
    integers, sources = _lowered(module)
    floats = list(float_operations(integers, context_of(integers)))
    refuse([each for each in floats if each.place == BETWEEN])
    function = main_function(integers)
    proofs = prove(function)
    certificate = {
        "format": FORMAT,
        "qmlir": version("qmlir"),
        "verdict": INTEGER_ONLY,
        "about": "network",
        "entry": _floats(floats, ENTRY),
        "exit": _floats(floats, EXIT),
        "weights": constants_of(function),
        "operations": operations_of(function, proofs, sources),
    }
    return integers, certificate


def is_quantized(module: ModuleOp) -> bool:
    """Whether values between inputs and outputs have quantized types, or it computes on no floats at all but in casts.

    Constants of quantized types do not count: a float network may store its weights so.
    """
    function = main_function(module).body.block
    data = set[SSAValue](function.args)
    for op in function.ops:
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
    code = scan_object(path)
    certificate = {"format": FORMAT, "qmlir": version("qmlir"), "verdict": INTEGER_ONLY, "about": "object"}
    return {**certificate, "artefact": file_hashes([path]), "code": [code.as_dict()]}


def code_of(integers: ModuleOp) -> list[dict[str, Any]]:
    """Compiles a network on the qint level for this processor, and returns what its code computes on floats.

    Raises:
        NodeError: A function other than a cast at the entry or the exit computes on floats.
    """
    executable = to_machine_code(integers.clone())
    found = [
        scan("LLVM IR", in_llvm_ir(executable.llvm_ir)),
        scan(executable.machine.architecture, in_assembly(executable.assembly())),
    ]
    for code in found:
        code.require_integers()
    return [code.as_dict() for code in found]


def _lowered(module: ModuleOp) -> tuple[ModuleOp, Mapping[Operation, Operation]]:
    """A network on the qint level, and for its operations those on quantized types that they were made from.

    Operations keep their places in the text through the lowering. Here the places are numbers, by which they are found.
    """
    quantized = Pipeline(*FOLD_CASTS)(module) if is_as_imported(module) else module.clone()
    numbered: list[Operation] = []
    places = [op.location for op in main_function(quantized).body.block.ops]
    for op in main_function(quantized).body.block.ops:
        op.location = FileLineColLoc(StringAttr(_NUMBERED), IntAttr(len(numbered)), IntAttr(0))
        numbered.append(op)
    integers = quantized.clone()
    Pipeline(*TO_INTEGERS).apply(integers, context_of(module))
    sources: dict[Operation, Operation] = {}
    for op in main_function(integers).body.block.ops:
        place = place_of(op.location)
        if place is not None and place.file == _NUMBERED:
            source, op.location = numbered[place.line], places[place.line]
            if any(isinstance(element_of(v), UniformType) for v in data_operands(source)):
                sources[op] = source
    return integers, sources


_NUMBERED = "number of an operation"


def _floats(floats: Sequence[FloatOperation], place: str) -> list[dict[str, object]]:
    return [each.as_dict() for each in floats if each.place == place]


def operations_of(
    function: func.FuncOp, proofs: Mapping[Operation, Proof], sources: Mapping[Operation, Operation]
) -> list[dict[str, Any]]:
    """The fields of each operation that is proved, with its place in the function.

    Args:
        function: A function on the qint level.
        proofs: What is proved about its operations.
        sources: For operations of the function those on quantized types that they were made from, as far as known.
    """
    return [
        _operation(index, op, proofs[op], sources.get(op))
        for index, op in enumerate(function.body.block.ops)
        if op in proofs and not isinstance(op, nn.ConstantOp)
    ]


def constants_of(function: func.FuncOp) -> list[dict[str, Any]]:
    """The constants of a function, each with its place, its shape and its hash."""
    return [
        {
            "index": index,
            "tensor": tensor_name(op.y),
            "type": str(op.value.type.element_type),
            "shape": list(op.value.array.shape),
            "sha256": sha256(op.value.array),
        }
        for index, op in enumerate(function.body.block.ops)
        if isinstance(op, nn.ConstantOp)
    ]


def sha256(array: Array) -> str:
    """The hash of an array's elements, as little-endian bytes in row-major order."""
    return hashlib.sha256(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data).hexdigest()


def _operation(index: int, op: Operation, proof: Proof, source: Operation | None) -> dict[str, Any]:
    """The fields of an operation."""
    fields: dict[str, Any] = {"index": index, "operation": op.name, "node": _node(op)}
    fields["types"] = [str(element_of(v)) for v in (*op.operands, *op.results)]
    if proof.result is not None:
        fields["range"] = [proof.result.low, proof.result.high]
    if proof.accumulators is not None and proof.partial is not None:
        fields["accumulators"] = bounds(proof.accumulators) | {"bits": proof.bits, "slack": proof.slack}
    if proof.requantized is not None and isinstance(op, qint.RequantizeOp):
        factors = _factors(op, source)
        error = largest_error(op, proof.requantized, factors)
        fields["requantization"] = {
            "contract": op.contract.data,
            "slack": proof.requantized.slack,
            "factors": factors,
            "error": None if error is None else in_steps(error),
        }
    if (by_itself := rounded(op, proof.operands, source)) is not None:
        fields["rounding"] = by_itself.as_dict()
    if (table := table_errors(op, source)) is not None:
        if table["error"] is not None:
            table = {**table, "error": in_steps(Fraction(table["error"]))}
        fields["table"] = table
    return fields


def _node(op: Operation) -> str:
    """The name of an operation; sums have that of the requantization behind them."""
    readers = [use.operation for use in op.results[0].uses]
    return node_name(readers[0] if node_name(op) == op.name and len(readers) == 1 and readers[0].results else op)


def bounds(interval: Interval) -> dict[str, Any]:
    """The ends of an interval, for each channel."""
    return {"lowest": interval.lowest.tolist(), "highest": interval.highest.tolist()}


def _factors(op: qint.RequantizeOp, source: Operation | None) -> list[float] | None:
    """The real factors that a requantization stands for; None if they are not known."""
    if not isinstance(source, QuantizableOp):
        return None
    factors = source.factors().tolist()
    if isinstance(source, nn.PReluOp) and len(factors) == 2:  # one for x, one for the product of x and the slope
        factors = [factors[isinstance(op.x.owner, qint.MulOp)]]
    return factors if len(factors) in (1, len(op.multiplier)) else None


def file_hashes(files: Sequence[Path]) -> list[dict[str, str]]:
    """The names of files and the hashes of their contents."""
    return [{"file": path.name, "sha256": hashlib.sha256(staged_at(path).read_bytes()).hexdigest()} for path in files]
