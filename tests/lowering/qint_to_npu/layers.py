"""Random layers for a device: within all limits of its file, or with one flaw that the file forbids.

What is legal is so by construction, from the numbers of the file, not by asking the compiler.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, IntegerType, ModuleOp, TensorType
from xdsl.ir import Block, Region, SSAValue

from qmlir.devices import Device
from qmlir.dialects import nn, qint
from qmlir.dialects.qint.requantize import int32, width_of
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import TensorOp, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import fixed_point
from qmlir.numerics.contracts import CONTRACTS
from qmlir.numerics.root_quotients import RootQuotient
from tests.ops.sample import axis, groups, narrow, pads, scaled, shares, summed, window, zero, zeros
from tests.ops.samples_normalization import over_root

Array = npt.NDArray[Any]
Properties = Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class Layer:
    """A network of few operations.

    module   on the qint level
    flaw     the key of the device file that it breaks, or None
    inputs   an array for each
    """

    module: ModuleOp
    flaw: str | None
    inputs: Sequence[Array]

    def __repr__(self) -> str:
        return f"{self.flaw or 'legal'}: {self.module}"


@dataclass
class Draft:
    """A network in the making."""

    draw: st.DrawFn
    device: Device
    bits: int
    flaw: str | None = None
    block: Block = field(default_factory=Block)

    def has(self, flaw: str) -> bool:
        """Whether the layer is to break this key."""
        return self.flaw == flaw

    def integer(self, low: int, high: int) -> int:
        """A number of [low, high]."""
        return self.draw(st.integers(low, high))

    def chance(self) -> bool:
        """One time in two."""
        return self.draw(st.booleans())

    def input(self, *shape: int, bits: int | None = None) -> SSAValue:
        """One more input of the network."""
        return self.block.insert_arg(TensorType(IntegerType(bits or self.bits), shape), len(self.block.args))

    def constant(self, array: Array) -> SSAValue:
        """Weights and the like."""
        op = nn.ConstantOp(WeightsAttr(array))
        self.block.add_op(op)
        return op.results[0]

    def add(
        self, kind: type[TensorOp], operands: Sequence[Any], properties: Properties, bits: int | None = None
    ) -> SSAValue:
        """One more operation."""
        op = kind.make(operands, properties, element=None if bits is None else IntegerType(bits))
        self.block.add_op(op)
        return op.results[0]

    def module(self, result: SSAValue) -> ModuleOp:
        """The network."""
        self.block.add_op(func.ReturnOp(result))
        types = ([a.type for a in self.block.args], [result.type])
        return ModuleOp([func.FuncOp("main", types, Region(self.block))])

    # -- numbers --------------------------------------------------------------------------------------------------

    def random(self, bits: int, *shape: int) -> Array:
        """All numbers of so many bits."""
        rng = np.random.default_rng(self.integer(0, 1 << 30))
        return rng.integers(-(1 << bits - 1), 1 << bits - 1, shape).astype(f"i{bits // 8}")

    def zero_point(self) -> int:
        """Of data."""
        if self.has("quant.zero_point.activations"):
            return 3
        half = 1 << self.bits - 1
        return self.integer(-half, half - 1) if self.device.quant.zero_point.activations else 0

    def factor(self, most: int = 0) -> tuple[int, int]:
        """(multiplier, shift) of a factor up to 2^most that the device takes."""
        quant = self.device.quant
        if quant.scale == "pow2":
            exponent = -self.integer(max(quant.shift.min, -most), min(quant.shift.max, 16))
            multiplier, shift = fixed_point.quantize_multiplier(2.0**exponent)
            return (multiplier | 1 << 20, shift) if self.has("quant.scale") else (multiplier, shift)
        # A product with a multiplier of n bits and a sign, for a factor in [2^(e−1), 2^e), is shifted by n − e.
        least = -16 if quant.scale == "float32" else quant.multiplier_bits - 1 - quant.shift.max
        real = math.ldexp(self.draw(st.floats(0.5, 1)), self.integer(max(least, most - 14), most))
        if quant.scale == "float32":
            return fixed_point.float_multiplier(real)
        return fixed_point.quantize_multiplier(real, CONTRACTS[quant.contract].step)

    def contract(self, sums: int) -> str:
        """The name of the rounding of sums of so many bits."""
        own = self.device.quant.contract
        if self.has("quant.round"):
            return "double" if own == "single" else "single"
        return CONTRACTS[own].wide or own if sums == 64 else own

    def bounds(self, zero_point: int) -> tuple[int, int]:
        """Those of a contraction's result that the device takes."""
        half, act = 1 << self.bits - 1, self.device.ops.act
        if self.has("ops.act"):
            return -half // 2, half // 2
        kinds = {"none": (-half, half - 1), "relu": (zero_point, half - 1)}
        return self.draw(st.sampled_from([bounds for kind, bounds in kinds.items() if kind in ("none", *act)]))

    def requantize(self, x: SSAValue, most: int = 0, *, contraction: bool = False) -> SSAValue:
        """A change of scale, to the network's data; of a contraction's sums if they are said to be."""
        channels = shape_of(x)[-1]
        per_channel = self.device.quant.granularity == "channel" and width_of(x) > 16 and self.chance()
        if self.has("quant.granularity"):
            factors = [(1 << 30, -3 - n % 2) for n in range(channels)]
        else:
            factors = [self.factor(most) for _ in range(channels if per_channel else 1)]
            if self.device.quant.shift.per == "layer":
                factors = [(multiplier, factors[0][1]) for multiplier, _ in factors]
        half = 1 << self.bits - 1
        if contraction and "clamp" not in self.device.ops.act:
            point = self.zero_point()
            ending = narrow(self.bits, point, *self.bounds(point))
        else:
            low = self.draw(st.sampled_from([-half, 0, -half // 2]))
            ending = narrow(self.bits, self.zero_point(), low, self.draw(st.sampled_from([half - 1, half // 2])))
        points = {"input_zero_point": zero(self.zero_point())["zero_point"]} if width_of(x) <= 16 else {}
        factored = scaled([m for m, _ in factors], [s for _, s in factors], self.contract(width_of(x)))
        return self.add(qint.RequantizeOp, [x], factored | ending | points, self.bits)

    def follow(self, x: SSAValue) -> SSAValue:
        """What may come after: a sum with another input, another scale, a table."""
        ops = self.device.ops
        if self.flaw is None and ops.add is not None and self.chance():
            x = self.sum(x, self.input(*shape_of(x)))
        if self.flaw is None and ops.lut is not None and self.bits == 8 and self.chance():
            x = self.lookup(x)
        return x

    def sum(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """A sum of two tensors."""
        left, right = self.integer(1 << 28, 1 << 30), self.integer(1 << 28, 1 << 30)
        if self.device.ops.add is not None and self.device.ops.add.operand_scale == "same":
            right = left
        shift = 30
        if self.device.ops.add is not None and (bits := self.device.ops.add.multiplier_bits) is not None:
            left, right, shift = self.integer(1, (1 << bits - 1) - 1) << 14, (1 << bits - 2) << 14, 12 + bits
            if self.device.ops.add.ratio == "shift-add":
                left, right = 77 << 14, (77 + (1 << self.integer(0, bits - 4))) << 14
        low = self.draw(st.sampled_from([-(1 << self.bits - 1), 0]))
        if self.device.ops.add is not None and self.device.ops.add.operand_scale == "rounded":
            left, right, shift = 2, 2, 1
        properties = summed([left, right], shift) | zeros(self.zero_point(), self.zero_point())
        return self.add(qint.AddOp, [lhs, rhs], properties | narrow(self.bits, self.zero_point(), low), self.bits)

    def lookup(self, x: SSAValue) -> SSAValue:
        """A function of one element."""
        return self.add(qint.LookupOp, [x], {"table": WeightsAttr(self.random(8, 256))}, 8)

    # -- windows --------------------------------------------------------------------------------------------------

    def windowed(self, kind: str, limit: Any) -> tuple[tuple[int, int], Properties, tuple[int, int]]:
        """A window, its properties, and rows and columns of data that it fits."""
        key = f"ops.{kind}."
        most = getattr(limit, "kernel_max", None) or (5, 5)
        kernel = [self.integer(1, min(m, 5)) for m in most]
        if self.has(key + "kernel_max"):
            kernel[self.integer(0, 1)] = max(most) + 1
        strides = [self._step(key + "stride_max", getattr(limit, "stride_max", None)) for _ in kernel]
        dilations = [self._step(key + "dilation_max", getattr(limit, "dilation_max", None)) for _ in kernel]
        if self.has(key + "dilation_max"):
            kernel = [max(k, 2) for k in kernel]
        padding, extents = [], []
        for k, stride, dilation in zip(kernel, strides, dilations, strict=True):
            reach = (k - 1) * dilation + 1
            allowed = min(reach - 1, getattr(limit, "padding_max", None) or 4)
            before, after = self.integer(0, allowed), self.integer(0, allowed)
            windows = self.integer(2, 6)
            # Not more than a stride of rows is left over.
            over = self.integer(0, stride - 1)
            extents.append(max(1, (windows - 1) * stride + reach + over - before - after))
            padding += [before, after]
        properties = window(strides, padding, dilations)
        return (kernel[0], kernel[1]), properties, (extents[0], extents[1])

    def _step(self, key: str, limit: int | None) -> int:
        return (limit or 0) + 1 if self.has(key) else self.integer(1, min(limit or 3, 3))


# ---------------------------------------------------------------------------------------------------------------
# Layers by the key of [ops] that allows them


def _weights(draft: Draft, *shape: int) -> SSAValue:
    known = [mode.w for mode in draft.device.array.modes if mode.a == f"i{draft.bits}"] or ["i8"]
    if known == ["i8"] and draft.device.quant.zero_point.weights and draft.chance():
        # Differences from a zero point: of 9 bits, and no mode multiplies any of 16.
        return draft.constant(draft.random(8, *shape).astype("i2") - np.int16(draft.integer(-128, 127)))
    weights = draft.random(int(draft.draw(st.sampled_from(known))[1:]), *shape)
    if any(queue.unpacks for queue in draft.device.queue):  # weights of any width, so that some of them are packed
        weights >>= draft.integer(0, 6)
    return draft.constant(weights)


def _sums(
    draft: Draft, kind: type[TensorOp], x: SSAValue, w: SSAValue, outputs: int, properties: Properties
) -> SSAValue:
    """A contraction with or without a bias, and what follows it."""
    sums = 32 if draft.bits == 8 else 64
    bias = []
    if draft.chance():
        bias = [draft.constant(draft.random(16, outputs).astype(f"i{sums // 8}"))]
    acc = draft.add(kind, [x, w, bias], {**properties, **zero(draft.zero_point())}, sums)
    return draft.follow(draft.requantize(acc, most=-3, contraction=True))


def conv2d(draft: Draft) -> SSAValue:
    (rows, columns), properties, (height, width) = draft.windowed("conv2d", draft.device.ops.conv2d)
    channels, outputs = draft.integer(1, 40), draft.integer(1, 40)
    split = 1
    if draft.has("ops.conv2d.groups"):
        channels, outputs, split = 2 * channels, 2 * outputs, 2
        properties = {**properties, **groups(2)}
    if max(rows, columns) > 5:
        channels = split
    if draft.has("quant.granularity"):
        outputs += 1
    x = draft.input(draft.integer(1, 2), height, width, channels)
    w = _weights(draft, outputs, rows, columns, channels // split)
    return _sums(draft, qint.Conv2DOp, x, w, outputs, properties)


def depthwise(draft: Draft) -> SSAValue:
    (rows, columns), properties, (height, width) = draft.windowed("depthwise", draft.device.ops.depthwise)
    channels = draft.integer(2, 40)
    outputs = 2 * channels if draft.has("ops.depthwise") else channels
    x = draft.input(draft.integer(1, 2), height, width, channels)
    return _sums(draft, qint.DepthwiseConv2DOp, x, _weights(draft, 1, rows, columns, outputs), outputs, properties)


def fc(draft: Draft) -> SSAValue:
    terms, outputs = draft.integer(1, 300), draft.integer(2, 80)
    if draft.has("array.modes.acc"):
        bits = next(int(mode.acc[1:]) for mode in draft.device.array.modes if (mode.a, mode.w) == ("i8", "i8"))
        # Products of 8 bits are at most 2^14: so many of them are one bit too wide.
        x = draft.input(1, 1 << bits - 1 - 14)
        w = draft.constant(np.full((1, 1 << bits - 1 - 14), -128, "i1"))
        return _sums(draft, qint.FullyConnectedOp, x, w, 1, {})
    x = draft.input(draft.integer(1, 4), terms)
    return _sums(draft, qint.FullyConnectedOp, x, _weights(draft, outputs, terms), outputs, {})


def matmul(draft: Draft) -> SSAValue:
    """Of matrices in batches, one of which may repeat or be constant; of heads, split before and merged behind it."""
    known = [int(mode.w[1:]) for mode in draft.device.array.modes if mode.a == f"i{draft.bits}"]
    bits = draft.draw(st.sampled_from(known or [8]))
    samples, heads = draft.integer(1, 2), draft.integer(1, 3)
    rows, terms, columns = draft.integer(1, 40), draft.integer(1, 90), draft.integer(2, 70)
    lhs = _heads(draft, samples, 1 if draft.chance() else heads, rows, terms, draft.bits, [1])
    if draft.chance():
        rhs = _heads(draft, samples, heads, terms, columns, bits, [1, 2])
    else:
        rhs = draft.constant(draft.random(bits, heads, terms, columns))
    half, point = 1 << bits - 1, 3 if draft.has("quant.zero_point.weights") else 0
    if draft.device.quant.zero_point.weights:
        point = draft.integer(-half, half - 1)
    points = {"lhs_zero_point": zero(draft.zero_point())["zero_point"], "rhs_zero_point": zero(point)["zero_point"]}
    acc = draft.add(qint.MatMulOp, [lhs, rhs], points, 32 if draft.bits == bits == 8 else 64)
    result = draft.follow(draft.requantize(acc, most=-3))
    return draft.add(nn.TransposeOp, [result], {"permutation": ints([0, 2, 1, 3])}) if draft.chance() else result


def _heads(
    draft: Draft, samples: int, heads: int, rows: int, columns: int, bits: int, dense: Sequence[int]
) -> SSAValue:
    """Matrices [samples, heads, rows, columns] of an input, as it is or as another one whose axes are exchanged.

    Args:
        draft: The network.
        samples: As in the result.
        heads: As in the result.
        rows: As in the result.
        columns: As in the result.
        bits: Of an element.
        dense: Which of the last axes of the result may be the last of the input: 1 for the columns, 2 for the rows.
    """
    shape, order = [samples, heads, rows, columns], [0, 1, 2, 3]
    if draft.chance():
        order = draft.draw(st.sampled_from([[0, 2, 1, 3], [2, 0, 1, 3]]))
        if draft.draw(st.sampled_from(dense)) == 2:
            order = [0, 3, 1, 2]
    x = draft.input(*(shape[axis] for axis in order), bits=bits)
    return draft.add(nn.TransposeOp, [x], {"permutation": ints([order.index(axis) for axis in range(4)])})


def add(draft: Draft) -> SSAValue:
    """Of tensors of a shape, or of one that the other repeats: images, rows and columns."""
    shape = [draft.integer(1, 2), *(draft.integer(2, 9) for _ in range(3))]
    repeated = [1 if draft.chance() else extent for extent in shape[:3]]
    other = [*repeated, 1 if draft.has("ops.add") else shape[3]] if draft.has("ops.add") or draft.chance() else shape
    return draft.sum(draft.input(*shape), draft.input(*other))


def mul(draft: Draft) -> SSAValue:
    shape = [1, *(draft.integer(1, 9) for _ in range(3))]
    # Products of 16 bits minus a zero point other than 0 may wrap around.
    points = zeros(draft.zero_point(), draft.zero_point()) if draft.bits == 8 else {}
    acc = draft.add(qint.MulOp, [draft.input(*shape), draft.input(*shape)], points)
    return draft.requantize(acc, most=-3)


def maxpool(draft: Draft) -> SSAValue:
    (rows, columns), properties, (height, width) = draft.windowed("maxpool", draft.device.ops.maxpool)
    x = draft.input(1, height, width, draft.integer(1, 20))
    return draft.add(qint.MaxPool2DOp, [x], {**window(window=(rows, columns)), **properties})


def avgpool(draft: Draft) -> SSAValue:
    limit = draft.device.ops.avgpool
    (rows, columns), properties, (height, width) = draft.windowed("avgpool", limit)
    if draft.has("ops.avgpool.divisor"):
        rows, columns, properties, height, width = 3, 1, {}, 5, 5
    elif limit is not None and limit.divisor == "pow2":
        rows, columns, properties, height, width = 2, 4, window((2, 1)), 6, 7
    x = draft.input(1, height, width, draft.integer(1, 20))
    counted = {"count_include_pad": BoolAttr.from_bool(draft.chance())}
    taken = {**window(window=(rows, columns)), **properties, **zero(draft.zero_point()), **counted}
    return draft.add(qint.AveragePool2DOp, [x], taken)


def _rows(draft: Draft, kind: str) -> SSAValue:
    """Data whose last axis is rows."""
    limit, most = getattr(draft.device.ops, kind), 70
    along = limit.row_max + 1 if draft.has(f"ops.{kind}.row_max") else draft.integer(1, most)
    return draft.input(*(draft.integer(1, 4) for _ in range(draft.integer(0, 3))), along)


def softmax(draft: Draft) -> SSAValue:
    """Of exponentials that fall to 0 within the first hundreds of differences."""
    x = _rows(draft, "softmax")
    slope = draft.draw(st.floats(0.05, 0.5))
    table = np.rint((1 << 30) * np.exp(-np.arange(1 << draft.bits) * slope)).astype("i4")
    unit = draft.integer(1 << 12, 1 << draft.integer(13, 31))
    properties = axis(len(shape_of(x)) - 1) | shares(WeightsAttr(table), unit)
    return draft.add(qint.SoftmaxOp, [x], properties | narrow(draft.bits, draft.zero_point()), draft.bits)


def layer_norm(draft: Draft) -> SSAValue:
    return _normalized(draft, qint.LayerNormOp, "layer_norm")


def rms_norm(draft: Draft) -> SSAValue:
    return _normalized(draft, qint.RMSNormOp, "rms_norm")


def _normalized(draft: Draft, kind: type[TensorOp], name: str) -> SSAValue:
    """A normalization over the last dimensions, with the numbers that the quantizer gives it."""
    x = _rows(draft, name)
    first = draft.integer(0, len(shape_of(x)) - 1)
    count, point = math.prod(shape_of(x)[first:]), draft.zero_point()
    half, step = 1 << draft.bits - 1, draft.draw(st.floats(2.0**-7, 2.0**-3))
    epsilon = Fraction(draft.draw(st.floats(0.01, 100)))
    if kind is qint.RMSNormOp:
        most = count * (half + abs(point)) ** 2
        quotient = RootQuotient(most, 1, count * epsilon, math.sqrt(count) / step, 1.0)
        points = {"input_zero_point": int32(point)}
    else:
        above, points = max(count - 1, 1), {}
        quotient = RootQuotient((count * half) ** 2, above, count**2 * epsilon, count / step, math.sqrt(above) / count)
    quotient.check("its result's scale")
    multiplier, shift = quotient.multiplier()
    root = over_root(first, len(shape_of(x)), multiplier, shift, quotient.fraction, quotient.rounded_epsilon)
    return draft.add(kind, [x], root | points | narrow(draft.bits, draft.zero_point()), draft.bits)


def requantize(draft: Draft) -> SSAValue:
    return draft.requantize(draft.input(1, draft.integer(1, 9), draft.integer(1, 9), draft.integer(2, 40)), most=0)


def lut(draft: Draft) -> SSAValue:
    return draft.lookup(draft.input(1, draft.integer(1, 9), draft.integer(1, 9), draft.integer(1, 40)))


def move(draft: Draft) -> SSAValue:
    """Data that moves between two changes of scale."""
    shape = (1, draft.integer(2, 6), draft.integer(2, 6), draft.integer(2, 12))
    x = draft.requantize(draft.input(*shape))
    along = draft.integer(1, 3)
    match draft.draw(st.sampled_from(["concat", "slice", "pad", "reshape"])):
        case "concat":
            y = draft.add(nn.ConcatOp, [[x, draft.requantize(draft.input(*shape))]], axis(along))
        case "slice":
            sizes = [n - (a == along) for a, n in enumerate(shape)]
            at = [int(a == along) for a in range(4)]
            y = draft.add(nn.SliceOp, [x], {"offsets": ints(at), "sizes": ints(sizes), "strides": ints([1] * 4)})
        case "pad":
            low = [int(a == along) for a in range(4)]
            y = draft.add(
                nn.PadOp, [x], pads(low, [0, 1, 2, 0], IntegerAttr(draft.integer(-9, 9), IntegerType(draft.bits)))
            )
        case _:
            y = draft.add(nn.ReshapeOp, [x], {"shape": ints([1, math.prod(shape)])})
    return draft.requantize(y)


KINDS: Mapping[str, Callable[[Draft], SSAValue]] = {
    "conv2d": conv2d,
    "depthwise": depthwise,
    "fc": fc,
    "matmul": matmul,
    "add": add,
    "mul": mul,
    "maxpool": maxpool,
    "avgpool": avgpool,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "requantize": requantize,
    "lut": lut,
    "move": move,
}
"""Key of [ops] → what draws a layer that it allows."""

SCALED = ("conv2d", "depthwise", "fc", "matmul", "mul", "requantize")
"""Layers with a change of scale."""


OF_ROWS = ("softmax", "layer_norm", "rms_norm")
"""Layers of whole rows."""


def flaws(device: Device, kind: str) -> list[str]:
    """The keys that a layer of this kind can break on a device."""
    limit = getattr(device.ops, kind)
    if limit is None:
        return [f"no {kind}"]
    found = [f"ops.{kind}.{key}" for key in ("kernel_max", "stride_max", "dilation_max") if getattr(limit, key, None)]
    if kind == "conv2d" and not limit.groups:
        found.append("ops.conv2d.groups")
    if kind in ("depthwise", "add"):
        found.append(f"ops.{kind}")
    if kind == "matmul" and not device.quant.zero_point.weights:
        found.append("quant.zero_point.weights")
    if kind == "avgpool" and limit.divisor == "pow2":
        found.append("ops.avgpool.divisor")
    if kind in OF_ROWS and limit.row_max is not None:
        found.append(f"ops.{kind}.row_max")
    if kind in (*SCALED, *OF_ROWS, "add", "avgpool") and not device.quant.zero_point.activations:
        found.append("quant.zero_point.activations")
    if kind in SCALED:
        found += ["quant.round"]
        found += ["quant.scale"] if device.quant.scale == "pow2" else []
        found += ["quant.granularity"] if device.quant.granularity == "tensor" and kind != "mul" else []
    if kind in ("add", "maxpool", "requantize", *OF_ROWS) and "i16" not in device.quant.types:
        found.append("quant.types")
    if kind == "fc" and limit.terms_max is None:
        found.append("array.modes.acc")
    found += ["ops.act"] if kind in ("conv2d", "depthwise", "fc") and "clamp" not in device.ops.act else []
    if kind in ("conv2d", "fc") and not any(mode.a == "i16" for mode in device.array.modes):
        found.append("array.modes")
    return found


@st.composite
def legal(draw: st.DrawFn, device: Device, kinds: Iterable[str] = KINDS) -> Layer:
    """A layer within all limits of a device."""
    kind = draw(st.sampled_from([kind for kind in kinds if getattr(device.ops, kind) is not None]))
    types = ["i8"] if kind == "lut" else list(device.quant.types)
    return _layer(Draft(draw, device, int(draw(st.sampled_from(types))[1:])), kind)


@st.composite
def illegal(draw: st.DrawFn, device: Device) -> Layer:
    """A layer that breaks one limit of a device, and no other."""
    kind = draw(st.sampled_from([kind for kind in KINDS if kind != "move" and flaws(device, kind)]))
    flaw = draw(st.sampled_from(flaws(device, kind)))
    return _layer(Draft(draw, device, 16 if flaw in ("quant.types", "array.modes") else 8, flaw), kind)


def _layer(draft: Draft, kind: str) -> Layer:
    result = KINDS[kind](draft)
    inputs = [draft.random(width_of(a), *shape_of(a)) for a in draft.block.args]
    return Layer(draft.module(result), draft.flaw, inputs)
