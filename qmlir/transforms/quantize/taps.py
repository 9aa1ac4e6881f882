"""Builds networks that return their inner tensors (taps), so that float and quantized networks can be compared.

`tapped` builds a network that returns every tensor under its name, as floats. `isolated` takes the quantized network
apart: each operation on quantized types reads tensors of the float network, which are inputs and are quantized as the
operation wants them. So the result of an operation differs from the float network by the operation's own error alone.
"""

from collections.abc import Iterable, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ConstantOp, RequantizeOp
from qmlir.dialects.nn.base import is_float, is_quantized
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.ir.interfaces import TensorOp, shape_of
from qmlir.ir.rewriting import tensor_name

Tapped = tuple[ModuleOp, list[str]]
"""A module of one function, and the names of the tensors that are its last results."""


def tapped(module: ModuleOp, function: func.FuncOp) -> Tapped:
    """Copies a network, without observers, so that it returns every named tensor too, as floats, after its own results.

    Args:
        module: Stays unchanged.
        function: The network in it.
    """
    module = module.clone()
    (function,) = (f for f in module.walk() if isinstance(f, func.FuncOp) and f.sym_name == function.sym_name)
    block = function.body.block
    for observer in [o for o in block.ops if isinstance(o, ObserveOp)]:
        Rewriter.erase_op(observer)
    operations = [o for o in block.ops if isinstance(o, TensorOp) and not isinstance(o, ConstantOp)]
    named: dict[str, SSAValue] = {}
    for value in (*block.args, *(r for op in operations for r in op.results)):
        if (name := tensor_name(value)) and name not in named and (is_float(value) or is_quantized(value)):
            named[name] = value
    end = block.last_op
    assert isinstance(end, func.ReturnOp)
    values: list[SSAValue] = []
    for value in map(_as_read, named.values()):
        if is_quantized(value):
            cast = DequantizeCastOp(value, TensorType(f32, shape_of(value)))
            block.insert_op_before(cast, end)
            value = cast.result
        values.append(value)
    _return(function, end, [*end.operands, *values])
    return module, list(named)


def _as_read(value: SSAValue) -> SSAValue:
    """The quantized form of a network input, if integer operations read it so; any other value itself."""
    casts = [u.operation for u in value.uses if isinstance(u.operation, QuantizeCastOp)]
    return casts[0].result if isinstance(value.owner, Block) and casts else value


def isolated(function: func.FuncOp, known: Iterable[str]) -> tuple[ModuleOp, list[str], list[str]]:
    """Builds a network in which each operation of a quantized network stands alone and reads float tensors.

    Args:
        function: The quantized network.
        known: The names of the tensors whose float values are known; operations that read other tensors are left out.

    Returns:
        The module, the names of the tensors that it takes, and the names of the tensors that it returns.
    """
    taken = _Isolation(set(known))
    results: dict[str, SSAValue] = {}
    for op in function.body.block.ops:
        if not isinstance(op, TensorOp) or isinstance(op, ConstantOp | RequantizeOp):
            continue
        name = tensor_name(op.results[0])
        if name not in taken.known or name in results or not all(map(is_quantized, op.results)):
            continue
        if (copy := taken.copy_of(op)) is not None:
            cast = DequantizeCastOp(copy.results[0], TensorType(f32, shape_of(op.results[0])))
            taken.block.add_op(cast)
            results[name] = cast.result
    taken.block.add_op(func.ReturnOp(*results.values()))
    types = FunctionType.from_lists([v.type for v in taken.inputs.values()], [v.type for v in results.values()])
    return ModuleOp([func.FuncOp("main", types, Region(taken.block))]), list(taken.inputs), list(results)


class _Isolation:
    """The function of isolated operations while it is built."""

    def __init__(self, known: set[str]):
        self.known = known
        self.block = Block()
        self.inputs: dict[str, SSAValue] = {}
        self.copies: dict[SSAValue, SSAValue | None] = {}

    def copy_of(self, op: Operation) -> Operation | None:
        """A copy of an operation that reads quantized inputs; None if the operation reads an unknown tensor."""
        operands = {v: self._operand(v) for v in op.operands}
        read = {v: stands for v, stands in operands.items() if stands is not None}
        if len(read) < len(operands):
            return None
        copy = op.clone(dict(read))
        self.block.add_op(copy)
        return copy

    def _operand(self, value: SSAValue) -> SSAValue | None:
        if value not in self.copies:
            self.copies[value] = self._new_operand(value)
        return self.copies[value]

    def _new_operand(self, value: SSAValue) -> SSAValue | None:
        """A copied constant, a quantized input, or a copy of data movement on these; None for an unknown tensor."""
        owner, source = value.owner, _source(value)
        if isinstance(owner, ConstantOp):
            copy = self.copy_of(owner)
        elif is_quantized(value) and (name := tensor_name(source)) in self.known:
            if name not in self.inputs:
                type = TensorType(f32, shape_of(source))
                self.inputs[name] = self.block.insert_arg(type, len(self.block.args))
            copy = QuantizeCastOp(self.inputs[name], value.type)
            self.block.add_op(copy)
        else:
            copy = self.copy_of(owner) if isinstance(owner, MovementOp | RequantizeOp) else None
        return copy.results[0] if copy is not None else None


def _source(value: SSAValue) -> SSAValue:
    """The value that a chain of casts and changes of scale begins with."""
    while isinstance(value.owner, DequantizeCastOp | QuantizeCastOp | RequantizeOp):
        value = value.owner.operands[0]
    return value


def _return(function: func.FuncOp, end: func.ReturnOp, values: Sequence[SSAValue]) -> None:
    """Makes a function return other values; drops the attributes of its results."""
    Rewriter.replace_op(end, func.ReturnOp(*values))
    types: list[Attribute] = [v.type for v in values]
    function.function_type = FunctionType.from_lists(function.function_type.inputs.data, types)
    function.res_attrs = None
