"""Batches of a network: which inputs have samples, whether all operations keep samples apart, and a longer batch.

A network is imported for one sample: its inputs begin with a dimension of size 1. Whether a batch of n samples means
the same as n calls is a question to each operation (`TensorOp.sample_axis`, ir/samples.py). `sample_axes` follows the
samples from the inputs to the outputs, and names the operation that mixes them. `with_batch` is the network for n
samples as one function, for exporters and for tests; compiled code calls the network for each sample instead.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from qmlir.dialects.inputs import batch_symbols
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, MovementOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.ir.samples import Axes, MixesSamples
from qmlir.ir.signature import COUNTS, signature_of
from qmlir.ir.states import states_of

ALONE = "leave the batch out, and call the network once for each sample"
"""What to do about a network that takes no batches."""


@runtime_checkable
class KeepsSamples(Protocol):
    """An operation that says where the samples of its results lie, as `TensorOp` does."""

    def sample_axis(self, axes: Axes) -> int:
        """Returns the axis of the samples in each result, or raises `MixesSamples`."""
        ...


def batched_inputs(function: func.FuncOp) -> list[bool]:
    """Returns for each argument whether it has samples along its first axis; the others are the same for all samples.

    These are the inputs whose first dimension was symbolic in the source model, or else all that begin with 1.
    """
    module = function.parent_op()
    symbols = batch_symbols(module) if isinstance(module, ModuleOp) else {}
    begin = [shape_of(argument)[:1] == (1,) for argument in function.args]
    named = [begins and tensor_name(a) in symbols for a, begins in zip(function.args, begin, strict=True)]
    return named if any(named) else begin


def sample_axes(function: func.FuncOp) -> dict[SSAValue, int]:
    """Returns the axis of the samples in each tensor of a network that depends on the sample.

    Raises:
        UnsupportedError: No input has samples, an operation mixes them, an output has none, or the network has states
            or outputs whose sizes depend on the data.
    """
    _check_function(function)
    axes = {a: 0 for a, batched in zip(function.args, batched_inputs(function), strict=True) if batched}
    for op in function.body.block.ops:
        if op.results and any(operand in axes for operand in op.operands):
            try:
                axis = _axis(op, [axes.get(operand) for operand in op.operands])
            except MixesSamples as reason:
                need = f"must keep the samples of a batch apart, but {reason}"
                raise UnsupportedError.at(op.name, node_name(op), need, remedy=ALONE) from None
            axes |= dict.fromkeys(op.results, axis)
    for value, name in zip(_results(function), _output_names(function), strict=True):
        if axes.get(value) != 0 or shape_of(value)[0] != 1:
            need = "must have the samples of a batch along its first axis, one element for each"
            got = "the same for all samples" if value not in axes else f"axis {axes[value]} of {list(shape_of(value))}"
            raise UnsupportedError(need, got, ALONE, where=f'output "{name}"')
    return axes


def _check_function(function: func.FuncOp) -> None:
    if states_of(function):
        raise UnsupportedError("has states, which pass from one call to the next", remedy=ALONE, where="the network")
    module = function.parent_op()
    if module is not None and COUNTS in module.attributes:
        raise UnsupportedError("has outputs whose sizes depend on the data", remedy=ALONE, where="the network")
    if not any(batched_inputs(function)):
        need = "must have an input that begins with a dimension of size 1, for the samples of a batch"
        shapes = ", ".join(str(list(shape_of(a))) for a in function.args) or "no inputs"
        raise UnsupportedError(need, shapes, "export the model for one sample", where="the network")


def _axis(op: Operation, axes: Axes) -> int:
    if not isinstance(op, KeepsSamples):
        raise MixesSamples("is not known to keep samples apart")
    axis = op.sample_axis(axes)
    for value, place in [*zip(op.operands, axes, strict=True), *((result, axis) for result in op.results)]:
        element = element_of(value)
        if isinstance(element, UniformType) and element.axis is not None and element.axis == place:
            raise MixesSamples("has scales of their own along the axis on which the samples lie")
    return axis


def _results(function: func.FuncOp) -> Sequence[SSAValue]:
    last = function.body.block.last_op
    assert isinstance(last, func.ReturnOp)
    return last.arguments


def _output_names(function: func.FuncOp) -> list[str]:
    return [spec.name for spec in signature_of(function).outputs]


# ---------------------------------------------------------------------------------------------------------------
# A longer batch


def with_batch(module: ModuleOp, function: func.FuncOp, samples: int) -> tuple[ModuleOp, func.FuncOp]:
    """Returns a copy of a module, and of the network in it, for several samples; weights are shared.

    Args:
        module: A module of nn, on floats or quantized types, or of qint.
        function: The network in it.
        samples: The number of samples.

    Raises:
        UnsupportedError: As for `sample_axes`.
    """
    copy = module.clone()
    (network,) = [op for op in copy.walk() if isinstance(op, func.FuncOp) and op.sym_name == function.sym_name]
    axes = sample_axes(network)
    longer = [(op, axes[op.results[0]]) for op in network.body.block.ops if op.results and op.results[0] in axes]
    for op, axis in longer:
        if isinstance(op, ConcatOp):
            _repeat_operands(op, [x for x in op.operands if x not in axes], axis, samples)
    for argument in [a for a in network.args if a in axes]:
        _lengthen(argument, 0, samples)
    for op, axis in longer:
        if isinstance(op, MovementOp) and op.SIZES:
            sizes = op.properties[op.SIZES]
            assert isinstance(sizes, DenseArrayBase)
            longer_sizes = [int(size) for size in sizes.iter_values()]
            longer_sizes[axis] *= samples
            op.properties[op.SIZES] = ints(longer_sizes)
        for result in op.results:
            _lengthen(result, axis, samples)
    types = [value.type for value in network.args], [value.type for value in _results(network)]
    network.function_type = FunctionType.from_lists(*types)
    return copy, network


def _lengthen(value: SSAValue, axis: int, samples: int) -> None:
    """Makes an axis of a tensor as many times as long as there are samples."""
    shape = list(shape_of(value))
    shape[axis] *= samples
    Rewriter.replace_value_with_new_type(value, TensorType(element_of(value), shape))


def _repeat_operands(op: ConcatOp, alike: Sequence[SSAValue], axis: int, samples: int) -> None:
    """Repeats the operands that are the same for all samples."""
    assert op.parent is not None
    for operand in dict.fromkeys(alike):
        shape = list(shape_of(operand))
        shape[axis] *= samples
        repeated = BroadcastOp.make([operand], {"shape": ints(shape)})
        op.parent.insert_op_before(repeated, op)
        op.operands = [repeated.y if x is operand else x for x in op.operands]
