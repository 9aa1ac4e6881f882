"""Groups the tensors of a float network that share one quantized type: their range with a margin, and their type."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from qmlir.dialects.calib import Bounds, Observation, ObserveOp
from qmlir.dialects.nn import ConstantOp, WhereOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.movement import FillingOp
from qmlir.dialects.nn.quantizable import data_operands, data_values, is_weight
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.rules import FixedScale, keeps_scale
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.facts import POLICY, RESIDUAL
from qmlir.ir.interfaces import element_of
from qmlir.ir.traversal import reached
from qmlir.numerics.calibration import calibrated_range, calibration_called, choose_quantization
from qmlir.numerics.histograms import Histogram
from qmlir.numerics.schemas import (
    SMALLEST_SCALE,
    STORAGE_RANGES,
    Schema,
    power_of_two_above,
    quantization_of_range,
    weight_range,
)
from qmlir.plugins import Plugin
from qmlir.settings.quant_config import Format, OpConfig, PlainSettings, settings_of
from qmlir.transforms.quantize.ranges.exponents import is_whole_exponent, with_whole_numbers
from qmlir.transforms.quantize.ranges.margins import MOVERS, expected
from qmlir.transforms.quantize.ranges.scale_group import (
    Group,
    average_of,
    fixed_scale_of,
    hull_of,
    is_factor,
    is_zero,
    real_range,
    refuse_contradictions,
    storage_type,
    uniform_type,
    width_of,
)
from qmlir.transforms.quantize.reasons import called

# ---------------------------------------------------------------------------------------------------------------
# Groups the tensors of a float network that share one quantized type, and chooses that type.
#
# Operations that move or choose values without computing (pools, reshapes, concats) tie their operands and results:
# these tensors form a group with one type, chosen for the union of all ranges that enter it. Into a group enter
#
# * activations with an observed range,
# * constants, whose range is known,
# * results of functions with a range of their own (sigmoid, tanh, softmax), which need no profile but heed one,
# * values that existing casts have given a type, in a graph that came with casts.
#
# A type that a quantize cast in the graph asks for is a constraint, not a wish: its group has exactly that type. Values
# with two such types cannot form a group, so an operation that would tie them ties nothing.
#
# If the policy gives one tensor a range or parameters, these hold for its whole group, whatever was observed of the
# other tensors. Two different settings in one group are a contradiction and refused. So is a range that does not
# contain the constants and other values in the group.
#
# Each value has a config, its quantization config (policy.py). Values of different schemas or precisions are never in
# one group. A reader whose schema or precision differs from its operand's reads the operand through a type of its own.
#
# A state (ir/states.py) and its next value are one tensor at two times: they form a group wherever both have a range.
#
# A choice leaves constants out of its group, and reads them through the type of its result: several layers may choose
# elements of one constant, such as the −∞ of a mask. The group holds their range nevertheless, except that of a mask,
# which saturates.
#
# A concatenation leaves an operand out of its group if other operations read the operand too, moved or not, and the
# group's type would cost it more than a bit. They read the operand through its own type, the concatenation through the
# type of its result. All tensors are tied if the policy or a cast decides about one, or if parameters are Glow's.
#
# An operation that stays float reads each operand through the operand's own type, and so ties nothing.
#
# A group that holds whole exponents of a power gets a scale that keeps them whole (exponents.py).
#
# If only 0 was observed of a group, the group has any scale that suits its readers: a contraction adds its bias in
# steps of s_x · s_w, so it asks for a scale under which these steps are much finer than its result's.
#
# A tensor that is moved from a tensor of unknown range has no known range either. It is tied to nothing: in a group it
# would be clipped to the range of the other tensors.


MUCH_NARROWER = 0.5
"""An operand that others read too keeps its own type if its step is below this share of the concatenation's."""

FINE = 2.0**-4
"""The step of sums that hold nothing but a bias, in steps of the result."""


class ScaleGroups:
    """The groups of the activations of some operations, and their types."""

    def __init__(
        self,
        operations: Sequence[Operation],
        observed: Mapping[SSAValue, Observation],
        op_config: Callable[[SSAValue], OpConfig],
        states: Iterable[tuple[SSAValue, SSAValue]] = (),
        floats: Collection[Operation] = (),
    ):
        """Groups the activations of `operations`, given what was `observed` of them and the `op_config` of each value.

        `states` are pairs of an argument and its value in the next call; `floats` the operations that stay float.
        """
        self._observed, self._op_config, self._floats = observed, op_config, floats
        self._above: dict[SSAValue, SSAValue] = {}
        self._groups: dict[SSAValue, Group] = {}
        self._types: dict[tuple[SSAValue, Format], UniformType] = {}
        self._ranged: set[SSAValue] = set()
        self._constraints: dict[SSAValue, set[UniformType]] = {}
        self._hulls: dict[SSAValue, Bounds] = {}
        self._left_out: dict[Operation, set[SSAValue]] = {}
        self._following: list[Operation] = []
        # The largest weights are read now: before the last type is chosen, casts come between weights and operations.
        self._biased = {
            o: float(np.abs(o.w.owner.value.array).max(initial=0.0))
            for o in operations
            if isinstance(o, WeightedOp) and o.b and isinstance(o.w.owner, ConstantOp)
        }
        self._tied = self._tie(operations)
        self._tie_states(states)
        for value in dict.fromkeys(v for o in operations for v in data_values(o) if not is_weight(v, o)):
            if value in self._ranged:
                self._enter(value)
        for op in (*self._tied, *self._following):
            # An infinite padding saturates under every type.
            value = op.real_value() if isinstance(op, FillingOp) else None
            if value is not None and abs(value.value.data) < float("inf"):
                self._groups[self.root(op.results[0])].padding.append(value.value.data)
        for op in self._following:
            self._follow(op)
        for group in self._groups.values():
            group.settle_calibration()

    def root(self, value: SSAValue) -> SSAValue:
        """The value that stands for the group of `value`."""
        root = value
        while (above := self._above.get(root)) is not None:
            root = above
        return root

    def method_of(self, value: SSAValue) -> Plugin | None:
        """The plugin that narrowed the range of a value's group; None if no plugin did."""
        group = self._groups.get(self.root(value))
        return None if group is None else group.method

    def why_uncalibrated(self, value: SSAValue, calibration: str) -> str | None:
        """Why a calibration does not choose the range of a value's group; None if it does."""
        return self._groups[self.root(value)].why_uncalibrated(calibration)

    def type_of(self, value: SSAValue, format: Format | None = None) -> UniformType | None:
        """The quantized type of a value's group, in the group's format or in another; None if no range is known.

        Raises:
            QuantizationError: No parameters follow from the range, or what decides about the type contradicts itself.
        """
        if not self.has_range(value):
            return None
        root = self.root(value)
        if (group := self._groups.get(root)) is None:
            return None  # the value is only read as weights
        key = root, format or group.op_config.format
        if key not in self._types:
            op_config = group.op_config.in_format(key[1])
            if op_config != group.op_config and _keeps_outliers(group, op_config):
                op_config = replace(op_config, calibration="minmax")
            self._types[key] = (
                self._choose(group) if op_config == group.op_config else self._type_of_values(group, op_config)
            )
        return self._types[key]

    def leaves_out(self, op: Operation, value: SSAValue) -> bool:
        """Whether a concatenation's operand is not tied to its result, since the result's type would cost it bits."""
        return value in self._left_out.get(op, ())

    def format_of(self, value: SSAValue) -> Format:
        """The schema and the precision of a value."""
        return self._op_config(value).format

    def has_range(self, value: SSAValue) -> bool:
        """Whether the range of an activation is known."""
        return value in self._ranged

    # Building the groups.

    def _tie(self, operations: Iterable[Operation]) -> dict[Operation, None]:
        """Ties the values of operations that move values of known range; returns those that tie all, in order."""
        tied: dict[Operation, None] = {}
        for op in operations:
            operands = data_operands(op)
            self._ranged.update(v for v in (*operands, *op.results) if self._range_is_given(v))
            if not keeps_scale(op) or any(v not in self._ranged for v in operands):
                continue
            self._ranged.update(op.results)
            format = self._op_config(op.results[0]).format
            left_out = self._much_narrower(op) | _chosen_constants(op)
            left_out = set(operands) if op in self._floats else left_out
            if left_out:
                self._left_out[op] = left_out
            alike = [v for v in data_values(op) if self._op_config(v).format == format and v not in left_out]
            contradictory = self._contradict(alike)
            if not contradictory:
                for value in alike:
                    self._join(alike[0], value)
            if contradictory or len(alike) < len(data_values(op)):
                self._following.append(op)
            else:
                tied[op] = None
        return tied

    def _tie_states(self, states: Iterable[tuple[SSAValue, SSAValue]]) -> None:
        """Ties each state to its next value if both have a range and one format."""
        for before, after in states:
            alike = self._op_config(before).format == self._op_config(after).format
            if alike and {before, after} <= self._ranged and not self._contradict([before, after]):
                self._join(before, after)

    def _follow(self, op: Operation) -> None:
        """Widens the group of an operation's result for the values of operands that are not tied to it."""
        result = self._groups[self.root(op.results[0])]
        for value in dict.fromkeys(data_operands(op)):
            # What masks has a range that is said (masks.py), and saturates here.
            if not (isinstance(value.owner, ConstantOp) and value in self._observed):
                result.take_in(self._groups[self.root(value)])

    def _join(self, one: SSAValue, other: SSAValue) -> None:
        if self.root(one) is not self.root(other):
            hulls = [hull for v in (one, other) if (hull := self._hull(v)) is not None]
            self._above[self.root(other)] = self.root(one)
            if hulls:
                self._hulls[self.root(one)] = hull_of(hulls)

    def _much_narrower(self, op: Operation) -> set[SSAValue]:
        """A concatenation's operands that others read too and whose step the group's type would more than double."""
        operands = dict.fromkeys(data_operands(op))
        if len(operands) == 1 or any(self.is_stated(v) for v in data_values(op)):
            return set()
        hulls = {v: hull for v in operands if (hull := self._hull(v)) is not None}
        schema, _ = self._op_config(op.results[0]).format
        widths = {v: width_of(hull, schema) for v, hull in hulls.items()}
        whole = width_of(hull_of(hulls.values()), schema) if hulls else 0.0
        return {v for v, own in widths.items() if 0 < own < MUCH_NARROWER * whole and self._others_read(v, op)}

    def _others_read(self, value: SSAValue, reader: Operation) -> bool:
        """Whether an operation other than `reader` reads a value, or reads a value that it is moved from."""

        def sources(read: tuple[SSAValue, Operation]) -> Iterator[tuple[SSAValue, Operation]]:
            mover = read[0].owner
            if isinstance(mover, Operation) and keeps_scale(mover):
                left_out = self._left_out.get(mover, ())
                yield from ((v, mover) for v in data_operands(mover) if v not in left_out)

        return any(
            use.operation is not by and not isinstance(use.operation, ObserveOp)
            for source, by in reached([(value, reader)], sources)
            for use in source.uses
        )

    def is_stated(self, value: SSAValue) -> bool:
        """Whether the policy, a cast or Glow's parameters decide about a value's type, not its observed range."""
        op_config = self._op_config(value)
        return op_config.glow_exact or op_config.range is not None or self._imposed(value) is not None

    def _hull(self, value: SSAValue) -> Bounds | None:
        """The range of all values that are tied to a value so far; None if no range is known."""
        return self._hulls.get(self.root(value)) or self.own_bounds(value)

    def own_bounds(self, value: SSAValue) -> Bounds | None:
        """The range of a value by itself: of its function, its constant or its observer; None if unknown."""
        format = self._op_config(value).format
        if (rule := self._own_scale(value, format)) is not None:
            return real_range(uniform_type(self._op_config(value), *rule.result_parameters(*format)))
        if isinstance(value.owner, ConstantOp) and value not in self._observed:
            array = value.owner.value.array
            return (float(array.min()), float(array.max())) if array.size else None
        seen = self._observed_as(value)
        return None if seen is None else seen.bounds

    def _contradict(self, values: Sequence[SSAValue]) -> bool:
        """Whether some values must have different types; if not, notes the type that they must have."""
        groups = [self._constraints.setdefault(self.root(v), set()) for v in values]
        own = {type for v in values if (type := quantized_as(v)) is not None}
        together = own.union(*groups)
        if len(together) > 1:
            return True
        self._constraints[self.root(values[0])] = together
        return False

    def _range_is_given(self, value: SSAValue) -> bool:
        """Whether a value's range is known without the ranges of the operands that it is computed from."""
        known = _is_finite(value.owner) or self._is_observed(value)
        return known or self._imposed(value) is not None or fixed_scale_of(value) is not None

    def _enter(self, value: SSAValue) -> None:
        op_config, name = self._op_config(value), f"{called(value)} of {_maker(value)}"
        group = self._groups.setdefault(self.root(value), Group(op_config))
        group.name = group.name or f"tensor {called(value)}"
        group.whole |= is_whole_exponent(value)
        for settings in stated_for(value):
            if (calibration := settings.get("calibration")) is not None:
                group.calibrations.setdefault(calibration, name)
        group.factor &= is_factor(value)
        if op_config.range is not None:
            group.ranges.setdefault(op_config.range, name)
        elif value in self._observed:
            group.seen[value] = self._observed[value]
        elif (moved := self._observed_as(value)) is not None:
            group.moved[value] = moved
        if (wanted := quantized_as(value)) is not None:
            group.wanted[wanted] = None
        if op_config.parameters is not None:
            group.demanded.setdefault(uniform_type(op_config, *op_config.parameters), name)
        if (type := self._imposed(value)) is not None:
            group.fixed.setdefault(type, name)
        elif self._own_scale(value, op_config.format) is not None:
            group.bounded[value] = name
        elif isinstance(value.owner, ConstantOp) and value not in self._observed:  # a mask's range is said (masks.py)
            array = value.owner.value.array
            group.held.setdefault((float(array.min()), float(array.max())) if array.size else (0.0, 0.0), name)
            group.free = True
        elif value.owner not in self._tied:
            group.free = True

    def _imposed(self, value: SSAValue) -> UniformType | None:
        """The per-tensor type that an existing cast or the policy's parameters give to a value; else None."""
        op_config = self._op_config(value)
        casts = [u.operation for u in value.uses if isinstance(u.operation, QuantizeCastOp)]
        if isinstance(value.owner, DequantizeCastOp):
            type = element_of(value.owner.input)
        elif casts:
            type = element_of(casts[0].result)
        else:
            return None if op_config.parameters is None else uniform_type(op_config, *op_config.parameters)
        assert isinstance(type, UniformType)
        return type if not type.is_per_axis else None

    def _own_scale(self, value: SSAValue, format: Format) -> FixedScale | None:
        """The rule of the function that makes a value, if the function's own range decides about a format."""
        rule, seen = fixed_scale_of(value), self._observed.get(value)
        if rule is None or self._op_config(value).range is not None:
            return None
        return rule if seen is None or rule.suits(*seen.bounds, *format) else None

    def _is_observed(self, value: SSAValue) -> bool:
        """Whether a value's range is known from an observer on it, or on the same values in another shape."""
        return self._observed_as(value) is not None

    def _observed_as(self, value: SSAValue) -> Observation | None:
        """The range of a value: the policy's, its observer's, or an observer's on the same values in another shape."""

        def known(value: SSAValue) -> Observation | None:
            said = self._op_config(value).range
            return self._observed.get(value) if said is None else Observation(said)

        def shaped(value: SSAValue) -> list[SSAValue]:
            return [u.operation.y for u in value.uses if isinstance(u.operation, MOVERS)]

        return next((seen for v in reached([value], shaped) if (seen := known(v)) is not None), None)

    # Choosing the types.

    def _choose(self, group: Group) -> UniformType:
        refuse_contradictions(group, self._fixed(group, group.op_config))
        if group.demanded:
            return next(iter(group.demanded))
        if group.wanted:
            return next(iter(group.wanted))
        return self._type_of_values(group, group.op_config)

    def _fixed(self, group: Group, op_config: OpConfig) -> dict[UniformType, str]:
        """The types that casts, the policy or functions give to values of a group, with their names for errors."""
        fixed = dict(group.fixed)
        for value, name in group.bounded.items():
            if (rule := self._own_scale(value, op_config.format)) is not None:
                fixed.setdefault(uniform_type(op_config, *rule.result_parameters(*op_config.format)), name)
        return fixed

    def _type_of_values(self, group: Group, op_config: OpConfig) -> UniformType:
        """The type of a group in a config's format: a given type that suits all values, or a type for their range."""
        fixed = self._fixed(group, op_config)
        if len(fixed) == 1 and not group.free:
            (only,) = fixed
            lo, hi = real_range(only)
            if only.storage == storage_type(op_config.integers) and all(lo <= p <= hi for p in group.padding):
                return only
        type = self._type_of_range(group, op_config, fixed)
        return with_whole_numbers(type) if group.whole and not group.ranges and not op_config.glow_exact else type

    def _type_of_range(self, group: Group, op_config: OpConfig, fixed: Iterable[UniformType]) -> UniformType:
        """The type for the range of a group: calibration narrows observed ranges, and keeps given ranges whole."""
        schema, precision = op_config.format
        exact, where = op_config.glow_exact, group.name
        if group.factor and precision == "int16" and schema == "asymmetric" and not exact:
            schema = "symmetric"  # so that a product with any operand of 16 bits has 32
        if group.ranges:
            (lo, hi), *_ = group.ranges
            return uniform_type(
                op_config, *quantization_of_range(lo, hi, schema, precision, glow_exact=exact, where=where)
            )
        if not exact and is_zero(group):
            # In 16 bits, Glow's scale 0.1 reaches to 3277, and LiteRT's tables cover all of that with 513 values.
            far = 1.0 if precision == "int16" else 0.0
            scale, zero_point = quantization_of_range(-far, far, schema, precision, where=where)
            return uniform_type(op_config, min(scale, self._coarsest_scale(group, schema)), zero_point)
        kept = [*group.held, *map(real_range, fixed), *((p, p) for p in group.padding)]
        observed = group.seen if group.seen or kept else group.moved
        seen = [expected(v, o, self._op_config(v).in_format(op_config.format)) for v, o in observed.items()]
        low, high = STORAGE_RANGES[precision]
        rules = [rule for v in group.seen if (rule := fixed_scale_of(v)) is not None]
        kept += [(0.0, rule.least_scale * (high - low)) for rule in rules if rule.least_scale]
        kept += [each.bounds for each in seen if each.derived]
        seen = [each for each in seen if not each.derived]
        if seen and op_config.calibration == "moving_average":
            kept += [average_of(each, where) for each in seen]
        elif seen:
            (lo, hi), histogram = _together(seen)
            given = schema, precision, histogram, op_config.calibration
            method = calibration_called(op_config.calibration, where=where)
            group.method = method if isinstance(method, Plugin) else None
            if not kept:
                return uniform_type(op_config, *choose_quantization(lo, hi, *given, glow_exact=exact, where=where))
            kept.append(calibrated_range(lo, hi, *given, glow_exact=exact, where=where))
        lo, hi = min(r[0] for r in kept), max(r[1] for r in kept)
        return uniform_type(op_config, *quantization_of_range(lo, hi, schema, precision, glow_exact=exact, where=where))

    def _coarsest_scale(self, group: Group, schema: Schema) -> float:
        """The largest scale of a group of zeros under which contractions that read it add biases in fine steps."""
        coarsest = math.inf
        for op, largest_weight in self._biased.items():
            result = self._groups.get(self.root(op.y))
            if self._groups.get(self.root(op.x)) is not group or result is None or is_zero(result):
                continue
            largest = largest_weight / weight_range(self._op_config(op.y).stored_weights)[1]
            if (type := self.type_of(op.y)) is not None and largest > 0:
                coarsest = min(coarsest, max(type.scale * FINE / largest, SMALLEST_SCALE))
        if schema == "symmetric_with_power2_scale" and math.isfinite(coarsest):
            return power_of_two_above(coarsest / 2)
        return float(np.float32(coarsest))


def _keeps_outliers(group: Group, op_config: OpConfig) -> bool:
    """Whether a group's type in another format keeps the whole range, under `auto`.

    It does if tensors of a residual stream of 16 bits are read in 8. A range of least square error would cut the few
    large values off, and these decide: attention goes to tokens that have them.
    """
    if op_config.calibration != "auto" or op_config.searches_exponents:
        return False
    return any(isinstance(v.owner, Operation) and RESIDUAL.on(v.owner) for v in group.seen)


def _together(seen: Sequence[Observation]) -> tuple[Bounds, Histogram | None]:
    """The union of the ranges of several observations, and their joint histogram if all have a histogram."""
    bounds = min(s.bounds[0] for s in seen), max(s.bounds[1] for s in seen)
    histograms = [s.histogram for s in seen if s.histogram is not None]
    return bounds, Histogram.together(histograms) if len(histograms) == len(seen) else None


def stated_for(value: SSAValue) -> Iterator[PlainSettings]:
    """Yields the settings that the policy states on a value's observers and on the operation that makes it."""
    for carrier in (value.owner, *(u.operation for u in value.uses if isinstance(u.operation, ObserveOp))):
        if isinstance(carrier, Operation) and (policy := POLICY.of(carrier)) is not None:
            yield settings_of(policy)


def _is_finite(op: Operation | Block) -> bool:
    """Whether an operation is a constant of finite numbers."""
    return isinstance(op, ConstantOp) and bool(np.isfinite(op.value.array).all())


def _chosen_constants(op: Operation) -> set[SSAValue]:
    """The constants that an operation chooses elements of; operations elsewhere may read them too, in another type."""
    return {v for v in (op.lhs, op.rhs) if isinstance(v.owner, ConstantOp)} if isinstance(op, WhereOp) else set()


def _maker(value: SSAValue) -> str:
    return value.owner.name if isinstance(value.owner, Operation) else "the network's inputs"


def quantized_as(value: SSAValue) -> UniformType | None:
    """The per-tensor type that quantize casts in the graph give to a value; None without casts, or if they differ."""
    types = {element_of(u.operation.result) for u in value.uses if isinstance(u.operation, QuantizeCastOp)}
    only = next(iter(types)) if len(types) == 1 else None
    return only if isinstance(only, UniformType) and not only.is_per_axis else None
