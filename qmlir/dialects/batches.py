"""Batches of a network: which inputs have samples, whether all operations keep samples apart, and a longer batch.

A network is imported for one sample: its inputs begin with a dimension of size 1. Whether a batch of n samples means
the same as n calls is a question to each operation (`TensorOp.sample_axis`, ir/samples.py). `sample_axes` follows the
samples from the inputs to the outputs, and names the operation that mixes them. `with_batch` is the network for n
samples as one function, for exporters and for tests; compiled code calls the network for each sample instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from qmlir.dialects.inputs import batch_symbols, mixes_samples
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, ConstantOp, MovementOp, ReshapeOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.errors import UnsupportedError
from qmlir.ir.fact import restated
from qmlir.ir.facts import COUNTS
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.ir.samples import Axes, MixesSamples, moved_axis
from qmlir.ir.signature import signature_of
from qmlir.ir.states import states_of

SEVERAL = 7
"""The samples of a network that tells dimensions of samples from others: a prime, which few other sizes divide by."""

ALONE = "leave the batch out, and call the network once for each sample"
"""What to do about a network that takes no batches."""


@runtime_checkable
class KeepsSamples(Protocol):
    """An operation that says where the samples of its results lie, as `TensorOp` does."""

    def sample_axis(self, axes: Axes) -> int:
        """Returns the axis of the samples in each result, or raises `MixesSamples`."""
        ...


def batched_inputs(function: func.FuncOp, samples: int = 1) -> list[bool]:
    """Returns for each argument whether it has samples along its first axis; the others are the same for all samples.

    These are the inputs whose first dimension was symbolic in the source model, or else all that begin with 1.

    Args:
        function: The network.
        samples: The number of samples that the network's inputs have.
    """
    module = function.parent_op()
    symbols: Mapping[str, str] = batch_symbols(module) if isinstance(module, ModuleOp) else {}
    begin = [shape_of(argument)[:1] == (samples,) for argument in function.args]
    named = [begins and tensor_name(a) in symbols for a, begins in zip(function.args, begin, strict=True)]
    return named if any(named) else begin


@dataclass(frozen=True)
class Place:
    """Where the samples of a batch lie in a tensor (ir/samples.py).

    axis   the axis of the samples
    outer  the elements along the axis that each sample has, apart from those that are neighbours
    """

    axis: int
    outer: int = 1


def sample_axes(function: func.FuncOp, samples: int = 1) -> dict[SSAValue, int]:
    """Returns the axis of the samples in each tensor of a network that depends on the sample; see `sample_places`."""
    return {value: place.axis for value, place in sample_places(function, samples).items()}


def sample_places(function: func.FuncOp, samples: int = 1) -> dict[SSAValue, Place]:
    """Returns where the samples lie in each tensor of a network that depends on the sample.

    Args:
        function: The network.
        samples: The number of samples that the network's inputs have.

    Raises:
        UnsupportedError: No input has samples, an operation mixes them, an output has none, or the network has states
            or outputs whose sizes depend on the data.
    """
    inputs = _checked_inputs(function, samples)
    places: dict[SSAValue, Place] = dict.fromkeys(inputs, Place(0))
    for op in function.body.block.ops:
        if op.results and any(operand in places for operand in op.operands):
            try:
                place = place_in_batch(op, [places.get(operand) for operand in op.operands], samples)
            except MixesSamples as reason:
                need = f"must keep the samples of a batch apart, but {reason}"
                raise UnsupportedError.at(op.name, node_name(op), need, remedy=ALONE) from None
            for result in op.results:
                places[result] = place
    for value, spec in zip(_results(function), signature_of(function).outputs, strict=True):
        found = places.get(value)
        if found != Place(0) or shape_of(value)[0] != samples:
            need = "must have the samples of a batch along its first axis, one element for each"
            got = "the same for all samples" if found is None else f"axis {found.axis} of {list(shape_of(value))}"
            raise UnsupportedError(need, got, ALONE, where=f'output "{spec.name}"')
    return places


def _checked_inputs(function: func.FuncOp, samples: int) -> list[SSAValue]:
    """Returns the inputs with samples, of a network that may have a batch."""
    if states_of(function):
        raise UnsupportedError("has states, which pass from one call to the next", remedy=ALONE, where="the network")
    module = function.parent_op()
    if isinstance(module, ModuleOp):
        if COUNTS.on(module):
            raise UnsupportedError("has outputs whose sizes depend on the data", remedy=ALONE, where="the network")
        if reason := mixes_samples(module):
            raise UnsupportedError(reason, remedy=ALONE)
    inputs = [a for a, batched in zip(function.args, batched_inputs(function, samples), strict=True) if batched]
    if not inputs:
        need = "must have an input that begins with a dimension of size 1, for the samples of a batch"
        shapes = ", ".join(str(list(shape_of(a))) for a in function.args) or "no inputs"
        raise UnsupportedError(need, shapes, "export the model for one sample", where="the network")
    return [*inputs]


def place_in_batch(op: Operation, places: Sequence[Place | None], samples: int) -> Place:
    """Returns where the samples lie in an operation's results.

    All operands have the samples in the same order, which only a reshape changes. In a batch of several, a constant may
    hold the same for each.

    Args:
        op: The operation.
        places: Where the samples lie in each operand; None for an operand that is the same for all samples.
        samples: The number of samples that the operands have.

    Raises:
        MixesSamples: The operation does not keep the samples apart.
    """
    if isinstance(op, ReshapeOp) and (place := places[0]) is not None:
        return Place(*moved_axis(place.axis, place.outer, shape_of(op.x), shape_of(op.y), samples))
    outer = {place.outer for place in places if place is not None}
    if len(outer) != 1:
        raise MixesSamples("has operands whose samples follow one another in different ways")
    axes = [None if place is None else place.axis for place in places]
    try:
        axis = _axis(op, axes)
    except MixesSamples:
        alike = [_alike(x, samples) if axis is None else axis for x, axis in zip(op.operands, axes, strict=True)]
        if samples == 1 or alike == axes:
            raise
        axis = _axis(op, alike)
    return Place(axis, outer.pop())


def _alike(value: SSAValue, samples: int) -> int | None:
    """Returns the axis along which a constant has the same elements for each of several samples; None if none."""
    if isinstance(value.owner, ConstantOp):
        array = value.owner.value.array
        for axis in [i for i, size in enumerate(array.shape) if size == samples]:
            if (array == array.take([0], axis)).all():
                return axis
    return None


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


# ---------------------------------------------------------------------------------------------------------------
# A longer batch


def with_batch(module: ModuleOp, function: func.FuncOp, samples: int, before: int = 1) -> tuple[ModuleOp, func.FuncOp]:
    """Returns a copy of a module, and of the network in it, for another number of samples; weights are shared.

    Args:
        module: A module of nn, on floats or quantized types, or of qint.
        function: The network in it.
        samples: The number of samples.
        before: The number of samples that the network has now.

    Raises:
        UnsupportedError: As for `sample_axes`.
    """
    copy = module.clone()
    (network,) = [op for op in copy.walk() if isinstance(op, func.FuncOp) and op.sym_name == function.sym_name]
    axes = sample_axes(network, before)
    longer = [(op, axes[op.results[0]]) for op in network.body.block.ops if op.results and op.results[0] in axes]
    for op, axis in longer:
        alike = [x for x in op.operands if x not in axes]
        if isinstance(op, ConcatOp) and before == 1:
            _repeat_operands(op, alike, axis, samples)
        elif before > 1:
            _shorten_constants(op, axis, samples, before)
    for argument in [a for a in network.args if a in axes]:
        _lengthen(argument, 0, samples, before)
    for op, axis in longer:
        if isinstance(op, MovementOp) and op.SIZES:
            sizes = op.properties[op.SIZES]
            assert isinstance(sizes, DenseArrayBase)
            longer_sizes = [int(size) for size in sizes.iter_values()]
            longer_sizes[axis] = longer_sizes[axis] // before * samples
            op.properties[op.SIZES] = ints(longer_sizes)
        for result in op.results:
            _lengthen(result, axis, samples, before)
    types = [value.type for value in network.args], [value.type for value in _results(network)]
    network.function_type = FunctionType.from_lists(*types)
    return copy, network


def _lengthen(value: SSAValue, axis: int, samples: int, before: int) -> None:
    """Makes an axis of a tensor long enough for another number of samples."""
    shape = list(shape_of(value))
    shape[axis] = shape[axis] // before * samples
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


def _shorten_constants(op: Operation, axis: int, samples: int, before: int) -> None:
    """Gives an operation constants for so many samples that hold the same for each sample now."""
    rank = len(shape_of(op.results[0]))
    for index, value in enumerate(op.operands):
        place = axis - rank + len(shape_of(value)) if isinstance(value.type, TensorType) else -1
        if isinstance(value.owner, ConstantOp) and place >= 0 and shape_of(value)[place] == before:
            array = value.owner.value.array
            if (array == array.take([0], place)).all():
                shorter = np.ascontiguousarray(np.repeat(array.take([0], place), samples, place))
                type = TensorType(element_of(value), shorter.shape)
                constant = ConstantOp(shorter, type, restated(value.owner))
                assert op.parent is not None
                op.parent.insert_op_before(constant, op)
                op.operands[index] = constant.y
