"""The function under construction: the values of tosa's tensors in nn, and methods that several rules share.

TOSA's constants stay numpy arrays until an operation uses them, so that shapes, paddings, zero points and multipliers
never enter the network. Quantized layers yield values of quantized types; all other rules see their stored integers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NoReturn, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    Float32Type,
    Float64Type,
    FusedLoc,
    IntegerType,
    NameLoc,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects import nn
from qmlir.dialects.nn.base import NNOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.properties import attribute_of as attribute_of_plain
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.dialects.target import Target
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import Array, Shape, TensorOp, element_of, shape_of, tensor_type
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import name_hint
from qmlir.ir.types import dtype_of, is_integer
from qmlir.ir.upstream.dense import held_bytes
from qmlir.ir.upstream.tosa.base import constant_shape, element
from qmlir.ir.upstream.tosa.shape import ConstOp
from qmlir.ir.weights import WeightsAttr

i48 = IntegerType(48)

SMALL = 1 << 16
"""The most elements of a result that is computed from constants; movements of constants are computed at any size."""

Property = Attribute | bool | int | float | Sequence[int] | Array | None
"""The value of a property: an attribute, or what `attribute_of` makes an attribute of."""


def attribute_of(value: Property) -> Attribute | None:
    """Makes the attribute of a property: constant data of an array; other values as in properties.py."""
    return WeightsAttr(value) if isinstance(value, np.ndarray) else attribute_of_plain(value)


def array_of(values: DenseIntOrFPElementsAttr[Any]) -> Array:
    """Returns the elements of a constant; integers of 4 bits take a byte, those of 48 bits take eight.

    Raises:
        UnsupportedError: The constant is of a type that numpy has no form of, or too large.
    """
    type, kind = values.get_element_type(), cast(Attribute, values.get_element_type())
    try:
        held = held_bytes(values)
    except ValueError as error:
        raise UnsupportedError(f"its constant is too large: {error}") from None
    if is_integer(kind) and kind.width.data == 1:
        return (held.view(np.int8) != 0).reshape(values.get_shape())
    try:
        dtype = dtype_of(kind)
    except KeyError:
        if not is_integer(kind):
            raise UnsupportedError(f"its constant is of type {type}") from None
        dtype = np.dtype(f"i{kind.compile_time_size}")
    if is_integer(kind) and kind.width.data < 8:
        dtype = np.dtype(np.int8)
    return held.view(dtype).reshape(values.get_shape())


def nn_element(kind: Attribute) -> Attribute:
    """Returns the element type of nn for an element type of tosa: i64 for i48, i8 for i4, else the type itself."""
    if kind == i48:
        return i64
    return IntegerType(8) if is_integer(kind) and 1 < kind.width.data < 8 else kind


def is_storage_float(kind: Attribute) -> bool:
    """Whether a type is a float that nn moves but does not compute with, such as f16."""
    return isinstance(kind, AnyFloat) and not isinstance(kind, Float32Type | Float64Type)


@dataclass
class NNCode:
    """The body of a function in nn, and what is known of the function in tosa.

    block      receives the operations
    target     the target, whose contract rounds where the runtime says nothing
    runtime    the runtime whose rounding quantized layers follow (`qmlir.numerics`)
    values     tensor of tosa → its value, which may be of a quantized type
    arrays     constant tensor of tosa → its elements
    done       operations that a rule has written together with an earlier operation
    layers     the number of quantized layers written
    """

    block: Block
    target: Target
    runtime: str
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    arrays: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    done: set[Operation] = field(default_factory=set[Operation])
    layers: int = 0
    _stored: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    _source: Operation | None = None

    # -- the operation being converted -----------------------------------------------------------------------------

    def begin(self, op: Operation) -> None:
        """Makes `op` the operation that new operations stand for and refusals name."""
        self._source = op

    def refuse(self, need: str, *, got: str | None = None, remedy: str | None = None) -> NoReturn:
        """Raises an UnsupportedError about the operation being converted."""
        assert self._source is not None
        raise UnsupportedError.at(self._source.name, called(self._source), need, got=got, remedy=remedy)

    def finish(self, result: SSAValue, value: SSAValue, *sources: Operation) -> None:
        """Records the value of a tensor, and names the operation that computes it.

        Args:
            result: The tensor in tosa.
            value: Its value.
            sources: The operations of tosa that the value stands for, in order.
        """
        self.values[result] = value
        self.name(value, result, *sources)

    def name(self, value: SSAValue, result: SSAValue, *sources: Operation) -> None:
        """Names the operation that computes a value after a tensor of tosa and operations of tosa."""
        nodes, tensor = [n for s in sources if (n := location_name(s))], result.name_hint or ""
        inside = [hint for s in sources if (hint := s.results[0].name_hint) is not None]
        if isinstance(value, OpResult) and not NAME.on(value.op) and (nodes or tensor):
            NAME.put(value.op, NameAttr.of(nodes, [tensor or nodes[-1]], inside))
            value.name_hint = name_hint(tensor or nodes[-1])

    # -- reading operands ------------------------------------------------------------------------------------------

    def array(self, value: SSAValue) -> Array | None:
        """The elements of a constant tensor; None for a computed tensor."""
        if value not in self.arrays:
            owner = value.owner
            constant = owner.values if isinstance(owner, ConstOp) else None
            if isinstance(owner, arith.ConstantOp):
                constant = owner.value
            if not isinstance(constant, DenseIntOrFPElementsAttr):
                return None
            try:
                self.arrays[value] = array_of(cast(DenseIntOrFPElementsAttr[Any], constant))
            except UnsupportedError as error:
                assert isinstance(owner, Operation)
                raise error.about(owner.name, called(owner)) from None
        return self.arrays[value]

    def known(self, value: SSAValue, what: str) -> Array:
        """The elements of a tensor that must be constant; `what` names it in the refusal."""
        if (array := self.array(value)) is None:
            self.refuse(f"needs a constant {what}", got="a computed one", remedy="fold it before the export")
        return array

    def number(self, value: SSAValue, what: str) -> int:
        """The integer in a constant of one element."""
        return int(self.known(value, what).reshape(-1)[0])

    def sizes(self, value: SSAValue, what: str) -> tuple[int, ...]:
        """The sizes in a constant shape."""
        if (sizes := constant_shape(value)) is None:
            self.refuse(f"needs a constant {what}", got="a computed one", remedy="fold it before the export")
        return sizes

    def folded(self, value: SSAValue, after: Operation | None) -> Array | None:
        """Computes a value from constants; erases what the block has `after` an operation if that succeeds.

        Args:
            value: The value, which the last operation of the block yields.
            after: The last operation that stays; None for the first of the block.

        Returns:
            The elements; None if the value is computed at run time, or is large and not only moved.
        """
        first = self.block.first_op if after is None else after.next_op
        new = list[Operation]()
        while first is not None:
            new.append(first)
            first = first.next_op
        arrays: dict[SSAValue, Array] = {}
        for op in new:
            if not isinstance(op, TensorOp) or quantized_element(op.results[0].type) is not None:
                return None
            small = prod(shape_of(op.results[0])) <= SMALL or isinstance(op, MovementOp | nn.ConstantOp)
            if not small or any(o not in arrays and not isinstance(o.owner, nn.ConstantOp) for o in op.operands):
                return None
            inputs = [arrays[o] if o in arrays else cast(nn.ConstantOp, o.owner).value.array for o in op.operands]
            with np.errstate(all="ignore"):
                arrays[op.results[0]] = op.evaluate(*inputs)[0]
        if value not in arrays:
            return None
        for op in reversed(new):
            if not any(r.uses for r in op.results):
                self.forget(op)
        return arrays[value]

    def forget(self, op: Operation) -> None:
        """Erases an operation that nothing reads; a constant may be written again."""
        for tensor in [t for t, v in self.values.items() if v is op.results[0]]:
            del self.values[tensor]
        op.detach()
        op.erase()

    def raw(self, value: SSAValue) -> SSAValue:
        """The value of a tensor as it is: of a quantized type behind a quantized layer."""
        if value not in self.values:
            if (array := self.array(value)) is None:
                self.refuse("reads a value that is not converted", got=str(value.type))
            constant = self.constant(array)
            self.finish(value, constant)
        return self.values[value]

    def plain(self, value: SSAValue) -> SSAValue:
        """The value of a tensor; the stored integers of a quantized one."""
        return self.stored(self.raw(value))

    def stored(self, value: SSAValue) -> SSAValue:
        """The stored integers of a value: signless for signed storage, else unsigned; a plain value as it is."""
        type = quantized_element(value.type)
        if type is None:
            return value
        if value not in self._stored:
            cast = self.add(StorageCastOp(value, TensorType(type.storage_type, shape_of(value))))
            self._stored[value] = cast if type.is_signed else self.insert(nn.BitcastOp, [cast], element=type.storage)
        return self._stored[value]

    def typed(self, value: SSAValue, type: UniformType) -> SSAValue:
        """The value of a tensor of bytes in a quantized type with signed storage."""
        return self.retyped(self.raw(value), type)

    def retyped(self, value: SSAValue, type: UniformType) -> SSAValue:
        """A value of bytes, plain or of another quantized type, in a quantized type with signed storage."""
        if quantized_element(value.type) == type:
            return value
        return self.add(StorageCastOp(self.stored(value), TensorType(type, shape_of(value))))

    # -- writing operations ----------------------------------------------------------------------------------------

    def add(self, op: Operation) -> SSAValue:
        """Appends an operation and returns its first result."""
        assert self._source is not None
        op.location = self._source.location
        self.block.add_op(op)
        return op.results[0]

    def constant(self, array: Array, source: SSAValue | None = None) -> SSAValue:
        """A constant tensor, called like the tensor of tosa that it stands for if `source` is given."""
        value = self.add(nn.ConstantOp(np.ascontiguousarray(array).reshape(array.shape)))
        if source is not None:
            self.name(value, source)
        return value

    def scalar(self, number: float, like: SSAValue) -> SSAValue:
        """A constant without dimensions, of the element type of a value."""
        return self.constant(np.array(number, dtype_of(element_of(like))))

    def insert(
        self, kind: type[TensorOp], operands: Sequence[SSAValue | Sequence[SSAValue]],
        properties: Mapping[str, Property] | None = None, *, element: Attribute | None = None,
    ) -> SSAValue:  # fmt: skip
        """Appends an operation on plain or quantized values; nn computes on f16 and narrower floats in f32.

        Raises:
            UnsupportedError: nn's operation does not take the operands.
        """
        given = {name: attribute_of(value) for name, value in (properties or {}).items()}
        flat = [v for o in operands for v in ([o] if isinstance(o, SSAValue) else o)]
        half = next((e for v in flat if is_storage_float(e := element_of(v))), None)
        if half is not None and issubclass(kind, NNOp):
            wide = [self._widened(o) if isinstance(o, SSAValue) else list(map(self._widened, o)) for o in operands]
            result = self._made(kind, wide, given, element)
            return self.cast(result, half) if isinstance(element_of(result), Float32Type) else result
        return self._made(kind, operands, given, element)

    def _made(
        self, kind: type[TensorOp], operands: Sequence[SSAValue | Sequence[SSAValue]],
        properties: Mapping[str, Attribute | None], element: Attribute | None,
    ) -> SSAValue:  # fmt: skip
        try:
            op = kind.make(operands, properties, element=element)
        except VerifyException as error:
            self.refuse(f"has no form in nn: {error}")
        return self.add(op)

    def _widened(self, value: SSAValue) -> SSAValue:
        return self.cast(value, f32) if is_storage_float(element_of(value)) else value

    def cast(self, x: SSAValue, to: Attribute) -> SSAValue:
        """Converts a value to another element type, as `nn.cast` does."""
        return x if element_of(x) == to else self._made(nn.CastOp, [x], {}, to)

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Reshapes a value; a reshape back to an earlier shape yields the earlier value."""
        if shape_of(x) == tuple(shape):
            return x
        if isinstance(x, OpResult) and isinstance(x.op, nn.ReshapeOp) and shape_of(x.op.x) == tuple(shape):
            return x.op.x
        return self.insert(nn.ReshapeOp, [x], {"shape": tuple(shape)})

    def bounded(self, x: SSAValue, low: int, high: int) -> SSAValue:
        """min(max(x, low), high) of integers; a bound that the element type implies is left out."""
        info = np.iinfo(dtype_of(element_of(x)))
        if low > info.min:
            x = self.insert(nn.MaximumOp, [x, self.scalar(low, x)])
        return self.insert(nn.MinimumOp, [x, self.scalar(high, x)]) if high < info.max else x

    def saturated(self, x: SSAValue, to: Attribute) -> SSAValue:
        """Converts integers to a narrower integer type; numbers beyond its range become its ends."""
        info = np.iinfo(dtype_of(to))
        return self.cast(self.bounded(x, int(info.min), int(info.max)), to)

    def plus(self, x: SSAValue, number: int) -> SSAValue:
        """x + number."""
        return self.insert(nn.AddOp, [x, self.scalar(number, x)]) if number else x


Rule = Callable[[NNCode, Any], SSAValue]
"""Converts an operation of tosa: (code, operation) → the value of the operation's result."""


def location_name(op: Operation) -> str:
    """The name in an operation's location, which importers take from the source model; empty without one."""
    found = cast(ArrayAttr[Attribute], op.location.locations) if isinstance(op.location, FusedLoc) else [op.location]
    return next((loc.desc.data for loc in found if isinstance(loc, NameLoc)), "")


def called(op: Operation) -> str:
    """What messages call an operation of tosa: the name of its location, else of its result, else its kind."""
    return location_name(op) or (op.results[0].name_hint if op.results else None) or op.name


def declared(value: SSAValue) -> Attribute:
    """The element type of nn that a tensor's declared type stands for."""
    kind = element(value)
    type = declared_quantization(value)
    return type.storage if type is not None and not type.is_signed else nn_element(kind)


def declared_quantization(value: SSAValue) -> UniformType | None:
    """The quantized type that a tensor is declared with; None for plain elements."""
    return quantized_element(tensor_type(value)) if isinstance(value.type, TensorType) else None


def static_shape(value: SSAValue) -> Shape | None:
    """The declared shape of a tensor; None unless all its sizes are known."""
    if not isinstance(value.type, TensorType):
        return None
    shape = tensor_type(value).get_shape()
    return None if DYNAMIC_INDEX in shape else shape
