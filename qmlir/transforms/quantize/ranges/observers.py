"""Observers: `insert-observers` taps each activation; `observers-to-results` makes a profiling network of the taps."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, FunctionType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.batches import sample_axes
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.inputs import batch_size
from qmlir.dialects.nn import ConstantOp, SliceOp
from qmlir.dialects.nn.base import is_float, is_quantized
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.windows import ints
from qmlir.errors import ProfileError, QmlirError
from qmlir.ir.interfaces import Array, TensorOp, shape_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.transforms.quantize.op_configs import argument_of
from qmlir.transforms.quantize.ranges.masks import unobserved
from qmlir.transforms.quantize.ranges.separate_slices import sliced_function


class InsertObserversPass(ModulePass):
    """Puts a `calib.observe` after each f32 activation: arguments and results of operations that compute.

    Data movement keeps the values of its operand and gets no observers, except for slices of functions that have one
    scale for all of their results: the range of a slice tells whether the scale suits the slice (separate_slices.py).
    Masks of attention and masked scores have none either: their ranges follow from those of the scores (masks.py).
    An observer of a value without a name has the name of the operation that makes the value.

    ```mlir
    %0 = nn.relu %x {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<4xf32> -> tensor<4xf32>
    // becomes
    %0 = nn.relu %x {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<4xf32> -> tensor<4xf32>
    calib.observe %0 {name = "r"} : tensor<4xf32>
    ```
    """

    name = "insert-observers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        insert_observers(op)


def insert_observers(module: ModuleOp) -> None:
    """Puts an observer on each f32 activation of a module that has elements and no observer yet."""
    taken = {o.tensor.data for o in observers(module)}
    for function in defined_functions(module):
        _observe_block(function.body.block, taken)


def _observe_block(block: Block, taken: set[str]) -> None:
    """Puts observers on the values of a function that have none yet, under names that are not `taken` yet."""
    tapped = {o.value for o in block.ops if isinstance(o, ObserveOp)} | unobserved(block)

    def observe(value: SSAValue, fallback: str, where: InsertPoint) -> None:
        if value in tapped or not is_float(value) or 0 in shape_of(value):
            return
        wanted = tensor_name(value) or fallback
        name, n = wanted, 1
        while name in taken:
            name, n = f"{wanted}.{n}", n + 1
        taken.add(name)
        Rewriter.insert_op(ObserveOp(value, name), where)

    operations = [o for o in block.ops if isinstance(o, TensorOp) and not isinstance(o, ConstantOp | MovementOp)]
    first = block.first_op
    assert first is not None  # a function has at least its return
    for argument in block.args:
        observe(argument, _argument_name(argument), InsertPoint.before(first))
    for operation in operations:
        for result in operation.results:
            argument = argument_of(result)
            fallback = node_name(operation) if argument is None else tensor_name(argument) or _argument_name(argument)
            observe(result, fallback, InsertPoint.after(operation))
    for operation in [o for o in block.ops if isinstance(o, SliceOp)]:
        if (function := sliced_function(operation)) is not None:
            fallback = f"{tensor_name(function.y) or node_name(function)}.slice"
            observe(operation.y, fallback, InsertPoint.after(operation))


def _argument_name(argument: BlockArgument) -> str:
    return argument.name_hint or f"arg{argument.index}"


def without_observers(module: ModuleOp) -> ModuleOp:
    """Returns a copy of a module without its observers, which can be compiled."""
    copy = module.clone()
    for observer in observers(copy):
        Rewriter.erase_op(observer)
    return copy


def observers(within: Operation) -> list[ObserveOp]:
    """The observers of a module or a function, in program order."""
    return [o for o in within.walk() if isinstance(o, ObserveOp)]


def by_tensor(names: Sequence[str], arrays: Sequence[Array]) -> dict[str, Array]:
    """Name → values, from the name and the array of each observer; arrays of the same name are joined, flat."""
    found: dict[str, list[Array]] = {}
    for name, array in zip(names, arrays, strict=True):
        found.setdefault(name, []).append(array)
    return {name: a[0] if len(a) == 1 else np.concatenate([each.ravel() for each in a]) for name, a in found.items()}


def observed_shapes(function: func.FuncOp) -> dict[str, tuple[int, ...]]:
    """Name → shape for one sample without the first dimension, of each observed tensor of a function."""
    one = OneSample.of(function)
    return {o.tensor.data: one.shape(o.value)[1:] for o in observers(function)}


@dataclass(frozen=True)
class OneSample:
    """The shapes that a network's tensors have for one sample, if a user has bound its batch to several.

    samples  the number of samples that its inputs hold
    axes     the axis of the samples of each tensor that depends on the sample; empty for one sample
    """

    samples: int
    axes: Mapping[SSAValue, int]

    @staticmethod
    def of(function: func.FuncOp) -> "OneSample":
        """Returns the shapes of a network; as they are, if it is not known to keep the samples apart."""
        samples = batch_size(function.parent_op())
        try:
            return OneSample(samples, {} if samples == 1 else sample_axes(function, samples))
        except QmlirError:
            return OneSample(1, {})

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        """Returns the shape of a tensor for one sample."""
        return self.sizes(value, shape_of(value))

    def sizes(self, value: SSAValue, sizes: Iterable[int]) -> tuple[int, ...]:
        """Returns sizes along a tensor's dimensions for one sample."""
        axis = self.axes.get(value)
        return tuple(size // self.samples if i == axis else size for i, size in enumerate(sizes))


def nothing_to_observe(function: func.FuncOp) -> ProfileError:
    """The error for a network without observers: it has no float tensors, or they are empty."""
    values = [*function.body.block.args, *(result for op in function.body.block.ops for result in op.results)]
    if any(is_quantized(value) for value in values):
        got, remedy = "only quantized tensors", "profile it before quantizing"
    elif any(is_float(value) for value in values):
        got, remedy = "only empty tensors", "export the model with input shapes without a dimension of 0"
    else:
        got, remedy = "only integer tensors", "run it as it is: there is nothing to quantize"
    return ProfileError("the network", "must have float tensors with elements", got=got, remedy=remedy)


def observed_keys(function: func.FuncOp) -> dict[str, str]:
    """Name → hash of how each observed tensor is computed: operations, attributes, and sizes without the batch.

    The values of constants are left out: weights may be trained further.
    """
    keys: dict[SSAValue, str] = {}
    one = OneSample.of(function)
    for argument in function.body.block.args:
        keys[argument] = _hash(f"argument {argument.index}", _sizes(one, argument))
    for op in function.body.block.ops:
        said = sorted(f"{k}={v}" for k, v in _structure(one, op).items() if k not in NOT_STRUCTURE)
        operands = [keys.get(v, "") for v in op.operands]
        for index, result in enumerate(op.results):
            keys[result] = _hash(op.name, str(index), *said, *operands, _sizes(one, result))
    return {o.tensor.data: keys[o.value] for o in observers(function) if o.value in keys}


NOT_STRUCTURE = ("value", "shape")
"""Attributes that the hash leaves out: constants' values, and result shapes, which contain the batch size."""


def _structure(one: OneSample, op: Operation) -> Mapping[str, Attribute]:
    """Returns the attributes of an operation for one sample."""
    if isinstance(op, MovementOp) and isinstance(sizes := op.properties.get(op.SIZES), DenseArrayBase):
        return op.properties | {op.SIZES: ints(one.sizes(op.y, map(int, sizes.iter_values())))}
    return op.properties


def _sizes(one: OneSample, value: SSAValue) -> str:
    return "x".join(map(str, one.shape(value)[1:])) if isinstance(value.type, TensorType) else str(value.type)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


class ObserversToResultsPass(ModulePass):
    """Appends each observed tensor to the function's results, in program order, and removes the observers.

    ```mlir
    calib.observe %0 {name = "r"} : tensor<4xf32>
    func.return %1 : tensor<2xf32>
    // becomes
    func.return %1, %0 : tensor<2xf32>, tensor<4xf32>
    ```
    """

    name = "observers-to-results"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            observers = [o for o in function.body.block.ops if isinstance(o, ObserveOp)]
            end = function.body.block.last_op
            assert isinstance(end, func.ReturnOp)
            values = [*end.operands, *(o.value for o in observers)]
            Rewriter.replace_op(end, func.ReturnOp(*values))
            function.function_type = FunctionType.from_lists(
                function.function_type.inputs.data, [v.type for v in values]
            )
            if function.res_attrs is not None:
                named = list(function.res_attrs.data)
                function.res_attrs = ArrayAttr([*named, *[DictionaryAttr({})] * len(observers)])
            for observer in observers:
                Rewriter.erase_op(observer)
