"""Which tensors of a float network share one quantized type, and which type that is.

Operations that move or choose values without computing (pools, reshapes, concats) tie their operands and results:
those form a group with one type, chosen for the union of what enters it. Into a group enter

* activations with an observed range,
* constants, whose range is known,
* results of functions with a range of their own (sigmoid, tanh, softmax), which need no profile,
* values that existing casts have given a type, in a graph that came with some.

A type that a quantization in the graph asks for is a constraint, not a wish: its group has that type, and a group of
two such types is none, so operations that would tie them tie nothing.

What the policy says of one of them, a range or parameters, holds for all of a group, whatever was observed of the
others; two different things are a contradiction, and so is a range that lacks what the group must hold besides.

Each value has a recipe (recipe.py). Values of different schemas or precisions are in no group together, and a reader
with another recipe than its operand's sees that operand through a type of its own.

What follows from something of unknown range has none either, and is tied to nothing: in a group it would be clipped
to the range of the others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FloatAttr, IntegerType, Signedness
from xdsl.ir import Operation, OpResult, SSAValue

from qmlir.dialects.calib import Observation
from qmlir.dialects.interfaces import element_of
from qmlir.dialects.nn import ConstantOp, PadOp, ReshapeOp, TransposeOp
from qmlir.dialects.quant.calibration import calibrated_range, choose_quantization
from qmlir.dialects.quant.histograms import Histogram
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.rules import FixedScale, SameScale
from qmlir.dialects.quant.schemas import Precision, QuantizationError, quantization_of_range
from qmlir.dialects.quant.types import UniformType
from qmlir.legality import data_operands, data_values, is_weight
from qmlir.recipe import Recipe
from qmlir.transforms.quantize.headroom import expected
from qmlir.transforms.quantize.reasons import called

Bounds = tuple[float, float]


@dataclass
class Group:
    """Tensors of one type.

    recipe   of its first value
    seen     what was observed of its values
    moved    what was observed of the same values in another shape, for want of anything better
    held     ranges that it must hold besides, of constants, with what to call these
    fixed    types that functions or casts give to some of its tensors, with what to call these
    wanted   types that quantizations in the graph ask for
    demanded types whose parameters the policy gives, with the tensors it gives them for
    ranges   those that the policy gives, with the tensors it gives them for
    free     whether something enters whose type is for us to choose
    padding  constants that pads put between its values
    name     what to call it in an error
    """

    recipe: Recipe
    seen: list[Observation] = field(default_factory=list[Observation])
    moved: list[Observation] = field(default_factory=list[Observation])
    held: dict[Bounds, str] = field(default_factory=dict[Bounds, str])
    fixed: dict[UniformType, str] = field(default_factory=dict[UniformType, str])
    wanted: dict[UniformType, None] = field(default_factory=dict[UniformType, None])  # a set in order
    demanded: dict[UniformType, str] = field(default_factory=dict[UniformType, str])
    ranges: dict[Bounds, str] = field(default_factory=dict[Bounds, str])
    free: bool = False
    padding: list[float] = field(default_factory=list[float])
    name: str = ""


class ScaleGroups:
    """The groups of the activations of some operations, and their types."""

    def __init__(
        self,
        operations: Sequence[Operation],
        observed: Mapping[SSAValue, Observation],
        recipe: Callable[[SSAValue], Recipe],
    ):
        """Groups the activations of `operations`, of which `observed` is known, under the recipe of each value."""
        self._observed, self._recipe = observed, recipe
        self._above: dict[SSAValue, SSAValue] = {}
        self._groups: dict[SSAValue, Group] = {}
        self._types: dict[tuple[SSAValue, Recipe], UniformType] = {}
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

    def type_of(self, value: SSAValue, reader: Recipe | None = None) -> UniformType | None:
        """The quantized type of a value's group, or what a reader of another recipe sees; None where it has no range.

        Raises:
            QuantizationError: No parameters follow from its range.
        """
        if not self.has_range(value):
            return None
        root = self.root(value)
        if (group := self._groups.get(root)) is None:
            return None  # nobody reads it but as weights
        recipe = group.recipe if reader is None or reader.format == group.recipe.format else reader
        key = root, recipe
        if key not in self._types:
            self._types[key] = self._choose(group) if recipe is group.recipe else self._type_of_range(group, recipe)
        return self._types[key]

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
            alike = len({self._recipe(v).format for v in data_values(op)}) == 1
            if alike and _moves(op) and all(v in self._ranged for v in operands) and not self._contradicts(op):
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
        recipe, name = self._recipe(value), f"{called(value)} of {_maker(value)}"
        group = self._groups.setdefault(self.root(value), Group(recipe))
        group.name = group.name or f"tensor {called(value)}"
        if recipe.range is not None:
            group.ranges.setdefault(recipe.range, name)
        elif value in self._observed:
            group.seen.append(expected(value, self._observed[value], recipe))
        elif (moved := self._observed_as(value)) is not None:
            group.moved.append(expected(value, moved, recipe))
        if (wanted := quantized_as(value)) is not None:
            group.wanted[wanted] = None
        if recipe.parameters is not None:
            group.demanded.setdefault(_type(recipe, *recipe.parameters), name)
        if (type := self._imposed(value)) is not None:
            group.fixed.setdefault(type, name)
        elif isinstance(value.owner, ConstantOp):
            array = value.owner.value.array
            group.held.setdefault((float(array.min()), float(array.max())) if array.size else (0.0, 0.0), name)
            group.free = True
        elif value.owner not in self._tied:
            group.free = True

    def _imposed(self, value: SSAValue) -> UniformType | None:
        """The type that a value has by a function's own range or by a cast that is there already."""
        recipe = self._recipe(value)
        casts = [u.operation for u in value.uses if isinstance(u.operation, QuantizeCastOp)]
        if isinstance(value.owner, DequantizeCastOp):
            type = element_of(value.owner.input)
        elif casts:
            type = element_of(casts[0].result)
        elif recipe.parameters is not None:
            return _type(recipe, *recipe.parameters)
        elif (
            isinstance(value, OpResult) and recipe.range is None and (rules := value.op.get_traits_of_type(FixedScale))
        ):
            return _type(recipe, *rules[0].result_parameters(*recipe.format))
        else:
            return None
        assert isinstance(type, UniformType)
        return type if not type.is_per_axis else None

    def _is_observed(self, value: SSAValue) -> bool:
        """Whether a value's range is known from an observer on it, or on the same values in another shape."""
        return self._observed_as(value) is not None

    def _observed_as(self, value: SSAValue) -> Observation | None:
        """What is known of a value, by the policy, from an observer, or of the same values in another shape."""
        if (said := self._recipe(value).range) is not None:
            return Observation(said)
        if value in self._observed:
            return self._observed[value]
        shapes = (u.operation for u in value.uses if isinstance(u.operation, ReshapeOp | TransposeOp))
        return next((seen for op in shapes if (seen := self._observed_as(op.results[0])) is not None), None)

    # Choosing.

    def _choose(self, group: Group) -> UniformType:
        _refuse_contradictions(group)
        if group.demanded:
            return next(iter(group.demanded))
        if group.wanted:
            return next(iter(group.wanted))
        if len(group.fixed) == 1 and not group.free:
            (only,) = group.fixed
            lo, hi = _real_range(only)
            if all(lo <= p <= hi for p in group.padding):
                return only
        return self._type_of_range(group, group.recipe)

    def _type_of_range(self, group: Group, recipe: Recipe) -> UniformType:
        """The type for all that a group must hold: what was observed, narrowed, and what is not to be."""
        schema, precision = recipe.format
        exact, where = recipe.glow_exact, group.name
        if group.ranges:
            (lo, hi), *_ = group.ranges
            return _type(recipe, *quantization_of_range(lo, hi, schema, precision, glow_exact=exact, where=where))
        kept = [*group.held, *map(_real_range, group.fixed), *((p, p) for p in group.padding)]
        observed = group.seen if group.seen or kept else group.moved
        if observed and recipe.calibration == "moving_average":
            kept += [_average(seen, where) for seen in observed]
        elif observed:
            (lo, hi), histogram = _together(observed)
            given = schema, precision, histogram, recipe.calibration
            if not kept:
                return _type(recipe, *choose_quantization(lo, hi, *given, glow_exact=exact, where=where))
            kept.append(calibrated_range(lo, hi, *given, glow_exact=exact, where=where))
        lo, hi = min(r[0] for r in kept), max(r[1] for r in kept)
        return _type(recipe, *quantization_of_range(lo, hi, schema, precision, glow_exact=exact, where=where))


def _refuse_contradictions(group: Group) -> None:
    """Refuses several things that the policy says of one group, and a range that lacks what it must hold besides.

    Raises:
        QuantizationError: Names the tensors, and the operations that make them.
    """
    if not group.demanded and not group.ranges:
        return
    given = {**dict.fromkeys(group.wanted, "a cast of the model"), **group.demanded}
    said = [f"{name}: {type}" for type, name in given.items()]
    said += [f"{name}: {_shown(bounds)}" for bounds, name in group.ranges.items()]
    if len(said) > 1:
        raise QuantizationError(
            "tensors of one type, as pools and concats have them, cannot have several ranges or parameters",
            where=group.name,
            got="; ".join(said),
            remedy="give one of them, or the same for all",
        )
    besides = {**group.held, **{_real_range(type): name for type, name in group.fixed.items()}}
    besides |= {(p, p): "padding" for p in group.padding}
    lacking = [f"{name}: {_shown(bounds)}" for bounds, name in besides.items() if not _within(bounds, group.ranges)]
    if lacking:
        raise QuantizationError(
            "a fixed range must hold what constants and functions bring into tensors of its type",
            where=group.name,
            got="; ".join(said + lacking),
            remedy="widen it, or drop it",
        )


def _within(bounds: Bounds, ranges: Iterable[Bounds]) -> bool:
    """Whether each of some ranges, with 0, holds one."""
    return all(min(lo, 0.0) <= bounds[0] and bounds[1] <= max(hi, 0.0) for lo, hi in ranges)


def _shown(bounds: Bounds) -> str:
    return f"[{bounds[0]:g}, {bounds[1]:g}]"


def storage_type(precision: Precision) -> IntegerType:
    """The storage type of a precision: int8 → i8, uint8 → ui8."""
    width = int(precision.removeprefix("u").removeprefix("int"))
    return IntegerType(width, Signedness.UNSIGNED if precision.startswith("u") else Signedness.SIGNLESS)


def _type(recipe: Recipe, scale: float, zero_point: int) -> UniformType:
    return UniformType.per_tensor(storage_type(recipe.precision), scale, zero_point)


def _together(seen: Sequence[Observation]) -> tuple[Bounds, Histogram | None]:
    """The range of several observations, and their histogram if all have one."""
    bounds = min(s.bounds[0] for s in seen), max(s.bounds[1] for s in seen)
    histograms = [s.histogram for s in seen if s.histogram is not None]
    return bounds, Histogram.together(histograms) if len(histograms) == len(seen) else None


def _maker(value: SSAValue) -> str:
    return value.owner.name if isinstance(value.owner, Operation) else "the network's inputs"


def _average(seen: Observation, where: str) -> Bounds:
    if seen.average is None:
        raise QuantizationError(
            "calibration moving_average needs the mean range of a sample",
            where=where,
            remedy="profile the network anew, or use minmax",
        )
    return seen.average


def quantized_as(value: SSAValue) -> UniformType | None:
    """The type that a quantization in the graph gives to a value; None where there is none, or several."""
    types = {element_of(u.operation.result) for u in value.uses if isinstance(u.operation, QuantizeCastOp)}
    only = next(iter(types)) if len(types) == 1 else None
    return only if isinstance(only, UniformType) and not only.is_per_axis else None


def _moves(op: Operation) -> bool:
    return op.has_trait(SameScale, value_if_unregistered=False)


def _real_range(type: UniformType) -> Bounds:
    return (type.storage_min - type.zero_point) * type.scale, (type.storage_max - type.zero_point) * type.scale
