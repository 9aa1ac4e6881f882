"""The function that an import builds, and the tensors that its converters take and return."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue

from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.movement import BroadcastOp, ConstantOp, ReshapeOp, TransposeOp
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.errors import UnsupportedError
from qmlir.frontends.counted import Counted
from qmlir.ir.budget import Budget
from qmlir.ir.facts import COUNTS, NAME, REMARKS
from qmlir.ir.interfaces import Array, Shape, TensorOp
from qmlir.ir.levels import stating
from qmlir.ir.locations import locate, tensor_location
from qmlir.ir.names import NameAttr, names_of
from qmlir.ir.rewriting import name_hint, tensor_name
from qmlir.ir.states import StateAttr, set_state
from qmlir.ir.weights import Weights, WeightsAttr
from qmlir.numerics import fixed_point
from qmlir.numerics.levels import Blocks as StatedBlocks
from qmlir.numerics.levels import Levels

# ---------------------------------------------------------------------------------------------------------------
# The tensors of the source model, which a converter takes and returns.
#
# A tensor is either an SSA value, computed at run time, or a `Constant`, known at import. Shapes, axes and everything
# computed from constants alone stay `Constant`s and never enter the IR; weights enter the IR when an operation uses
# them. A constant that the model stores as integers is a `Dequantized`: its `array` is floats, and the IR holds the
# integers.


Ints = tuple[int, ...]
Floats = tuple[float, ...]


class Constant:
    """A tensor whose values are known at import, with the name it has in the source model.

    levels      the levels that the values follow, if the model states them; other shapes and orders have none
    made_again  returns the same array whenever it is called, if it need not stay in memory; likewise
    """

    levels: Levels | None = None
    made_again: Callable[[], Array] | None = None

    def __init__(
        self, array: Array, name: str = "", levels: Levels | None = None, made_again: Callable[[], Array] | None = None
    ):
        self._array, self.name, self.levels, self.made_again = array, name, levels, made_again

    @property
    def array(self) -> Array:
        """The values of the tensor."""
        return self._array

    @property
    def shape(self) -> Shape:
        """The dimensions of the tensor."""
        return self.array.shape

    @property
    def carrier(self) -> "Value":
        """The value that carries the tensor's name: the constant itself, unless it stands for a computed tensor."""
        return self

    def reshaped(self, shape: Sequence[int]) -> "Constant":
        """Returns the constant under another shape, with the same elements in row-major order."""
        return Constant(self.array.reshape(shape), self.name)

    def transposed(self, permutation: Sequence[int]) -> "Constant":
        """Returns the constant with its dimensions permuted."""
        return Constant(self.array.transpose(permutation), self.name)

    def reversed(self, axes: Sequence[int]) -> "Constant":
        """Returns the constant with `axes` in reverse order."""
        return Constant(np.flip(self.array, tuple(axes)), self.name)

    def times(self, factor: float) -> "Constant":
        """Returns the constant times a number; integers with scales stay the same integers where that is possible."""
        return self if factor == 1 else Constant((self.array * np.float32(factor)).astype(self.array.dtype), self.name)


class Wide(Constant):
    """A constant of 64-bit integers with their scales, which no quantized type can hold: storage ends at 32 bits."""

    def __init__(self, array: Array, scales: Floats, name: str = ""):
        super().__init__(array, name)
        self.scales = scales

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """Returns the constant under another shape, with the same elements and scales."""
        return Wide(self.array.reshape(shape), self.scales, self.name)


class Dequantized(Constant):
    """A constant that the model stores as integers.

    stored  the integers, in the numpy type of `type`
    type    their quantized type, per tensor or per axis
    """

    def __init__(self, stored: Array, type: UniformType, name: str = ""):
        self.stored, self.type, self.name = stored, type, name

    @property
    def array(self) -> Array:
        """The floats that the stored integers represent."""
        return self._floats

    @cached_property
    def _floats(self) -> Array:
        scale, zero_point = self.type.parameters_along(self.stored.ndim)
        return fixed_point.dequantize(self.stored, scale, zero_point)

    @property
    def shape(self) -> Shape:
        return self.stored.shape

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """Returns the constant in another shape: integers if their parameters lie along one dimension, else floats.

        The dimension may have several indices with the same parameters, such as all outputs of one group. The floats
        count as blocked: no dimension tells their scales apart.
        """
        axis, old, new = self.type.axis, self.shape, tuple(shape)
        if axis is None:
            return Dequantized(self.stored.reshape(new), self.type, self.name)
        before = math.prod(old[:axis])
        for at, size in enumerate(new):
            if size == old[axis] and math.prod(new[:at]) == before:
                return Dequantized(self.stored.reshape(new), along(self.type, at), self.name)
        if (single := self.type.in_one_scale()) is not None:
            return Dequantized(self.stored.reshape(new), single, self.name)
        places = np.arange(old[axis]).reshape([-1 if i == axis else 1 for i in range(len(old))])
        places = np.broadcast_to(places, old).reshape(new)
        for at in range(len(new)) if places.size else ():
            row = places[tuple(slice(None) if i == at else slice(0, 1) for i in range(len(new)))]
            if (places == row).all():
                return Dequantized(self.stored.reshape(new), along(self.type, at, row.reshape(-1).tolist()), self.name)
        return Blocked.of_floats(self.array.reshape(new), 1, self.name)

    def transposed(self, permutation: Sequence[int]) -> Constant:
        axis = self.type.axis
        moved = self.type if axis is None else along(self.type, list(permutation).index(axis))
        return Dequantized(self.stored.transpose(permutation), moved, self.name)

    def reversed(self, axes: Sequence[int]) -> Constant:
        axis, type = self.type.axis, self.type
        if axis is not None and axis in axes:
            type = along(type, axis, range(self.shape[axis])[::-1])
        return Dequantized(np.flip(self.stored, tuple(axes)), type, self.name)

    def times(self, factor: float) -> Constant:
        type, negative = self.type, factor < 0
        stored = -self.stored.astype(np.int64) if negative else self.stored
        points = [-p for p in type.zero_points] if negative else type.zero_points
        scales = [s * abs(factor) for s in type.scales]
        low, high = type.storage_min, type.storage_max
        held = low <= min(stored.min(initial=high), *points) and max(stored.max(initial=low), *points) <= high
        if not held or not all(np.finfo(np.float32).tiny < s < np.finfo(np.float32).max for s in scales):
            return super().times(factor)
        if type.axis is None:
            scaled = UniformType.per_tensor(type.storage, scales[0], points[0], low, high, type.expressed)
        else:
            scaled = UniformType.per_axis(type.storage, type.axis, scales, points, low, high, type.expressed)
        return Dequantized(stored.astype(self.stored.dtype), scaled, self.name)


@dataclass(frozen=True)
class Blocks:
    """Integers with a scale and a zero point for each block of neighbours along an axis.

    stored   the integers, in the type in which the model stores them, such as int4
    scales   f32, of the shape of `stored` but for the axis, along which there is one for each block
    points   the zero points, of the shape of `scales`, in the type of `stored` or f32
    size     the elements of a block; the last one may have fewer
    """

    stored: Array
    scales: Array
    points: Array
    axis: int
    size: int

    def transposed(self, permutation: Sequence[int]) -> "Blocks":
        """Returns them with their dimensions permuted."""
        stored, scales, points = (a.transpose(permutation) for a in (self.stored, self.scales, self.points))
        return Blocks(stored, scales, points, list(permutation).index(self.axis), self.size)

    def reshaped(self, shape: Shape) -> "Blocks | None":
        """Returns them under another shape; None if that would break blocks apart.

        The last two dimensions may become one if the blocks lie along the last, so that a block is one of several in a
        longer row. Dimensions of one element at the end may be left out.
        """
        old = self.stored.shape
        if self.axis < len(shape) <= len(old) and (*shape, *[1] * (len(old) - len(shape))) == old:
            rows, axis = self.scales.shape[: len(shape)], self.axis
        elif self.axis == len(old) - 1 > 0 and (*old[:-2], old[-2] * old[-1]) == shape and old[-1] % self.size == 0:
            rows, axis = (*old[:-2], old[-2] * old[-1] // self.size), self.axis - 1
        else:
            return None
        return Blocks(self.stored.reshape(shape), self.scales.reshape(rows), self.points.reshape(rows), axis, self.size)

    def floats(self) -> Array:
        """Returns the numbers that they stand for, f32: a difference and a product, each rounded.

        Integers of more than 16 bits are subtracted and multiplied in f64.
        """
        count, dtype = self.stored.shape[self.axis], np.float64 if self.stored.dtype.itemsize > 2 else np.float32
        scales, points = (
            np.repeat(a.astype(dtype), self.size, axis=self.axis).take(range(count), axis=self.axis)
            for a in (self.scales, self.points)
        )
        return ((self.stored.astype(dtype) - points) * scales).astype(np.float32)


class Blocked(Constant):
    """A constant that the model stores as integers with parameters for each block of `block` elements.

    blocks  the integers; None once the constant has another shape or order, and is floats
    """

    def __init__(self, blocks: Blocks, name: str):
        self.blocks: Blocks | None = blocks
        self.block, self.name, self.levels = blocks.size, name, StatedBlocks(blocks.size)

    @property
    def array(self) -> Array:
        return self._floats

    @cached_property
    def _floats(self) -> Array:
        assert self.blocks is not None
        return self.blocks.floats()

    @property
    def shape(self) -> Shape:
        return self.array.shape if self.blocks is None else self.blocks.stored.shape

    @staticmethod
    def of_floats(array: Array, block: int, name: str) -> "Blocked":
        """Makes a constant of the floats that blocks in another shape or order represent."""
        moved = object.__new__(Blocked)
        moved.blocks, moved.block, moved.name, moved._floats = None, block, name, array
        moved.levels = StatedBlocks(block)
        return moved

    def _moved(self, array: Array) -> "Blocked":
        """Returns the floats in another shape or order."""
        return Blocked.of_floats(array, self.block, self.name)

    def reshaped(self, shape: Sequence[int]) -> Constant:
        found = None if self.blocks is None else self.blocks.reshaped(tuple(shape))
        return self._moved(self.array.reshape(shape)) if found is None else Blocked(found, self.name)

    def transposed(self, permutation: Sequence[int]) -> Constant:
        if self.blocks is None:
            return self._moved(self.array.transpose(permutation))
        return Blocked(self.blocks.transposed(permutation), self.name)

    def reversed(self, axes: Sequence[int]) -> Constant:
        return self._moved(np.flip(self.array, tuple(axes)))

    def times(self, factor: float) -> Constant:
        if self.blocks is None or factor <= 0:
            return self._moved(self.array * np.float32(factor))
        return Blocked(replace(self.blocks, scales=self.blocks.scales * np.float32(factor)), self.name)


def along(type: UniformType, axis: int, places: Sequence[int] | None = None) -> UniformType:
    """Returns a per-axis quantized type with its quantized axis moved to `axis`.

    Args:
        type: The type.
        axis: The axis in the new type.
        places: The place in `type` of the parameters at each index of the axis; by default they stay in order.
    """
    scales, points = type.scales, type.zero_points
    if places is not None:
        scales, points = [scales[i] for i in places], [points[i] for i in places]
    return UniformType.per_axis(type.storage, axis, scales, points, type.storage_min, type.storage_max, type.expressed)


Value = SSAValue | Constant


LARGEST = 1 << 40
"""The most elements a tensor may have: more than any machine holds, and few enough to count their bits in 64 bits."""


def sized(shape: Sequence[int]) -> Shape:
    """Returns the shape of a tensor as a tuple, after checking its size.

    Raises:
        UnsupportedError: The tensor has more than `LARGEST` elements.
    """
    if math.prod(shape) > LARGEST:
        raise UnsupportedError(f"a tensor of shape {list(shape)} has more than 2^{LARGEST.bit_length() - 1} elements")
    return tuple(shape)


def once(array: Array) -> Array:
    """Returns the array without its repetitions, which have stride 0 in memory; the result broadcasts to the array."""
    return array[(..., *(slice(0, 1) if step == 0 else slice(None) for step in array.strides))]


def filled(shape: Sequence[int], value: np.generic | Array, name: str = "") -> Constant:
    """Makes a constant with one value everywhere, which takes the memory of a single value."""
    return Constant(np.broadcast_to(value, sized(shape)), name)


def computed(ops: Sequence[Operation]) -> dict[SSAValue, Array] | None:
    """Computes operations at import, each by its `evaluate`, and returns the values that they read and give.

    Args:
        ops: Operations in program order.

    Returns:
        The arrays by value; None if an operation cannot be evaluated, or reads a value that is neither a constant nor
        computed by an earlier operation.
    """
    known: dict[SSAValue, Array] = {}
    for op in ops:
        for operand in op.operands:
            if isinstance(operand.owner, ConstantOp) and not is_quantized(operand):
                known[operand] = operand.owner.value.array
        if not isinstance(op, TensorOp) or any(o not in known for o in op.operands):
            return None
        with np.errstate(all="ignore"):
            known.update(zip(op.results, op.evaluate(*(known[o] for o in op.operands)), strict=True))
    return known


# ---------------------------------------------------------------------------------------------------------------
# The function that an import builds: its block, and the constants in it.
#
# A constant enters the block at its first use, and all its uses share one operation. A large constant that repeats a
# smaller array enters the block as the smaller array and a broadcast.


_Key = tuple[int, Ints | None]

REPEATED = 16 << 20
"""If the repetitions in a constant take at least this many bytes, the network computes them by a broadcast."""


@dataclass
class Builder:
    """Builds the function that an import returns.

    block      the function's block
    budget     how many more bytes of constants the import may compute
    main       the function
    constants  the constants in the block, by identity and permutation
    derived    the constants that `rearranged` has made, by identity, method and argument
    counted    the values with fewer elements along an axis than their shape says (counted.py)
    remarks    what the ledger says of nodes that are imported as something else, by the names of tensors
    remarked   the same of values that may get a name later
    """

    block: Block
    budget: Budget = field(default_factory=Budget)
    main: func.FuncOp | None = None
    constants: dict[_Key, tuple[Constant | Array, SSAValue]] = field(
        default_factory=dict[_Key, tuple[Constant | Array, SSAValue]]
    )

    derived: dict[tuple[int, str, Ints], tuple[Constant | Array, Constant]] = field(
        default_factory=dict[tuple[int, str, Ints], tuple[Constant | Array, Constant]]
    )
    counted: dict[SSAValue, Counted] = field(default_factory=dict[SSAValue, Counted])
    remarks: dict[str, str] = field(default_factory=dict[str, str])
    remarked: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])

    def rearranged(self, constant: Constant, how: Literal["reshaped", "transposed", "reversed"], to: Ints) -> Constant:
        """Returns a constant with its elements in another order or shape; equal requests return the same constant."""
        identity = _identity(constant)
        key = id(identity), how, to
        if key not in self.derived:
            self.derived[key] = identity, getattr(constant, how)(to)
        return self.derived[key][1]

    def ssa(self, value: Value) -> SSAValue:
        """Returns the value in the IR; a constant enters the IR at its first use."""
        return value if isinstance(value, SSAValue) else self.constant(value)

    def constant(self, constant: Constant, permutation: Ints | None = None) -> SSAValue:
        """Returns a constant's value in the IR, its dimensions permuted if asked for; all uses share the value."""
        identity = _identity(constant)
        key = id(identity), permutation
        # The entry keeps the array alive, so that no other array can get its id.
        if key not in self.constants:
            moved = constant if permutation is None else constant.transposed(permutation)
            self.constants[key] = identity, self._add_constant(moved)
        return self.constants[key][1]

    def _add_constant(self, constant: Constant) -> SSAValue:
        quantized = constant if isinstance(constant, Dequantized) else None
        if quantized is None and (wide := self._add_repeated(constant)) is not None:
            return wide
        array = constant.array if quantized is None else quantized.stored
        type = None if quantized is None else TensorType(quantized.type, array.shape)
        try:
            weights = Weights(np.ascontiguousarray(array).reshape(array.shape), constant.made_again)
            op = ConstantOp(WeightsAttr(weights), type)
        except KeyError:
            raise UnsupportedError(f'"{constant.name}" is of type {array.dtype}') from None
        if constant.name:
            NAME.put(op, NameAttr.of(tensors=[constant.name]))
            op.y.name_hint = name_hint(constant.name)
        op.attributes.update(stating(constant.levels))
        self.block.add_op(op)
        if quantized is None:
            return op.y
        cast = DequantizeCastOp(op.y, TensorType(quantized.type.expressed, array.shape))
        self.block.add_op(cast)
        return cast.result

    def _add_repeated(self, constant: Constant) -> SSAValue | None:
        """Adds a large constant that repeats a smaller array, as an `nn.broadcast`; None for any other constant."""
        array = constant.array
        own = once(array)
        if array.nbytes - own.nbytes < REPEATED:
            return None
        source = self._add_constant(Constant(own, constant.name))
        op = BroadcastOp.make([source], {"shape": ints(list(array.shape))})
        self.block.add_op(op)
        return op.y

    @staticmethod
    def of(names: Sequence[str], types: Sequence[Attribute], budget: Budget) -> "Builder":
        """Begins a function with arguments of these names in the source model, and these types."""
        builder = Builder(Block(), budget)
        builder.main = func.FuncOp("main", ([], []), Region(builder.block), arg_attrs=named(()))
        for name, type in zip(names, types, strict=True):
            builder.argument(name, type)
        return builder

    def argument(self, name: str, type: Attribute) -> BlockArgument:
        """Adds an argument of a name in the source model."""
        argument = self.block.insert_arg(type, len(self.block.args))
        argument.name_hint = name_hint(name)
        assert self.main is not None
        assert self.main.arg_attrs is not None
        self.main.arg_attrs = ArrayAttr([*self.main.arg_attrs, *named([name])])
        return argument

    def finish(
        self, results: Sequence[SSAValue], names: Iterable[str], states: Mapping[int, StateAttr] | None = None
    ) -> ModuleOp:
        """Ends the function, `main`, and returns a module with it.

        Behind the results that have fewer elements than their shape says, the function returns how many count.

        Args:
            results: The function's results.
            names: The names of the results in the source model.
            states: The states of the function, by argument.
        """
        names, counts, numbers = list(names), dict[str, Attribute](), dict[SSAValue, str]()
        for result, name in zip(results, names, strict=True):
            if (known := self.counted.get(result)) is not None:
                count = numbers.setdefault(known.count, f"{name}.count")
                counts[name] = ArrayAttr([IntegerAttr(known.axis, i64), StringAttr(count)])
        results, names = [*results, *numbers], [*names, *numbers.values()]
        self.block.add_op(func.ReturnOp(*results))
        self._erase_unused()
        for op in self.block.ops:
            if isinstance(op, ConstantOp) and (name := tensor_name(op.y)):
                locate([op], tensor_location(name))
        main = self.main
        assert main is not None
        main.function_type = FunctionType.from_lists([a.type for a in self.block.args], [r.type for r in results])
        main.res_attrs = named(names)
        for argument, state in (states or {}).items():
            set_state(main, argument, state)
        module = ModuleOp([main])
        COUNTS.set(module, DictionaryAttr(counts) if counts else None)
        late = {name: text for value, text in self.remarked.items() if (name := _first_name(value))}
        REMARKS.set(module, {**late, **self.remarks} or None)
        return module

    def _erase_unused(self) -> None:
        """Erases the constants that no operation uses."""
        for _, value in self.constants.values():
            while value.first_use is None and isinstance(value, OpResult):
                op = value.op
                value = op.operands[0] if op.operands else value
                op.detach()
                op.erase()
                if not isinstance(op, DequantizeCastOp):
                    break


def _first_name(value: SSAValue) -> str:
    """A name of the tensor that a value is, or that it moves, or that is first made of it; empty if there is none."""
    around: SSAValue | None = value
    while isinstance(around, OpResult):  # a movement without a name belongs to the operation before it
        if (names := names_of(around.op)).data:
            return next(filter(None, (*names.tensors, *names.absorbed)), "")
        around = around.op.operands[0] if isinstance(around.op, TransposeOp | ReshapeOp) else None
    readers = [u.operation for u in value.uses if u.operation.results]
    return _first_name(readers[0].results[0]) if readers else ""


def _identity(constant: Constant) -> Constant | Array:
    """Returns the object that identifies a constant: its array, or the constant itself if it is quantized.

    The float array of a quantized constant is computed only on demand.
    """
    return constant if isinstance(constant, Dequantized | Blocked) else constant.array


def named(names: Iterable[str]) -> ArrayAttr[DictionaryAttr]:
    """Returns the attributes of a function's arguments or results that have these names in the source model."""
    return ArrayAttr([DictionaryAttr(NAME.entry(NameAttr.of(tensors=[name]))) for name in names])
