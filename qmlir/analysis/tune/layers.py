"""Lists the operations of a quantized network that a search can change, and which of them read which."""

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue, Use

from qmlir.analysis.counts import figures_of
from qmlir.analysis.own_errors import INPUT
from qmlir.analysis.tune.assignment import Layer, groups_of, outputs_of, weights_of
from qmlir.compiler import main_function
from qmlir.dialects.nn import ConstantOp, RequantizeOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.dialects.target import load_target
from qmlir.ir.interfaces import TensorOp
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.traversal import reached


def layers_of(quantized: ModuleOp) -> list[Layer]:
    """Returns the computing operations of a quantized network and its inputs, in program order.

    Operations that only move values follow those beside them, so they are none of these. An operation that stays float
    is none either; as a reader it counts under its result, and never has data of 16 bits.
    """
    function = main_function(quantized)
    target = load_target("cpu")
    found: list[Layer] = []
    for argument in function.body.block.args:
        if name := tensor_name(argument):
            found.append(Layer(name, INPUT, 0, 0, tuple(dict.fromkeys(_readers(argument)))))
    for op in function.body.block.ops:
        if not isinstance(op, TensorOp) or isinstance(op, ConstantOp | RequantizeOp) or keeps_scale(op):
            continue
        name = tensor_name(op.results[0])
        if not name or not all(map(is_quantized, op.results)):
            continue
        readers = tuple(dict.fromkeys(r for value in op.results for r in _readers(value)))
        widens = target.why_float(op, "i16") is None
        macs = figures_of(op).macs
        found.append(Layer(name, op.name, weights_of(op), macs, readers, widens, groups_of(op), outputs_of(op)))
    return found


def _readers(value: SSAValue) -> Iterator[str]:
    """Yields the results of the operations that compute from a value, directly or moved."""

    def behind(use: Use) -> Sequence[Use]:
        return list(use.operation.results[0].uses) if _moves(use.operation) else ()

    for use in reached(value.uses, behind):
        op: Operation = use.operation
        if op.results and not _moves(op) and op.operands[use.index] in data_operands(op):
            yield tensor_name(op.results[0]) or op.name


def _moves(op: Operation) -> bool:
    """Whether an operation has the values of its operand, as data movement and casts have."""
    return isinstance(op, QuantizeCastOp | DequantizeCastOp | RequantizeOp) or (keeps_scale(op) and bool(op.results))
