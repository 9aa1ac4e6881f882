"""Which tensors of a float network share one quantized type, and which type that is.

Operations that move or choose values without computing (pools, reshapes, concats) tie their operands and results:
those form a group with one type, chosen for the union of what enters it. Into a group enter

* activations with an observed range,
* constants, whose range is known,
* results of functions with a range of their own (sigmoid, tanh, softmax), which need no profile,
* values that existing casts have given a type, in a graph that came with some.

A type that a quantization in the graph asks for is a constraint, not a wish: its group has that type, and a group of
two such types is none, so operations that would tie them tie nothing.

What follows from something of unknown range has none either, and is tied to nothing: in a group it would be clipped
to the range of the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FloatAttr, IntegerType
from xdsl.ir import Operation, OpResult, SSAValue

from qmlir.dialects.interfaces import element_of
from qmlir.dialects.nn import ConstantOp, PadOp, ReshapeOp, TransposeOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.rules import FixedScale, SameScale
from qmlir.dialects.quant.schemas import Precision, Schema, quantization_of_range
from qmlir.dialects.quant.types import UniformType
from qmlir.legality import data_operands, data_values, is_weight
from qmlir.transforms.quantize.reasons import called

Bounds = tuple[float, float]


@dataclass
class Group:
    """Tensors of one type.

    bounds   observed ranges, of constants too
    fixed    types that functions or casts give to some of its tensors
    wanted   types that quantizations in the graph ask for
    free     whether something enters whose type is for us to choose
    padding  constants that pads put between its values
    name     what to call it in an error
    """

    bounds: list[Bounds] = field(default_factory=list[Bounds])
    fixed: dict[UniformType, None] = field(default_factory=dict[UniformType, None])  # a set in order
    wanted: dict[UniformType, None] = field(default_factory=dict[UniformType, None])
    free: bool = False
    padding: list[float] = field(default_factory=list[float])
    name: str = ""


class ScaleGroups:
    """The groups of the activations of some operations, and their types."""

    def __init__(
        self,
        operations: Sequence[Operation],
        observed: Mapping[SSAValue, Bounds],
        *,
        schema: Schema,
        precision: Precision,
        storage: IntegerType,
    ):
        self._observed, self._storage = observed, storage
        self._schema: Schema = schema
        self._precision: Precision = precision
        self._above: dict[SSAValue, SSAValue] = {}
        self._groups: dict[SSAValue, Group] = {}
        self._types: dict[SSAValue, UniformType] = {}
        self._ranged: set[SSAValue] = set()
        self._constraints: dict[SSAValue, set[UniformType]] = {}
        self._tied = self._tie(operations)
        for value in dict.fromkeys(v for o in operations for v in data_values(o) if not is_weight(v, o)):
            if value in self._ranged:
                self._enter(value)
        for op in self._tied:
            # An infinite padding saturates whatever the type.
            if isinstance(op, PadOp) and isinstance(op.value, FloatAttr) and abs(op.value.value.data) < float("inf"):
                self._groups[self.root(op.y)].padding.append(op.value.value.data)

    def root(self, value: SSAValue) -> SSAValue:
        """The value that stands for the group of `value`."""
        root = value
        while (above := self._above.get(root)) is not None:
            root = above
        return root

    def type_of(self, value: SSAValue) -> UniformType | None:
        """The quantized type of a value's group; None where it has no range.

        Raises:
            QuantizationError: No parameters follow from its range.
        """
        if not self.has_range(value):
            return None
        root = self.root(value)
        if root not in self._types:
            self._types[root] = self._choose(self._groups[root])
        return self._types[root]

    def has_range(self, value: SSAValue) -> bool:
        """Whether the range of an activation is known."""
        return value in self._ranged

    # Building them.

    def _tie(self, operations: Iterable[Operation]) -> dict[Operation, None]:
        """Ties the values of operations that move values of known range; returns them, in order."""
        tied: dict[Operation, None] = {}
        for op in operations:
            operands = data_operands(op)
            self._ranged.update(v for v in (*operands, *op.results) if self._range_is_given(v))
            if _moves(op) and all(v in self._ranged for v in operands) and not self._contradicts(op):
                tied[op] = None
                self._ranged.update(op.results)
                for value in data_values(op):
                    self._join(operands[0], value)
        return tied

    def _join(self, one: SSAValue, other: SSAValue) -> None:
        if self.root(one) is not self.root(other):
            self._above[self.root(other)] = self.root(one)

    def _contradicts(self, op: Operation) -> bool:
        """Whether the types that an operation's values must have are several."""
        groups = [self._constraints.setdefault(self.root(v), set()) for v in data_values(op)]
        own = {type for v in data_values(op) if (type := quantized_as(v)) is not None}
        together = own.union(*groups)
        if len(together) > 1:
            return True
        self._constraints[self.root(data_operands(op)[0])] = together
        return False

    def _range_is_given(self, value: SSAValue) -> bool:
        """Whether a value's range is known without looking at what makes it."""
        return isinstance(value.owner, ConstantOp) or self._imposed(value) is not None or self._is_observed(value)

    def _enter(self, value: SSAValue) -> None:
        group = self._groups.setdefault(self.root(value), Group())
        group.name = group.name or f"tensor {called(value)}"
        if value in self._observed:
            group.bounds.append(self._observed[value])
        if (wanted := quantized_as(value)) is not None:
            group.wanted[wanted] = None
        if (type := self._imposed(value)) is not None:
            group.fixed[type] = None
        elif isinstance(value.owner, ConstantOp):
            array = value.owner.value.array
            group.bounds.append((float(array.min()), float(array.max())) if array.size else (0.0, 0.0))
            group.free = True
        elif value.owner not in self._tied:
            group.free = True

    def _imposed(self, value: SSAValue) -> UniformType | None:
        """The type that a value has by a function's own range or by a cast that is there already."""
        casts = [u.operation for u in value.uses if isinstance(u.operation, QuantizeCastOp)]
        if isinstance(value.owner, DequantizeCastOp):
            type = element_of(value.owner.input)
        elif casts:
            type = element_of(casts[0].result)
        elif isinstance(value, OpResult) and (rules := value.op.get_traits_of_type(FixedScale)):
            return self._type(*rules[0].result_parameters(self._schema, self._precision))
        else:
            return None
        assert isinstance(type, UniformType)
        return type if not type.is_per_axis else None

    def _is_observed(self, value: SSAValue) -> bool:
        """Whether a value's range is known from an observer on it, or on the same values in another shape."""
        if value in self._observed:
            return True
        shapes = (u.operation for u in value.uses if isinstance(u.operation, ReshapeOp | TransposeOp))
        return any(self._is_observed(op.results[0]) for op in shapes)

    # Choosing.

    def _choose(self, group: Group) -> UniformType:
        if group.wanted:
            return next(iter(group.wanted))
        if len(group.fixed) == 1 and not group.free:
            (only,) = group.fixed
            lo, hi = _real_range(only)
            if all(lo <= p <= hi for p in group.padding):
                return only
        ranges = [*group.bounds, *map(_real_range, group.fixed), *((p, p) for p in group.padding)]
        lo, hi = min(r[0] for r in ranges), max(r[1] for r in ranges)
        return self._type(*quantization_of_range(lo, hi, self._schema, self._precision, where=group.name))

    def _type(self, scale: float, zero_point: int) -> UniformType:
        return UniformType.per_tensor(self._storage, scale, zero_point)


def quantized_as(value: SSAValue) -> UniformType | None:
    """The type that a quantization in the graph gives to a value; None where there is none, or several."""
    types = {element_of(u.operation.result) for u in value.uses if isinstance(u.operation, QuantizeCastOp)}
    only = next(iter(types)) if len(types) == 1 else None
    return only if isinstance(only, UniformType) and not only.is_per_axis else None


def _moves(op: Operation) -> bool:
    return op.has_trait(SameScale, value_if_unregistered=False)


def _real_range(type: UniformType) -> Bounds:
    return (type.storage_min - type.zero_point) * type.scale, (type.storage_max - type.zero_point) * type.scale
