"""A group of tensors that share one quantized type: what decides about the type, and which contradictions it has."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import OpResult, SSAValue

from qmlir.dialects.calib import Bounds, Observation
from qmlir.dialects.nn import ConstantOp, MulOp, PReluOp
from qmlir.dialects.quant.rules import FixedScale
from qmlir.dialects.quant.types import UniformType
from qmlir.numerics.schemas import Precision, QuantizationError, Schema, is_symmetric_from
from qmlir.plugins import Plugin
from qmlir.settings.quant_config import OpConfig


@dataclass
class Group:
    """Tensors that share one quantized type, and all that decides about this type.

    op_config   the quantization config of its first value
    seen     value → what was observed of it
    moved    value → what was observed of the same elements in another shape; counts where nothing better is known
    held     ranges that the type must hold besides, such as those of constants, with names for errors
    fixed    types that casts or the policy give to some of its tensors, with names for errors
    bounded  results of functions with a range of their own, with names for errors
    wanted   types that quantize casts in the graph ask for
    demanded types whose parameters the policy gives, with the names of the tensors it gives them for
    ranges   ranges that the policy gives, with the names of the tensors it gives them for
    calibrations  calibrations that rules of the policy name, with the names of the tensors they name them for
    free     whether a value enters whose type is not given but ours to choose
    whole    whether it holds whole exponents of a power, which must stay whole (exponents.py)
    factor   whether it holds nothing but constants that only products read
    padding  constants that pads put between its values
    name     its name in errors
    method   the plugin that narrowed its range, or None
    """

    op_config: OpConfig
    seen: dict[SSAValue, Observation] = field(default_factory=dict[SSAValue, Observation])
    moved: dict[SSAValue, Observation] = field(default_factory=dict[SSAValue, Observation])
    held: dict[Bounds, str] = field(default_factory=dict[Bounds, str])
    fixed: dict[UniformType, str] = field(default_factory=dict[UniformType, str])
    bounded: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    wanted: dict[UniformType, None] = field(default_factory=dict[UniformType, None])  # a set in order
    demanded: dict[UniformType, str] = field(default_factory=dict[UniformType, str])
    ranges: dict[Bounds, str] = field(default_factory=dict[Bounds, str])
    calibrations: dict[str, str] = field(default_factory=dict[str, str])
    free: bool = False
    whole: bool = False
    factor: bool = True
    padding: list[float] = field(default_factory=list[float])
    name: str = ""
    method: Plugin | None = None

    def settle_calibration(self) -> None:
        """Calibrates the group as the first rule asks for that names a calibration of one of its tensors."""
        for calibration in [*self.calibrations][:1]:
            self.op_config = self.op_config.with_settings({"calibration": calibration})

    def why_uncalibrated(self, calibration: str) -> str | None:
        """Why a calibration does not choose the range of the group; None if it does."""
        given = [*self.demanded.values(), *self.ranges.values()]
        if given:
            return f"the policy gives a range or parameters to {given[0]}"
        if self.wanted:
            return "a cast of the model gives its type"
        if self.fixed or (self.bounded and not self.free):
            (name, *_) = (*self.fixed.values(), *self.bounded.values())
            return f"{name} has a scale of its own"
        if all(seen.histogram is None for seen in (self.seen or self.moved).values()):
            return "no histogram was observed of it"
        if calibration != self.op_config.calibration:
            return f"it shares its scale with {self.calibrations[self.op_config.calibration]}, which has another"
        return None

    def take_in(self, other: "Group") -> None:
        """Makes this group's type wide enough for the values of another group; this group's config stays."""
        if other is self:
            return
        given = {**dict.fromkeys(other.wanted, "a cast of the model"), **other.demanded}
        stated = {**{real_range(type): name for type, name in given.items()}, **other.ranges}
        if not stated:
            self.seen.update(other.seen)
            self.moved.update(other.moved)
            self.bounded.update(other.bounded)
            stated = {real_range(type): name for type, name in other.fixed.items()}
        elif self.ranges:
            stated = {}  # the policy says where this group saturates
        self.held.update({**stated, **other.held})
        self.padding += other.padding
        self.free = True


def is_zero(group: Group) -> bool:
    """Whether a group is known to hold nothing but 0, and nothing decides about its type."""
    if group.fixed or group.wanted or group.demanded or group.ranges or group.bounded:
        return False
    if any(fixed_scale_of(value) is not None for value in group.seen):
        return False
    known = [*group.held, *((p, p) for p in group.padding), *(s.bounds for s in (group.seen or group.moved).values())]
    return bool(known) and all(bounds == (0.0, 0.0) for bounds in known)


def refuse_contradictions(group: Group, fixed: Mapping[UniformType, str]) -> None:
    """Refuses several ranges or parameters of the policy for one group, and a range that is too narrow for the group.

    Raises:
        QuantizationError: There is such a contradiction; names the tensors and the operations that make them.
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
    besides = {**group.held, **{real_range(type): name for type, name in fixed.items()}}
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
    """Whether each of some ranges, extended to 0, contains the bounds."""
    return all(min(lo, 0.0) <= bounds[0] and bounds[1] <= max(hi, 0.0) for lo, hi in ranges)


def _shown(bounds: Bounds) -> str:
    return f"[{bounds[0]:g}, {bounds[1]:g}]"


def storage_type(precision: Precision) -> IntegerType:
    """The storage type of a precision: int8 → i8, uint8 → ui8."""
    width = int(precision.removeprefix("u").removeprefix("int"))
    return IntegerType(width, Signedness.UNSIGNED if precision.startswith("u") else Signedness.SIGNLESS)


def uniform_type(op_config: OpConfig, scale: float, zero_point: int) -> UniformType:
    """The type of a config's precision with a scale and a zero point."""
    return UniformType.per_tensor(storage_type(op_config.integers), scale, zero_point)


def fixed_scale_of(value: SSAValue) -> FixedScale | None:
    """The rule of the function that makes a value; None if the function has no range of its own."""
    return next(iter(value.op.get_traits_of_type(FixedScale)), None) if isinstance(value, OpResult) else None


def real_range(type: UniformType) -> Bounds:
    """The least and the greatest number that a type stores."""
    return (type.storage_min - type.zero_point) * type.scale, (type.storage_max - type.zero_point) * type.scale


def hull_of(bounds: Iterable[Bounds]) -> Bounds:
    """The narrowest range that contains all given ranges."""
    lows, highs = zip(*bounds, strict=True)
    return min(lows), max(highs)


def width_of(bounds: Bounds, schema: Schema) -> float:
    """The width of the range that a schema stores for given bounds; within one format, steps are proportional to it."""
    lo, hi = min(bounds[0], 0.0), max(bounds[1], 0.0)
    return 2 * max(-lo, hi) if is_symmetric_from(lo, schema) else hi - lo


def is_factor(value: SSAValue) -> bool:
    """Whether a value is a constant that only products read."""
    return isinstance(value.owner, ConstantOp) and all(isinstance(u.operation, MulOp | PReluOp) for u in value.uses)


def average_of(seen: Observation, where: str) -> Bounds:
    """The mean range of a sample; raises QuantizationError if it was not observed."""
    if seen.average is None:
        raise QuantizationError(
            "calibration moving_average needs the mean range of a sample",
            where=where,
            remedy="profile the network anew, or use minmax",
        )
    return seen.average
