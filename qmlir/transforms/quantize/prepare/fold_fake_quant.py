"""`fold-fake-quant`: turns fake quantization that a model spells out in float operators into casts.

Enters: float nn as imported. Leaves: `quant.qcast` and `quant.dcast` in place of each chain that rounds a tensor to the
integers of a quantized type and scales them back, as networks from quantization-aware training have them:

    y = (clip(round(x / s) + z, low, high) − z) · s

A chain is read from its last operation, a product with S or a quotient by 1 / S, back to x. Whatever the order of its
operations, every value v between x and the end stands for the real value S · (v + o), where o is the sum of all that is
added later. The chain is a quantization

* if its first operation multiplies x by 1 / S, or divides it by S,
* if it rounds once, and all that it adds is 0 in sum, with the 0.5 of `floor(… + 0.5)` left out,
* if it has both bounds, which are whole numbers of at most 16 bits. The bound that is met first says which integers are
  stored: there v is the stored integer, and −o the zero point. A clamp or relu of x itself counts, and stays,
* if only the chain reads the values between x and its end, and no integer type that it passes through is too narrow.

The storage is the narrowest of 4, 8 and 16 bits that holds the bounds, and its range is exactly [low, high]. The casts
have the bits of a chain that divides by S, or multiplies by 1 / S as float32 has it. The integer may be the neighbour
for a quotient that is halfway between two, or nearly so, if a chain adds its zero point before it rounds, rounds by
`floor(… + 0.5)`, or has another factor than those two.
"""

from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn import (
    AddOp,
    CastOp,
    ClampOp,
    DivOp,
    FloorOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    ReluOp,
    RoundOp,
    SubOp,
)
from qmlir.dialects.nn.base import Clamped, is_float
from qmlir.dialects.nn.queries import constant_of, used_once
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.syntax import default_range
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.facts import QUANTIZATION
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.rewriting import PatternPass, replace
from qmlir.ir.types import is_integer

SAME = 2.0**-21
"""How far the product of the two factors may be from 1: both are rounded to float32."""

WHOLE = 2.0**-10
"""How far a bound may be from a whole number: a bound on x itself is divided by the scale."""

WIDTHS = (4, 8, 16)
"""The bits of storage that a chain may get."""


@dataclass
class _Chain:
    """A chain as far as it has been read, from its end back to `x`.

    x           the value that has been reached
    scale       S, an array that broadcasts against the tensor
    operations  the operations that were read, the last first
    offset      o at `x`: the sum of what is added to it later
    rounding    the operation that rounds; None before it is reached
    lower       each lower bound as v + o
    upper       each upper bound, likewise
    origin      o where v is the stored integer: at the first bound, or else where the chain rounds
    integers    ranges of the integer types that values of the chain have, as ((least, greatest), o)
    """

    x: SSAValue
    scale: Array
    operations: list[Operation]
    offset: Array = field(default_factory=lambda: np.zeros(()))
    rounding: RoundOp | FloorOp | None = None
    lower: list[Array] = field(default_factory=list[Array])
    upper: list[Array] = field(default_factory=list[Array])
    origin: Array | None = None
    integers: list[tuple[tuple[int, int], Array]] = field(default_factory=list[tuple[tuple[int, int], Array]])

    def take(self, op: Operation) -> bool:
        """Reads the operation that computes `x`; returns whether it can be part of a chain."""
        element = element_of(op.results[0])
        if is_integer(element):
            self.integers.append((default_range(element), self.offset))
        if (bounds := _bounds(op)) is not None:
            if self.origin is None and any(bound is not None for bound in bounds):
                self.origin = self.offset
            self.bound(bounds, np.ones(()))
        match op:
            case RoundOp() | FloorOp() if self.rounding is None:
                self.rounding = op
                self.origin = self.offset if self.origin is None else self.origin
                if isinstance(op, FloorOp):
                    self.offset = self.offset - 0.5
            case AddOp() | SubOp():
                # Before the bounds, a sum of few bits may wrap.
                if (found := constant_operand(op)) is None or (is_integer(element) and self.upper):
                    return False
                self.offset = self.offset + (found[1] if isinstance(op, AddOp) else -found[1])
            case CastOp():
                if self.rounding is not None or not _keeps_integers(op):
                    return False
            case _ if bounds is None:
                return False
            case _:
                pass
        self.operations.append(op)
        found = constant_operand(op)
        self.x = op.operands[0] if found is None else found[0]
        return True

    def bound(self, bounds: "_Bounds", factor: Array) -> None:
        """Notes bounds on `x`, of which one is `factor` steps of the scale."""
        for limit, known in zip(bounds, (self.lower, self.upper), strict=True):
            if limit is not None:
                known.append(limit * factor + self.offset)

    def limits(self) -> tuple[int, int] | None:
        """The least and the greatest stored integer; None unless the chain has both, the same for all elements."""
        if not self.lower or not self.upper or self.origin is None:
            return None
        tightest = [
            np.maximum.reduce(np.broadcast_arrays(*self.lower)),
            np.minimum.reduce(np.broadcast_arrays(*self.upper)),
        ]
        bounds = [np.ravel(t - self.origin) for t in tightest]
        if not all(np.isfinite(b).all() and np.abs(b - np.rint(b[0])).max() <= WHOLE for b in bounds):
            return None
        low, high = (int(np.rint(b[0])) for b in bounds)
        held = all(
            low + (self.origin - o).min() >= a and high + (self.origin - o).max() <= b for (a, b), o in self.integers
        )
        return (low, high) if held and low < high else None


_Bounds = tuple[Array | None, Array | None]
"""A lower and an upper bound, either of which may be missing."""


def constant_operand(op: Operation) -> tuple[SSAValue, Array] | None:
    """The computed operand and the constant one, in float64; None unless the result has the shape of the former."""
    if len(op.operands) != 2:
        return None
    pairs = [tuple(op.operands)]
    if isinstance(op, AddOp | MulOp | MaximumOp | MinimumOp):
        pairs.append(pairs[0][::-1])
    for x, c in pairs:
        constant = constant_of(c)
        if constant is not None and shape_of(x) == shape_of(op.results[0]):
            array = constant.value.array.astype(np.float64)
            return x, array.reshape(()) if array.size == 1 else array
    return None


def _bounds(op: Operation) -> _Bounds | None:
    """The bounds on the result of an operation; None if it is neither a clamp nor an operation that may have one."""
    match op:
        case ReluOp():
            return np.zeros(()), None
        case MaximumOp() | MinimumOp():
            if (found := constant_operand(op)) is None:
                return None
            return (found[1], None) if isinstance(op, MaximumOp) else (None, found[1])
        case Clamped():
            low, high = (None if b is None else np.array(b) for b in op.bounds())
            return low, high
        case _:
            return None


def _keeps_integers(op: CastOp) -> bool:
    """Whether a cast keeps whole numbers that its result can hold, and gives its bounds for others."""
    x, y = element_of(op.x), element_of(op.y)
    if is_integer(x) and is_integer(y):
        return x.width.data <= y.width.data and x.signedness == y.signedness
    return (is_float(op.x) and is_integer(y) and y.width.data > 1) or (is_integer(x) and is_float(op.y))


def _read(end: MulOp | DivOp) -> tuple[_Chain, MulOp | DivOp] | None:
    """Reads a chain from its end to the operation that scales x; returns both, or None if there is no such chain."""
    if (found := _scaling(end)) is None:
        return None
    x, scale = found
    chain = _Chain(x, np.asarray(scale, np.float32).astype(np.float64), [end])
    while isinstance(op := chain.x.owner, Operation) and used_once(op):
        if isinstance(op, MulOp | DivOp):
            return (chain, op) if chain.rounding is not None else None
        if not chain.take(op):
            return None
    return None


def _scaling(op: MulOp | DivOp) -> tuple[SSAValue, Array] | None:
    """The f32 operand and the factor of an operation that multiplies by a constant, or divides by one; else None."""
    if (found := constant_operand(op)) is None or _bounds(op) not in (None, (None, None)) or not is_float(op.y):
        return None
    x, number = found
    return x, number if isinstance(op, MulOp) else 1 / np.where(number == 0, np.nan, number)


class FoldFakeQuantization(RewritePattern):
    """(clip(round(x / s) + z, low, high) − z) · s → dcast(qcast(x))"""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MulOp | DivOp) or (found := _read(op)) is None:
            return
        chain, first = found
        if (scaled := _scaling(first)) is None or chain.offset.any():
            return
        x, factor = scaled
        if not np.all(np.abs(factor * chain.scale - 1) <= SAME):
            return
        clamps: list[Operation] = []
        source, all_bounds = x, list[_Bounds]()
        while not (chain.lower and chain.upper) and (clamp := _clamp(source)) is not None:
            op_before, source, bounds = clamp
            chain.bound(bounds, factor)
            clamps.insert(0, op_before)
            all_bounds.append(bounds)
        type = _type(chain, len(shape_of(op.y)))
        if type is None:
            return
        if all(_saturates(chain, type, bounds, factor) for bounds in all_bounds):
            x = source
        quantize = QuantizeCastOp(x, TensorType(type, shape_of(x)))
        QUANTIZATION.put(quantize, "float32" if isinstance(first, DivOp) else "float32_reciprocal")
        back = DequantizeCastOp(quantize.result, op.y.type)
        absorbed = [*(clamps if x is source else ()), first, *chain.operations[:0:-1]]
        replace(rewriter, op, [quantize, back], absorbing=absorbed)


def _clamp(x: SSAValue) -> tuple[Operation, SSAValue, _Bounds] | None:
    """The clamp, relu, or maximum or minimum with a constant that x results from, its operand and its bounds."""
    op = x.owner
    if not isinstance(op, ClampOp | ReluOp | MaximumOp | MinimumOp) or (bounds := _bounds(op)) is None:
        return None
    found = constant_operand(op)
    return op, (op.operands[0] if found is None else found[0]), bounds


def _saturates(chain: _Chain, type: UniformType, bounds: _Bounds, factor: Array) -> bool:
    """Whether bounds on x are those at which a quantized type saturates, so that the cast does without them."""
    assert chain.origin is not None
    ends = zip(bounds, (type.storage_min, type.storage_max), strict=True)
    return all(b is None or (np.abs(b * factor - chain.origin - end) <= WHOLE).all() for b, end in ends)


def _type(chain: _Chain, rank: int) -> UniformType | None:
    """The quantized type of a chain on a tensor of a rank; None if the chain has bounds or scales that no type has."""
    if (limits := chain.limits()) is None or chain.origin is None:
        return None
    low, high = limits
    unsigned = low >= 0
    width = next((w for w in WIDTHS if high < 1 << (w - (not unsigned)) and low >= -(1 << w - 1)), None)
    if width is None:
        return None
    storage = IntegerType(width, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS)
    try:
        return UniformType.broadcast(storage, rank, chain.scale, -chain.origin, low, high)
    except VerifyException:  # scales along several axes, a scale that is not positive, a zero point out of bounds
        return None


class FoldFakeQuantPass(PatternPass):
    """Turns the operations that a model rounds a tensor by, to the steps of a scale, into a pair of casts.

    ```mlir
    %0 = nn.div %x, %scale : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
    %2 = nn.clamp %1 {max = 127.0 : f32, min = -128.0 : f32} : tensor<4xf32> -> tensor<4xf32>
    %3 = nn.mul %2, %scale : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    // becomes, with a scale of 0.5
    %0 = quant.qcast %x {qmlir.quantization = "float32"} : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
    %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
    ```
    """

    name = "fold-fake-quant"
    PATTERNS = (FoldFakeQuantization(),)

    @classmethod
    def run(cls, module: ModuleOp) -> bool:
        rounds = any(isinstance(op, RoundOp | FloorOp) for op in module.walk())
        return rounds and super().run(module)
