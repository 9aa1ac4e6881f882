"""Which tensors of a float network share one quantized type, and which type that is.

Operations that move or choose values without computing (pools, reshapes, concats) tie their operands and results:
those form a group with one type, chosen for the union of what enters it. Into a group enter

* activations with an observed range,
* constants, whose range is known,
* results of functions with a range of their own (sigmoid, tanh, softmax), which need no profile but heed one,
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
from qmlir.dialects.quant.rules import FixedScale, keeps_scale
from qmlir.dialects.quant.schemas import STORAGE_RANGES, Precision, QuantizationError, quantization_of_range
from qmlir.dialects.quant.types import UniformType
from qmlir.quantized_values import data_operands, data_values, is_weight
from qmlir.recipe import Format, Recipe
from qmlir.transforms.quantize.headroom import expected
from qmlir.transforms.quantize.reasons import called

Bounds = tuple[float, float]


@dataclass
class Group:
    """Tensors of one type.

    recipe   of its first value
    seen     what was observed of its values, by value
    moved    what was observed of the same values in another shape, for want of anything better
    held     ranges that it must hold besides, of constants, with what to call these
    fixed    types that casts or the policy give to some of its tensors, with what to call these
    bounded  results of functions with a range of their own, with what to call these
    wanted   types that quantizations in the graph ask for
    demanded types whose parameters the policy gives, with the tensors it gives them for
    ranges   those that the policy gives, with the tensors it gives them for
    free     whether something enters whose type is for us to choose
    padding  constants that pads put between its values
    name     what to call it in an error
    """

    recipe: Recipe
    seen: dict[SSAValue, Observation] = field(default_factory=dict[SSAValue, Observation])
    moved: dict[SSAValue, Observation] = field(default_factory=dict[SSAValue, Observation])
    held: dict[Bounds, str] = field(default_factory=dict[Bounds, str])
    fixed: dict[UniformType, str] = field(default_factory=dict[UniformType, str])
    bounded: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    wanted: dict[UniformType, None] = field(default_factory=dict[UniformType, None])  # a set in order
    demanded: dict[UniformType, str] = field(default_factory=dict[UniformType, str])
    ranges: dict[Bounds, str] = field(default_factory=dict[Bounds, str])
    free: bool = False
    padding: list[float] = field(default_factory=list[float])
    name: str = ""

    def take_in(self, other: "Group") -> None:
        """Makes the type wide enough for the values of another group, under its own recipe."""
        if other is self:
            return
        given = {**dict.fromkeys(other.wanted, "a cast of the model"), **other.demanded}
        stated = {**{_real_range(type): name for type, name in given.items()}, **other.ranges}
        if not stated:
            self.seen.update(other.seen)
            self.moved.update(other.moved)
            self.bounded.update(other.bounded)
            stated = {_real_range(type): name for type, name in other.fixed.items()}
        elif self.ranges:
            stated = {}  # the policy says where this one saturates
        self.held.update({**stated, **other.held})
        self.padding += other.padding
        self.free = True


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
        self._types: dict[tuple[SSAValue, Format], UniformType] = {}
        self._ranged: set[SSAValue] = set()
        self._constraints: dict[SSAValue, set[UniformType]] = {}
        self._following: list[Operation] = []
        self._tied = self._tie(operations)
        for value in dict.fromkeys(v for o in operations for v in data_values(o) if not is_weight(v, o)):
            if value in self._ranged:
                self._enter(value)
        for op in (*self._tied, *self._following):
            # An infinite padding saturates whatever the type.
            if isinstance(op, PadOp) and isinstance(op.value, FloatAttr) and abs(op.value.value.data) < float("inf"):
                self._groups[self.root(op.y)].padding.append(op.value.value.data)
        for op in self._following:
            self._follow(op)

    def root(self, value: SSAValue) -> SSAValue:
        """The value that stands for the group of `value`."""
        root = value
        while (above := self._above.get(root)) is not None:
            root = above
        return root

    def type_of(self, value: SSAValue, format: Format | None = None) -> UniformType | None:
        """The quantized type of a value's group, or of its values in another format; None where it has no range.

        Raises:
            QuantizationError: No parameters follow from its range.
        """
        if not self.has_range(value):
            return None
        root = self.root(value)
        if (group := self._groups.get(root)) is None:
            return None  # nobody reads it but as weights
        key = root, format or group.recipe.format
        if key not in self._types:
            recipe = group.recipe.in_format(key[1])
            self._types[key] = self._choose(group) if recipe == group.recipe else self._type_of_values(group, recipe)
        return self._types[key]

    def has_range(self, value: SSAValue) -> bool:
        """Whether the range of an activation is known."""
        return value in self._ranged

    # Building them.

    def _tie(self, operations: Iterable[Operation]) -> dict[Operation, None]:
        """Ties the values of operations that move values of known range; returns those that tie all, in order."""
        tied: dict[Operation, None] = {}
        for op in operations:
            operands = data_operands(op)
            self._ranged.update(v for v in (*operands, *op.results) if self._range_is_given(v))
            if not keeps_scale(op) or any(v not in self._ranged for v in operands):
                continue
            self._ranged.update(op.results)
            format = self._recipe(op.results[0]).format
            alike = [v for v in data_values(op) if self._recipe(v).format == format]
            contradictory = self._contradict(alike)
            if not contradictory:
                for value in alike:
                    self._join(alike[0], value)
            if contradictory or len(alike) < len(data_values(op)):
                self._following.append(op)
            else:
                tied[op] = None
        return tied

    def _follow(self, op: Operation) -> None:
        """Lets the group of a result hold what the groups of the operands hold, which it is not tied to."""
        result = self._groups[self.root(op.results[0])]
        for root in dict.fromkeys(map(self.root, data_operands(op))):
            result.take_in(self._groups[root])

    def _join(self, one: SSAValue, other: SSAValue) -> None:
        if self.root(one) is not self.root(other):
            self._above[self.root(other)] = self.root(one)

    def _contradict(self, values: Sequence[SSAValue]) -> bool:
        """Whether the types that some values must have are several."""
        groups = [self._constraints.setdefault(self.root(v), set()) for v in values]
        own = {type for v in values if (type := quantized_as(v)) is not None}
        together = own.union(*groups)
        if len(together) > 1:
            return True
        self._constraints[self.root(values[0])] = together
        return False

    def _range_is_given(self, value: SSAValue) -> bool:
        """Whether a value's range is known without looking at what makes it."""
        known = isinstance(value.owner, ConstantOp) or self._is_observed(value)
        return known or self._imposed(value) is not None or _fixed_scale(value) is not None

    def _enter(self, value: SSAValue) -> None:
        recipe, name = self._recipe(value), f"{called(value)} of {_maker(value)}"
        group = self._groups.setdefault(self.root(value), Group(recipe))
        group.name = group.name or f"tensor {called(value)}"
        if recipe.range is not None:
            group.ranges.setdefault(recipe.range, name)
        elif value in self._observed:
            group.seen[value] = self._observed[value]
        elif (moved := self._observed_as(value)) is not None:
            group.moved[value] = moved
        if (wanted := quantized_as(value)) is not None:
            group.wanted[wanted] = None
        if recipe.parameters is not None:
            group.demanded.setdefault(_type(recipe, *recipe.parameters), name)
        if (type := self._imposed(value)) is not None:
            group.fixed.setdefault(type, name)
        elif self._own_scale(value, recipe.format) is not None:
            group.bounded[value] = name
        elif isinstance(value.owner, ConstantOp):
            array = value.owner.value.array
            group.held.setdefault((float(array.min()), float(array.max())) if array.size else (0.0, 0.0), name)
            group.free = True
        elif value.owner not in self._tied:
            group.free = True

    def _imposed(self, value: SSAValue) -> UniformType | None:
        """The type that a value has by a cast that is there already, or by the policy's parameters."""
        recipe = self._recipe(value)
        casts = [u.operation for u in value.uses if isinstance(u.operation, QuantizeCastOp)]
        if isinstance(value.owner, DequantizeCastOp):
            type = element_of(value.owner.input)
        elif casts:
            type = element_of(casts[0].result)
        else:
            return None if recipe.parameters is None else _type(recipe, *recipe.parameters)
        assert isinstance(type, UniformType)
        return type if not type.is_per_axis else None

    def _own_scale(self, value: SSAValue, format: Format) -> FixedScale | None:
        """The rule of the function that makes a value, if its own range decides about a format."""
        rule, seen = _fixed_scale(value), self._observed.get(value)
        if rule is None or self._recipe(value).range is not None:
            return None
        return rule if seen is None or rule.suits(*seen.bounds, *format) else None

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
        _refuse_contradictions(group, self._fixed(group, group.recipe))
        if group.demanded:
            return next(iter(group.demanded))
        if group.wanted:
            return next(iter(group.wanted))
        return self._type_of_values(group, group.recipe)

    def _fixed(self, group: Group, recipe: Recipe) -> dict[UniformType, str]:
        """The types that some values of a group have anyway, with what to call these values."""
        fixed = dict(group.fixed)
        for value, name in group.bounded.items():
            if (rule := self._own_scale(value, recipe.format)) is not None:
                fixed.setdefault(_type(recipe, *rule.result_parameters(*recipe.format)), name)
        return fixed

    def _type_of_values(self, group: Group, recipe: Recipe) -> UniformType:
        """The type, in the format of a recipe, of the values of a group: what all of them have anyway, or by range."""
        fixed = self._fixed(group, recipe)
        if len(fixed) == 1 and not group.free:
            (only,) = fixed
            lo, hi = _real_range(only)
            if only.storage == storage_type(recipe.precision) and all(lo <= p <= hi for p in group.padding):
                return only
        return self._type_of_range(group, recipe, fixed)

    def _type_of_range(self, group: Group, recipe: Recipe, fixed: Iterable[UniformType]) -> UniformType:
        """The type for all that a group must hold: what was observed, narrowed, and what is not to be."""
        schema, precision = recipe.format
        exact, where = recipe.glow_exact, group.name
        if group.ranges:
            (lo, hi), *_ = group.ranges
            return _type(recipe, *quantization_of_range(lo, hi, schema, precision, glow_exact=exact, where=where))
        kept = [*group.held, *map(_real_range, fixed), *((p, p) for p in group.padding)]
        observed = group.seen if group.seen or kept else group.moved
        seen = [expected(v, o, self._recipe(v).in_format(recipe.format)) for v, o in observed.items()]
        low, high = STORAGE_RANGES[precision]
        rules = [rule for v in group.seen if (rule := _fixed_scale(v)) is not None]
        kept += [(0.0, rule.least_scale * (high - low)) for rule in rules if rule.least_scale]
        if seen and recipe.calibration == "moving_average":
            kept += [_average(each, where) for each in seen]
        elif seen:
            (lo, hi), histogram = _together(seen)
            given = schema, precision, histogram, recipe.calibration
            if not kept:
                return _type(recipe, *choose_quantization(lo, hi, *given, glow_exact=exact, where=where))
            kept.append(calibrated_range(lo, hi, *given, glow_exact=exact, where=where))
        lo, hi = min(r[0] for r in kept), max(r[1] for r in kept)
        return _type(recipe, *quantization_of_range(lo, hi, schema, precision, glow_exact=exact, where=where))


def _refuse_contradictions(group: Group, fixed: Mapping[UniformType, str]) -> None:
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
    besides = {**group.held, **{_real_range(type): name for type, name in fixed.items()}}
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


def _fixed_scale(value: SSAValue) -> FixedScale | None:
    """The rule of a function with a range of its own that makes a value."""
    return next(iter(value.op.get_traits_of_type(FixedScale)), None) if isinstance(value, OpResult) else None


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


def _real_range(type: UniformType) -> Bounds:
    return (type.storage_min - type.zero_point) * type.scale, (type.storage_max - type.zero_point) * type.scale
