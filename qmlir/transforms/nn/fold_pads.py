"""The pass `fold-pads`: makes the padding in front of a convolution or pool the window's own padding.

Enters and leaves: nn on floats or on quantized types. Frameworks write `ZeroPadding2D`, `F.pad` and the padding of
causal convolutions as an operation of its own, which copies the whole image. Integer results stay bit for bit the same,
and float results too, but for the order of sums.

A window's own padding is less than the window, as devices and runtimes ask; wider pads stay.
"""

from collections.abc import Sequence
from math import inf, prod

import numpy as np
from xdsl.dialects.builtin import BoolAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from qmlir.dialects.nn import (
    AveragePool2DOp,
    Conv2DOp,
    DepthwiseConv2DOp,
    MaxPool2DOp,
    PadOp,
    ReluOp,
    ReshapeOp,
    TransposeOp,
)
from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import WindowOp, ints
from qmlir.ir.facts import ON_FLOATS
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import PatternPass, replace

Pads = list[tuple[int, int]]
"""(low, high) for each dimension."""


class FoldPadIntoWindow(RewritePattern):
    """window(pad(x)) → window(x) with wider padding, also if the padded image is rearranged or dequantized between."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, Conv2DOp | DepthwiseConv2DOp | AveragePool2DOp | MaxPool2DOp):
            return
        between, owner = list[Operation](), op.x.owner
        while isinstance(owner, ReshapeOp | TransposeOp | DequantizeCastOp) and not ON_FLOATS.on(owner):
            between.insert(0, owner)
            owner = owner.operands[0].owner
        if not isinstance(owner, PadOp) or not _counts_alike(op, owner):
            return
        pads, kept = list(owner.pads()), list[Pads]()
        for step in between:
            if (found := _moved(pads, step)) is None:
                return
            pads = found
            kept.append(pads)
        if any(pads[0] + pads[3]) or (padding := _wider(op, (*pads[1], *pads[2]))) is None:
            return
        new, x = list[Operation](), owner.x
        for step, pads in zip(between, kept, strict=True):
            new.append(_without(step, x, pads))
            x = new[-1].results[0]
        properties: dict[str, Attribute] = {**op.properties, "padding": ints(padding)}
        if isinstance(op, AveragePool2DOp):
            properties["count_include_pad"] = BoolAttr.from_bool(True)
        made = op.create(operands=[x, *op.operands[1:]], result_types=[op.results[0].type], properties=properties)
        replace(rewriter, op, [*new, made], absorbing=[owner, *between])


def _without(step: Operation, x: SSAValue, pads: Pads) -> Operation:
    """The operation on an image that is not padded, by which its result is smaller."""
    y = step.results[0]
    shape = [n - low - high for n, (low, high) in zip(shape_of(y), pads, strict=True)]
    properties = {**step.properties, "shape": ints(shape)} if isinstance(step, ReshapeOp) else dict(step.properties)
    return step.create(operands=[x], result_types=[TensorType(element_of(y), shape)], properties=properties)


def _moved(pads: Pads, step: Operation) -> Pads | None:
    """The padding behind an operation that rearranges a padded image; None if a padded dimension does not stay one."""
    if isinstance(step, TransposeOp):
        return [pads[axis] for axis in step.permutation.get_values()]
    old, new = shape_of(step.operands[0]), shape_of(step.results[0])
    found = [(0, 0)] * len(new)
    for axis, amounts in enumerate(pads):
        if any(amounts):
            alike = [b for b, n in enumerate(new) if n == old[axis] and prod(new[:b]) == prod(old[:axis])]
            if not alike:
                return None
            found[alike[0]] = amounts
    return found


def _wider(op: WindowOp, more: Sequence[int]) -> list[int] | None:
    """The window's padding and more on each side; None if a side would be as wide as the window."""
    padding = [own + wider for own, wider in zip(op.padding_values(), more, strict=True)]
    if isinstance(op, AveragePool2DOp | MaxPool2DOp):
        spans = op.window_values() if op.dilation_values() == (1, 1) else (0, 0)  # others may step over the image
    else:
        extents = shape_of(op.operands[1])[1:3]
        spans = tuple((k - 1) * d + 1 for k, d in zip(extents, op.dilation_values(), strict=True))
    return padding if all(p < span for p, span in zip(padding, np.repeat(spans, 2), strict=True)) else None


def _counts_alike(op: Operation, pad: PadOp) -> bool:
    """Whether the elements of a pad count for a window as its own padding does."""
    element, value = element_of(pad.x), float(pad.value.value.data)
    if isinstance(element, UniformType) and element.is_per_axis:
        return False
    zero = int(pad.stored_value()) == element.zero_point if isinstance(element, UniformType) else value == 0
    if isinstance(op, MaxPool2DOp):
        return _is_least(pad, value)
    if isinstance(op, AveragePool2DOp):
        return zero and (bool(op.count_include_pad) or not any(op.padding_values()))
    return zero


def _is_least(pad: PadOp, value: float) -> bool:
    """Whether no element of the image is less than those of a pad, which then are no window's only maximum."""
    element, before = element_of(pad.x), pad.x.owner
    least = before.bounds()[0] if isinstance(before, Clamped) else 0.0 if isinstance(before, ReluOp) else None
    lowest = isinstance(element, UniformType) and int(pad.stored_value()) == element.storage_min
    return lowest or value == -inf or (least is not None and value <= least)


class FoldPadsPass(PatternPass):
    """Makes the padding in front of a convolution or pool the window's own padding.

    ```mlir
    %p = nn.pad %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f32}
         : tensor<1x8x8x3xf32> -> tensor<1x9x9x3xf32>
    %y = nn.conv2d %p, %w {strides = array<i64: 2, 2>}
         : tensor<1x9x9x3xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x4x4xf32>
    // becomes
    %y = nn.conv2d %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 0, 1, 0>}
         : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x4x4xf32>
    ```
    """

    name = "fold-pads"
    PATTERNS = (FoldPadIntoWindow(),)
