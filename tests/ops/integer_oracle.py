"""The meaning of each qint operation once more: Python ints, one element at a time.

Written from the operations' documentation, and slow on purpose: loops over indexes, exact fractions where something is
rounded, no arithmetic of numpy's. Each function takes the operation and its arrays and returns the result as a dict
from index to int; `tensor` makes an array of it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qmlir.checker.rounding import CONTRACTS
from qmlir.dialects import qint
from qmlir.ir.interfaces import TensorOp

Array: TypeAlias = npt.NDArray[Any]
Index: TypeAlias = tuple[int, ...]
Result: TypeAlias = dict[Index, int]

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


def indexes(shape: Sequence[int]) -> Iterator[Index]:
    return product(*map(range, shape))


def at(x: Array, *index: int) -> int:
    return int(x[index])


def broadcast(x: Array, index: Index) -> int:
    """The element that numpy's broadcasting puts at `index` of the result."""
    own = index[len(index) - x.ndim :]
    return int(x[tuple(0 if size == 1 else i for i, size in zip(own, x.shape, strict=True))])


def clamped(value: int, op: Any) -> int:
    return min(max(value + op.zero_point.value.data, op.lower.value.data), op.upper.value.data)


# Rounding: exact fractions, then one of two ways.


def half_up(x: Fraction) -> int:
    return math.floor(x + Fraction(1, 2))


def half_away(x: Fraction) -> int:
    return half_up(x) if x >= 0 else -half_up(-x)


def float32(x: Fraction) -> Fraction:
    """The nearest number with 24 significant bits; Python's own division to a float rounds correctly, as numpy does."""
    return Fraction(float(np.float32(x.numerator / x.denominator)))


def two_steps(a: int, multiplier: int, shift: int, last: Callable[[Fraction], int]) -> int:
    shifted = min(max(a << max(shift, 0), INT32_MIN), INT32_MAX)
    high = half_up(Fraction(shifted * multiplier, 1 << 31))
    return last(Fraction(high, 1 << max(-shift, 0)))


def real_product(a: int, multiplier: int, shift: int) -> Fraction:
    return a * Fraction(multiplier, 1 << 31) * Fraction(2) ** shift


ROUNDINGS: dict[str, Callable[[int, int, int], int]] = {
    **CONTRACTS,
    "float_even": lambda a, m, s: round(float32(float32(Fraction(a)) * real_product(1, m, s))),
}
"""The checker's arithmetic, which tests/proofs holds to the definitions, and what numpy rounds in float32."""


def float_sum(a: int, multiplier: int, shift: int, constant: Fraction) -> int:
    """A product and what is added before rounding, each rounded to 24 bits."""
    product = float32(float32(Fraction(a)) * real_product(1, multiplier, shift))
    return round(float32(product + constant))


# Windows.


def window_taps(op: Any, extent: tuple[int, int], row: int, column: int) -> list[tuple[int, int, int, int]]:
    """(i, j, h, w): each element (i, j) of a window and where in the image it lies, perhaps outside."""
    top, _, left, _ = op.padding_values()
    (sh, sw), (dh, dw) = op.stride_values(), op.dilation_values()
    return [(i, j, row * sh + i * dh - top, column * sw + j * dw - left) for i, j in indexes(extent)]


def inside(x: Array, h: int, w: int) -> bool:
    return 0 <= h < x.shape[1] and 0 <= w < x.shape[2]


def conv2d(op: qint.Conv2DOp, x: Array, w: Array, bias: Array | None = None) -> Result:
    result: Result = {}
    zero_point, each = op.zero_point.value.data, w.shape[0] // op.groups.value.data
    for n, row, column, o in indexes(op.infer_shapes()[0]):
        acc, first = 0 if bias is None else at(bias, o), o // each * w.shape[3]
        for i, j, h, v in window_taps(op, w.shape[1:3], row, column):
            if inside(x, h, v):
                acc += sum((at(x, n, h, v, first + c) - zero_point) * at(w, o, i, j, c) for c in range(w.shape[3]))
        result[n, row, column, o] = acc
    return result


def depthwise_conv2d(op: qint.DepthwiseConv2DOp, x: Array, w: Array, bias: Array | None = None) -> Result:
    result: Result = {}
    zero_point, each = op.zero_point.value.data, w.shape[3] // x.shape[3]
    for n, row, column, o in indexes(op.infer_shapes()[0]):
        acc = 0 if bias is None else at(bias, o)
        for i, j, h, v in window_taps(op, w.shape[1:3], row, column):
            if inside(x, h, v):
                acc += (at(x, n, h, v, o // each) - zero_point) * at(w, 0, i, j, o)
        result[n, row, column, o] = acc
    return result


def max_pool2d(op: qint.MaxPool2DOp, x: Array) -> Result:
    least = -(1 << 8 * x.itemsize - 1)
    return {
        (n, row, column, c): max(
            [at(x, n, h, v, c) for _, _, h, v in window_taps(op, op.window_values(), row, column) if inside(x, h, v)],
            default=least,
        )
        for n, row, column, c in indexes(op.infer_shapes()[0])
    }


def average_pool2d(op: qint.AveragePool2DOp, x: Array) -> Result:
    result: Result = {}
    for n, row, column, c in indexes(op.infer_shapes()[0]):
        elements: list[int] = []
        for _, _, h, v in window_taps(op, op.window_values(), row, column):
            if inside(x, h, v):
                elements.append(at(x, n, h, v, c))
            elif bool(op.count_include_pad):
                elements.append(op.zero_point.value.data)
        offset, mean = op.offset.value.data, Fraction(sum(elements), max(len(elements), 1))
        result[n, row, column, c] = half_away(mean + offset) - offset
    return result


def global_sum_pool(op: qint.GlobalSumPoolOp, x: Array) -> Result:
    batch, rows, columns, channels = x.shape
    return {
        (n, 0, 0, c): sum(at(x, n, h, v, c) - op.zero_point.value.data for h, v in indexes((rows, columns)))
        for n, c in indexes((batch, channels))
    }


# Products, sums, changes of scale.


def fully_connected(op: qint.FullyConnectedOp, x: Array, w: Array, bias: Array | None = None) -> Result:
    start = [0] * len(w) if bias is None else [int(b) for b in bias]
    return {
        (n, o): start[o] + sum((at(x, n, i) - op.zero_point.value.data) * at(w, o, i) for i in range(w.shape[1]))
        for n, o in indexes((len(x), len(w)))
    }


def blocked_fully_connected(
    op: qint.BlockedFullyConnectedOp, x: Array, w: Array, m: Array, bias: Array | None = None
) -> Result:
    start, size = [0] * len(w) if bias is None else [int(b) for b in bias], w.shape[1] // m.shape[1]
    result: Result = {}
    for n, o in indexes((len(x), len(w))):
        products = [(at(x, n, i) - op.zero_point.value.data) * at(w, o, i) for i in range(w.shape[1])]
        result[n, o] = start[o] + sum(at(m, o, i // size) * product for i, product in enumerate(products))
    return result


def affine_fully_connected(
    op: qint.AffineFullyConnectedOp, x: Array, w: Array, m: Array, k: Array, bias: Array | None = None
) -> Result:
    start, size = [0] * len(w) if bias is None else [int(b) for b in bias], w.shape[1] // m.shape[1]
    result: Result = {}
    for n, o in indexes((len(x), len(w))):
        weights = [at(m, o, i // size) * at(w, o, i) + at(k, o, i // size) for i in range(w.shape[1])]
        result[n, o] = start[o] + sum((at(x, n, i) - op.zero_point.value.data) * v for i, v in enumerate(weights))
    return result


def saturating_fully_connected(
    op: qint.SaturatingFullyConnectedOp, x: Array, w: Array, bias: Array | None = None
) -> Result:
    result: Result = {}
    for n, o in indexes((len(x), len(w))):
        products = [(at(x, n, i) - op.zero_point.value.data) * at(w, o, i) for i in range(w.shape[1])]
        pairs = [sum(products[i : i + 2]) for i in range(0, len(products), 2)]
        result[n, o] = (0 if bias is None else int(bias[o])) + sum(min(max(p, -32768), 32767) for p in pairs)
    return result


def matmul(op: qint.MatMulOp, lhs: Array, rhs: Array) -> Result:
    left, right = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    result: Result = {}
    for *batch, m, n in indexes(op.infer_shapes()[0]):
        result[(*batch, m, n)] = sum(
            (broadcast(lhs, (*batch, m, k)) - left) * (broadcast(rhs, (*batch, k, n)) - right)
            for k in range(lhs.shape[-1])
        )
    return result


def add(op: qint.AddOp, lhs: Array, rhs: Array) -> Result:
    left, right = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    m_lhs, m_rhs = (Fraction(m, 1 << op.shift.value.data) for m in op.multipliers.get_values())
    return {
        index: clamped(half_up((broadcast(lhs, index) - left) * m_lhs + (broadcast(rhs, index) - right) * m_rhs), op)
        for index in indexes(op.infer_shapes()[0])
    }


def rescaled_add(op: qint.RescaledAddOp, lhs: Array, rhs: Array) -> Result:
    first, second, third = zip(op.multipliers.get_values(), op.shifts.get_values(), strict=True)
    operand, total = (ROUNDINGS[c.data] for c in (op.operand_contract, op.contract))
    left, sign, result = 1 << op.left.value.data, -1 if bool(op.subtract) else 1, dict[Index, int]()
    for index in indexes(op.infer_shapes()[0]):
        a = operand((broadcast(lhs, index) - op.lhs_zero_point.value.data) * left, *first)
        b = operand((broadcast(rhs, index) - op.rhs_zero_point.value.data) * left, *second)
        result[index] = clamped(total(a + sign * b, *third), op)
    return result


def float_add(op: qint.FloatAddOp, lhs: Array, rhs: Array) -> Result:
    left, right, constant = map(Fraction, op.numbers())
    offset, result = op.offset.value.data, dict[Index, int]()
    for index in indexes(op.infer_shapes()[0]):
        inner = float32((broadcast(rhs, index) + offset) * right + constant)
        result[index] = clamped(round(float32((broadcast(lhs, index) + offset) * left + inner)), op)
    return result


def mul(op: qint.MulOp, lhs: Array, rhs: Array) -> Result:
    left, right = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    return {
        index: (broadcast(lhs, index) - left) * (broadcast(rhs, index) - right)
        for index in indexes(op.infer_shapes()[0])
    }


def requantize(op: qint.RequantizeOp, x: Array) -> Result:
    multipliers, shifts = op.multiplier.get_values(), op.shift.get_values()
    significand, exponent = (0, 0) if op.constant is None else op.constant.get_values()
    constant = significand * Fraction(2) ** exponent
    rounded = ROUNDINGS.get(op.contract.data, lambda a, m, s: float_sum(a, m, s, constant))
    result: Result = {}
    for index in indexes(x.shape):
        entry = index[-1] if len(multipliers) > 1 else 0
        less_zero_point = at(x, *index) - op.input_zero_point.value.data
        result[index] = clamped(rounded(less_zero_point, multipliers[entry], shifts[entry]), op)
    return result


def lookup(op: qint.LookupOp, x: Array) -> Result:
    entries = [int(entry) for entry in op.table.array]
    half = 128 if len(entries) == 256 else 32768
    return {index: entries[at(x, *index) + half] for index in indexes(x.shape)}


def div(op: qint.DivOp, lhs: Array, rhs: Array) -> Result:
    left, right = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    result: Result = {}
    for index in indexes(op.infer_shapes()[0]):
        x, y = broadcast(lhs, index) - left, broadcast(rhs, index) - right
        result[index] = clamped(fixed_quotient(x, y, op.multiplier.value.data, op.shift.value.data, bool(op.wraps)), op)
    return result


def fixed_quotient(x: int, y: int, multiplier: int, shift: int, wraps: bool) -> int:
    """x / y · multiplier · 2^(shift − 31), gemmlowp's way: a reciprocal of 31 bits, products of the upper halves.

    With `wraps` a processor of 64 bits shifts the mask, and one of 32 bits the number.
    """
    if y == 0:
        return (x > 0) - (x < 0) << 31
    x = -x if y < 0 else x
    zeros = 32 - abs(y).bit_length()
    inverse = fixed_reciprocal((abs(y) << zeros) - (1 << 31))
    spare = 31 - (x if x >= 0 else ~x).bit_length()
    scaled = high(high(x << spare, inverse), multiplier)
    down = spare + 31 - zeros - shift
    if not wraps:
        return half_away(scaled * Fraction(2) ** -down)
    mask = int(np.int64((1 << down % 64) - 1).astype(np.int32))
    return (scaled >> down % 32) + ((scaled & mask) > (mask >> 1) + (scaled < 0))


def fixed_reciprocal(x: int) -> int:
    """1 / (1 + x) in Q(0) of an x in [0, 1), Q(0): three steps of Newton's method."""
    divisor = (x + (1 << 31)) // 2
    y = 1515870810 + high(divisor, -1010580540)
    for _ in range(3):
        y += min(max(high(y, (1 << 29) - high(divisor, y)) << 2, INT32_MIN), INT32_MAX)
    return min(y << 1, INT32_MAX)


def high(a: int, b: int) -> int:
    """a · b in Q(0): the upper half of twice their product, half up."""
    return half_up(Fraction(a * b, 1 << 31))


def newton_share(e: int, terms: Sequence[int], bits: int) -> int:
    """e / Σ terms in steps of 2^−bits, gemmlowp's way; a reciprocal in 31 bits by three steps of Newton's method."""
    total = sum(half_up(Fraction(term, 1 << 12)) for term in terms)
    zeros = 32 - total.bit_length()
    share = high(fixed_reciprocal((total << zeros) - (1 << 31)), e)
    return half_away(Fraction(share, 1 << (12 - zeros + 31 - bits)))


def interpolated_share(e: int, total: int, inverse: Array) -> int:
    """e / total in steps of 2^−15: 1 / (1 + x) on the line between two breakpoints, for total = 2^k · (1 + x)."""
    k = total.bit_length() - 1
    x = min(half_up(Fraction(total, 1 << k) * (1 << 16)) - (1 << 16), (1 << 16) - 1)
    breakpoint, inside = divmod(x, 1 << 7)
    low, high = at(inverse, breakpoint), at(inverse, breakpoint + 1)
    return half_up(Fraction(e * (low + half_up(Fraction((high - low) * inside, 1 << 7))), 1 << k))


def softmax(op: qint.SoftmaxOp, x: Array) -> Result:
    axis, unit, result = op.axis.value.data, Fraction(op.unit.value.data, 1 << 12), dict[Index, int]()
    for line in lines(x.shape, axis):
        most = max(at(x, *place) for place in line)
        terms = [int(op.table.array[most - at(x, *place)]) for place in line]
        for place, e in zip(line, terms, strict=True):
            if op.inverse is not None:
                share = interpolated_share(e, sum(terms), op.inverse.array)
            elif op.division.data == "newton":
                share = newton_share(e, terms, int(unit).bit_length() - 1)
            else:
                share = half_up(e * unit / sum(terms))
            result[place] = clamped(share, op)
    return result


def exponentials(op: qint.ExponentialsOp, x: Array) -> Result:
    result: Result = {}
    for line in lines(x.shape, op.axis.value.data):
        most = max(at(x, *place) for place in line)
        for place in line:
            result[place] = int(op.table.array[min(most - at(x, *place), op.table.array.size - 1)])
    return result


def row_quotient(op: qint.RowQuotientOp, acc: Array, w: Array) -> Result:
    factor = Fraction(op.unit.value.data, 1 << op.fraction.value.data)
    result: Result = {}
    for index in indexes(acc.shape):
        total = sum(broadcast(w[..., k : k + 1], index) for k in range(w.shape[-1]))
        result[index] = clamped(half_up(at(acc, *index) * factor / total), op)
    return result


def magnitude_of_row(op: qint.RowMagnitudesOp | qint.DivideRowsOp, x: Array, row: Index) -> int:
    return max(abs(at(x, *row, i) - op.zero_point.value.data) for i in range(x.shape[-1]))


def row_magnitudes(op: qint.RowMagnitudesOp, x: Array) -> Result:
    return {(*row, 0): min(magnitude_of_row(op, x, row), 2**31 - 1) for row in indexes(x.shape[:-1])}


def divide_rows(op: qint.DivideRowsOp, x: Array) -> Result:
    limit = op.limit.value.data
    bits = (31 if x.dtype.itemsize <= 2 and limit <= 255 else 62) - limit.bit_length()
    result: Result = {}
    for index in indexes(x.shape):
        reciprocal = (limit << bits) // max(magnitude_of_row(op, x, index[:-1]), 1)
        result[index] = half_up(Fraction((at(x, *index) - op.zero_point.value.data) * reciprocal, 1 << bits))
    return result


def lines(shape: Sequence[int], axis: int) -> Iterator[list[Index]]:
    """The indexes of each row along an axis."""
    for index in indexes([1 if d == axis else size for d, size in enumerate(shape)]):
        yield [(*index[:axis], i, *index[axis + 1 :]) for i in range(shape[axis])]


def log_softmax(op: qint.LogSoftmaxOp, x: Array) -> Result:
    """The logarithm in fixed point, from the formulas that gemmlowp's approximation stands for."""
    result: Result = {}
    for line in lines(x.shape, op.axis.value.data):
        most = max(at(x, *place) for place in line)
        d = [most - at(x, *place) for place in line]
        total = sum(int(op.table.array[each]) for each in d)
        dropped = 26 - op.fraction.value.data
        log_total = half_up(Fraction(fixed_logarithm(total, op.integer_bits.value.data), 1 << dropped))
        for place, each in zip(line, d, strict=True):
            result[place] = max(int(op.differences.array[each]) - log_total, INT32_MIN)
    return result


def fixed_logarithm(total: int, integer_bits: int) -> int:
    """ln of the first 31 bits of a sum in steps of 2^(integer_bits − 31), in steps of 2^−26."""
    dropped = max(total.bit_length() - 31, 0)
    x, integer_bits, root = total >> dropped, integer_bits + dropped, 1518500250
    left, lifted = 31 - x.bit_length(), 31 - high(x, root).bit_length()
    below, above = min(high(x << left, root) << 1, INT32_MAX), min(x << lifted, INT32_MAX)
    steps = max(4 * (integer_bits - left - 1) + 1, 4 * (integer_bits - lifted) - 1)
    r, centre = min(below, above), 1805811301
    q, mean = 2 * (r - centre), half_up(Fraction(r + centre, 2))
    square = high(q, q)
    over = high(q, r) + high(high(q, square), 117049297)
    under = high(mean, q + 1057819769 + high(square, 127690142)) + high(q, 638450708)
    quotient = high(half_away(Fraction(over, 64)), fixed_reciprocal(under))
    return min(2 * (high(steps << 23, 1488522236) + quotient), INT32_MAX)


def l2_normalization(op: qint.L2NormalizationOp, x: Array) -> Result:
    zero_point, shift, result = op.input_zero_point.value.data, op.shift.value.data, dict[Index, int]()
    for line in lines(x.shape, op.axis.value.data):
        d = [at(x, *place) - zero_point for place in line]
        root, bits = fixed_inverse_root(sum(each * each for each in d))
        for place, each in zip(line, d, strict=True):
            if op.contract.data == "single":
                factor = high(root, op.multiplier.value.data)
                share = half_up(each * factor * Fraction(2) ** (shift - 31 - bits))
            else:
                left = op.left.value.data
                share = two_steps(each << left, root, shift - 1 - left - bits, half_away)
            result[place] = clamped(share, op)
    return result


def fixed_inverse_root(x: int) -> tuple[int, int]:
    """(r, b) with 1/√x = r · 2^(−31 − b), as `lowering`'s tables of 1/√x have it."""
    if x <= 1:
        return INT32_MAX, 0
    b = 11
    while x >= 1 << 29:
        x, b = x // 4, b + 1
    while x < 1 << 27:
        x, b = x * 4, b - 1
    half, y = half_up(Fraction(x, 4)), 1 << 28
    for _ in range(5):
        cube = min(high(high(y, y), y) << 6, INT32_MAX)
        y = min((high(y, 3 << 27) - high(half, cube)) << 3, INT32_MAX)
    y = high(y, 1518500250)
    return (y, b) if b >= 0 else (y << -b, 0)


def layer_norm(op: qint.LayerNormOp, x: Array) -> Result:
    result: Result = {}
    for block in blocks(x.shape, op.axis.value.data, op.end.value.data):
        row = [at(x, *place) for place in block]
        n, total = len(row), sum(row)
        squares = n * sum(each * each for each in row) - total * total
        factor, bits = root_factor(op, squares, max(n - 1, 1))
        mean = total * factor
        offset = abs(mean) // n * (-1 if mean < 0 else 1)
        for place, each in zip(block, row, strict=True):
            result[place] = clamped(half_up(Fraction(each * factor - offset, 1 << bits)), op)
    return result


def rms_norm(op: qint.RMSNormOp, x: Array) -> Result:
    result: Result = {}
    for block in blocks(x.shape, op.axis.value.data, op.end.value.data):
        row = [at(x, *place) - op.input_zero_point.value.data for place in block]
        factor, bits = root_factor(op, sum(each * each for each in row), 1)
        for place, each in zip(block, row, strict=True):
            result[place] = clamped(half_up(Fraction(each * factor, 1 << bits)), op)
    return result


def local_response_normalization(op: qint.LocalResponseNormalizationOp, x: Array) -> Result:
    bits, bias, scale = op.bits.value.data, op.bias.value.data, Fraction(2) ** op.fraction.value.data
    breakpoints, multipliers, shifts = (
        [int(each) for each in t.array] for t in (op.breakpoints, op.multipliers, op.shifts)
    )
    segments, result = len(breakpoints) - 1, dict[Index, int]()
    for *pixel, c in indexes(x.shape):
        first, end = max(0, c - op.before.value.data), min(c + op.after.value.data + 1, x.shape[-1])
        d = {k: at(x, *pixel, k) - op.input_zero_point.value.data for k in range(first, end)}
        w = max(math.floor(sum(each * each for each in d.values()) * scale) + bias, 1)
        zeros = bits - w.bit_length()
        above = Fraction(w << zeros, 1 << bits - 1) - 1  # m − 1
        breakpoint = math.floor(above * segments)
        places = 1 << min(bits - segments.bit_length(), 20)  # between two breakpoints
        inside = math.floor((above * segments - breakpoint) * places)
        line = breakpoints[breakpoint] + half_up(
            Fraction((breakpoints[breakpoint + 1] - breakpoints[breakpoint]) * inside, places)
        )
        factor = high(line, multipliers[zeros])
        result[*pixel, c] = clamped(half_up(Fraction(d[c] * factor, 1 << shifts[zeros])), op)
    return result


def blocks(shape: Sequence[int], first: int, end: int) -> Iterator[list[Index]]:
    """The indexes of the elements that are normalized together: they differ in the dimensions from `first` to `end`."""
    for outer in indexes([1 if first <= d < end else size for d, size in enumerate(shape)]):
        yield [outer[:first] + inner + outer[end:] for inner in indexes(shape[first:end])]


def root_factor(op: qint.LayerNormOp | qint.RMSNormOp, squares: int, least: int) -> tuple[int, int]:
    """(f, b): M / √W in steps of 2^−b, W computed from a sum of squares, or from the least if that is less."""
    scale, epsilon = Fraction(2) ** op.fraction.value.data, op.epsilon.value.data
    radicand = max(*(math.floor(each * scale) + epsilon for each in (squares, least)), 1)
    root, bits = newton_root(radicand)
    factor, bits = high(root, op.multiplier.value.data), bits + 31 - op.shift.value.data
    return (factor, bits) if bits <= 32 else (half_up(Fraction(factor, 1 << min(bits - 32, 62))), 32)


def newton_root(x: int) -> tuple[int, int]:
    """(r, b) with 1/√x = r · 2^(−31 − b): four steps of Newton's method, from the line 1.0664 − 0.1523 · t."""
    pairs = 31 - (x.bit_length() + 1) // 2
    t = (x << 2 * pairs) // (1 << 30)
    r = 2290047081 - t * 327149583 // (1 << 30)
    for _ in range(4):
        r = half_up(Fraction(r * ((3 * 2**61 - t * (r * r // 2**31)) // 2**31), 1 << 31))
    return min(r, INT32_MAX), 30 - pairs


def pair_lookup(op: qint.PairLookupOp, lhs: Array, rhs: Array) -> Result:
    return {
        index: at(op.table.array, broadcast(lhs, index) + 128, broadcast(rhs, index) + 128)
        for index in indexes(op.infer_shapes()[0])
    }


def interpolated_lookup(op: qint.InterpolatedLookupOp, x: Array) -> Result:
    breakpoints = [int(breakpoint) for breakpoint in op.table.array]
    result: Result = {}
    for index in indexes(x.shape):
        breakpoint, offset = divmod(at(x, *index) + 32768, 128)
        result[index] = breakpoints[breakpoint] + half_up(
            Fraction((breakpoints[breakpoint + 1] - breakpoints[breakpoint]) * offset, 128)
        )
    return result


def resize(op: qint.ResizeOp, x: Array) -> Result:
    tables = {axis: (taps, weights) for axis, taps, weights in op.tables()}
    result: Result = {}
    for index in indexes(op.infer_shapes()[0]):
        ways = [range(tables[d][0].shape[1]) if d in tables else range(1) for d in range(x.ndim)]
        result[index] = 0
        for way in product(*ways):
            place, factor = list(index), 1
            for axis, (taps, weights) in tables.items():
                place[axis] = at(taps, index[axis], way[axis])
                factor *= at(weights, index[axis], way[axis])
            result[index] += factor * (at(x, *place) - op.zero_point.value.data)
    return {index: math.floor(Fraction(total, 1 << op.dropped.value.data)) for index, total in result.items()}


def interpolate(op: qint.InterpolateOp, x: Array) -> Result:
    tables, result = op.tables(), dict[Index, int]()
    bits, offset, rounding = list(op.bits.get_values()), op.offset.value.data, op.rounding.data
    floats = rounding.startswith("float32")
    if rounding == "float32_product":
        tables, bits = tables[::-1], bits[::-1]
    for index in indexes(op.infer_shapes()[0]):
        total = Fraction(0)
        for way in product(*(range(taps.shape[1]) for _, taps, _ in reversed(tables))):
            place, weights = list(index), list[Fraction]()
            for (axis, taps, w), tap, b in zip(tables, reversed(way), bits, strict=True):
                place[axis] = at(taps, index[axis], tap)
                weights.append(Fraction(at(w, index[axis], tap), 1 << b))
            term = Fraction(at(x, *place) + offset)
            if rounding == "float32_product":
                weights = [reduce(lambda a, b: float32(a * b), weights)]
            for weight in weights:
                term = float32(term * weight) if floats else term * weight
            total = float32(total + term) if floats else total + term
        if floats:
            result[index] = math.floor(float32(total + Fraction(1, 2))) - offset
        else:
            result[index] = (half_up if rounding == "half_up" else half_away)(total) - offset
    return result


ORACLES: dict[type[TensorOp], Callable[..., Result]] = {
    qint.Conv2DOp: conv2d,
    qint.DepthwiseConv2DOp: depthwise_conv2d,
    qint.FullyConnectedOp: fully_connected,
    qint.BlockedFullyConnectedOp: blocked_fully_connected,
    qint.AffineFullyConnectedOp: affine_fully_connected,
    qint.SaturatingFullyConnectedOp: saturating_fully_connected,
    qint.MatMulOp: matmul,
    qint.RequantizeOp: requantize,
    qint.AddOp: add,
    qint.RescaledAddOp: rescaled_add,
    qint.FloatAddOp: float_add,
    qint.MulOp: mul,
    qint.DivOp: div,
    qint.SoftmaxOp: softmax,
    qint.LogSoftmaxOp: log_softmax,
    qint.ExponentialsOp: exponentials,
    qint.RowQuotientOp: row_quotient,
    qint.RowMagnitudesOp: row_magnitudes,
    qint.DivideRowsOp: divide_rows,
    qint.L2NormalizationOp: l2_normalization,
    qint.LayerNormOp: layer_norm,
    qint.RMSNormOp: rms_norm,
    qint.LocalResponseNormalizationOp: local_response_normalization,
    qint.MaxPool2DOp: max_pool2d,
    qint.AveragePool2DOp: average_pool2d,
    qint.GlobalSumPoolOp: global_sum_pool,
    qint.PairLookupOp: pair_lookup,
    qint.LookupOp: lookup,
    qint.InterpolatedLookupOp: interpolated_lookup,
    qint.ResizeOp: resize,
    qint.InterpolateOp: interpolate,
}


def tensor(result: Result, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """The array of a result; each index must be there, and each value fit."""
    array = np.empty(tuple(shape), dtype)
    assert set(result) == set(indexes(shape))
    for index, value in result.items():
        array[index] = value  # numpy raises if it does not fit
    return array
