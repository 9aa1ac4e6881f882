"""Builds the `Work` (work.py) of a layer's contraction from its operations and the shapes of its tensors."""

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from qmlir.devices import Device
from qmlir.devices.stored import as_images, stored_bias, stored_dtype
from qmlir.dialects import qint
from qmlir.dialects.npu import LayerOp
from qmlir.dialects.qint.base import width_of
from qmlir.errors import LoweringError
from qmlir.ir.interfaces import shape_of
from qmlir.transforms.npu.work import Inside, Work

Contraction = qint.Conv2DOp | qint.DepthwiseConv2DOp | qint.FullyConnectedOp


def work_of(
    op: Contraction, chain: Sequence[Operation], layer: LayerOp, weight_bits: int, inside: Inside, device: Device
) -> Work:
    """What the contraction computes for one image and one group of the channels.

    Raises:
        LoweringError: An operation after the contraction reads a tensor of another shape.
    """
    for value in other_operands(op, chain):
        if _image(value, op) != _image(layer.outputs[0], op):
            raise LoweringError(
                "npu.layer", layer.label.data, f"needs operands of the shape {list(_image(layer.outputs[0], op))}",
                got=str(list(_image(value, op))),
            )  # fmt: skip
    steps = [step for step in chain if not isinstance(step, qint.MulOp)]
    two = [step for step in chain if isinstance(step, qint.AddOp | qint.MulOp)]
    work = Work(
        *_image(op.x, op), *_image(layer.outputs[0], op), data_bits=8 * stored_dtype(op.x).itemsize,
        weight_bits=weight_bits, sum_bits=width_of(op.acc), bias_bits=stored_bias(op, device)[0],
        result_bits=max(width_of(step.results[0]) for step in steps), posts=len(steps) - len(two), operands=len(two),
        per_channel=any(isinstance(step, qint.RequantizeOp) and len(step.multiplier) > 1 for step in steps),
        inside=inside,
    )  # fmt: skip
    if isinstance(op, qint.FullyConnectedOp):
        return work
    top, _, left, _ = op.padding_values()
    kernel_rows, kernel_columns = shape_of(op.w)[1:3]
    return replace(
        work,
        kernel=(kernel_rows, kernel_columns),
        stride=op.stride_values(),
        dilation=op.dilation_values(),
        before=(top, left),
        depthwise=isinstance(op, qint.DepthwiseConv2DOp),
    )


def other_operands(op: Contraction, chain: Sequence[Operation]) -> list[SSAValue]:
    """The tensors that the operations after a contraction read, besides its sums and their own results."""
    results = {v for step in chain for v in step.results}
    return [v for step in chain for v in step.operands if v not in results and v != op.acc]


def is_pointwise(op: Contraction) -> bool:
    """Whether each pixel of the result depends only on the same pixel of the data."""
    if isinstance(op, qint.FullyConnectedOp):
        return True
    return shape_of(op.w)[1:3] == (1, 1) and set(op.stride_values()) == {1} and not any(op.padding_values())


def groups_of(op: Contraction) -> int:
    """The number of groups into which channels fall."""
    return op.group_count() if isinstance(op, qint.Conv2DOp) else 1


def _image(value: SSAValue, op: Contraction) -> tuple[int, int, int]:
    """Rows, columns and channels that are computed at a time; of a pointwise contraction, all pixels are rows."""
    images, (rows, columns, channels) = as_images(shape_of(value))
    if is_pointwise(op):
        rows, columns = images * rows * columns, 1
    return rows, columns, channels // groups_of(op)
