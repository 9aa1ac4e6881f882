"""The pass `narrow-products`: bytes less a zero point that is known at run time only are multiplied as bytes.

Enters and leaves: an integer network. ONNX's MatMulInteger and ConvInteger subtract zero points from bytes; behind a
DynamicQuantizeLinear, the data's zero point is computed. The differences have 9 bits, so that a layer of them is one of
i32. With data x, zero point z and weights w,

    Σ (x − z) · w = Σ x · w − z · Σ w

where the first sum is of bytes, for which processors have instructions, and Σ w is a constant of each output channel.
Padding contributes 0 to the sum on the left. So it becomes rows and columns of z around the image. Sums wrap around in
32 bits on both sides: all integers stay what they are.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, IntegerType, Signedness, TensorType, f32, i8, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.queries import constant_of, derived_constant
from qmlir.dialects.quant.ops import QuantizeCastOp, StorageCastOp
from qmlir.dialects.windows import WindowOp, ints
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.rewriting import PatternPass, replace
from qmlir.ir.types import is_integer

Layer = nn.Conv2DOp | nn.DepthwiseConv2DOp | nn.FullyConnectedOp

BYTES = np.arange(-128, 128)
"""All bytes, in the order of a table's entries."""

UNSIGNED_BYTE = IntegerType(8, Signedness.UNSIGNED)

MOST_TERMS = ((1 << 31) - 1) // (128 * 128)
"""The most products of bytes whose sum fits i32."""


class NarrowProducts(RewritePattern):
    """layer(x − z, w) → layer(x, w) − z · Σ w, with bytes x and z, and constant weights that fit bytes."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: Layer, rewriter: PatternRewriter) -> None:
        weights = constant_of(op.w)
        if element_of(op.y) != i32 or weights is None or op.bounds() != (None, None):
            return
        w, axis = weights.value.array, 3 if isinstance(op, nn.DepthwiseConv2DOp) else 0
        terms = prod(w.shape) // max(1, w.shape[axis])
        if not np.array_equal(w, w.astype(np.int8)) or not 0 < terms <= MOST_TERMS:
            return
        between, owner = list[Operation](), op.x.owner
        while isinstance(owner, nn.TransposeOp | nn.ReshapeOp):
            between.insert(0, owner)
            owner = owner.operands[0].owner
        if not isinstance(owner, nn.SubOp) or owner.bounds() != (None, None) or owner.lhs.type != owner.y.type:
            return
        x, z = _byte(owner.lhs), _byte(owner.rhs)
        if x is None or z is None or x[1] != z[1] or prod(shape_of(z[0])) != 1:
            return
        if len(shape_of(z[0])) > len(shape_of(op.y)):
            return
        new, (data, _), (point, _) = list[Operation](), x, z
        for step in between:
            type = TensorType(i8, shape_of(step.results[0]))
            new.append(step.create(operands=[data], result_types=[type], properties=dict(step.properties)))
            data = new[-1].results[0]
        properties = dict[str, Attribute]()
        if isinstance(op, WindowOp):
            properties = {k: v for k, v in op.properties.items() if k != "padding"}
            around = _padded(data, point, op.padding_values())
            new += around
            data = around[-1].results[0] if around else data
        sums = self._sums(op, [data, derived_constant(w.astype(np.int8), weights).y], properties)
        each = w.sum(axis=tuple(i for i in range(w.ndim) if i != axis), dtype=np.int64).astype(np.int32)
        wide = nn.CastOp.make([point], element=i32)
        total = derived_constant(_along_last(each, len(shape_of(op.y))), weights)
        product = nn.MulOp.make([wide.y, total.y])
        difference = nn.SubOp.make([sums.acc, product.y])
        assert isinstance(sums.w.owner, Operation)
        replace(rewriter, op, [*new, sums.w.owner, sums, wide, total, product, difference], doing=sums)

    def _sums(self, op: Layer, operands: Sequence[SSAValue], properties: dict[str, Attribute]) -> "Sums":
        """The layer on bytes."""
        bias = [] if op.b is None else [op.b]
        kind = KINDS[type(op)]
        return kind.make([*operands, bias], properties, element=i32)


Sums = qint.Conv2DOp | qint.DepthwiseConv2DOp | qint.FullyConnectedOp

KINDS: dict[type[Layer], type[Sums]] = {
    nn.Conv2DOp: qint.Conv2DOp,
    nn.DepthwiseConv2DOp: qint.DepthwiseConv2DOp,
    nn.FullyConnectedOp: qint.FullyConnectedOp,
}
"""The layers, and what computes them on bytes."""


def _along_last(numbers: Array, rank: int) -> Array:
    """Numbers of the last dimension of a tensor of a rank."""
    return numbers.reshape([1] * (rank - 1) + [-1])


def _byte(value: SSAValue) -> tuple[SSAValue, int] | None:
    """The bytes that a tensor of i32 is computed from, and what it adds to them; None if it is no such tensor."""
    owner = value.owner
    if isinstance(owner, nn.CastOp) and element_of(owner.x) == i8:
        return owner.x, 0
    if not isinstance(owner, qint.LookupOp) or element_of(owner.x) != i8:
        return None
    added = owner.table.array.astype(np.int64) - BYTES
    return (owner.x, int(added[0])) if (added == added[0]).all() else None


def _padded(x: SSAValue, number: SSAValue, padding: Sequence[int]) -> list[Operation]:
    """Puts rows and columns of a number around an image [N, H, W, C]."""
    new = list[Operation]()
    for axis, (low, high) in ((1, padding[:2]), (2, padding[2:])):
        before, after = (
            [
                nn.BroadcastOp.make(
                    [number], {"shape": ints([size if i == axis else n for i, n in enumerate(shape_of(x))])}
                )
            ]
            if size
            else []
            for size in (low, high)
        )
        if before or after:
            parts = [*(o.y for o in before), x, *(o.y for o in after)]
            new += [*before, *after, nn.ConcatOp.make([parts], {"axis": IntegerAttr(axis, i64)})]
            x = new[-1].results[0]
    return new


class BytesAsBytes(RewritePattern):
    """qcast(float(x)) → x as it is, less 128 if it is unsigned, of bytes x and a type whose scale is 1."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: QuantizeCastOp, rewriter: PatternRewriter) -> None:
        cast, type = op.input.owner, op.quantized
        if not isinstance(cast, nn.CastOp) or element_of(cast.y) != f32 or type.storage_type != i8 or type.is_per_axis:
            return
        source, full = element_of(cast.x), (type.storage_min, type.storage_max) == (-128, 127)
        moved = {i8: 0, UNSIGNED_BYTE: -128}.get(source) if is_integer(source) else None
        if moved is None or not full or (type.scale, type.zero_point) != (1.0, moved):
            return
        new: list[Operation] = []
        x = cast.x
        if moved:
            new = [nn.BitcastOp.make([x], element=i8), least := nn.ConstantOp(np.array(moved, np.int8))]
            new.append(nn.AddOp.make([new[0].results[0], least.y]))
            x = new[-1].results[0]
        replace(rewriter, op, [*new, StorageCastOp(x, op.result.type)], absorbing=[cast])


class NarrowProductsPass(PatternPass):
    """Multiplies bytes whose zero point is computed as bytes, and corrects the sums.

    ```mlir
    %d = nn.sub %x, %z : tensor<2x8xi32>, tensor<i32> -> tensor<2x8xi32>  // of bytes
    %y = nn.fully_connected %d, %w : tensor<2x8xi32>, tensor<4x8xi32> -> tensor<2x4xi32>
    // becomes
    %a = qint.fully_connected %x', %w' : tensor<2x8xi8>, tensor<4x8xi8> -> tensor<2x4xi32>
    %p = nn.mul %z, %sums : tensor<i32>, tensor<1x4xi32> -> tensor<1x4xi32>
    %y = nn.sub %a, %p : tensor<2x4xi32>, tensor<1x4xi32> -> tensor<2x4xi32>
    ```
    """

    name = "narrow-products"
    PATTERNS = (NarrowProducts(), BytesAsBytes())
