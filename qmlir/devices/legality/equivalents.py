"""Equivalents: other operations that a device computes in place of one that it refuses, with the same bits.

    depthwise, grouped convolution   a convolution of fewer groups: weights are zero between channels that were apart
    maximum over a large window      maxima of maxima, along rows and then along columns
    mean over a whole image          a sum and a change of scale, if these give the same for every sum that can be
    sum over a large image           sums of its parts, added by the commands

The operation itself stays in the network, with its reasons; the host never computes an equivalent. The partition
(lowering/qint_to_npu) weighs the equivalent's cycles against the host's.
"""

import abc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from qmlir.devices.description.device import Device
from qmlir.devices.description.schema import Window
from qmlir.devices.legality.fitting import arranged_image, most_summed
from qmlir.devices.legality.least import least_commands
from qmlir.devices.legality.limits import partner_of, reasons
from qmlir.devices.legality.requirements import factors_of
from qmlir.devices.model.boundary_transfers import least_cycles
from qmlir.devices.model.costs import demand
from qmlir.devices.model.engines import Engines
from qmlir.devices.model.properties import met, products
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.movement import ReshapeOp
from qmlir.dialects.qint.pooling import mean
from qmlir.dialects.qint.requantize import int32, int32s, width_of
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.isa.blocks import Footprint
from qmlir.isa.commands import Convolve
from qmlir.isa.limits import MOST_TAPS
from qmlir.numerics import fixed_point
from qmlir.numerics.contracts import CONTRACTS, MULTIPLIER_BITS
from qmlir.numerics.elementary.lanes import Lanes


class Form(abc.ABC):
    """How an equivalent is made."""

    @abc.abstractmethod
    def build(self, op: Operation) -> list[Operation]:
        """The operations that compute what `op` does, in order; the last one gives its result. They are detached."""

    @abc.abstractmethod
    def words(self, op: Operation) -> str:
        """What the operation becomes, for the ledger: `a convolution of 4 groups of 16 channels, …`."""


@dataclass(frozen=True)
class Equivalent:
    """What a device computes in place of an operation.

    form     how it is made
    cycles   what the device takes for it at least, with what the operation's sums become
    macs     products that it computes, those with zeros among them
    words    what it is, in words
    """

    form: Form
    cycles: int
    macs: int
    words: str


def equivalent_of(op: Operation, device: Device) -> Equivalent | None:
    """The equivalent of an operation that takes the device the fewest cycles; None if the device computes none."""
    found: list[Equivalent] = []
    for form in _forms(op, device):
        new = form.build(op)
        # Whoever ends the sums of the operation ends those of the equivalent.
        ending = partner_of(op)
        whole = [*new, ending.clone({op.results[0]: new[-1].results[0]})] if ending is not None else new
        if not any(reasons(each, device) for each in _computing(whole)):
            cycles = sum(
                layer_cycles(layer, layer[0].operands[:1], layer[-1].results, device)
                for layer in _layers(_computing(whole))
            )
            macs = sum(map(products, new))
            found.append(Equivalent(form, cycles, macs, form.words(op)))
        for each in reversed(whole):
            each.erase()
    return min(found, key=lambda each: each.cycles, default=None)


def pieces_of(op: qint.GlobalSumPoolOp, device: Device) -> Equivalent | None:
    """A sum over an image that is larger than one command sums, if the device computes it by several commands."""
    if (ending := partner_of(op)) is None or reasons(op, device):
        return None
    _, rows, columns, _ = shape_of(op.x)
    most = most_summed(device)
    high, wide = arranged_image(rows, columns, most)
    if high <= most[0] and wide <= most[1]:
        return None
    form = Pieces(-(-high // most[0]) * -(-wide // most[1]))
    return Equivalent(form, layer_cycles([op, ending], [op.x], ending.results, device), 0, form.words(op))


def _computing(operations: Iterable[Operation]) -> list[Operation]:
    return [op for op in operations if not isinstance(op, nn.ConstantOp)]


def _layers(operations: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Yields what runs together: each operation, with the change of scale that ends its sums."""
    for op in operations:
        partner = partner_of(op)
        if not (partner is not None and isinstance(op, qint.RequantizeOp)):
            yield [op] if partner is None else [op, partner]


def layer_cycles(
    layer: Sequence[Operation], inputs: Iterable[SSAValue], outputs: Iterable[SSAValue], device: Device
) -> int:
    """The cycles of a layer at least: of its busiest part, with the lanes of the array that stay empty."""
    if isinstance(layer[0], ReshapeOp | StorageCastOp):
        return 0  # another name for the same bytes
    least = least_cycles(layer, inputs, outputs, device)
    if not isinstance(first := layer[0], qint.Conv2DOp):
        return least
    groups, engines = first.group_count(), Engines.of(device)
    images, rows, columns, channels = shape_of(first.results[0])
    command = next(c for c in least_commands(first, device) if isinstance(c, Convolve))
    whole = replace(
        command, queue=engines.index(engines.array), out_rows=rows, out_columns=columns,
        channels=shape_of(first.w)[-1], out_channels=channels // groups,
    )  # fmt: skip
    return max(least, images * groups * demand(whole, device, Footprint()).engine)


def _forms(op: Operation, device: Device) -> Iterator[Form]:
    """Yields what an operation may become on a device."""
    match op:
        case qint.DepthwiseConv2DOp() | qint.Conv2DOp() if isinstance(op.w.owner, nn.ConstantOp):
            yield from (Grouped(groups) for groups in islice(_fewer_groups(op, device), MOST_TRIED))
        case qint.MaxPool2DOp() if device.ops.maxpool is not None:
            stages = _stages(op, device.ops.maxpool)
            if stages is not None and len(stages) > 1:
                yield Maxima(tuple(stages))
        case qint.AveragePool2DOp() if _is_global(op):
            yield from _sums(op, device)
        case _:
            return


# ---------------------------------------------------------------------------------------------------------------
# Convolutions of fewer groups


def _groups(op: qint.DepthwiseConv2DOp | qint.Conv2DOp) -> int:
    """The groups into which the channels fall; each channel of a depthwise convolution is one."""
    return op.group_count() if isinstance(op, qint.Conv2DOp) else shape_of(op.x)[-1]


MOST_TRIED = 4
"""How many numbers of groups are tried, the most groups first: fewer groups multiply more zeros."""

MOST_JOINED = 1 << 8
"""The most groups that are joined to one; each of them is one time the weights."""


def _fewer_groups(op: qint.DepthwiseConv2DOp | qint.Conv2DOp, device: Device) -> Iterator[int]:
    """Yields the numbers of groups to which those of a convolution can be joined, the largest first."""
    groups, channels = _groups(op), shape_of(op.x)[-1]
    least = 2 if isinstance(op, qint.Conv2DOp) else 1
    free = device.ops.conv2d is not None and device.ops.conv2d.groups
    for joined in range(least, min(groups, MOST_JOINED) + 1):
        whole = free or channels // groups * joined % device.layout.channels == 0
        if groups % joined == 0 and (joined == groups or whole):
            yield groups // joined


def joined_weights(weights: Array, groups: int, new: int) -> Array:
    """The weights of a convolution whose groups are joined to `new` groups, zeros between those that were apart.

    Args:
        weights: [O, KH, KW, C / groups].
        groups: The number of groups.
        new: A divisor of it.

    Returns:
        [O, KH, KW, C / new].
    """
    outputs, rows, columns, channels = weights.shape
    joined, each = groups // new, outputs // groups
    found = np.zeros((outputs, rows, columns, channels * joined), weights.dtype)
    for group in range(groups):
        mine, at = slice(group * each, (group + 1) * each), group % joined * channels
        found[mine, ..., at : at + channels] = weights[mine]
    return found


@dataclass(frozen=True)
class Grouped(Form):
    """A convolution of `groups` groups."""

    groups: int

    def build(self, op: Operation) -> list[Operation]:
        assert isinstance(op, qint.DepthwiseConv2DOp | qint.Conv2DOp)
        assert isinstance(op.w.owner, nn.ConstantOp)
        weights = op.w.owner.value.array
        if isinstance(op, qint.DepthwiseConv2DOp):
            weights = weights.transpose(3, 1, 2, 0)  # [O, KH, KW, 1]: each channel is a group
        joined = nn.ConstantOp(WeightsAttr(joined_weights(weights, _groups(op), self.groups)))
        properties = dict(op.properties) | {"groups": IntegerAttr(self.groups, i64)}
        operands = [op.x, joined.results[0], list[SSAValue]() if op.b is None else op.b]
        return [joined, qint.Conv2DOp.make(operands, properties, element=element_of(op.acc))]

    def words(self, op: Operation) -> str:
        assert isinstance(op, qint.DepthwiseConv2DOp | qint.Conv2DOp)
        channels, joined = shape_of(op.x)[-1] // self.groups, _groups(op) // self.groups
        groups = "1 group" if self.groups == 1 else f"{self.groups} groups"
        zeros = "" if joined == 1 else f", {joined} times its MACs with zeros between channels that were apart"
        return f"a convolution of {groups} of {channels} channels{zeros}"


# ---------------------------------------------------------------------------------------------------------------
# Maxima of maxima


class Stage(NamedTuple):
    """One of the pools along an axis: its extents there; along the other axis it has a window of one element."""

    axis: int
    window: int
    stride: int
    dilation: int
    before: int
    after: int


def _stages(op: qint.MaxPool2DOp, limits: Window) -> list[Stage] | None:
    """The pools whose maxima are those of a pool, rows before columns; None if no window of the device reduces."""
    top, bottom, left, right = op.padding_values()
    area = min(limits.kernel_area_max or MOST_TAPS, MOST_TAPS)
    found: list[Stage] = []
    for axis, (before, after) in enumerate(((top, bottom), (left, right))):
        most = min((limits.kernel_max or (area, area))[axis], area)
        whole = Stage(
            axis, op.window_values()[axis], op.stride_values()[axis], op.dilation_values()[axis], before, after
        )
        stages = _along(whole, shape_of(op.x)[1 + axis], most, limits.stride_max or most)
        if stages is None:
            return None
        found += [stage for stage in stages if stage[1:] != (1, 1, 1, 0, 0)]
    return found


def _along(whole: Stage, size: int, most: int, stride_max: int) -> list[Stage] | None:
    """The stages along one axis of `size` elements, with windows of at most `most`; None if there are none."""
    axis, window, stride, dilation, before, after = whole
    if window <= most:
        return [whole]
    if most < 2:
        return None
    if (window, before, after) == (size, 0, 0) and dilation == 1:  # the whole axis: windows side by side
        for count in range(-(-size // most), size):
            # Windows of `most` at a distance of at most their extent cover the axis.
            step = min(size // count, stride_max)
            if (first := size - (count - 1) * step) <= most:
                break
        else:
            return None
        rest = _along(Stage(axis, count, stride, 1, 0, 0), count, most, stride_max)
        return None if rest is None else [Stage(axis, first, step, 1, 0, 0), *rest]
    rest = _along(Stage(axis, window - most + 1, stride, dilation, 0, 0), -1, most, stride_max)
    return None if rest is None else [Stage(axis, most, 1, dilation, before, after), *rest]


@dataclass(frozen=True)
class Maxima(Form):
    """Maximum pools, one after the other."""

    stages: tuple[Stage, ...]

    def build(self, op: Operation) -> list[Operation]:
        pools: list[Operation] = []
        value = op.operands[0]
        for stage in self.stages:
            sides = (stage.before, stage.after)
            pools.append(
                qint.MaxPool2DOp.make(
                    [value],
                    {
                        "window": ints(_at(stage.axis, stage.window)),
                        "strides": ints(_at(stage.axis, stage.stride)),
                        "dilations": ints(_at(stage.axis, stage.dilation)),
                        "padding": ints((0, 0, *sides) if stage.axis else (*sides, 0, 0)),
                    },
                )
            )
            value = pools[-1].results[0]
        return pools

    def words(self, op: Operation) -> str:
        windows = ", ".join("x".join(map(str, _at(stage.axis, stage.window))) for stage in self.stages)
        return f"{len(self.stages)} maximum pools in turn, with windows of {windows}"


def _at(axis: int, extent: int) -> tuple[int, int]:
    """An extent along an axis, and 1 along the other."""
    return (1, extent) if axis else (extent, 1)


# ---------------------------------------------------------------------------------------------------------------
# Means over whole images


@dataclass(frozen=True)
class Pieces(Form):
    """The sum itself, of which so many commands compute a part each."""

    count: int

    def build(self, op: Operation) -> list[Operation]:
        return [op.clone()]

    def words(self, op: Operation) -> str:
        return f"a sum of {self.count} parts"


MOST_SUMS = 1 << 21
"""The most sums for each of which a mean is compared with a sum and a change of scale."""


def _is_global(op: qint.AveragePool2DOp) -> bool:
    """Whether a pool has a single window, which holds the image and no padding that counts."""
    _, rows, columns, _ = shape_of(op.x)
    if shape_of(op.y)[1:3] != (1, 1) or not rows * columns:
        return False
    inside = op.taps_inside(shape_of(op.x), op.window_values())
    return [int(counts[0]) for counts in inside] == [rows, columns] and int(op.counts()[0, 0]) == rows * columns


@dataclass(frozen=True)
class Summed(Form):
    """A sum of the elements less a zero point, times multiplier · 2^(shift − 31), and the zero point added again."""

    zero_point: int
    multiplier: int
    shift: int
    contract: str

    def build(self, op: Operation) -> list[Operation]:
        assert isinstance(op, qint.AveragePool2DOp)
        half, zero_point = 1 << width_of(op.x) - 1, int32(self.zero_point)
        total = qint.GlobalSumPoolOp.make([op.x], {"zero_point": zero_point}, element=i32)
        properties = {
            "multiplier": int32s([self.multiplier]), "shift": int32s([self.shift]),
            "contract": StringAttr(self.contract), "zero_point": zero_point,
            "min": int32(-half), "max": int32(half - 1),
        }  # fmt: skip
        return [total, qint.RequantizeOp.make([total.acc], properties, element=element_of(op.x))]

    def words(self, op: Operation) -> str:
        return f"a sum of {met(op)} elements and a change of scale, which gives the same mean of every sum"


def _sums(op: qint.AveragePool2DOp, device: Device) -> Iterator[Summed]:
    """Yields the first change of scale of the device that computes a pool's mean of every sum, if there is one."""
    count, offset, bits = met(op), op.offset.value.data, width_of(op.x)
    if bits > 16 or count << bits > MOST_SUMS:
        return
    for zero_point in dict.fromkeys((0, -offset)):
        for multiplier, shift in _factors(count, device):
            if _is_mean(count, offset, bits, zero_point, multiplier, shift, device.quant.contract):
                yield Summed(zero_point, multiplier, shift, device.quant.contract)
                return


def _factors(count: int, device: Device) -> Iterator[tuple[int, int]]:
    """Yields the device's factors nearest to 1 / count: the one above, which rounds halves up, and the one below."""
    contract, factors = CONTRACTS[device.quant.contract], factors_of(device)
    bits = MULTIPLIER_BITS if factors is None else factors.bits
    step = max(1 << MULTIPLIER_BITS - bits, contract.step)
    shift = 1 - count.bit_length()  # 1 / count = m · 2^(shift − 31) with m in [2^30, 2^31]
    exact, rest = divmod(1 << MULTIPLIER_BITS - shift, count * step)
    for steps in (exact + 1, exact) if rest else (exact,):
        multiplier = steps * step
        yield (multiplier >> 1, shift + 1) if multiplier >= 1 << MULTIPLIER_BITS else (multiplier, shift)


@cache
def _is_mean(count: int, offset: int, bits: int, zero_point: int, multiplier: int, shift: int, contract: str) -> bool:
    """Whether a change of scale gives the mean of `count` elements for every sum of them that can be."""
    half = 1 << bits - 1
    sums = np.arange(-half * count, (half - 1) * count + 1, dtype=np.int64)
    means = mean(Lanes(sums), Lanes(np.full(1, count, np.int64)), offset).array
    less = sums - zero_point * count
    if np.abs(less).max() > CONTRACTS[contract].limit:
        return False
    scaled = fixed_point.requantize(less, multiplier, shift, contract) + zero_point
    return bool(np.array_equal(np.clip(scaled, -half, half - 1), means))
