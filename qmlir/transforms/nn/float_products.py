"""The pass `float-products`: computes contractions of plain integers on float32, with the same results.

Enters and leaves: nn. Dynamic quantization multiplies integers whose zero point is known at run time only, so its
contractions are on i32. Runtimes have no such convolutions, and LiteRT no such matrix products. Nor do files have
contractions of quantized types whose results are the sums themselves.

float32 represents all integers up to 2^24, so a sum of integers is exact in any order if the magnitudes of its terms
add up to no more. Where they do, the weights are split into digits, each with a contraction of its own:

    Σ x · w = Σ_d 2^(d·b) · (Σ x · w_d),  w = Σ_d 2^(d·b) · w_d

The contractions of the digits are added as integers, which wrap around as those of nn do.

A contraction of quantized types that gives 32 bits in other steps, for float operations that need its digits, becomes
one on dequantized floats.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, isfinite, prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import (
    AddOp,
    CastOp,
    ConstantOp,
    Conv2DOp,
    DepthwiseConv2DOp,
    FloorOp,
    FullyConnectedOp,
    MatMulOp,
    MulOp,
    ReshapeOp,
    SubOp,
    TransposeOp,
)
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.movement import FillingOp, MovementOp
from qmlir.dialects.nn.quantizable import is_plain_sum, uniform
from qmlir.dialects.qint import LookupOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType, storage_tensor
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import INTEGER_OPERATOR
from qmlir.ir.interfaces import Array, element_of, shape_of, tensor_type
from qmlir.ir.passes import option
from qmlir.ir.rewriting import names_of, node_name, take_over
from qmlir.ir.signature import defined_functions
from qmlir.ir.types import dtype_of
from qmlir.policies.runtime_kernels import followed_runtime
from qmlir.policies.runtimes import rounding_of

EXACT = 1 << 24
"""float32 represents all integers whose magnitude is at most this."""

Range = tuple[int, int]
"""The least and the greatest integer that a tensor can hold."""

Contraction = Conv2DOp | DepthwiseConv2DOp | FullyConnectedOp | MatMulOp
Adder = Callable[[Operation], SSAValue]
"""Adds an operation to the replacement and returns its result."""


@dataclass(frozen=True)
class FloatProductsPass(ModulePass):
    """Computes contractions of plain integers on float32, whose sums are exact.

    ```mlir
    %y = nn.conv2d %x, %w : tensor<1x4x4x2xi32>, tensor<3x2x2x2xi32> -> tensor<1x3x3x3xi32>
    // becomes
    %0 = nn.cast %x : tensor<1x4x4x2xi32> -> tensor<1x4x4x2xf32>
    %1 = nn.conv2d %0, %w' : tensor<1x4x4x2xf32>, tensor<3x2x2x2xf32> -> tensor<1x3x3x3xf32>
    %y = nn.cast %1 : tensor<1x3x3x3xf32> -> tensor<1x3x3x3xi32>
    ```

    If the magnitudes add up to more than 2^24, the pass splits the weights into digits with a contraction each. A
    contraction whose data may be any integers is an error.
    """

    name = "float-products"
    matrices: bool = option(True, "whether matrix products of plain integers too, or convolutions only")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            block = function.body.block
            for contraction in [o for o in block.ops if isinstance(o, Contraction) and _gives_digits(o)]:
                _compute_on_floats(contraction)
            found = [o for o in block.ops if isinstance(o, Contraction) and self._is_rewritten(o)]
            ranges = _ranges(block) if found else {}
            for contraction in found:
                try:
                    _rewrite(contraction, ranges)
                except UnsupportedError as why:
                    raise why.about(contraction.name, node_name(contraction)) from None

    def _is_rewritten(self, op: Contraction) -> bool:
        if gives_sums(op):
            return True
        plain = not isinstance(element_of(op.y), UniformType) and dtype_of(element_of(op.y)).kind in "iu"
        return plain and (self.matrices or isinstance(op, Conv2DOp | DepthwiseConv2DOp))


# ---------------------------------------------------------------------------------------------------------------
# Contractions of quantized types whose results are their sums: integers of 32 bits in steps of s_x · s_w.


def gives_sums(op: Contraction) -> bool:
    """Whether a contraction is on quantized types, or between casts to and from them, and its results are sums.

    Contractions that follow a runtime whose sums saturate are not counted.
    """
    results = _results(op)
    factors = [_quantized(value) for value in op.operands[:2]]
    if not results or None in factors or (op.y not in results and _has_bias(op)):
        return False
    left, right = (_scales(value) for value in factors if value is not None)
    if left.size > 1 or (op.y in results and not _sums_fit(op)):
        return False
    alike = all(np.array_equal(_scales(y), left * right) and not any(uniform(y).zero_points) for y in results)
    saturates = INTEGER_OPERATOR.on(op) and rounding_of(op.name, followed_runtime(op), "").pairs
    return alike and not saturates


def _has_bias(op: Contraction) -> bool:
    return isinstance(op, WeightedOp) and op.b is not None


def _sums_fit(op: Contraction) -> bool:
    """Whether the sums of a contraction of quantized types fit 32 bits, and its bias is constant."""
    try:
        return op.fits_32_bits() and (not isinstance(op, WeightedOp) or op.b is None or op.stored_bias() is not None)
    except UnsupportedError:
        return False


def _moves(op: Contraction) -> list[TransposeOp | ReshapeOp]:
    """Returns the operations that move a contraction's float result before anything else reads it."""
    moves: list[TransposeOp | ReshapeOp] = []
    value: SSAValue = op.y
    while isinstance(user := value.get_user_of_unique_use(), TransposeOp | ReshapeOp) and is_float(value):
        moves.append(user)
        value = user.y
    return moves


def _results(op: Contraction) -> Sequence[SSAValue]:
    """Returns the quantized values of 32 bits that a contraction gives; empty if it gives others too."""
    moved = [op, *_moves(op)][-1].y
    users = [use.operation for use in moved.uses]
    casts = [user.result for user in users if isinstance(user, QuantizeCastOp)]
    results = [op.y] if isinstance(element_of(op.y), UniformType) else casts if len(casts) == len(users) else []
    return results if all(uniform(y).storage == i32 for y in results) else []


def _quantized(value: SSAValue) -> SSAValue | None:
    """Returns the quantized tensor that a factor of a product stands for; None if the factor stands for none.

    The factor is the quantized tensor itself, or its dequantized floats. Transposes and reshapes of these floats are
    looked through if the quantized tensor has the scale 1.
    """
    source = value
    while isinstance(source.owner, TransposeOp | ReshapeOp) and is_float(source):
        source = source.owner.x
    moved = source is not value
    source = source.owner.input if isinstance(source.owner, DequantizeCastOp) else source
    if not isinstance(element_of(source), UniformType) or (moved and not np.array_equal(_scales(source), [1])):
        return None
    return source


def _scales(value: SSAValue) -> Array:
    """Returns the scales of a quantized value, a list of one scale if all are equal."""
    scales = np.array(uniform(value).scales)
    return scales[:1] if (scales == scales[:1]).all() else scales


# ---------------------------------------------------------------------------------------------------------------
# Contractions of quantized types whose results have 32 bits in other steps, for readers that need their digits.


def _gives_digits(op: Contraction) -> bool:
    """Whether a contraction on quantized types gives 32 bits in steps of their own, which are read as floats only."""
    if not isinstance(element_of(op.y), UniformType) or not is_plain_sum(op.y) or gives_sums(op):
        return False
    return all(isinstance(use.operation, DequantizeCastOp) for use in op.y.uses)


def _compute_on_floats(op: Contraction) -> None:
    """Makes a contraction read dequantized integers and give floats, which have 24 bits."""
    # Rows of 32 bits, which files cannot store, are read as the floats that they were cast from.
    words = [v.owner for v in op.operands[:2] if isinstance(v.owner, QuantizeCastOp) and is_plain_sum(v)]
    floats: dict[SSAValue, SSAValue] = {cast.result: cast.input for cast in words}
    new: list[Operation] = [
        DequantizeCastOp(v, TensorType(f32, shape_of(v))) for v in op.operands[:2] if v not in floats
    ]
    backs: dict[SSAValue, SSAValue] = {back.operands[0]: back.results[0] for back in new}
    operands: list[SSAValue | Sequence[SSAValue]] = [floats.get(v) or backs[v] for v in op.operands[:2]]
    if isinstance(op, WeightedOp):
        stored = op.stored_bias()
        if stored is not None:
            bias = stored * (uniform(op.x).scale * np.array(uniform(op.w).scales))
            new.append(ConstantOp(bias.astype(np.float32)))
        operands.append([] if stored is None else [new[-1].results[0]])
    new.append(type(op).make(operands, dict(op.properties)))
    Rewriter.insert_op(new, InsertPoint.before(op))
    names = [names_of(op)]
    casts = [use.operation for use in op.y.uses]
    for cast in casts:
        cast.results[0].replace_all_uses_with(new[-1].results[0])
    take_over(new[-1].results[0], names)
    for gone in (*casts, op, *words):
        if not any(result.uses for result in gone.results):
            Rewriter.erase_op(gone)


# ---------------------------------------------------------------------------------------------------------------
# The rewriting


@dataclass
class _Factor:
    """A factor of a contraction as integers.

    range  the least and the greatest integer
    array  the integers of a constant; None for a computed factor
    value  the integers as float32; None for a constant
    """

    range: Range
    array: Array | None = None
    value: SSAValue | None = None


def _rewrite(op: Contraction, ranges: dict[SSAValue, Range]) -> None:
    """Replaces a contraction of integers by contractions of float32, sums and casts."""
    news: list[Operation] = []

    def add(new: Operation) -> SSAValue:
        news.append(new)
        return new.results[0]

    results = _results(op)
    integers = i32 if results else element_of(op.y)
    factors = [_factor(value, ranges, add) for value in op.operands[:2]]
    narrow = dtype_of(integers).itemsize < 4  # integers are narrowed to their low bits, floats to the nearest
    total = _total(op, factors[0], factors[1], i32 if narrow else integers, add)
    total = add(CastOp.make([total], element=integers)) if narrow else total
    if (bias := _bias(op, add)) is not None:
        total = add(AddOp.make([total, bias]))
    moves = _moves(op) if results else []
    for move in moves:
        total = add(type(move).make([total], dict(move.properties)))
    if results:
        total = add(StorageCastOp(total, results[0].type))
    names = [names_of(o) for o in (*reversed(moves), op)]
    Rewriter.insert_op(news, InsertPoint.before(op))
    casts = [y.owner for y in results if y is not op.y]
    for result in results or [op.y]:
        result.replace_all_uses_with(total)
    take_over(total, names)
    for gone in (*casts, *reversed(moves), op):
        assert isinstance(gone, Operation)
        Rewriter.erase_op(gone)


def _factor(value: SSAValue, ranges: dict[SSAValue, Range], add: Adder) -> _Factor:
    """Returns a factor as integers less their zero point."""
    source = _quantized(value)
    if isinstance(value.owner, TransposeOp | ReshapeOp) and is_float(value):
        return _Factor(ranges[value], None, value)
    owner = (value if source is None else source).owner
    array = owner.value.array if isinstance(owner, ConstantOp) else None
    if source is None:
        return _Factor(ranges[value], array, None if array is not None else add(CastOp.make([value], element=f32)))
    element = uniform(source)
    _, points = element.parameters_along(len(shape_of(source)))
    if array is not None:
        array = array.astype(np.int64) - points
        return _Factor(_of_array(array) or (0, 0), array)
    limits = (element.storage_min, element.storage_max)
    span = (limits[0] - int(points.max()), limits[1] - int(points.min()))
    counted = _counting(element)
    stored = add(StorageCastOp(source, storage_tensor(tensor_type(source))))
    steps = add(StorageCastOp(stored, TensorType(counted, shape_of(source))))
    return _Factor(span, None, add(DequantizeCastOp(steps, TensorType(f32, shape_of(source)))))


def _counting(element: UniformType) -> UniformType:
    """Returns a quantized type with the same integers and zero points and the scale 1."""
    points, limits = element.zero_points, (element.storage_min, element.storage_max)
    if element.axis is None:
        return UniformType.per_tensor(element.storage, 1.0, points[0], *limits)
    return UniformType.per_axis(element.storage, element.axis, [1.0] * len(points), points, *limits)


def _bias(op: Contraction, add: Adder) -> SSAValue | None:
    """Returns the integers that the bias adds to the sums."""
    if not isinstance(op, WeightedOp) or op.b is None:
        return None
    if not isinstance(element_of(op.x), UniformType):
        return op.b
    stored = op.stored_bias()
    assert stored is not None
    return add(ConstantOp(stored.astype(np.int32)))


def _total(op: Contraction, data: _Factor, weights: _Factor, integers: Attribute, add: Adder) -> SSAValue:
    """Adds a contraction for each digit of the weights, and their sum as integers."""
    most = max(map(abs, data.range))
    bits = _digit_bits(op, weights, most)
    x = add(ConstantOp(data.array.astype(np.float32))) if data.array is not None else data.value
    assert x is not None
    if weights.array is not None:
        digits = [add(ConstantOp(digit.astype(np.float32))) for digit in _digits(weights.array, bits)]
    else:
        assert weights.value is not None
        digits = _computed_digits(weights.value, bits, add)
    total: SSAValue | None = None
    for digit, shift in zip(digits, np.cumsum([0, *bits]).tolist(), strict=True):
        operands = [x, digit] if isinstance(op, MatMulOp) else [x, digit, ()]
        part = add(CastOp.make([add(type(op).make(operands, dict(op.properties)))], element=integers))
        if shift:
            factor = add(ConstantOp(np.array(1 << shift).astype(dtype_of(integers))))
            part = add(MulOp.make([part, factor]))
        total = part if total is None else add(AddOp.make([total, part]))
    assert total is not None
    return total


def _digit_bits(op: Contraction, weights: _Factor, most: int) -> Sequence[int]:
    """Returns the bits of each digit but the last, for the fewest digits whose sums float32 holds.

    Args:
        op: The contraction.
        weights: The weights.
        most: The largest magnitude of the data.

    Raises:
        UnsupportedError: No digits are small enough.
    """
    largest = max(map(abs, weights.range))
    width = max(largest.bit_length(), 1)
    for count in range(1, width + 1):
        bits = [-(-width // count)] * (count - 1)
        exact = max(most, 1) * _largest_sum(op, weights, bits) <= EXACT
        if exact and most <= EXACT and (weights.array is not None or largest <= EXACT):
            return bits
    raise UnsupportedError(
        "must have sums of products that float32 represents",
        f"{_terms(op)} products of integers up to {most} and {largest}",
        "let its data be integers of 8 bits",
    )


def _terms(op: Contraction) -> int:
    """Returns the number of products in a sum."""
    if isinstance(op, MatMulOp):
        return shape_of(op.lhs)[-1]
    return prod(shape_of(op.w)[1:3] if isinstance(op, DepthwiseConv2DOp) else shape_of(op.w)[1:])


def _largest_sum(op: Contraction, weights: _Factor, bits: Sequence[int]) -> int:
    """Returns the largest sum of the magnitudes of one digit's weights that one result element reads."""
    if weights.array is None:
        low, high = weights.range
        last = max(abs(low >> sum(bits)), abs(high >> sum(bits)))
        return _terms(op) * max([last, *((1 << size) - 1 for size in bits)])
    axes = tuple(range(1, weights.array.ndim))
    axes = (0, 1, 2) if isinstance(op, DepthwiseConv2DOp) else axes
    axes = (weights.array.ndim - 2,) if isinstance(op, MatMulOp) else axes
    sums = [np.abs(digit).sum(axes).max(initial=0) for digit in _digits(weights.array, bits)]
    return int(max(sums))


def _digits(array: Array, bits: Sequence[int]) -> list[Array]:
    """Splits integers into digits; all but the last are not negative."""
    rest, digits = array.astype(np.int64), list[Array]()
    for size in bits:
        digits.append(rest & (1 << size) - 1)
        rest = rest >> size
    return [*digits, rest]


def _computed_digits(weights: SSAValue, bits: Sequence[int], add: Adder) -> list[SSAValue]:
    """Splits computed integers, given as floats, into digits as `_digits` does."""
    rest, digits = weights, list[SSAValue]()
    for size in bits:
        down, up = (add(ConstantOp(np.array(2.0**power, np.float32))) for power in (-size, size))
        above = add(FloorOp.make([add(MulOp.make([rest, down]))]))
        digits.append(add(SubOp.make([rest, add(MulOp.make([above, up]))])))
        rest = above
    return [*digits, rest]


# ---------------------------------------------------------------------------------------------------------------
# The ranges of integers, in program order.


def _ranges(block: Block) -> dict[SSAValue, Range]:
    """Returns the range of each integer tensor, and of each float tensor whose range follows from integers."""
    known: dict[SSAValue, Range] = {}
    for value in block.args:
        _enter(value, None, known)
    for op in block.ops:
        for result in op.results:
            _enter(result, _computed(op, known), known)
    return known


def _enter(value: SSAValue, found: Range | None, known: dict[SSAValue, Range]) -> None:
    """Records a range, or all that an integer type can hold if there is none or if integers wrap around."""
    element = element_of(value)
    if isinstance(element, UniformType):
        return
    dtype = dtype_of(element)
    if dtype.kind == "b":
        known[value] = (0, 1)
    elif dtype.kind in "iu":
        limits = np.iinfo(dtype)
        inside = found is not None and limits.min <= found[0] and found[1] <= limits.max
        known[value] = found if found is not None and inside else (int(limits.min), int(limits.max))
    elif found is not None and element == f32 and max(map(abs, found)) <= EXACT:
        known[value] = found


def _computed(op: Operation, known: dict[SSAValue, Range]) -> Range | None:
    """Returns a range that holds an operation's result; None if nothing is known."""
    if isinstance(op, ConstantOp):
        return _of_array(op.value.array)
    if isinstance(op, LookupOp):
        return _of_array(op.table.array)
    if isinstance(op, DequantizeCastOp):
        return _of_quantized(element_of(op.input))
    if not op.operands:
        return None
    data = [known.get(value) for value in op.operands]
    first, *others = data
    if first is None:
        return None
    match op:
        case SubOp() | AddOp() | MulOp() if others[0] is not None and op.bounds() == (None, None):
            return _of_pair(op, first, others[0])
        case CastOp():
            return first
        case MovementOp():
            return _of_movement(op, known)
        case _:
            return None


def _of_movement(op: MovementOp, known: dict[SSAValue, Range]) -> Range | None:
    """Returns the range of elements that an operation moves, and of those that it puts beside them."""
    moved = [known.get(value) for value in op.data_operands()]
    if isinstance(op, FillingOp):
        fill = op.value.value.data
        moved.append((floor(fill), -floor(-fill)) if isfinite(fill) else None)
    ends = [end for found in moved if found is not None for end in found]
    return (min(ends), max(ends)) if None not in moved else None


def _of_array(array: Array) -> Range | None:
    if not array.size or not np.isfinite(array.astype(np.float64)).all():
        return None
    return floor(float(array.min())), -floor(-float(array.max()))


def _of_quantized(element: Attribute) -> Range | None:
    if not isinstance(element, UniformType):
        return None
    ends = [
        scale * (stored - point)
        for scale, point in zip(element.scales, element.zero_points, strict=True)
        for stored in (element.storage_min, element.storage_max)
    ]
    return floor(min(ends)), -floor(-max(ends))


def _of_pair(op: SubOp | AddOp | MulOp, lhs: Range, rhs: Range) -> Range:
    """Returns the range of a sum, a difference or a product."""
    match op:
        case AddOp():
            return lhs[0] + rhs[0], lhs[1] + rhs[1]
        case SubOp():
            return lhs[0] - rhs[1], lhs[1] - rhs[0]
        case MulOp():
            ends = [a * b for a in lhs for b in rhs]
            return min(ends), max(ends)
